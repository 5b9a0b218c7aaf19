"""Random domains and traffic: what govern gives a subject is what nodes delivered to it."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.spark.policies import Asker, Policies, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from tests.support.generators.brokering import BrokeringPlays, gathered, plays
from tests.support.memory.recording import Views, Written, differences, viewed

pytestmark = pytest.mark.recorded


@dataclass(frozen=True)
class Recorded:
    """What was played: its journal, and what each subject got."""

    joined: BrokeringPlays
    journal: Path
    events: DataFrame
    delivered: Views

    def check(self, policies: Policies) -> None:
        found = viewed(view(self.events, policies, tuple(map(Asker, self.joined.subjects))))
        wrong = differences(found, self.delivered)
        assert not wrong, f"{wrong[0]}\n{self.joined.told(wrong[0].split()[0])}"


def _recorded(spark: SparkSession, joined: BrokeringPlays) -> Recorded:
    journal = Written(joined.folder / "journal")
    delivered = joined.played(journal)
    return Recorded(joined, journal.folder, tables.events(spark, journal.folder).cache(), delivered)


@pytest.fixture(scope="module")
def in_trees(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return _recorded(spark, BrokeringPlays(gathered(25, plays()), tmp_path_factory.mktemp("trees")))


@pytest.fixture(scope="module")
def in_cycles(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    strategy = plays(cyclic=True)
    return _recorded(spark, BrokeringPlays(gathered(12, strategy), tmp_path_factory.mktemp("cycles")))


def test_as_it_stood(in_trees: Recorded) -> None:
    in_trees.check(as_it_stood(in_trees.journal))


def test_as_it_stood_where_events_come_by_several_ways(in_cycles: Recorded) -> None:
    in_cycles.check(as_it_stood(in_cycles.journal))


def test_as_it_stands_with_monitors_that_are_run_again(in_trees: Recorded) -> None:
    domain = in_trees.joined.renamed("monitors")
    in_trees.check(judged_by(domain, in_trees.journal, in_trees.journal))


def test_as_it_stands_with_everything_judged_again(in_cycles: Recorded) -> None:
    domain = in_cycles.joined.renamed("monitors", "advertises")
    in_cycles.check(judged_by(domain, in_cycles.journal, in_cycles.journal))


def test_there_is_something_to_compare(in_trees: Recorded, in_cycles: Recorded) -> None:
    events = in_trees.events.unionByName(in_cycles.events)
    stopped = {row.stage for row in events.filter("effect = 'suppress'").select("stage").distinct().collect()}
    assert {row.kind for row in events.select("kind").distinct().collect()} == {"arrival", "output", "view"}
    assert {"admit", "conform", "edit"} <= stopped
    assert in_trees.delivered
    assert in_cycles.delivered
