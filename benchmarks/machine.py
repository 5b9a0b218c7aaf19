"""The machine that a benchmark runs on, and its description."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import signal
import subprocess
from types import FrameType

from benchmarks.brokers import versions


def allow_open_files(count: int) -> bool:
    """Raise the limit of open files, which brokers started from here inherit; whether that many are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return True
    limit = max(hard, count) if os.geteuid() == 0 else min(hard, count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(hard, limit)))
    return limit >= count


def end_like_interrupted() -> None:
    """Treat SIGTERM as Ctrl-C, so that started brokers are stopped."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def describe(repeats: str) -> dict[str, str]:
    """Describe the machine and the versions of the figures."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": f"{platform.platform()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "load average at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "commit": _commit(),
        "repeats": repeats,
        **versions(),
    }


def _commit() -> str:
    """Return the measured commit, and whether files differ from it. Empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
