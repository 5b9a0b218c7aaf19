"""Journeys of random traffic: what comes to subjects by way of all nodes is what nodes without sockets delivered."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.journal.read.tables import read_all
from penstock.pipeline.jobs.journeys import journeys, origins
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.generators.brokering import BrokeringPlays, gathered, plays
from tests.support.memory.recording import Written

WAYS = pytest.mark.parametrize(
    ("cyclic", "again"), [(False, False), (True, True)], ids=["trees, as it stood", "cycles, as it stands"]
)


class Played:
    """Random plays, recorded."""

    def __init__(self, folder: Path, cyclic: bool, again: bool) -> None:
        self.joined = BrokeringPlays(gathered(8, plays(cyclic=cyclic)), folder)
        written = Written(self.joined.folder / "journal")
        self._delivered = self.joined.played(written)
        self.journal = written.folder
        renamed = self.joined.renamed("monitors", "advertises")
        self._policies = judged_by(renamed, self.journal, self.journal) if again else as_it_stood(self.journal)

    def check(self, events: DataFrame) -> None:
        joined = self.joined
        began = origins(events, frozenset(joined.domain.nodes))
        seen = journeys(began, self._policies, tuple(map(Asker, joined.subjects))).seen
        found = Counter((row.subject, row.node, row.topic, bytes(row.payload)) for row in seen.collect())
        expected = Counter(
            (*ends, topic, payload) for ends, got in self._delivered.items() for topic, payload, _ in got
        )
        wrong = sorted({*found, *expected}, key=lambda one: (found[one] == expected[one], one))
        assert found == expected, f"{wrong[0]}: {found[wrong[0]]}, not {expected[wrong[0]]}\n{joined.told(wrong[0][0])}"
        assert expected


@pytest.mark.recorded
@WAYS
def test_what_comes_by_way_of_all_nodes(spark: SparkSession, tmp_path: Path, cyclic: bool, again: bool) -> None:
    played = Played(tmp_path, cyclic, again)
    played.check(tables.events(spark, played.journal))


@WAYS
def test_the_same_of_few_events_without_spark(tmp_path: Path, cyclic: bool, again: bool) -> None:
    played = Played(tmp_path, cyclic, again)
    with small_tables():
        played.check(small_table(read_all(played.journal)[0]))
