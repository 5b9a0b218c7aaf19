"""What a capsule takes of events by columns is what it takes of each of them alone."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.events import user_properties
from penstock.pipeline.capsules.rows import CapsuleReference, _Reading
from penstock.pipeline.spark.policies import following
from penstock.policy.quality.carriage import CLAIMED, write_properties
from penstock.wire.properties import Properties
from tests.support.scenes.air_capsules import NOON, City, quality

CAPSULES = {
    "means": [{"aggregate": {"by": {"zone": 2, "kind": "kind"}, "values": {"v": "mean(a.v)", "w": "max(w)"}}}],
    "fused": [{"fuse": {"by": {"zone": 2}, "values": {"v": "a.v"}, "weight": "precision", "source": "kind"}}],
}
VALUES: st.SearchStrategy[object] = st.one_of(
    st.floats(-1e9, 1e9), st.integers(-99, 99), st.sampled_from([True, None, "1", [1], 2**60, 10**400, {}])
)
GOOD = {"kind": "park", "a": {"v": 1.5}, "w": 2}
EVENTS = st.one_of(
    st.just(GOOD),
    st.fixed_dictionaries(
        {"a": st.one_of(VALUES, st.fixed_dictionaries({"v": VALUES}))},
        optional={"w": VALUES, "kind": st.one_of(VALUES, st.sampled_from(["street", "x" * 300])), "qoc": VALUES},
    ),
)
TOPICS = st.sampled_from(["city/a/air", "city/b/air", "city", f"city/{'z' * 300}"])


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CapsuleReference]:
    said = {"input": {"topics": "#"}, "window": {"length": "60s"}, "output": {"topic": "out"}}
    made = {name: {"client": name, "operations": steps, **said} for name, steps in CAPSULES.items()}
    city = City(tmp_path_factory.mktemp("city"), made)
    return {name: CapsuleReference(following(city.domain, Path(city.journal)), name) for name in CAPSULES}


def _batch(events: list[tuple[str, dict[str, Any], float | None]]) -> pa.RecordBatch:
    count = len(events)
    carried = [
        user_properties.travelling(
            Properties(user_properties=write_properties(quality(NOON, precision=value), CLAIMED))
        )
        if value is not None
        else b""
        for _, _, value in events
    ]
    return pa.record_batch(
        {
            "node": ["main"] * count,
            "seq": pa.array(range(count), pa.int64()),
            "place": pa.array([0] * count, pa.int32()),
            "part": pa.array([0] * count, pa.int32()),
            "arrival": pa.array([(NOON + at) * 1_000_000 for at in range(count)], pa.int64()),
            "topic": [topic for topic, _, _ in events],
            "payload": pa.array([json.dumps(said).encode() for _, said, _ in events], pa.binary()),
            "content_type": pa.array([None] * count, pa.string()),
            "properties": pa.array(carried, pa.binary()),
        }
    )


def _read(reading: _Reading, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for one in reading.read(batch) for row in one.to_pylist()]


@pytest.mark.parametrize("name", CAPSULES)
@given(events=st.lists(st.tuples(TOPICS, EVENTS, st.sampled_from([None, 50.0])), min_size=1, max_size=8))
def test_it_is_the_same(
    references: dict[str, CapsuleReference], name: str, events: list[tuple[str, dict[str, Any], float | None]]
) -> None:
    together = _Reading(references[name], None)
    alone = _Reading(references[name], None)
    alone._by_columns = lambda *_: None  # type: ignore[method-assign]
    assert _read(together, _batch(events)) == _read(alone, _batch(events))


@pytest.mark.parametrize("name", CAPSULES)
def test_events_that_are_in_order_are_read_together(references: dict[str, CapsuleReference], name: str) -> None:
    reading = _Reading(references[name], None)
    batch = _batch([("city/a/air", GOOD, None), ("city/b/air", {**GOOD, "w": 1}, 70.0)])
    found = reading._by_columns(batch, batch["arrival"].to_pylist(), batch["topic"].to_pylist())
    assert found is not None
    assert found.num_rows == 2
