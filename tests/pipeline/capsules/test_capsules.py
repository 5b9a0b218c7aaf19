"""Capsules on Spark: batches of any size give what a slow reading of all events gives; late events as declared."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.capsules import QUARANTINE, RESULTS, Running, given, process, shape, start
from penstock.pipeline.jobs.stream import StreamBatch
from penstock.pipeline.spark.policies import following
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.stream_marks import StreamLedger
from tests.support.scenes.air_capsules import AIR, FUSED, NOON, City, Reading, differences, expected, readings, table

pytestmark = pytest.mark.recorded


def _streamed(spark: SparkSession, city: City, name: str, max_bytes: int = 1) -> tuple[Path, list[StreamBatch]]:
    reference = CapsuleReference(following(city.domain, city.journal), name)
    running = Running(reference, city.journal, city.folder / "tables" / name, max_bytes, 1)
    batches: list[StreamBatch] = []
    query = start(spark, running, once=True, on_batch=batches.append)
    query.awaitTermination()
    return running.folder, batches


def _at_once(spark: SparkSession, city: City, name: str) -> list[dict[str, Any]]:
    policies = following(city.domain, city.journal)
    rows = given(tables.events(spark, city.journal), policies, city.capsule(name))
    return [row.asDict() for row in process(rows, CapsuleReference(policies, name)).collect()]


@pytest.mark.parametrize("name", ["air", "fused"])
def test_batch_and_stream_give_the_same(interpreted: SparkSession, tmp_path: Path, name: str) -> None:
    spark, city, some = interpreted, City(tmp_path), readings(1, 240)
    city.record_all(some, 3)
    wanted = expected(city.capsule(name), some)
    assert len(wanted.results) > 20
    assert differences(_at_once(spark, city, name), wanted) == []
    folder, batches = _streamed(spark, city, name)
    assert len(batches) == 3
    assert differences(table(folder), wanted) == []
    aside = [row["problem"] for row in table(folder, QUARANTINE)]
    is_kept = name == "air"
    assert sorted(one[:4] for one in aside) == sorted(why[:4] for why, _ in wanted.aside if is_kept or why != "late")


def test_late_events_are_dropped_where_that_is_declared(interpreted: SparkSession, tmp_path: Path) -> None:
    """The same readings, one of them late for its only window: kept by one capsule, forgotten by the other."""
    window = {"length": "60s", "time": "at", "lateness": "10s"}
    said = {"operations": [{"aggregate": {"values": {"n": "count()"}}}], "output": {"topic": "out"}}
    city = City(
        tmp_path,
        {
            late: {"client": late, "input": {"topics": "t"}, "window": {**window, "late": late}, **said}
            for late in ("drop", "quarantine")
        },
    )
    ats = [(5, 5), (69, 6), (70, 7), (71, 60), (129, 125)]
    city.record(Reading(NOON + came, "t", {"at": NOON + at}) for came, at in ats)
    (row,) = _at_once(interpreted, city, "drop")
    assert (json.loads(row["payload"])["n"], row["inputs"]) == (2, 2), "the second came in time, the third did not"
    folder, _ = _streamed(interpreted, city, "quarantine")
    (row,) = table(folder)
    assert json.loads(row["payload"])["n"] == 2
    (aside,) = table(folder, QUARANTINE)
    assert aside["time"].timestamp() == NOON + 70
    assert aside["problem"] == "late for the window from 2026-01-01T12:00:00Z"


def test_a_capsule_is_given_what_its_client_may_have(interpreted: SparkSession, tmp_path: Path) -> None:
    """Its input asks for all; the domain lets it have a part."""
    said = {
        "client": "air",
        "input": {"topics": "#"},
        "window": {"length": "60s"},
        "operations": [{"aggregate": {"values": {"n": "count()", "sum": "sum(x)"}}}],
        "output": {"topic": "out"},
    }
    clients = {"sensor": {"node": "main"}, "air": {"node": "main", "where": {"#": "x > 1"}}}
    city = City(tmp_path, {"air": said}, {"clients": clients})
    city.record(Reading(NOON + at, "t", {"x": at}) for at in (0, 1, 2, 3, 60))
    (row,) = _at_once(interpreted, city, "air")
    assert json.loads(row["payload"])["sum"] == 5.0


def test_what_cannot_be_fused_says_why(interpreted: SparkSession, tmp_path: Path) -> None:
    city = City(tmp_path, {"fused": {**FUSED, "window": {"length": "60s"}}})
    city.record(Reading(NOON + at, "city/a/air", {"pm10": 1, "sensor": 1}) for at in (0, 1, 60))
    (row,) = _at_once(interpreted, city, "fused")
    assert row["topic"] is None
    assert row["problem"] == "no input has any precision by `precision/precision/precision` to be weighed with"


def test_another_capsule_does_not_go_on_with_the_tables(tmp_path: Path) -> None:
    one = City(tmp_path)
    folder = tmp_path / "tables"
    reference = CapsuleReference(following(one.domain, one.journal), "air")
    StreamLedger.open(folder, folder / "_checkpoint", shape(Running(reference, one.journal, folder)), RESULTS).close()
    longer = {**AIR, "window": {**AIR["window"], "length": "120s"}}
    other = City(tmp_path, {"air": longer})
    reference = CapsuleReference(following(other.domain, other.journal), "air")
    with pytest.raises(PipelineError, match="began with other window"):
        StreamLedger.open(folder, folder / "_checkpoint", shape(Running(reference, other.journal, folder)), RESULTS)
