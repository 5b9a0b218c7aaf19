"""One small session for all tests of the pipeline: it takes seconds to start."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.jobs.replay import ReplayReport, replay_few
from penstock.pipeline.spark.session import SMALL
from tests.support.spark.replays import Replaying, replay_both

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
    "spark.hadoop.fs.permissions.umask-mode": "027",
    "spark.python.daemon.module": "penstock.pipeline.spark.daemon",
    # Otherwise each expression that is made asks for the stack of the caller, which takes twice as long as making it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").appName("penstock tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """The session as jobs over small journals have it."""
    settings = {key: value for key, value in SMALL.items() if key.startswith("spark.sql.")}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        spark.conf.set(key, old or "")


@pytest.fixture(scope="module", params=["few", pytest.param("Spark", marks=pytest.mark.recorded)])
def replaying(request: pytest.FixtureRequest) -> Replaying:
    """The job `replay` without Spark; and on it, where it must say the same."""

    def few(journal: Path, draft: Path, subjects: tuple[str, ...] = ()) -> ReplayReport:
        return replay_few(journal, draft, subjects=subjects)

    def on_spark(journal: Path, draft: Path, subjects: tuple[str, ...] = ()) -> ReplayReport:
        return replay_both(request.getfixturevalue("interpreted"), journal, draft, subjects)

    return few if request.param == "few" else on_spark
