"""Policy statements: what govern gives a subject is what nodes delivered to it, byte for byte."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.domain.yaml.write import domain_text
from penstock.engine.events import user_properties
from penstock.journal.read.tables import read_all
from penstock.journal.write.compact import compact
from penstock.pipeline.jobs.govern import read_view
from penstock.pipeline.jobs.stream import Stream, start
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.executor import small_table, small_tables
from tests.support.generators.judging import StatementPlays, Views
from tests.support.memory.recording import Written, differences

FAILED = {
    4: "what a monitor made of an event that its receiver had not asked for was judged by the domain's policies alone",
    24: "the same, of an event that its publisher had attached a policy to",
    32: "the same, of an event from another node",
}
"""Plays that failed once."""

Recorded = tuple[StatementPlays, Written, Views]


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.recorded) for name in ("trees", "cycles")])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    seed = Random().randrange(2**32)
    print(f"{request.param}: seed {seed}")
    joined = StatementPlays(60, Random(seed), watched=True, cyclic=request.param == "cycles")
    return joined, *joined.played(tmp_path_factory.mktemp("statements") / "journal")


def viewed(view: DataFrame) -> Views:
    """What a view gives subjects."""
    views: Views = {}
    for row in sorted(view.collect(), key=lambda row: (row.subject, row.node, row.seq, row.place, row.part)):
        told = user_properties.carried(bytes(row.properties)).user_properties
        views.setdefault((row.subject, row.node), []).append((row.topic, bytes(row.payload), row.qos, told))
    return views


def check(found: Views, joined: StatementPlays, delivered: Views) -> None:
    wrong = differences(found, delivered)
    assert not wrong, f"{wrong[0]}\n{joined.told(wrong[0].split()[0])}"


def askers(joined: StatementPlays) -> tuple[Asker, ...]:
    return tuple(map(Asker, joined.subjects))


def test_as_it_stood(spark: SparkSession, recorded: Recorded) -> None:
    joined, journal, delivered = recorded
    events = tables.events(spark, journal.folder)
    check(viewed(view(events, as_it_stood(journal.folder), askers(joined))), joined, delivered)


def test_as_it_stands_with_all_judged_again(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    joined, journal, delivered = recorded
    list(compact(journal.folder))
    events = tables.events(spark, journal.folder)
    policies = judged_by(joined.again(), tmp_path, journal.folder)
    check(viewed(view(events, policies, askers(joined))), joined, delivered)


def test_streamed(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    joined, journal, delivered = recorded
    domain = tmp_path / "domain.yaml"
    domain.write_text(domain_text(joined.domain))
    places = journal.folder, domain, tmp_path / "views", tmp_path / "checkpoint"
    stream = Stream(*places, askers(joined), partitions=1)
    start(spark, stream, once=True).awaitTermination()
    check(viewed(read_view(spark, stream.folder)), joined, delivered)


@pytest.mark.parametrize("seed", FAILED)
def test_plays_that_failed_once_pass(seed: int, tmp_path: Path) -> None:
    joined = StatementPlays(20, Random(seed), watched=True)
    journal, delivered = joined.played(tmp_path / "journal")
    with small_tables():
        rows = small_table(read_all(journal.folder)[0])
        check(viewed(view(rows, as_it_stood(journal.folder), askers(joined))), joined, delivered)


def test_there_is_something_to_compare(recorded: Recorded) -> None:
    _, _, delivered = recorded
    got = [one for several in delivered.values() for one in several]
    said = b"".join(payload for _, payload, _, _ in got)
    told = {name for _, _, _, properties in got for name, _ in properties}
    assert {"penstock-trace-host", "penstock-trace-time"} <= told
    for part in (b"PrevHop", b"penstock_trace_load", b"<event>", b'"secret"'):
        assert part in said
