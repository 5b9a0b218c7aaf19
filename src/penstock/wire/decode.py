"""Bytes of one packet to a packet value. Everything wrong with them is a `WireError`."""

from collections.abc import Callable

from penstock.wire.errors import WireError, malformed, protocol_error
from penstock.wire.kinds import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    KIND_NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
)
from penstock.wire.packet import (
    MQTT_5,
    MQTT_311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    WillMessage,
)
from penstock.wire.primitives import read_binary, read_name, read_text, read_u8, read_u16, topic_of
from penstock.wire.properties import NO_PROPERTIES, Properties, decode_properties
from penstock.wire.reason import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    MAX_CONNACK_CODE_311,
    PUBACK_REASONS,
    PUBCOMP_REASONS,
    PUBREC_REASONS,
    PUBREL_REASONS,
    SUBACK_CODES_311,
    SUBACK_REASONS,
    UNSUBACK_REASONS,
    Reason,
)

_MQTT_31 = b"\0\6MQIsdp"


def decode(first: int, body: bytes, version: int) -> Packet:
    """Return the packet whose fixed header starts with the byte `first` and whose remaining bytes are `body`.

    `version` (4 or 5) is that of the connection; a CONNECT is decoded by the version that it names itself.
    """
    # [MQTT-4.13.1-1]
    kind = first >> 4
    if kind == PUBLISH:
        return _publish(first, body, version)
    if first & 0x0F != _FLAGS[kind] and kind:
        # [MQTT-2.1.3-1]
        raise malformed(f"fixed header `0x{first:02x}` has wrong flags for {KIND_NAMES[kind]}")
    return _DECODERS[kind](body, version)


def _publish(first: int, body: bytes, version: int) -> Publish:
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
        properties, pos = decode_properties(body, pos, PUBLISH)
    topic = ""
    if raw:
        topic = topic_of(raw)
    elif version == MQTT_311:
        raise malformed("PUBLISH has no topic")  # [MQTT-4.7.3-1]
    elif properties.topic_alias is None:
        raise protocol_error("PUBLISH has neither a topic nor a topic alias")
    return Publish(topic, body[pos:], qos, first & 1 != 0, dup, packet_id, properties)


def _connect(body: bytes, _version: int) -> Connect:
    # [MQTT-3.1.3-1] [MQTT-3.1.4-1] [MQTT311-3.1.4-1]
    version, pos = _protocol(body)
    flags, pos = read_u8(body, pos)
    _check_connect_flags(flags, version)
    keepalive, pos = read_u16(body, pos)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, pos = decode_properties(body, pos, CONNECT)
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
    _check_end(body, pos, CONNECT)
    return Connect(client_id, version, flags & 0x02 != 0, keepalive, username, password, will, properties)


def _protocol(body: bytes) -> tuple[int, int]:
    name, pos = read_text(body, 0)
    level, pos = read_u8(body, pos)
    if (name, level) == ("MQIsdp", 3):
        return MQTT_311, pos  # MQTT 3.1 differs from 3.1.1 in nothing else that a server need know
    if name != "MQTT" or level not in (MQTT_311, MQTT_5):
        # [MQTT-3.1.2-1] [MQTT-3.1.2-2]
        message = f"protocol `{name[:20]!r}` version `{level}` is not MQTT 3.1.1 or 5.0"
        raise WireError(Reason.UNSUPPORTED_PROTOCOL_VERSION, message)
    return level, pos


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


def _will(body: bytes, pos: int, flags: int, version: int) -> tuple[WillMessage, int]:
    properties = NO_PROPERTIES
    if version == MQTT_5:
        properties, pos = decode_properties(body, pos, WILL)
    raw, pos = read_binary(body, pos)
    payload, pos = read_binary(body, pos)
    # [MQTT-3.1.3-11]
    return WillMessage(topic_of(raw), payload, flags >> 3 & 3, flags & 0x20 != 0, properties), pos


def _connack(body: bytes, version: int) -> Connack:
    flags, pos = read_u8(body, 0)
    if flags > 1:
        raise malformed(f"CONNACK has reserved flags set in `0x{flags:02x}`")  # [MQTT-3.2.2-1]
    reason, pos = read_u8(body, pos)
    properties = NO_PROPERTIES
    if version == MQTT_5:
        _check_reason(reason, CONNACK_REASONS, CONNACK)
        properties, pos = decode_properties(body, pos, CONNACK)
    elif reason > MAX_CONNACK_CODE_311:
        raise malformed(f"CONNACK cannot have the return code `{reason}`")
    if flags and reason:
        raise protocol_error("CONNACK refuses the connection with a session present")  # [MQTT-3.2.2-6]
    _check_end(body, pos, CONNACK)
    return Connack(flags == 1, reason, properties)


def _acknowledgement(body: bytes, version: int, kind: int, allowed: frozenset[Reason]) -> tuple[int, int, Properties]:
    packet_id, pos = _packet_id(body, 0)
    if len(body) == 2:
        return packet_id, 0, NO_PROPERTIES
    if version == MQTT_311:
        raise malformed(f"{KIND_NAMES[kind]} is longer than its packet identifier")
    reason = body[pos]
    _check_reason(reason, allowed, kind)
    if len(body) == 3:
        return packet_id, reason, NO_PROPERTIES
    properties, pos = decode_properties(body, pos + 1, kind)
    _check_end(body, pos, kind)
    return packet_id, reason, properties


def _puback(body: bytes, version: int) -> Puback:
    return Puback(*_acknowledgement(body, version, PUBACK, PUBACK_REASONS))


def _pubrec(body: bytes, version: int) -> Pubrec:
    return Pubrec(*_acknowledgement(body, version, PUBREC, PUBREC_REASONS))


def _pubrel(body: bytes, version: int) -> Pubrel:
    return Pubrel(*_acknowledgement(body, version, PUBREL, PUBREL_REASONS))


def _pubcomp(body: bytes, version: int) -> Pubcomp:
    return Pubcomp(*_acknowledgement(body, version, PUBCOMP, PUBCOMP_REASONS))


def _subscribe(body: bytes, version: int) -> Subscribe:
    packet_id, properties, pos = _request_head(body, version, SUBSCRIBE)
    subscriptions = []
    while pos < len(body):
        text, pos = _filter(body, pos)
        options, pos = read_u8(body, pos)
        subscriptions.append(_subscription(text, options, version))
    if not subscriptions:
        raise protocol_error("SUBSCRIBE has no topic filter")  # [MQTT-3.8.3-2]
    return Subscribe(packet_id, tuple(subscriptions), properties)


# [MQTT-3.8.3-1] [MQTT-3.10.3-1]
def _filter(body: bytes, pos: int) -> tuple[str, int]:
    text, pos = read_name(body, pos)
    if not text:
        raise malformed("topic filter is empty")  # [MQTT-4.7.3-1]
    return text, pos


def _subscription(text: str, options: int, version: int) -> SubscriptionRequest:
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
    return SubscriptionRequest(text, qos, no_local, options & 0x08 != 0, retain_handling)


def _suback(body: bytes, version: int) -> Suback:
    packet_id, properties, pos = _request_head(body, version, SUBACK)
    reasons = tuple(body[pos:])
    if not reasons:
        raise protocol_error("SUBACK has no reason code")
    allowed = SUBACK_REASONS if version == MQTT_5 else SUBACK_CODES_311  # [MQTT-3.9.3-2]
    for reason in reasons:
        _check_reason(reason, allowed, SUBACK)
    return Suback(packet_id, reasons, properties)


def _unsubscribe(body: bytes, version: int) -> Unsubscribe:
    packet_id, properties, pos = _request_head(body, version, UNSUBSCRIBE)
    filters = []
    while pos < len(body):
        text, pos = _filter(body, pos)
        filters.append(text)
    if not filters:
        raise protocol_error("UNSUBSCRIBE has no topic filter")  # [MQTT-3.10.3-2]
    return Unsubscribe(packet_id, tuple(filters), properties)


def _unsuback(body: bytes, version: int) -> Unsuback:
    packet_id, properties, pos = _request_head(body, version, UNSUBACK)
    if version == MQTT_311:
        _check_end(body, pos, UNSUBACK)
        return Unsuback(packet_id)
    reasons = tuple(body[pos:])
    if not reasons:
        raise protocol_error("UNSUBACK has no reason code")
    for reason in reasons:
        _check_reason(reason, UNSUBACK_REASONS, UNSUBACK)
    return Unsuback(packet_id, reasons, properties)


def _pingreq(body: bytes, _version: int) -> Pingreq:
    _check_end(body, 0, PINGREQ)
    return Pingreq()


def _pingresp(body: bytes, _version: int) -> Pingresp:
    _check_end(body, 0, PINGRESP)
    return Pingresp()


def _disconnect(body: bytes, version: int) -> Disconnect:
    if not body:
        return Disconnect()
    if version == MQTT_311:
        raise malformed("DISCONNECT has a body")
    reason = body[0]
    _check_reason(reason, DISCONNECT_REASONS, DISCONNECT)
    if len(body) == 1:
        return Disconnect(reason)
    properties, pos = decode_properties(body, 1, DISCONNECT)
    _check_end(body, pos, DISCONNECT)
    return Disconnect(reason, properties)


def _auth(body: bytes, version: int) -> Auth:
    if version == MQTT_311:
        raise malformed("packet type 15 is reserved in MQTT 3.1.1")
    if not body:
        return Auth()
    reason = body[0]
    _check_reason(reason, AUTH_REASONS, AUTH)
    properties = NO_PROPERTIES
    if len(body) > 1:
        properties, pos = decode_properties(body, 1, AUTH)
        _check_end(body, pos, AUTH)
    if reason and properties.auth_method is None:
        raise protocol_error("AUTH has no authentication method")
    return Auth(reason, properties)


def _reserved(_body: bytes, _version: int) -> Packet:
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


def _check_reason(reason: int, allowed: frozenset[Reason] | frozenset[int], kind: int) -> None:
    if reason not in allowed:
        raise protocol_error(f"{KIND_NAMES[kind]} cannot have the reason code `0x{reason:02x}`")


def _check_end(body: bytes, pos: int, kind: int) -> None:
    if pos != len(body):
        raise malformed(f"{KIND_NAMES[kind]} has {len(body) - pos} bytes after its end")


# [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1] [MQTT311-2.2.2-2]
_FLAGS = (0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0)
_DECODERS: tuple[Callable[[bytes, int], Packet], ...] = (
    _reserved,
    _connect,
    _connack,
    _reserved,  # PUBLISH, whose flags are part of it
    _puback,
    _pubrec,
    _pubrel,
    _pubcomp,
    _subscribe,
    _suback,
    _unsubscribe,
    _unsuback,
    _pingreq,
    _pingresp,
    _disconnect,
    _auth,
)
