"""Whatever Sparkplug can say: a reader gets the very bytes, but for what is withheld from it."""

from typing import Any

import pytest

from penstock.model.sparkplug.payload import read_sparkplug
from penstock.wire.packet import Publish
from tests.engine.sparkplug.test_leaks import BORN, DOMAIN, MARK, NBIRTH, NDATA, NDEATH, Plant, payload
from tests.support.memory.sparkplug import PAYLOAD

TEXT = {"type": 12, "string_value": "unit"}
KINDS: dict[str, dict[str, Any]] = {
    "a data set": {
        "datatype": 16,
        "dataset_value": {"columns": ["x"], "types": [12], "rows": [{"elements": [{"string_value": "y"}]}]},
    },
    "a template": {
        "datatype": 19,
        "template_value": {"version": "1", "metrics": [{"name": "inside", "int_value": 1}], "is_definition": True},
    },
    "a property set": {"datatype": 3, "int_value": 5, "properties": {"keys": ["engUnit"], "values": [TEXT]}},
    "metadata": {"datatype": 12, "string_value": "s", "metadata": {"description": "d", "size": 3}},
    "history": {"datatype": 3, "int_value": 5, "is_historical": True, "timestamp": 3},
    "what is not kept": {"datatype": 3, "int_value": 5, "is_transient": True},
    "null": {"datatype": 3, "is_null": True},
    "nothing at all": {},
    "bytes": {"datatype": 17, "bytes_value": "AAEC"},
    "a number of 64 bits": {"datatype": 8, "long_value": 2**64 - 1},
}
UNKNOWN = b"\xca\x3e\x04more\x98\x7d\x05"
"""Fields 1001 and 2003, of which no norm speaks."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_birth", [True, False])
def test_kept_byte_for_byte(kind: str, is_birth: bool) -> None:
    plant = Plant()
    plant.scada.subscribe("spBv1.0/G1/+/E1").take()
    if not is_birth:
        plant.born()
        plant.reader.take(), plant.scada.take()
    kept = payload({"name": "a", **KINDS[kind]})
    secret = PAYLOAD()
    secret.metrics.add(name="secret", string_value=MARK.decode())  # type: ignore[attr-defined]
    said = kept + secret.SerializeToString() + UNKNOWN + (b"\x18\x00" if is_birth else b"\x18\x01")
    plant.edge.publish(NBIRTH if is_birth else NDATA, said)
    (got,) = plant.seen()
    assert got.payload == said.replace(secret.SerializeToString(), b"")
    assert [one.payload for one in plant.scada.take() if isinstance(one, Publish)] == [said]


def test_history_is_not_what_is_given_back() -> None:
    """What a report tells of the past is withheld like anything else, and is not the value of now."""
    text = DOMAIN.replace('except: "secret*"}', 'except: "secret*", when: "has(open) && open.value == 0"}', 1)
    plant = Plant(text + '  - {subject: reader, topics: "spBv1.0/G1/+/E1/#", may: read}\n')
    plant.born({"name": "open", "alias": 4, "datatype": 3, "int_value": 0})
    close, now = {"alias": 4, "int_value": 0}, {"alias": 2, "string_value": "now"}
    past = {"alias": 2, "string_value": "past", "is_historical": True}
    plant.edge.publish(NDATA, payload(close, now, past, seq=1))
    plant.edge.publish(NDATA, payload({"alias": 4, "int_value": 1}, seq=2))
    assert plant.metrics()[1:] == [{4: 0}, {4: 1, "secret": "now"}]


def test_births_after_coming_back_begin_anew() -> None:
    plant = Plant()
    plant.born()
    plant.edge.publish(NDATA, payload({"alias": 1, "string_value": "x"}, seq=1))
    plant.edge.lose()
    plant.edge = plant.joined.connect("e1")
    again = [{**one, "alias": 10 - one["alias"]} if "alias" in one else one for one in BORN]
    plant.edge.publish(NBIRTH, payload(*again, {"name": "bdSeq", "long_value": 1}, seq=0))
    plant.edge.publish(NDATA, payload({"alias": 9, "string_value": "y"}, {"alias": 8, "string_value": "SECRET"}, seq=1))
    got = [read_sparkplug(one.payload) for one in plant.seen()]
    assert [one["seq"] for one in got] == [0, 1, 0, 1]
    assert got[2]["metrics"]["bdSeq"] == 1
    assert got[3]["aliases"] == {9: "y"}


def test_who_may_not_see_births_sees_no_gap_after_one() -> None:
    text = DOMAIN.replace('"spBv1.0/G1/+/E1/#", may: read, except', f'"{NDATA}", may: read, except')
    plant = Plant(text)
    plant.born()
    for seq in (1, 2, 5):
        plant.edge.publish(NDATA, payload({"alias": 1, "string_value": "x"}, seq=seq))
    plant.born()
    plant.edge.publish(NDATA, payload({"alias": 1, "string_value": "x"}, seq=1))
    assert [read_sparkplug(one.payload)["seq"] for one in plant.seen()] == [1, 2, 5, 6]


def test_a_death_keeps_its_number() -> None:
    plant = Plant()
    plant.edge.publish(NDEATH, payload({"name": "bdSeq", "datatype": 4, "long_value": 3}))
    assert plant.metrics() == [{"bdSeq": 3}]
