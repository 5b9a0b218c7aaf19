"""Sparkplug payloads from and to plain values, beside protobuf's own reading of them."""

import math
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.metric import read_metric
from penstock.model.sparkplug.plain import read_plain, write_plain
from tests.support.memory.sparkplug import PAYLOAD

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=9)
)


@given(st.dictionaries(st.text(min_size=1, max_size=9), VALUES, max_size=5))
def test_what_is_written_is_read(metrics: dict[str, Any]) -> None:
    assert read_plain(write_plain(metrics)) == metrics


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"value": -3, "type": "Int8"}, -3),
        ({"value": 200, "type": "UInt8"}, 200),
        ({"value": -3, "type": "Int64"}, -3),
        ({"value": 1.5, "type": "Float"}, 1.5),
        ({"value": 2, "type": "Double"}, 2.0),
        ({"value": "x", "type": "UUID"}, "x"),
        ({"value": 1000, "type": "DateTime"}, "1970-01-01T00:00:01Z"),
        ({"type": "Int32"}, None),
    ],
)
def test_types_are_kept(said: dict[str, Any], expected: Any) -> None:
    payload = write_plain({"m": said}, seq=7, timestamp=5)
    assert read_plain(payload) == {"m": expected}
    message = parse(payload)
    metric = message.metrics[0]
    assert read_metric(payload, metric.body, metric.stop)["type"] == said["type"]


def test_protobuf_reads_it_too() -> None:
    said = {"value": 10, "type": "Int32", "alias": 3, "timestamp": 4, "historical": True, "properties": {"unit": "C"}}
    read = PAYLOAD.FromString(write_plain({"m": said, "f": math.pi}, seq=1))
    assert json_format.MessageToDict(read, preserving_proto_field_name=True) == {
        "metrics": [
            {
                "name": "m",
                "alias": "3",
                "timestamp": "4",
                "datatype": 3,
                "is_historical": True,
                "int_value": 10,
                "properties": {"keys": ["unit"], "values": [{"type": 12, "string_value": "C"}]},
            },
            {"name": "f", "datatype": 10, "double_value": math.pi},
        ],
        "seq": "1",
    }


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"m": {"worth": 1}}, "unknown key `worth`"),
        ({"m": {"value": 1, "type": "Int"}}, "unknown type `Int`"),
        ({"m": [1]}, "not a value of type"),
        ({"m": {"value": "x", "type": "Int32"}}, "not a value of type Int32"),
        ({"m": 2**64}, "more than 64 bits"),
        ({"m": {"value": 1, "alias": -1}}, "expected a number as `alias`"),
        ({"m": {"value": 1, "properties": [1]}}, "expected `properties` by name"),
    ],
)
def test_what_cannot_be_written_is_said(metrics: dict[str, Any], reason: str) -> None:
    with pytest.raises(ContentError, match="metric `m`") as raised:
        write_plain(metrics)
    assert reason in str(raised.value)
