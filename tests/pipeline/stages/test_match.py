"""Conditions over batches of events come to what they do in a node, event by event."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.domain import load
from penstock.language.condition import make_condition
from penstock.model.event import Event
from penstock.pipeline.conditions.payloads import SEPARATOR, outcomes
from penstock.pipeline.spark.policies import Policies, PolicyFiles, judged_by
from tests.support.generators.nasty_json import payloads

RULES: list[list[dict[str, object]]] = [
    [
        {"topics": "typed/#", "format": "json", "schema": {"temperature": "double", "*": "dyn"}},
        {"topics": "text/#", "format": "text"},
    ],
    [{"topics": ["typed/#", "text/#"], "format": "json"}],
]
TOPICS = ["typed/1", "typed/2", "text/1", "other", "spBv1.0/G/NDATA/E"]
JSON_TYPE, TEXT_TYPE = b"\x03\x00\x10application/json", b"\x03\x00\x0atext/plain"
PROPERTIES = [b"", b"", b"", JSON_TYPE, TEXT_TYPE, b"\x01\x01" + JSON_TYPE]
CONDITIONS = [
    "temperature >= 60.0",
    "type(temperature) == double",
    "a < 50 && temperature > 0.0",
    "has(a) || a == 1",
    "!has(a)",
    "value.contains('1')",
    "a in [1, 2, 3] || b.exists(x, x == 1)",
    "true",
]


class Row(NamedTuple):
    """A row of a table of events, and what is asked of it."""

    asked: tuple[str, ...] | None
    policy: int
    topic: str
    properties: bytes
    payload: bytes


asked = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2).map(tuple)
rows = st.builds(
    Row, asked | st.none(), st.integers(0, 1), st.sampled_from(TOPICS), st.sampled_from(PROPERTIES), payloads
)
repeated = st.tuples(rows, st.lists(st.sampled_from(CONDITIONS), max_size=2)).map(
    lambda both: [both[0], *(both[0]._replace(asked=(text,)) for text in both[1])]
)
"""An event for several subjects."""
alike = st.tuples(payloads, st.lists(rows, min_size=2, max_size=3)).map(
    lambda both: [row._replace(payload=both[0]) for row in both[1]]
)
"""Several events that have but their payload in common."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    """Two domains that read content differently."""
    found = dict[str, PolicyFiles]()
    for rules in RULES:
        path: Path = tmp_path_factory.mktemp("domain") / "domain.yaml"
        nodes = {"main": {"listen": "127.0.0.1:0", "store": "memory"}}
        path.write_text(yaml.safe_dump({"domain": "plant", "nodes": nodes, "content": rules}))
        found |= judged_by(load(path), path.parent).by_digest
    assert len(found) == 2
    return Policies(found, None)


def expected(policies: Policies, row: Row) -> bool | None:
    """What a node finds."""
    if row.asked is None:
        return None
    reader = list(policies.by_digest.values())[row.policy].compiled().ensemble.reader
    content = reader.read(Event(row.topic, row.payload, properties=row.properties))
    return any(make_condition(text).holds(content) is True for text in row.asked)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(repeated | alike, min_size=1, max_size=6), st.booleans())
def test_random_events(both: Policies, groups: list[list[Row]], stands: bool) -> None:
    digests = list(both.by_digest)
    table = [row._replace(policy=0) if stands else row for group in groups for row in group]
    policies = Policies(both.by_digest, digests[0]) if stands else both
    columns = {
        "asked": pa.array([None if row.asked is None else SEPARATOR.join(row.asked) for row in table], pa.string()),
        "topic": pa.array([None if row.asked is None else row.topic for row in table], pa.string()),
        "properties": pa.array([None if row.asked is None else row.properties for row in table], pa.binary()),
        "payload": pa.array([None if row.asked is None else row.payload for row in table], pa.binary()),
    }
    if not stands:
        columns["policy"] = pa.array([digests[row.policy] for row in table])
    found = outcomes(policies, pa.RecordBatch.from_pydict(columns)).to_pylist()
    assert found == [expected(both, row) for row in table]
