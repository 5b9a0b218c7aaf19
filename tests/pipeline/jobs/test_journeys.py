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
from tests.support.generators.brokering import BrokeringPlay, BrokeringPlays, gathered, plays
from tests.support.memory.recording import Written

WAYS = pytest.mark.parametrize(
    ("cyclic", "again"), [(False, False), (True, True)], ids=["trees, as it stood", "cycles, as it stands"]
)


class Played:
    """Random plays, recorded."""

    def __init__(self, folder: Path, plays: list[BrokeringPlay], again: bool) -> None:
        self.joined = BrokeringPlays(plays, folder)
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
    played = Played(tmp_path, gathered(8, plays(cyclic=cyclic)), again)
    played.check(tables.events(spark, played.journal))


@WAYS
def test_the_same_of_few_events_without_spark(tmp_path: Path, cyclic: bool, again: bool) -> None:
    played = Played(tmp_path, gathered(8, plays(cyclic=cyclic)), again)
    with small_tables():
        played.check(small_table(read_all(played.journal)[0]))


ALTERNATING = {
    "q0": {"a": {"pass": True, "next": "q1"}, "*": "pass"},
    "q1": {"a": {"rename": "c/d"}, "b": {"pass": True, "next": "q0"}},
}
RING = BrokeringPlay(
    {
        "domain": "ring",
        "nodes": {name: {"listen": "127.0.0.1:1883"} for name in ("n0", "n1", "n2")},
        "brokering": {"types": ["r"]},
        "links": [
            {"between": ends, "type": "r", "forward": "all"} for ends in (["n0", "n1"], ["n1", "n2"], ["n2", "n0"])
        ],
        "clients": {
            name: {"node": node, "type": "r", "where": {}, "advertises": []}
            for name, node in (("d0", "n0"), ("d1", "n1"), ("d2", "n2"))
        },
        "monitors": {"m0": {"link": "n2 -> n0", "states": ALTERNATING}},
    },
    {},
    (("d1", "n1", "b", b"2", 0), ("d2", "n2", "a", b"1", 0)),
    (),
)


@pytest.mark.parametrize("again", [False, True], ids=["as it stood", "as it stands"])
def test_what_comes_by_a_longer_way_moves_a_monitor_first(tmp_path: Path, again: bool) -> None:
    """Issue 17, item 9: what a monitor made before all had come by the cycle was passed on, and stayed."""
    played = Played(tmp_path, [RING], again)
    with small_tables():
        played.check(small_table(read_all(played.journal)[0]))
