"""Views of content that is partly in typed columns: Spark decides what it can, and the same comes out."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from penstock.domain import load
from penstock.engine.journal_rows import Source
from penstock.journal.revision import Revision
from penstock.journal.write.compact import compact
from penstock.language.condition import make_condition
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.pipeline.conditions import typed
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stands
from penstock.pipeline.stages import keys
from penstock.pipeline.stages.govern import spark_sides, view
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables import tables
from tests.support.memory.journals import rows, write_segments

pytestmark = pytest.mark.recorded

WHERES: dict[str, dict[str, str]] = {
    "all": {},
    "hot": {"t/#": "temperature >= 60.0"},
    "named": {"t/#": "state == 'on' && temperature < 60.0"},
    "present": {"t/#": "has(state)"},
    "absent": {"t/#": "!has(state)"},
    "nested": {"t/#": "room.floor == 2"},
    "counted": {"t/#": "state.matches('^o.*')"},
    "twice": {"t/#": "temperature >= 60.0", "t/0": "has(state)"},
    "bounds": {f"t/{number}": f"temperature >= {number}0.5" for number in range(60)},
    "several": {f"t/{number}": f"state == 'o{'n' * (number != 1)}' || {number} < temperature" for number in range(60)},
    "elsewhere": {f"other/{number}": f"temperature >= {number}.5" for number in range(100)},
    "many": {"t/#": "temperature >= 60.0"} | {f"other/{number}": f"temperature >= {number}.5" for number in range(100)},
}
PAYLOADS = [
    b'{"temperature": 71.5, "state": "on", "room": {"floor": 2}}',
    b'{"temperature": 71, "state": "off", "room": {"floor": 1}}',
    b'{"temperature": 20.5, "state": "on"}',
    b'{"temperature": 60.0}',
    b'{"state": "on"}',
    b"{}",
    b'{"temperature": null, "state": null}',
    b'{"temperature": "71.5"}',
    b'{"temperature": 71.5, "other": 1}',
    b'{"temperature": 71.5, "temperature": 1.5}',
    rb'{"temperature": 71.5, "\u0073tate": "on"}',
    b'{"temperature": 1e400}',
    b'{"temperature": 71.5',
    b'\xef\xbb\xbf{"temperature": 71.5}',
    b"71.5",
    b"",
]
PLAIN = PAYLOADS[:1] * 3
SENSOR = Source("sensor", None, "sensor", "", None, 4, 4)
ASKERS = tuple(map(Asker, WHERES))


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    """Of a domain whose journal has some files in which everything is as declared, and some in which little is."""
    folder = tmp_path_factory.mktemp("typed")
    clients = "".join(f"  {name}: {json.dumps({'node': 'n', 'where': where})}\n" for name, where in WHERES.items())
    (folder / "domain.yaml").write_text(
        "domain: plant\nnodes: {n: {listen: '127.0.0.1:0', store: memory}}\n"
        f"clients:\n  sensor: {{node: n}}\n{clients}"
        "content: [{topics: t/#, format: json,"
        " schema: {temperature: double, state: string, room: {floor: int}}}]\n"
    )
    revision = Revision.of(load(folder / "domain.yaml"))
    revision.keep(folder / "journal")
    published = [[(f"t/{at}", payload) for payload in some] for at, some in enumerate((PAYLOADS, PLAIN, PLAIN))]
    write_segments(folder / "journal", *([rows(*some, source=SENSOR)] for some in published), revision=revision.digest)
    return as_it_stands(folder / "domain.yaml", folder / "journal")


def expected(policies: Policies) -> set[tuple[str, str, bytes]]:
    """What a node finds."""
    (policy,) = policies.judging
    read = policy.ensemble.reader.read
    return {
        (name, topic, payload)
        for name, where in WHERES.items()
        for topic, some in (("t/0", PAYLOADS), ("t/1", PLAIN), ("t/2", PLAIN))
        for payload in some
        if all(
            make_condition(each).holds(read(Event(topic, payload))) is True
            for filter, each in where.items()
            if matches(filter, topic)
        )
    }


def events(spark: SparkSession, policies: Policies) -> DataFrame:
    return tables.events(spark, Path(next(iter(policies.by_digest.values())).folder) / "journal")


def found(spark: SparkSession, policies: Policies, askers: tuple[Asker, ...] = ASKERS) -> set[tuple[str, str, bytes]]:
    seen = view(events(spark, policies), policies, askers).select("subject", "topic", "payload").collect()
    return {(row["subject"], row["topic"], bytes(row["payload"])) for row in seen}


def test_segments(spark: SparkSession, policies: Policies) -> None:
    assert found(spark, policies) == expected(policies)


def test_keys_that_workers_decide(spark: SparkSession, policies: Policies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_KEYS_HERE", 0)
    assert found(spark, policies) == expected(policies)


@pytest.mark.parametrize(
    ("name", "asked"),
    [("all", set()), ("elsewhere", set()), ("many", {"temperature >= 60.0"})],
    ids=lambda each: str(each),
)
def test_only_conditions_on_recorded_topics_are_asked(
    spark: SparkSession, policies: Policies, name: str, asked: set[str]
) -> None:
    askers = (Asker(name),)
    scope = Scope.of(policies, askers)
    scope = scope.asking(keys.KeyTable.of(events(spark, policies), spark_sides(), scope).wheres)
    assert (set(scope.wheres), scope.has_conditions) == (asked, bool(asked))


def test_compacted(spark: SparkSession, policies: Policies) -> None:
    journal = Path(next(iter(policies.by_digest.values())).folder) / "journal"
    for done in compact(journal, target=1):  # a file for each segment
        content = pq.read_table(done.path)["content_0"]
        assert content.null_count < len(content)
    assert found(spark, policies) == expected(policies)
    files = [str(path) for path in journal.glob("compact/*/*/[0-9]*.parquet")]
    assertDataFrameEqual(events(spark, policies), spark.read.parquet(*files).drop("unreadable"))
    for asker in ASKERS:
        one = {row for row in expected(policies) if row[0] == asker.name}
        assert found(spark, policies, (asker,)) == one, asker.name


@pytest.mark.parametrize("name", ["bounds", "several", "twice", "many"])
def test_conditions_of_one_form(
    spark: SparkSession, policies: Policies, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(compact(Path(next(iter(policies.by_digest.values())).folder) / "journal", target=1))
    monkeypatch.setattr(typed, "MAX_BRANCHES", 1)
    assert found(spark, policies, (Asker(name),)) == {row for row in expected(policies) if row[0] == name}
