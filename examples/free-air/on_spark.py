"""The health capsule as the domain file declares it: `penstock pipeline capsules`, on Spark, in its own process."""

from __future__ import annotations

import subprocess
from pathlib import Path

from examples.narration import PATIENCE
from examples.nodes import PENSTOCK

TABLES = "tables"
SPARK_PATIENCE = 12 * PATIENCE
"""Spark starts, and makes its first batch, in tens of seconds; where others use the machine too, in minutes."""


class SparkCapsule:
    """Takes vital signs from Bob's node as they come, and publishes there what it infers, once a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._folder / "capsule.log").read_text("utf-8")

    def start(self, url: str) -> None:
        where = ["--domain", "domain.yaml", "--from", url, "--to", TABLES, "--publish", "--every", "0.5"]
        command = [PENSTOCK, "pipeline", "capsules", *where, "--master", "local[2]"]
        with (self._folder / "capsule.log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(SPARK_PATIENCE)
        finally:
            self._process.kill()
