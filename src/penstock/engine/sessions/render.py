"""Packets as bytes: an event rendered once for each form that its subscribers need."""

from math import ceil

from penstock.engine.contracts.state import Governed
from penstock.engine.events.user_properties import RESERVED_BYTES as RESERVED
from penstock.engine.events.user_properties import for_clients
from penstock.engine.sessions.session import StoredEvent
from penstock.engine.sparkplug.state import ReadRequest
from penstock.model.event import Event
from penstock.wire.codec import encode_varint

_EXPIRY = b"\x02"
_SUBSCRIPTION_ID = b"\x0b"
_ALIAS = b"\x23"


def packet_parts(
    event: Event,
    version: int,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    now: float,
    alias: int = 0,
    known: bool = False,
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the packet identifier of a PUBLISH.

    With an `alias` the packet carries it, and if it is already `known` to the peer, no topic.
    """
    topic = b"" if known else event.topic.encode()
    payload = event.payload
    if version == 5:
        properties = event.properties
        if event.expires is not None:
            left = max(0, ceil(event.expires - now))  # [MQTT-3.3.2-6] less the time that it waited here
            properties = _EXPIRY + left.to_bytes(4, "big") + properties
        for number in ids:
            properties += _SUBSCRIPTION_ID + encode_varint(number)
        if alias:
            properties += _ALIAS + alias.to_bytes(2, "big")
        payload = encode_varint(len(properties)) + properties + payload
    length = 2 + len(topic) + len(payload) + (2 if qos else 0)
    # [MQTT-3.3.1-3] [MQTT-4.3.1-1]
    first = 0x30 | qos << 1 | retain
    return bytes((first,)) + encode_varint(length) + len(topic).to_bytes(2, "big") + topic, payload


class Forms:
    """The forms of one event that have been rendered so far, so that a fan-out renders each only once."""

    __slots__ = (
        "_clients",
        "_forms",
        "_released",
        "_views",
        "asked",
        "event",
        "governed",
        "has_reserved",
        "is_asked",
        "kept",
        "now",
    )

    def __init__(self, event: Event, now: float) -> None:
        self.event = event
        self.now = now
        self.has_reserved = event.properties != b"" and RESERVED in event.properties
        """It carries what is only for nodes."""
        self._clients: Forms | None = None
        self._forms: dict[tuple[int, int, bool, tuple[int, ...]], tuple[bytes, bytes]] = {}
        self._views: dict[bytes, Forms] | None = None
        self.governed: Governed | None = None
        """The contracts' findings about it, once it `is_asked`."""
        self.is_asked = False
        self._released: dict[tuple[bytes, bytes], Forms] | None = None
        self.asked: ReadRequest | None = None
        """The part that is the same for all readers of a Sparkplug message."""
        self.kept: StoredEvent | None = None
        """Of a view, its place in the store."""

    def parts(self, version: int, qos: int, retain: bool, ids: tuple[int, ...]) -> tuple[bytes, bytes]:
        key = (version, qos, retain, ids)
        parts = self._forms.get(key)
        if parts is None:
            parts = packet_parts(self.event, version, qos, retain, ids, self.now)
            if not qos:
                parts = (parts[0] + parts[1], b"")
            self._forms[key] = parts
        return parts

    def for_clients(self) -> "Forms":
        """Return the event without what is only for nodes."""
        if self._clients is None:
            self._clients = Forms(for_clients(self.event), self.now)
            self._clients.has_reserved = False
        return self._clients

    def view(self, payload: bytes) -> "Forms":
        """Return the event with another payload: one for all who see the same of it."""
        if self._views is None:
            self._views = {}
        view = self._views.get(payload)
        if view is None:
            view = self._views[payload] = Forms(self.event._replace(payload=payload), self.now)
        return view

    def view_of(self, event: Event) -> "Forms":
        """Return the event with another payload and other properties: one for all who get the same of it."""
        if self._released is None:
            self._released = {}
        key = (event.payload, event.properties)
        view = self._released.get(key)
        if view is None:
            view = self._released[key] = Forms(event, self.now)
        return view


def mark_duplicate(packet: bytes) -> bytes:
    """Return the PUBLISH with DUP set."""
    return bytes((packet[0] | 0x08,)) + packet[1:]


def to_version_5(packet: bytes, after_topic: int) -> bytes:
    """Convert a 3.1.1 QoS 0 PUBLISH to MQTT 5, with no properties. `after_topic`: where its payload begins."""
    body = packet[_body(packet) :]
    split = after_topic - (len(packet) - len(body))
    return packet[:1] + encode_varint(len(body) + 1) + body[:split] + b"\0" + body[split:]


def to_version_4(packet: bytes, after_topic: int) -> bytes:
    """Convert an MQTT 5 QoS 0 PUBLISH without properties to 3.1.1. `after_topic`: where its property list is."""
    body = packet[_body(packet) :]
    split = after_topic - (len(packet) - len(body))
    return packet[:1] + encode_varint(len(body) - 1) + body[:split] + body[split + 1 :]


def read_plain(packet: bytes) -> tuple[str, bytes]:
    """Topic and payload of an MQTT 5 QoS 0 PUBLISH without properties."""
    start = _body(packet)
    end = start + 2 + int.from_bytes(packet[start : start + 2], "big")
    return packet[start + 2 : end].decode(), packet[end + 1 :]


def packet_id_of(packet: bytes) -> int:
    """Return the packet identifier of a PUBLISH at QoS 1 or 2."""
    start = _body(packet)
    end = start + 2 + int.from_bytes(packet[start : start + 2], "big")
    return int.from_bytes(packet[end : end + 2], "big")


def _body(packet: bytes) -> int:
    start = 1
    while packet[start] & 0x80:
        start += 1
    return start + 1
