"""The few MQTT 3.1.1 packets a load needs, made by hand.

Not penstock's own codec: a generator that shared code with the broker under test could share its faults.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

CONNACK = 0x20
SUBACK = 0x90
PINGREQ = b"\xc0\x00"
PINGRESP = b"\xd0\x00"
DISCONNECT = b"\xe0\x00"

PUBACK = b"\x40\x02"
PUBREC = b"\x50\x02"
PUBREL = b"\x62\x02"
PUBCOMP = b"\x70\x02"
ACK_SIZE = 4

STAMP = struct.Struct("<d")


def varint(value: int) -> bytes:
    """`value` as a remaining length."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value: str) -> bytes:
    """`value` with its two bytes of length."""
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def connect(client_id: str, *, clean: bool, keepalive: int) -> bytes:
    """A CONNECT without will, user or password."""
    body = text("MQTT") + bytes((4, 2 if clean else 0)) + struct.pack(">H", keepalive) + text(client_id)
    return b"\x10" + varint(len(body)) + body


def subscribe(packet_id: int, filters: Sequence[str], qos: int) -> bytes:
    """A SUBSCRIBE for all `filters` at one QoS."""
    body = struct.pack(">H", packet_id) + b"".join(text(filter) + bytes((qos,)) for filter in filters)
    return b"\x82" + varint(len(body)) + body


@dataclass(frozen=True, slots=True)
class PublishLayout:
    """The positions of fields in the PUBLISH packets of one load, which are all of one size."""

    topic_size: int
    payload_size: int
    qos: int

    @property
    def first_byte(self) -> int:
        """The fixed header's first byte, without DUP or RETAIN."""
        return 0x30 | self.qos << 1

    @property
    def remaining(self) -> int:
        """The remaining length."""
        return 2 + self.topic_size + (2 if self.qos else 0) + self.payload_size

    @property
    def size(self) -> int:
        """The whole packet's size."""
        return 1 + len(varint(self.remaining)) + self.remaining

    @property
    def stamp_at(self) -> int:
        """Return the position of the payload, and with it of the time stamp."""
        return self.size - self.payload_size

    @property
    def packet_id_at(self) -> int:
        """Return the position of the packet id when `qos` is not 0."""
        return self.stamp_at - 2

    def head(self, topic: str, packet_id: int) -> bytes:
        """The packet up to its time stamp."""
        named = text(topic)
        if len(named) != 2 + self.topic_size:
            raise ValueError(f"the topic `{topic}` does not have {self.topic_size} bytes")
        identified = struct.pack(">H", packet_id) if self.qos else b""
        return bytes((self.first_byte,)) + varint(self.remaining) + named + identified

    @property
    def tail(self) -> bytes:
        """The packet after its time stamp."""
        return b"x" * (self.payload_size - STAMP.size)

    def burst(self, topics: Sequence[str], first_packet_id: int) -> tuple[bytes, ...]:
        """One packet for each topic, cut at the stamps: `stamp.join(burst)` are the bytes to send."""
        heads = [self.head(topic, first_packet_id + at) for at, topic in enumerate(topics)]
        return (heads[0], *(self.tail + head for head in heads[1:]), self.tail)
