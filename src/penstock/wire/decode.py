"""Bytes of one packet to a packet value. Everything wrong with them is a `WireError`."""

from collections.abc import Callable
from functools import partial

from penstock.wire import kinds
from penstock.wire import packet as packets
from penstock.wire.errors import WireError, malformed, protocol_error
from penstock.wire.kinds import PUBLISH
from penstock.wire.packet import MQTT_5, MQTT_311, Publish
from penstock.wire.primitives import MAX_VARINT, read_binary, read_name, read_text, read_u8, read_u16, topic_of
from penstock.wire.properties import NO_PROPERTIES, Properties, decode_properties
from penstock.wire.reason import MAX_CONNACK_CODE_311, REASONS, SUBACK_CODES_311, Reason

_MQTT_31 = b"\0\6MQIsdp"


def decode(first: int, body: bytes, version: int, max_pairs: int = MAX_VARINT) -> packets.Packet:
    """Return the packet whose fixed header starts with the byte `first` and whose remaining bytes are `body`.

    `version` (4 or 5) is that of the connection; a CONNECT is decoded by the version that it names itself. `max_pairs`:
    user properties that a PUBLISH may have; others may have `MAX_USER_PROPERTIES`.
    """
    # [MQTT-4.13.1-1]
    kind = first >> 4
    if kind == PUBLISH:
        return _publish(first, body, version, max_pairs)
    if first & 0x0F != _FLAGS[kind] and kind:
        # [MQTT-2.1.3-1]
        raise malformed(f"fixed header `0x{first:02x}` has wrong flags for {kinds.KIND_NAMES[kind]}")
    return _DECODERS[kind](body, version)


def _publish(first: int, body: bytes, version: int, max_pairs: int) -> Publish:
    qos = first >> 1 & 3
    dup = first & 0x08 != 0
    if qos == 3:
        raise malformed("PUBLISH has QoS 3")  # [MQTT-3.3.1-4]
    if dup and qos == 0:
        raise malformed("PUBLISH has DUP set and QoS 0")  # [MQTT-3.3.1-2]
    # [MQTT-3.3.2-1]
    raw, pos = read_binary(body, 0)
    packet_id = 0
    if qos:
        packet_id, pos = read_u16(body, pos)
        if packet_id == 0:
            raise protocol_error("PUBLISH has packet identifier 0")  # [MQTT-2.2.1-2]
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, pos = decode_properties(body, pos, PUBLISH, max_pairs)
    topic = ""
    if raw:
        topic = topic_of(raw)
    elif version == MQTT_311:
        raise malformed("PUBLISH has no topic")  # [MQTT-4.7.3-1]
    elif properties.topic_alias is None:
        raise protocol_error("PUBLISH has neither a topic nor a topic alias")
    return Publish(topic, body[pos:], qos, first & 1 != 0, dup, packet_id, properties)


def _connect(body: bytes, _version: int) -> packets.Connect:
    # [MQTT-3.1.3-1] [MQTT-3.1.4-1] [MQTT311-3.1.4-1]
    version, is_bridge, pos = _protocol(body)
    flags, pos = read_u8(body, pos)
    _check_connect_flags(flags, version)
    keepalive, pos = read_u16(body, pos)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, pos = decode_properties(body, pos, kinds.CONNECT)
    # [MQTT-3.1.3-3] [MQTT-3.1.3-4] [MQTT-3.1.3-5]
    client_id, pos = read_name(body, pos)
    if not client_id and body.startswith(_MQTT_31):
        raise WireError(Reason.CLIENT_IDENTIFIER_NOT_VALID, "MQTT 3.1 needs a client id")
    will = None
    # [MQTT-3.1.2-9]
    if flags & 0x04:
        will, pos = _will(body, pos, flags, version)
    username = None
    # [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT-3.1.3-12]
    if flags & 0x80:
        username, pos = read_name(body, pos)
    password = None
    # [MQTT-3.1.2-18] [MQTT-3.1.2-19]
    if flags & 0x40:
        password, pos = read_binary(body, pos)
    _check_end(body, pos, kinds.CONNECT)
    return packets.Connect(
        client_id, version, flags & 0x02 != 0, keepalive, username, password, will, properties, is_bridge
    )


def _protocol(body: bytes) -> tuple[int, bool, int]:
    """Return the version, whether a bridge says that it is one, and the position behind it."""
    name, pos = read_text(body, 0)
    level, pos = read_u8(body, pos)
    if (name, level & 0x7F) in (("MQTT", MQTT_311), ("MQIsdp", 3)):
        return MQTT_311, level > 0x7F, pos  # MQTT 3.1 differs from 3.1.1 in nothing else that a server need know
    if (name, level) != ("MQTT", MQTT_5):
        # [MQTT-3.1.2-1] [MQTT-3.1.2-2]
        message = f"protocol `{name[:20]!r}` version `{level}` is not MQTT 3.1.1 or 5.0"
        raise WireError(Reason.UNSUPPORTED_PROTOCOL_VERSION, message)
    return level, False, pos


def _check_connect_flags(flags: int, version: int) -> None:
    if flags & 0x01:
        raise malformed("CONNECT has its reserved flag set")  # [MQTT-3.1.2-3]
    if not flags & 0x04 and flags & 0x38:
        # [MQTT-3.1.2-11] [MQTT-3.1.2-13]
        raise malformed("CONNECT has a will QoS or will retain flag but no will")
    if flags & 0x18 == 0x18:
        raise malformed("CONNECT has will QoS 3")  # [MQTT-3.1.2-12]
    if version == MQTT_311 and flags & 0xC0 == 0x40:
        raise malformed("CONNECT has a password but no user name")  # [MQTT311-3.1.2-22]


def _will(body: bytes, pos: int, flags: int, version: int) -> tuple[packets.WillMessage, int]:
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, pos = decode_properties(body, pos, kinds.WILL)
    raw, pos = read_binary(body, pos)
    payload, pos = read_binary(body, pos)
    # [MQTT-3.1.3-11]
    return packets.WillMessage(topic_of(raw), payload, flags >> 3 & 3, flags & 0x20 != 0, properties), pos


def _connack(body: bytes, version: int) -> packets.Connack:
    flags, pos = read_u8(body, 0)
    if flags > 1:
        raise malformed(f"CONNACK has reserved flags set in `0x{flags:02x}`")  # [MQTT-3.2.2-1]
    reason, pos = read_u8(body, pos)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        _check_reason(reason, kinds.CONNACK)
        properties, pos = decode_properties(body, pos, kinds.CONNACK)
    elif reason > MAX_CONNACK_CODE_311:
        raise malformed(f"CONNACK cannot have the return code `{reason}`")
    if flags and reason:
        raise protocol_error("CONNACK refuses the connection with a session present")  # [MQTT-3.2.2-6]
    _check_end(body, pos, kinds.CONNACK)
    return packets.Connack(flags == 1, reason, properties)


def _acknowledgement(packet: type[packets.Ack], kind: int, body: bytes, version: int) -> packets.Ack:
    packet_id, pos = _packet_id(body, 0)
    if len(body) == 2:
        return packet(packet_id)
    if version == MQTT_311:
        raise malformed(f"{kinds.KIND_NAMES[kind]} is longer than its packet identifier")
    reason = body[pos]
    _check_reason(reason, kind)
    if len(body) == 3:
        return packet(packet_id, reason)
    properties, pos = decode_properties(body, pos + 1, kind)
    _check_end(body, pos, kind)
    return packet(packet_id, reason, properties)


def _subscribe(body: bytes, version: int) -> packets.Subscribe:
    packet_id, properties, pos = _request_head(body, version, kinds.SUBSCRIBE)
    subscriptions = []
    while pos < len(body):
        text, pos = _filter(body, pos)
        options, pos = read_u8(body, pos)
        subscriptions.append(_subscription(text, options, version))
    if not subscriptions:
        raise protocol_error("SUBSCRIBE has no topic filter")  # [MQTT-3.8.3-2]
    return packets.Subscribe(packet_id, tuple(subscriptions), properties)


# [MQTT-3.8.3-1] [MQTT-3.10.3-1]
def _filter(body: bytes, pos: int) -> tuple[str, int]:
    text, pos = read_name(body, pos)
    if not text:
        raise malformed("topic filter is empty")  # [MQTT-4.7.3-1]
    return text, pos


def _subscription(text: str, options: int, version: int) -> packets.SubscriptionRequest:
    qos = options & 0x03
    no_local = options & 0x04 != 0
    retain_handling = options >> 4 & 3
    reserved = 0xC0 if version == MQTT_5 else 0xFC
    if options & reserved:
        raise malformed(f"subscription options `0x{options:02x}` have reserved bits set")  # [MQTT-3.8.3-5]
    # [MQTT311-3.8.3-4]
    if qos == 3:
        raise protocol_error(f"subscription to `{text[:80]}` has QoS 3")
    if retain_handling == 3:
        raise protocol_error(f"subscription to `{text[:80]}` has retain handling 3")
    if no_local and text.startswith("$share/"):
        raise protocol_error(f"shared subscription to `{text[:80]}` has no-local set")  # [MQTT-3.8.3-4]
    return packets.SubscriptionRequest(text, qos, no_local, options & 0x08 != 0, retain_handling)


def _suback(body: bytes, version: int) -> packets.Suback:
    packet_id, properties, pos = _request_head(body, version, kinds.SUBACK)
    return packets.Suback(packet_id, _reasons(body[pos:], kinds.SUBACK, version), properties)


def _unsubscribe(body: bytes, version: int) -> packets.Unsubscribe:
    packet_id, properties, pos = _request_head(body, version, kinds.UNSUBSCRIBE)
    filters = []
    while pos < len(body):
        text, pos = _filter(body, pos)
        filters.append(text)
    if not filters:
        raise protocol_error("UNSUBSCRIBE has no topic filter")  # [MQTT-3.10.3-2]
    return packets.Unsubscribe(packet_id, tuple(filters), properties)


def _unsuback(body: bytes, version: int) -> packets.Unsuback:
    packet_id, properties, pos = _request_head(body, version, kinds.UNSUBACK)
    if version == MQTT_311:
        _check_end(body, pos, kinds.UNSUBACK)
        return packets.Unsuback(packet_id)
    return packets.Unsuback(packet_id, _reasons(body[pos:], kinds.UNSUBACK, version), properties)


def _reasons(codes: bytes, kind: int, version: int) -> tuple[int, ...]:
    if not codes:
        raise protocol_error(f"{kinds.KIND_NAMES[kind]} has no reason code")
    for reason in codes:
        _check_reason(reason, kind, version)
    return tuple(codes)


def _ping(packet: packets.Pingreq | packets.Pingresp, kind: int, body: bytes, _version: int) -> packets.Packet:
    _check_end(body, 0, kind)
    return packet


def _disconnect(body: bytes, version: int) -> packets.Disconnect:
    if not body:
        return packets.Disconnect()
    if version == MQTT_311:
        raise malformed("DISCONNECT has a body")
    reason = body[0]
    _check_reason(reason, kinds.DISCONNECT)
    if len(body) == 1:
        return packets.Disconnect(reason)
    properties, pos = decode_properties(body, 1, kinds.DISCONNECT)
    _check_end(body, pos, kinds.DISCONNECT)
    return packets.Disconnect(reason, properties)


def _auth(body: bytes, version: int) -> packets.Auth:
    if version == MQTT_311:
        raise malformed("packet type 15 is reserved in MQTT 3.1.1")
    if not body:
        return packets.Auth()
    reason = body[0]
    _check_reason(reason, kinds.AUTH)
    properties = NO_PROPERTIES
    if len(body) > 1:
        properties, pos = decode_properties(body, 1, kinds.AUTH)
        _check_end(body, pos, kinds.AUTH)
    if reason and properties.auth_method is None:
        raise protocol_error("AUTH has no authentication method")
    return packets.Auth(reason, properties)


def _reserved(_body: bytes, _version: int) -> packets.Packet:
    raise protocol_error("packet type 0 is reserved")


def _request_head(body: bytes, version: int, kind: int) -> tuple[int, Properties, int]:
    packet_id, pos = _packet_id(body, 0)
    if version == MQTT_311:
        return packet_id, NO_PROPERTIES, pos
    properties, pos = decode_properties(body, pos, kind)
    return packet_id, properties, pos


def _packet_id(body: bytes, pos: int) -> tuple[int, int]:
    packet_id, pos = read_u16(body, pos)
    if packet_id == 0:
        raise malformed("packet identifier is 0")  # [MQTT-2.2.1-3]
    return packet_id, pos


def _check_reason(reason: int, kind: int, version: int = MQTT_5) -> None:
    # [MQTT-3.9.3-2]
    if reason not in (REASONS[kind] if version == MQTT_5 else SUBACK_CODES_311):
        raise protocol_error(f"{kinds.KIND_NAMES[kind]} cannot have the reason code `0x{reason:02x}`")


def _check_end(body: bytes, pos: int, kind: int) -> None:
    if pos != len(body):
        raise malformed(f"{kinds.KIND_NAMES[kind]} has {len(body) - pos} bytes after its end")


# [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1] [MQTT311-2.2.2-2]
_FLAGS = (0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0)
_DECODERS: tuple[Callable[[bytes, int], packets.Packet], ...] = (
    _reserved,
    _connect,
    _connack,
    _reserved,  # PUBLISH, whose flags are part of it
    partial(_acknowledgement, packets.Puback, kinds.PUBACK),
    partial(_acknowledgement, packets.Pubrec, kinds.PUBREC),
    partial(_acknowledgement, packets.Pubrel, kinds.PUBREL),
    partial(_acknowledgement, packets.Pubcomp, kinds.PUBCOMP),
    _subscribe,
    _suback,
    _unsubscribe,
    _unsuback,
    partial(_ping, packets.Pingreq(), kinds.PINGREQ),
    partial(_ping, packets.Pingresp(), kinds.PINGRESP),
    _disconnect,
    _auth,
)
