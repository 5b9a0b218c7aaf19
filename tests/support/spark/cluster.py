"""A standalone Spark cluster on the loopback address: a master and workers, each a process with all that it starts."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOST = "127.0.0.1"
_HOME = Path(pyspark.__file__).parent
_PATIENCE = 120.0
ENVIRONMENT = {
    **os.environ,
    "SPARK_HOME": str(_HOME),
    "SPARK_LOCAL_IP": HOST,
    "PYSPARK_PYTHON": sys.executable,
    # All that jobs of the tests need; the machine may have little.
    "PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=700m --conf spark.ui.enabled=false pyspark-shell",
}


class Daemon:
    """A process of Spark's own."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name.partition('-')[0]}"]
            self._process = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True
            )

    def until_logged(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until it has said something so many times; the last of them."""
        end = time.monotonic() + _PATIENCE
        while True:
            found = list(re.finditer(pattern, self._log.read_text(errors="replace")))
            if len(found) >= times:
                return found[-1]
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < end, f"it does not say `{pattern}`: {self._log.read_text(errors='replace')}"
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it and all that it has started, without a word."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()


class Cluster:
    """A master, and workers with one core each."""

    def __init__(self, url: str, workers: list[Daemon]) -> None:
        self.url = url
        self.workers = workers


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start it, and wait until all workers are known to the master."""
    started = [Daemon("master.Master", folder, "--host", HOST, "--port", "0", "--webui-port", "0")]
    try:
        url = started[0].until_logged(r"Starting Spark master at (spark://\S+)")[1]
        for number in range(workers):
            place = ("--work-dir", str(folder / f"work-{number}"))
            size = ("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0")
            started.append(Daemon(f"worker.Worker-{number}", folder, *size, *place, url))
        started[0].until_logged(r"Registering worker", workers)
        yield Cluster(url, started[1:])
    finally:
        for daemon in reversed(started):
            daemon.kill()
