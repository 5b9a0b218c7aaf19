"""Many PUBLISH packets to columns at once.

Packets without properties are split by arithmetic on whole columns; each packet with properties is decoded separately.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.events import user_properties
from penstock.wire.decode import decode
from penstock.wire.errors import WireError
from penstock.wire.kinds import PUBLISH
from penstock.wire.packet import Publish
from penstock.wire.primitives import topic_of
from penstock.wire.properties import Properties

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_EMPTY = np.zeros(0, np.uint8)
PUBLISHER = ("publisher_node", "publisher", "publisher_user")
_LENGTH_BYTES = 4
"""The most bytes that a packet's length takes."""


class Packets(NamedTuple):
    """Columns of packets; where `problem` is set, the others are null."""

    topic: pa.StringArray
    payload: pa.BinaryArray
    qos: pa.Int8Array
    retain: pa.BooleanArray
    content_type: pa.StringArray
    properties: pa.BinaryArray
    """Forwarded properties in wire form, including those only for nodes, such as policies."""
    publisher_node: pa.StringArray
    publisher: pa.StringArray
    publisher_user: pa.StringArray
    """The client or foreign broker that published it, and at which node, if another node told of that."""
    expiry: pa.Int64Array
    path: pa.ListArray
    """The nodes it has passed, if a neighbour sent them."""
    id: pa.StringArray
    problem: pa.StringArray


def read_packets(packets: pa.BinaryArray, versions: npt.NDArray[np.int8]) -> Packets:
    """Split packets into columns; `versions` holds the MQTT version of each packet."""
    cut = _Cut(packets, versions)
    slow = np.flatnonzero(cut.has_properties & ~cut.is_bad)
    by_property = _PropertyColumns(packets, slow)
    is_bad = cut.is_bad.copy()
    is_bad[slow[by_property.is_bad]] = True
    topic, wrong = _topics(cut.slices(cut.topic_start, cut.topic_end, ~is_bad))
    is_bad |= wrong
    starts = cut.payload_start.copy()
    starts[slow] = cut.end[slow] - by_property.payload_sizes
    payload = cut.slices(starts, cut.end, ~is_bad)
    problem = np.full(len(packets), None, object)
    problem[is_bad] = "it is not a PUBLISH packet"
    problem[wrong] = "its topic is not valid"
    problem[slow[by_property.is_bad]] = by_property.problems
    bad = pa.array(is_bad)
    return Packets(
        _without(topic, bad),
        _without(payload, bad),
        pa.array(cut.first >> 1 & 3, pa.int8(), mask=is_bad),
        pa.array(cut.first & 1 != 0, pa.bool_(), mask=is_bad),
        by_property.column("content_type", pa.string(), len(packets)),
        _without(by_property.column("properties", pa.binary(), len(packets)).fill_null(b""), bad),
        by_property.column("publisher_node", pa.string(), len(packets)),
        by_property.column("publisher", pa.string(), len(packets)),
        by_property.column("publisher_user", pa.string(), len(packets)),
        by_property.column("expiry", pa.int64(), len(packets)),
        by_property.column("path", pa.list_(pa.string()), len(packets)),
        by_property.column("id", pa.string(), len(packets)),
        pa.array(problem, pa.string()),
    )


def _without(column: pa.Array, bad: pa.BooleanArray) -> pa.Array:
    return pa.compute.if_else(bad, pa.scalar(None, column.type), column) if bad.true_count else column


class _Cut:
    """The positions of the parts of packets in the concatenated bytes."""

    def __init__(self, packets: pa.BinaryArray, versions: npt.NDArray[np.int8]) -> None:
        _, offsets, data = packets.buffers()
        count = len(packets)
        bounds = np.frombuffer(offsets, np.int32)[packets.offset : packets.offset + count + 1].astype(np.int64)
        self.data = _EMPTY if data is None else np.frombuffer(data, np.uint8)[: bounds[-1] if count else 0]
        begin, self.end = bounds[:-1], bounds[1:]
        self.first = self._at(begin).astype(np.int64)
        length, body = self._varint(begin + 1)
        self.is_bad = (
            (self.first >> 4 != PUBLISH) | (self.first & 6 == 6) | (self.first & 14 == 8) | (body + length != self.end)
        )
        self.topic_start = body + 2
        size = (self._at(body).astype(np.int64) << 8) + self._at(body + 1).astype(np.int64)
        self.topic_end = self.topic_start + size
        after = self.topic_end + np.where(self.first & 6, 2, 0)
        has_id = (self._at(self.topic_end) | self._at(self.topic_end + 1)) != 0
        self.is_bad |= (self.first & 6 != 0) & ~has_id  # [MQTT-2.2.1-2]
        is_new = versions == 5
        self.is_bad |= after + is_new > self.end
        self.has_properties = is_new & ((self._at(after) != 0) | (self.topic_end == self.topic_start))
        self.is_bad |= (self.topic_end == self.topic_start) & ~is_new
        self.payload_start = after + is_new

    def slices(self, starts: Ints, ends: Ints, is_wanted: Flags) -> pa.BinaryArray:
        """Return from each packet the bytes between two positions; nothing for packets that are not wanted."""
        sizes = np.where(is_wanted, ends - starts, 0)
        some = sizes > 0
        step = np.zeros(len(self.data) + 1, np.int8)
        step[starts[some]] = 1
        step[ends[some]] -= 1
        data = self.data[np.cumsum(step[:-1], dtype=np.int8).view(np.bool_)]
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def _at(self, places: Ints) -> npt.NDArray[np.uint8]:
        """Return the bytes at these positions; 0 beyond the end."""
        if not len(self.data):
            return np.zeros(len(places), np.uint8)
        inside = places < len(self.data)
        return np.where(inside, self.data[np.where(inside, places, 0)], np.uint8(0))

    def _varint(self, places: Ints) -> tuple[Ints, Ints]:
        """Return the variable-length integers at these positions, and where they end."""
        value = np.zeros(len(places), np.int64)
        after = places.copy()
        going = np.ones(len(places), np.bool_)
        for shift in range(0, 7 * _LENGTH_BYTES, 7):
            byte = self._at(after).astype(np.int64)
            value += np.where(going, (byte & 0x7F) << shift, 0)
            after += going
            going &= byte >= 0x80
            if not going.any():
                break
        return value, after


def _topics(raw: pa.BinaryArray) -> tuple[pa.StringArray, Flags]:
    """Return topics as text, and which are invalid; empty ones, of bad packets or with an alias, are kept."""
    distinct = raw.dictionary_encode()
    texts, good = [], []
    for topic in distinct.dictionary.to_pylist():
        try:
            texts.append(topic_of(topic) if topic else "")
            good.append(True)
        except WireError:
            texts.append("")
            good.append(False)
    if all(good):
        return raw.cast(pa.string()), np.zeros(len(raw), np.bool_)
    places = distinct.indices.to_numpy()
    return pa.array(texts, pa.string()).take(distinct.indices), ~np.array(good, np.bool_)[places]


class _PropertyColumns:
    """Columns from the packets with properties, each decoded separately."""

    def __init__(self, packets: pa.BinaryArray, places: Ints) -> None:
        self._places = places
        read = [_decoded(packets[int(place)].as_py()) for place in places]
        self.is_bad: Flags = np.array([isinstance(packet, str) for packet in read], np.bool_)
        self.problems = [packet for packet in read if isinstance(packet, str)]
        self.payload_sizes: Ints = np.array(
            [0 if isinstance(packet, str) else len(packet.payload) for packet in read], np.int64
        )
        self._values = [{} if isinstance(packet, str) else _property_values(packet) for packet in read]

    def column(self, name: str, kind: pa.DataType, count: int) -> pa.Array:
        """Return one property of all packets as a column."""
        if not self._values:
            return pa.nulls(count, kind)
        which = np.full(count, -1, np.int64)
        which[self._places] = np.arange(len(self._places))
        return pa.array([packet.get(name) for packet in self._values], kind).take(pa.array(which, mask=which < 0))


def _decoded(packet: bytes) -> Publish | str:
    start = next((at for at in range(1, min(5, len(packet))) if packet[at] < 0x80), 4) + 1
    try:
        read = decode(packet[0], packet[start:], 5)
    except WireError as error:
        return str(error)
    assert isinstance(read, Publish)
    return read if read.topic else "it has a topic alias instead of a topic"


def _property_values(packet: Publish) -> dict[str, Any]:
    properties = packet.properties
    path = next((value for name, value in properties.user_properties if name == user_properties.PATH), None)
    return {
        "content_type": properties.content_type,
        "properties": user_properties.travelling(properties, is_record=True),
        **_publisher(properties),
        "expiry": properties.message_expiry,
        "path": path.split(",") if path else None,
        "id": user_properties.id_of(properties) or None,
    }


def _publisher(properties: Properties) -> dict[str, str | None]:
    texts = [value for name, value in properties.user_properties if name == user_properties.PUBLISHER]
    try:
        told = msgspec.json.decode(texts[-1], type=tuple[str, str, str | None, str, str])
    except (IndexError, msgspec.MsgspecError):
        return {}
    return dict(zip(PUBLISHER, told, strict=False))
