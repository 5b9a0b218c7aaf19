"""Capsules on Spark: batches of any size give what a slow reading of all events gives; late events as declared."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline import tables
from penstock.pipeline.capsule_rows import Reference
from penstock.pipeline.capsules import QUARANTINE, Running, given, process, start
from penstock.pipeline.policies import following
from penstock.pipeline.stream import Batch
from tests.support.capsules import City, differences, expected, readings, table


def _streamed(spark: SparkSession, city: City, name: str, most_bytes: int = 1) -> tuple[Path, list[Batch]]:
    reference = Reference(following(city.domain, city.journal), name)
    running = Running(reference, city.journal, city.folder / "tables" / name, most_bytes, 1)
    batches: list[Batch] = []
    query = start(spark, running, once=True, tell=batches.append)
    query.awaitTermination()
    return running.folder, batches


@pytest.mark.parametrize("name", ["air", "fused"])
def test_batch_and_stream_give_the_same(interpreted: SparkSession, tmp_path: Path, name: str) -> None:
    spark, city, some = interpreted, City(tmp_path), readings(1, 240)
    city.record_all(some, 4)
    wanted = expected(city.capsule(name), some)
    assert len(wanted.results) > 20
    policies = following(city.domain, city.journal)
    rows = given(tables.events(spark, city.journal), policies, city.capsule(name))
    made = [row.asDict() for row in process(rows, Reference(policies, name)).collect()]
    assert differences(made, wanted) == []
    folder, batches = _streamed(spark, city, name)
    assert len(batches) == 4
    assert differences(table(folder), wanted) == []
    aside = [row["problem"] for row in table(folder, QUARANTINE)]
    is_kept = name == "air"
    assert sorted(one[:4] for one in aside) == sorted(why[:4] for why, _ in wanted.aside if is_kept or why != "late")
