"""Journeys of random traffic: what comes to subjects by way of all nodes is what nodes without sockets delivered."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline import tables
from penstock.pipeline.journeys import journeys, origins
from penstock.pipeline.policies import Asker, as_it_stood, judged_by
from tests.support.governed import Joined, gathered, plays
from tests.support.recorded import Written

pytestmark = pytest.mark.recorded


@pytest.mark.parametrize(
    ("cyclic", "again"), [(False, False), (True, True)], ids=["trees, as it stood", "cycles, as it stands"]
)
def test_what_comes_by_way_of_all_nodes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, cyclic: bool, again: bool
) -> None:
    joined = Joined(gathered(8, plays(cyclic=cyclic)), tmp_path_factory.mktemp("plays"))
    journal = Written(joined.folder / "journal")
    delivered = joined.played(journal)
    folder = journal.folder
    policies = judged_by(joined.renamed("monitors", "advertises"), folder, folder) if again else as_it_stood(folder)
    began = origins(tables.events(spark, folder), frozenset(joined.domain.nodes))
    seen = journeys(began, policies, tuple(map(Asker, joined.subjects))).seen
    found = Counter((row.subject, row.node, row.topic, bytes(row.payload)) for row in seen.collect())
    expected = Counter((*ends, topic, payload) for ends, got in delivered.items() for topic, payload, _ in got)
    wrong = sorted({*found, *expected}, key=lambda one: (found[one] == expected[one], one))
    assert found == expected, f"{wrong[0]}: {found[wrong[0]]}, not {expected[wrong[0]]}\n{joined.told(wrong[0][0])}"
    assert expected
