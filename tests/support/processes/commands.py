"""The `penstock` command as its own process, for tests."""

import signal
import subprocess
import time
from collections.abc import Callable

from tests.support.processes.forking import PENSTOCK, Process

PATIENCE = 60.0


def penstock(*arguments: str) -> list[str]:
    """The words of a command line that runs `penstock`."""
    return [*PENSTOCK, *arguments]


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command whose output can be read, and which an interrupt stops.

    A shell has what it runs in the background ignore interrupts, and all that is started from there would do so too.
    """

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    is_ours = command[: len(PENSTOCK)] == PENSTOCK  # what is forked heeds interrupts
    how = {} if is_ours else {"preexec_fn": heed}
    return Process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Wait for the end; the exit code, and what it printed to standard output and standard error."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out.decode(errors="surrogateescape"), err.decode()


def run(command: list[str], stdin: bytes = b"") -> tuple[int, str, str]:
    """Run a command to its end; as `finish`."""
    with Process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(stdin, timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, out.decode(errors="surrogateescape"), err.decode()


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something that is about to happen."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(0.01)
