"""A job of the pipeline as its own process, which is killed and started again."""

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.support.processes.commands import penstock

PATIENCE = 600.0
_ENVIRONMENT = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class KilledJob:
    """`penstock pipeline` with these arguments, as often as it takes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """`folder` is where it writes, and where its log is."""
        self.folder = folder
        self._log = folder / "log"
        self._command = penstock("pipeline", *arguments, "--max-bytes", "1", "--master", "local[1]", "--every", "0.1")

    def runs_to_its_end(self) -> None:
        """Run it up to what is there."""
        command = [*self._command, "--once"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=_ENVIRONMENT)
        assert done.returncode == 0, done.stderr[-2000:]

    def is_killed_when_there_is(self, path: str, delay: float = 0.0) -> None:
        """Start it, and kill it with all that it has started when there is such a file, or so long after that."""
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, env=_ENVIRONMENT, start_new_session=True)
        try:
            end = time.monotonic() + PATIENCE
            while not (self.folder / path).exists():
                assert process.poll() is None, f"it ended by itself:\n{self._log.read_text()[-2000:]}"
                assert time.monotonic() < end, f"there never was `{path}`:\n{self._log.read_text()[-2000:]}"
                time.sleep(0.001)
            time.sleep(delay)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
