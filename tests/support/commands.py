"""The `penstock` command as its own process, for tests."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable

PATIENCE = 60.0

_PENSTOCK = [sys.executable, "-c", "import sys; from penstock.cli.main import main; sys.exit(main())"]


def penstock(*arguments: str) -> list[str]:
    """The words of a command line that runs `penstock`."""
    return [*_PENSTOCK, *arguments]


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command whose output can be read, and which an interrupt stops.

    A shell has what it runs in the background ignore interrupts, and all that is started from there would do so too.
    """

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Wait for the end; the exit code, and what it printed to standard output and standard error."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out.decode(errors="surrogateescape"), err.decode()


def run(command: list[str], stdin: bytes = b"") -> tuple[int, str, str]:
    """Run a command to its end; as `finish`."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE)
    return done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode()


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something that is about to happen."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(0.01)
