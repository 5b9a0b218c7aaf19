"""Packet values to bytes. What MQTT cannot carry is a `PacketError`: the fault is ours, not the peer's."""

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.wire import kinds
from penstock.wire import packet as packets
from penstock.wire.errors import PacketError
from penstock.wire.kinds import PUBLISH
from penstock.wire.packet import MQTT_5, MQTT_311, Publish
from penstock.wire.primitives import MAX_U16, encode_varint, put_binary, put_text, put_u16
from penstock.wire.properties import NO_PROPERTIES, Properties, encode_properties_of


def encode(packet: packets.Packet, version: int) -> bytes:
    """Return the whole packet, in the shortest form that the version has for it.

    MQTT 3.1.1 (version 4) has no properties: there they are left out. A CONNECT goes by its own version.
    """
    return _ENCODERS[type(packet)](packet, version)


def _frame(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return b"".join((first.to_bytes(1, "big"), encode_varint(len(body)), body))


def _properties(kind: int, properties: Properties, version: int) -> bytes:
    # [MQTT-2.2.2-1]
    return encode_properties_of(kind, properties) if version == MQTT_5 else b""


def _packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id <= MAX_U16:
        raise PacketError(f"packet identifier `{packet_id}` is not from 1 to {MAX_U16}")
    return packet_id.to_bytes(2, "big")


def _codes(*codes: int) -> bytes:
    try:
        return bytes(codes)
    except ValueError:
        raise PacketError(f"reason codes `{codes}` do not fit a byte each") from None


def _check_qos(qos: int) -> None:
    if not 0 <= qos <= 2:
        raise PacketError(f"QoS `{qos}` is not 0, 1 or 2")


def _connect(packet: packets.Connect, _version: int) -> bytes:
    version = packet.version
    if version not in (MQTT_311, MQTT_5):
        raise PacketError(f"protocol version `{version}` is not 4 or 5")
    if version == MQTT_311 and packet.password is not None and packet.username is None:
        raise PacketError("MQTT 3.1.1 has no password without a user name")  # [MQTT311-3.1.2-22]
    if packet.is_bridge and version != MQTT_311:
        raise PacketError("only MQTT 3.1.1 has a bridge bit: MQTT 5 has options of subscriptions")
    will = packet.will
    return _frame(
        kinds.CONNECT << 4,
        b"\0\x04MQTT",
        _codes(version | packet.is_bridge << 7, _connect_flags(packet)),
        put_u16(packet.keepalive),
        _properties(kinds.CONNECT, packet.properties, version),
        put_text(packet.client_id),
        b"" if will is None else _will(will, version),
        b"" if packet.username is None else put_text(packet.username),
        b"" if packet.password is None else put_binary(packet.password),
    )


def _connect_flags(packet: packets.Connect) -> int:
    flags = 0x02 if packet.clean_start else 0
    if packet.will is not None:
        _check_qos(packet.will.qos)
        flags |= 0x04 | packet.will.qos << 3 | (0x20 if packet.will.retain else 0)
    if packet.password is not None:
        flags |= 0x40
    if packet.username is not None:
        flags |= 0x80
    return flags


def _will(will: packets.WillMessage, version: int) -> bytes:
    return _properties(kinds.WILL, will.properties, version) + put_text(will.topic) + put_binary(will.payload)


def _connack(packet: packets.Connack, version: int) -> bytes:
    # [MQTT-3.2.2-8]
    head = _codes(1 if packet.session_present else 0, packet.reason)
    return _frame(kinds.CONNACK << 4, head, _properties(kinds.CONNACK, packet.properties, version))


def _publish(packet: Publish, version: int) -> bytes:
    qos = packet.qos
    _check_qos(qos)
    if packet.dup and not qos:
        raise PacketError("PUBLISH with QoS 0 cannot have DUP set")  # [MQTT-3.3.1-2]
    if packet.packet_id and not qos:
        raise PacketError("PUBLISH with QoS 0 has no packet identifier")  # [MQTT-2.2.1-2]
    return _frame(
        PUBLISH << 4 | (8 if packet.dup else 0) | qos << 1 | (1 if packet.retain else 0),
        put_text(packet.topic),
        _packet_id(packet.packet_id) if qos else b"",
        _properties(PUBLISH, packet.properties, version),
        packet.payload,
    )


# [MQTT-2.2.1-5] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]
def _acknowledgement(first: int, packet: packets.Ack, version: int) -> bytes:
    head = _packet_id(packet.packet_id)
    properties = packet.properties
    if version == MQTT_311 or (packet.reason == 0 and properties == NO_PROPERTIES):
        return bytes((first, len(head))) + head
    if properties == NO_PROPERTIES:
        return _frame(first, head, _codes(packet.reason))
    return _frame(first, head, _codes(packet.reason), encode_properties_of(first >> 4, properties))


def _subscribe(packet: packets.Subscribe, version: int) -> bytes:
    if not packet.subscriptions:
        raise PacketError("SUBSCRIBE has no topic filter")  # [MQTT-3.8.3-2]
    head = _packet_id(packet.packet_id) + _properties(kinds.SUBSCRIBE, packet.properties, version)
    return _frame(
        kinds.SUBSCRIBE << 4 | 2, head, *(_subscription(subscription, version) for subscription in packet.subscriptions)
    )


def _subscription(subscription: packets.SubscriptionRequest, version: int) -> bytes:
    _check_qos(subscription.qos)
    options = subscription.qos
    if version == MQTT_5:
        if not 0 <= subscription.retain_handling <= 2:
            raise PacketError(f"retain handling `{subscription.retain_handling}` is not 0, 1 or 2")
        options |= 0x04 if subscription.no_local else 0
        options |= 0x08 if subscription.retain_as_published else 0
        options |= subscription.retain_handling << 4
    return put_text(subscription.filter) + _codes(options)


def _suback(packet: packets.Suback, version: int) -> bytes:
    # [MQTT-2.2.1-6] [MQTT-3.8.4-2]
    head = _packet_id(packet.packet_id) + _properties(kinds.SUBACK, packet.properties, version)
    return _frame(kinds.SUBACK << 4, head, _codes(*packet.reasons))


def _unsubscribe(packet: packets.Unsubscribe, version: int) -> bytes:
    if not packet.filters:
        raise PacketError("UNSUBSCRIBE has no topic filter")  # [MQTT-3.10.3-2]
    head = _packet_id(packet.packet_id) + _properties(kinds.UNSUBSCRIBE, packet.properties, version)
    return _frame(kinds.UNSUBSCRIBE << 4 | 2, head, *(put_text(filter) for filter in packet.filters))


def _unsuback(packet: packets.Unsuback, version: int) -> bytes:
    head = _packet_id(packet.packet_id)
    if version == MQTT_311:
        return _frame(kinds.UNSUBACK << 4, head)
    properties = encode_properties_of(kinds.UNSUBACK, packet.properties)
    return _frame(kinds.UNSUBACK << 4, head, properties, _codes(*packet.reasons))


def _disconnect(packet: packets.Disconnect, version: int) -> bytes:
    first = kinds.DISCONNECT << 4
    if version == MQTT_311 or packet == packets.Disconnect():
        return _frame(first)
    if packet.properties == NO_PROPERTIES:
        return _frame(first, _codes(packet.reason))
    return _frame(first, _codes(packet.reason), encode_properties_of(kinds.DISCONNECT, packet.properties))


def _auth(packet: packets.Auth, version: int) -> bytes:
    if version == MQTT_311:
        raise PacketError(f"MQTT 3.1.1 has no {kinds.KIND_NAMES[kinds.AUTH]}")
    if packet == packets.Auth():
        return _frame(kinds.AUTH << 4)
    return _frame(kinds.AUTH << 4, _codes(packet.reason), encode_properties_of(kinds.AUTH, packet.properties))


_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    packets.Connect: _connect,
    packets.Connack: _connack,
    Publish: _publish,
    packets.Puback: partial(_acknowledgement, kinds.PUBACK << 4),
    packets.Pubrec: partial(_acknowledgement, kinds.PUBREC << 4),
    packets.Pubrel: partial(_acknowledgement, kinds.PUBREL << 4 | 2),
    packets.Pubcomp: partial(_acknowledgement, kinds.PUBCOMP << 4),
    packets.Subscribe: _subscribe,
    packets.Suback: _suback,
    packets.Unsubscribe: _unsubscribe,
    packets.Unsuback: _unsuback,
    packets.Pingreq: lambda _packet, _version: _frame(kinds.PINGREQ << 4),
    packets.Pingresp: lambda _packet, _version: _frame(kinds.PINGRESP << 4),
    packets.Disconnect: _disconnect,
    packets.Auth: _auth,
}
