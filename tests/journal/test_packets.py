"""Packets in columns are what each is by itself."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.events import user_properties
from penstock.journal.read.packets import read_packets
from penstock.wire.codec import encode
from penstock.wire.decode import decode
from penstock.wire.errors import WireError
from penstock.wire.framing import Framer
from penstock.wire.packet import Publish
from penstock.wire.properties import NO_PROPERTIES, Properties

TOPICS = st.sampled_from(["a", "a/b", "é/ü", "x" * 200, "$SYS/x"])
PAYLOADS = st.one_of(st.binary(max_size=5), st.sampled_from([b"", b"y" * 127, b"z" * 20_000]))
PROPERTIES = st.sampled_from(
    [
        NO_PROPERTIES,
        NO_PROPERTIES,
        Properties(content_type="text/plain", payload_format=1),
        Properties(message_expiry=7, user_properties=(("u", "v"), ("penstock-path", "n1,n2"), ("penstock-id", "i"))),
        Properties(user_properties=(("penstock-publisher", '["n1", "c", null, "", ""]'),)),
        Properties(topic_alias=3, correlation_data=b"\0" * 300),
    ]
)


@st.composite
def _packet(draw: st.DrawFn) -> tuple[bytes, int]:
    version, qos = draw(st.sampled_from([4, 5])), draw(st.integers(0, 2))
    properties = draw(PROPERTIES) if version == 5 else NO_PROPERTIES
    topic = "" if properties.topic_alias and draw(st.booleans()) else draw(TOPICS)
    packet = Publish(topic, draw(PAYLOADS), qos, draw(st.booleans()), False, 9 if qos else 0, properties)
    return encode(packet, version), version


@st.composite
def _damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    packet, version = draw(_packet())
    packet = packet[:100]
    if draw(st.booleans()):
        packet = packet[: draw(st.integers(0, len(packet)))]
    if packet and draw(st.booleans()):
        at = draw(st.integers(0, len(packet) - 1))
        packet = packet[:at] + bytes([draw(st.integers(0, 255))]) + packet[at + 1 :]
    return packet, version


def _one_by_one(packet: bytes, version: int) -> dict[str, Any] | None:
    framer = Framer()
    framer.minimal = False
    buffer, frames = framer.feed(packet)
    if len(frames) != 1 or frames[0][2] != len(packet) or frames[0][0] >> 4 != 3:
        return None
    first, start, end = frames[0]
    try:
        read = decode(first, buffer[start:end], version)
    except WireError:
        return None
    assert isinstance(read, Publish)
    if not read.topic:
        return None
    sent = dict(read.properties.user_properties)
    path = sent.get(user_properties.PATH)
    return {
        "topic": read.topic,
        "payload": read.payload,
        "qos": read.qos,
        "retain": read.retain,
        "content_type": read.properties.content_type,
        "properties": user_properties.travelling(read.properties),
        **_publisher(json.loads(sent.get(user_properties.PUBLISHER, "[null, null, null]"))),
        "expiry": read.properties.message_expiry,
        "path": path.split(",") if path else None,
        "id": sent.get(user_properties.ID) or None,
    }


def _publisher(told: list[str | None]) -> dict[str, str | None]:
    return dict(zip(("publisher_node", "publisher", "publisher_user"), told, strict=False))


def _columns(packets: list[tuple[bytes, int]]) -> list[dict[str, Any]]:
    column = pa.array([b"before", *(packet for packet, _ in packets)], pa.binary())[1:]
    read = read_packets(column, np.array([version for _, version in packets], np.int8))
    return pa.table(read._asdict()).to_pylist()  # type: ignore[no-any-return]


@given(st.lists(_packet(), max_size=12))
def test_columns_say_what_each_packet_says(packets: list[tuple[bytes, int]]) -> None:
    for (packet, version), row in zip(packets, _columns(packets), strict=True):
        expected = _one_by_one(packet, version)
        problem = row.pop("problem")
        assert (row if problem is None else None) == expected, problem


@given(st.lists(_damaged(), max_size=12))
def test_a_damaged_packet_is_found_and_harms_no_other(packets: list[tuple[bytes, int]]) -> None:
    good = encode(Publish("good", b"one"), 4), 4
    mixed = [packet for bad in packets for packet in (bad, good)]
    for (packet, version), row in zip(mixed, _columns(mixed), strict=True):
        problem = row.pop("problem")
        assert (row if problem is None else None) == _one_by_one(packet, version), problem
        assert problem is None or set(row.values()) == {None}
