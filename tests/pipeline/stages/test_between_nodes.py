"""Monitors on a link between nodes: what subscribers got, in the engine, is what their views have, on Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.journal.read.tables import read_all
from penstock.pipeline.spark.policies import Asker, as_it_stood
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.cases.between_nodes import RECEIVERS, LinkCase, link_cases, play
from tests.support.memory.recording import differences, viewed

ASKERS = tuple(map(Asker, RECEIVERS))


@pytest.mark.parametrize("case", link_cases(), ids=str)
def test_what_the_engine_delivers_is_what_views_have(case: LinkCase, tmp_path: Path) -> None:
    live = play(case, tmp_path / "journal")
    with small_tables():
        rows = view(small_table(read_all(tmp_path / "journal")[0]), as_it_stood(tmp_path / "journal"), ASKERS)
        assert differences(viewed(rows), live) == []


@pytest.mark.recorded
@pytest.mark.parametrize("case", link_cases(), ids=str)
def test_the_same_on_spark(case: LinkCase, tmp_path: Path, spark: SparkSession) -> None:
    live = play(case, tmp_path / "journal")
    rows = view(tables.events(spark, tmp_path / "journal"), as_it_stood(tmp_path / "journal"), ASKERS)
    assert differences(viewed(rows), live) == []
