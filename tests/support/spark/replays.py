"""One replay on both executors: Spark, and tables of few rows in this process."""

from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from penstock.cli.pipeline.shared import plain
from penstock.pipeline.jobs.replay import ReplayReport, replay, replay_few


class Replaying(Protocol):
    """A replay on one of the executors."""

    def __call__(self, journal: Path, draft: Path, subjects: tuple[str, ...] = ()) -> ReplayReport: ...


def replay_both(spark: SparkSession, journal: Path, draft: Path, subjects: tuple[str, ...] = ()) -> ReplayReport:
    """What a draft does, as Spark says; the other must say the same."""
    found = replay(spark, journal, draft, subjects=subjects)
    assert plain(replay_few(journal, draft, subjects=subjects)) == plain(found)
    return found
