"""MQTT 5 properties: one table says what each is, which packets may carry it and which values it may have."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from penstock.wire import kinds, primitives
from penstock.wire.errors import PacketError, WireError, malformed, protocol_error
from penstock.wire.kinds import KIND_NAMES
from penstock.wire.primitives import encode_varint, put_text, read_binary, read_text, read_varint, topic_of
from penstock.wire.reason import Reason


class Properties(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The properties of one packet; None (or an empty tuple) means that the property is absent."""

    payload_format: int | None = None
    message_expiry: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    session_expiry: int | None = None
    assigned_client_id: str | None = None
    server_keepalive: int | None = None
    auth_method: str | None = None
    auth_data: bytes | None = None
    request_problem_info: bool | None = None
    will_delay: int | None = None
    request_response_info: bool | None = None
    response_info: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_available: bool | None = None
    subscription_ids_available: bool | None = None
    shared_available: bool | None = None


NO_PROPERTIES: Final = Properties()


MAX_USER_PROPERTIES = 1_000
"""User properties of one packet. MQTT has no limit; each of them takes time, also of those who have not logged in."""


class _Type(msgspec.Struct, frozen=True):
    """The functions that read and write a property's value, and its greatest value (None: not a number)."""

    read: Callable[[bytes, int], tuple[Any, int]]
    put: Callable[[Any], bytes]
    maximum: int | None = None


def _read_flag(data: bytes, pos: int) -> tuple[bool, int]:
    value, pos = primitives.read_u8(data, pos)
    if value > 1:
        raise protocol_error(f"property value `{value}` is neither 0 nor 1")
    return value == 1, pos


# [MQTT-1.5.7-1]
def _read_pair(data: bytes, pos: int) -> tuple[tuple[str, str], int]:
    name, pos = read_text(data, pos)
    value, pos = read_text(data, pos)
    return (name, value), pos


def _read_topic(data: bytes, pos: int) -> tuple[str, int]:
    # [MQTT-3.3.2-13]
    raw, pos = read_binary(data, pos)
    return topic_of(raw), pos  # [MQTT-3.3.2-14]


def _put_u8(value: int) -> bytes:
    return value.to_bytes(1, "big")


def _put_pair(pair: tuple[str, str]) -> bytes:
    return put_text(pair[0]) + put_text(pair[1])


_FLAG = _Type(_read_flag, _put_u8, 1)
_BIT = _Type(primitives.read_u8, _put_u8, 1)
_U16 = _Type(primitives.read_u16, primitives.put_u16, primitives.MAX_U16)
_U32 = _Type(primitives.read_u32, primitives.put_u32, primitives.MAX_U32)
_VARINT = _Type(read_varint, encode_varint, primitives.MAX_VARINT)
_TEXT = _Type(read_text, put_text)
_TOPIC = _Type(_read_topic, put_text)
_BINARY = _Type(read_binary, primitives.put_binary)
_PAIR = _Type(_read_pair, _put_pair)


class _Spec(msgspec.Struct, frozen=True):
    """One row of the table. A number below `least` or above the type's maximum is answered with `fault`."""

    id: int
    field: str
    type: _Type
    kinds: tuple[int, ...]
    least: int = 0
    fault: Reason = Reason.PROTOCOL_ERROR
    repeats: tuple[int, ...] = ()  # the packets in which it may occur more than once


_ACKS = (kinds.PUBACK, kinds.PUBREC, kinds.PUBREL, kinds.PUBCOMP, kinds.SUBACK, kinds.UNSUBACK)
_ALL = tuple(kind for kind in range(len(KIND_NAMES)) if kind not in (kinds.PINGREQ, kinds.PINGRESP))

# MQTT 5, table 2-4. The order is that in which they are written; for CONNACK it is Mosquitto's, so that tools which
# compare bytes see no difference.
_SPECS = (
    _Spec(0x01, "payload_format", _BIT, (kinds.PUBLISH, kinds.WILL)),
    _Spec(0x02, "message_expiry", _U32, (kinds.PUBLISH, kinds.WILL)),
    # [MQTT-3.3.2-19]
    _Spec(0x03, "content_type", _TEXT, (kinds.PUBLISH, kinds.WILL)),
    _Spec(0x08, "response_topic", _TOPIC, (kinds.PUBLISH, kinds.WILL)),
    _Spec(0x09, "correlation_data", _BINARY, (kinds.PUBLISH, kinds.WILL)),
    _Spec(0x0B, "subscription_ids", _VARINT, (kinds.PUBLISH, kinds.SUBSCRIBE), least=1, repeats=(kinds.PUBLISH,)),
    _Spec(0x11, "session_expiry", _U32, (kinds.CONNECT, kinds.CONNACK, kinds.DISCONNECT)),
    _Spec(0x22, "topic_alias_maximum", _U16, (kinds.CONNECT, kinds.CONNACK)),
    _Spec(0x13, "server_keepalive", _U16, (kinds.CONNACK,)),
    _Spec(0x12, "assigned_client_id", _TEXT, (kinds.CONNACK,)),
    _Spec(0x15, "auth_method", _TEXT, (kinds.CONNECT, kinds.CONNACK, kinds.AUTH)),
    _Spec(0x16, "auth_data", _BINARY, (kinds.CONNECT, kinds.CONNACK, kinds.AUTH)),
    _Spec(0x17, "request_problem_info", _FLAG, (kinds.CONNECT,)),
    _Spec(0x18, "will_delay", _U32, (kinds.WILL,)),
    _Spec(0x19, "request_response_info", _FLAG, (kinds.CONNECT,)),
    _Spec(0x1A, "response_info", _TEXT, (kinds.CONNACK,)),
    _Spec(0x1C, "server_reference", _TEXT, (kinds.CONNACK, kinds.DISCONNECT)),
    _Spec(0x1F, "reason_string", _TEXT, (kinds.CONNACK, *_ACKS, kinds.DISCONNECT, kinds.AUTH)),
    _Spec(0x25, "retain_available", _FLAG, (kinds.CONNACK,)),
    _Spec(0x27, "maximum_packet_size", _U32, (kinds.CONNECT, kinds.CONNACK), least=1),
    _Spec(0x21, "receive_maximum", _U16, (kinds.CONNECT, kinds.CONNACK), least=1),
    _Spec(0x24, "maximum_qos", _BIT, (kinds.CONNACK,)),
    # [MQTT-3.3.2-8]
    _Spec(0x23, "topic_alias", _U16, (kinds.PUBLISH,), least=1, fault=Reason.TOPIC_ALIAS_INVALID),
    _Spec(0x26, "user_properties", _PAIR, _ALL, repeats=_ALL),
    _Spec(0x28, "wildcard_available", _FLAG, (kinds.CONNACK,)),
    _Spec(0x29, "subscription_ids_available", _FLAG, (kinds.CONNACK,)),
    _Spec(0x2A, "shared_available", _FLAG, (kinds.CONNACK,)),
)
_BY_ID = {spec.id: spec for spec in _SPECS}
_REPEATED = tuple(spec.field for spec in _SPECS if spec.repeats)


def decode_properties(data: bytes, pos: int, kind: int, max_pairs: int = MAX_USER_PROPERTIES) -> tuple[Properties, int]:
    """Read the properties of a packet of `kind`, their length first; the position returned is after them."""
    length, pos = read_varint(data, pos)
    if length == 0:
        return NO_PROPERTIES, pos
    end = pos + length
    if end > len(data):
        raise malformed(f"packet ends inside its {length} bytes of properties")
    # A value may not reach over the end of the properties into what follows them.
    block = data[:end] if end < len(data) else data
    values: dict[str, Any] = {}
    while pos < end:
        pos = _decode_one(block, pos, kind, values, max_pairs)
    for field in _REPEATED:
        if field in values:
            values[field] = tuple(values[field])
    _check_together(values, kind)
    return Properties(**values), end


def _decode_one(data: bytes, pos: int, kind: int, values: dict[str, Any], most: int) -> int:
    number, pos = read_varint(data, pos)
    spec = _BY_ID.get(number)
    if spec is None:
        raise malformed(f"property `0x{number:02x}` is not known")
    value, pos = spec.type.read(data, pos)
    if kind not in spec.kinds:
        raise malformed(f"property `{spec.field}` is not allowed in {KIND_NAMES[kind]}")
    maximum = spec.type.maximum
    if maximum is not None and not spec.least <= value <= maximum:
        raise WireError(spec.fault, f"property `{spec.field}` cannot be `{value}`")
    if spec.field not in values:
        values[spec.field] = [value] if spec.repeats else value
    elif kind in spec.repeats:
        values[spec.field].append(value)
        if len(values[spec.field]) > most:
            raise WireError(Reason.QUOTA_EXCEEDED, f"more than {most} `{spec.field}` in one packet")
    else:
        raise protocol_error(f"property `{spec.field}` occurs twice")
    return pos


def _check_together(values: dict[str, Any], kind: int) -> None:
    if "auth_data" in values and "auth_method" not in values:
        raise protocol_error(f"{KIND_NAMES[kind]} has authentication data without an authentication method")


def encode_properties(properties: Properties) -> bytes:
    """Return the properties without their length, in the order of the table."""
    return b"".join(_parts(properties, None))


def encode_properties_of(kind: int, properties: Properties) -> bytes:
    """Return the properties of a packet of `kind` with their length before them."""
    if properties is NO_PROPERTIES:
        return b"\0"
    block = b"".join(_parts(properties, kind))
    return encode_varint(len(block)) + block


def _parts(properties: Properties, kind: int | None) -> Iterator[bytes]:
    for spec in _SPECS:
        value = getattr(properties, spec.field)
        if value is None or value == ():
            continue
        if kind is not None and kind not in spec.kinds:
            raise PacketError(f"property `{spec.field}` is not allowed in {KIND_NAMES[kind]}")
        values = value if spec.repeats else (value,)
        if kind is not None and len(values) > 1 and kind not in spec.repeats:
            raise PacketError(f"property `{spec.field}` can occur only once in {KIND_NAMES[kind]}")
        for item in values:
            if spec.type.maximum is not None and not spec.least <= item <= spec.type.maximum:
                raise PacketError(f"property `{spec.field}` cannot be `{item}`")
            yield spec.id.to_bytes(1, "big")
            yield spec.type.put(item)
