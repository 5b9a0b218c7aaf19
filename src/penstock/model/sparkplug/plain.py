"""Sparkplug B payloads from and to plain values, for tests, questions and tools: `{"mt_c": 10}` is a payload.

A metric is a value, or a mapping that says more of it: `value`, `type`, `alias`, `timestamp`, `properties`,
`historical`, `transient`. Datasets and templates are not written.
"""

import struct
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.model.errors import ContentError
from penstock.model.sparkplug import protobuf
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.metric import TYPES
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.model.values import MAX_INT, MAX_UINT, MIN_INT, SECOND, Timestamp, Uint, Value

KEYS = ("value", "type", "alias", "timestamp", "properties", "historical", "transient")
"""The keys of a metric."""

_INTEGERS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64, "UInt8": 8, "UInt16": 16, "UInt32": 32, "UInt64": 64}
_LONG = ("Int64", "UInt64", "DateTime")
_TEXTS = ("String", "Text", "UUID")


def write_plain(metrics: Mapping[str, Any], seq: int | None = None, timestamp: int | None = None) -> bytes:
    """Return the payload with these metrics, in this order; raises `ContentError` for what cannot be written."""
    payload = bytearray()
    if timestamp is not None:
        payload += _number_field(1, timestamp)
    for name, metric in metrics.items():
        payload += _bytes_field(2, _metric(name, metric))
    if seq is not None:
        payload += _number_field(3, seq)
    return bytes(payload)


def read_plain(payload: bytes) -> dict[str, Any]:
    """Return the last value of each metric by name, or as `alias 7` where only that is said; raises `ContentError`."""
    read = read_sparkplug(parse(payload).payload)
    aliased = {f"alias {alias}": value for alias, value in read["aliases"].items()}
    return {name: plain(value) for name, value in (read["metrics"] | aliased).items()}


def plain(value: Value) -> Any:
    """Return a value as JSON can have it: a time is a text, bytes are in Base64."""
    match value:
        case Timestamp(nanos):
            seconds, rest = divmod(nanos, SECOND)
            time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=rest // 1000)
            return time.isoformat().replace("+00:00", "Z")
        case Uint():
            return int(value)
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {str(name): plain(inner) for name, inner in value.items()}
        case list():
            return [plain(inner) for inner in value]
    return value


def _metric(name: str, metric: Any) -> bytes:
    fields: Mapping[str, Any] = metric if isinstance(metric, Mapping) else {"value": metric}
    unknown = [key_name for key_name in fields if key_name not in KEYS]
    if unknown:
        raise ContentError(f"metric `{name}`: unknown key `{unknown[0]}`: expected {', '.join(KEYS)}")
    value = fields.get("value")
    type_ = fields.get("type") or _type_of(value)
    if type_ not in TYPES:
        raise ContentError(f"metric `{name}`: unknown type `{type_}`")
    data = bytearray(_bytes_field(1, name.encode()))
    for number, about in ((2, "alias"), (3, "timestamp")):
        if fields.get(about) is not None:
            data += _number_field(number, _number(name, about, fields[about]))
    data += _number_field(4, TYPES.index(type_))
    for number, about in ((5, "historical"), (6, "transient")):
        if fields.get(about):
            data += _number_field(number, 1)
    if fields.get("properties"):
        data += _bytes_field(9, _properties(name, fields["properties"]))
    return bytes(data) + (_number_field(7, 1) if value is None else _value(name, type_, value, 10))


def _number_field(number: int, value: int) -> bytes:
    return protobuf.varint_field(protobuf.key(number, protobuf.VARINT), value)


def _bytes_field(number: int, body: bytes) -> bytes:
    return protobuf.length_field(protobuf.key(number, protobuf.LENGTH), body)


def _type_of(value: Any) -> str:
    """Return the type of a value that has none declared."""
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int):
        return "Int64" if value <= MAX_INT else "UInt64"
    if isinstance(value, float):
        return "Double"
    return "String" if isinstance(value, str) else "Unknown"


def _value(name: str, type_: str, value: Any, first: int) -> bytes:
    """Return a value's field; `first` is the number of the first way to write one."""
    match value:
        case bool() if type_ == "Boolean":
            return _number_field(first + 4, int(value))
        case int() if not isinstance(value, bool) and (type_ in _INTEGERS or type_ == "DateTime"):
            bits = _INTEGERS.get(type_, 64)
            if not MIN_INT <= value <= MAX_UINT:
                raise ContentError(f"metric `{name}`: `{value}` has more than 64 bits")
            return _number_field(first + (type_ in _LONG), value % (1 << max(bits, 32)))
        case int() | float() if not isinstance(value, bool) and type_ in ("Float", "Double"):
            written, code = (protobuf.FIXED32, "<f") if type_ == "Float" else (protobuf.FIXED64, "<d")
            number = first + 2 + (type_ == "Double")
            return protobuf.write_varint(protobuf.key(number, written)) + struct.pack(code, value)
        case str() if type_ in _TEXTS:
            return _bytes_field(first + 5, value.encode())
    raise ContentError(f"metric `{name}`: `{value}` is not a value of type {type_} that can be written here")


def _properties(name: str, properties: Any) -> bytes:
    if not isinstance(properties, Mapping):
        raise ContentError(f"metric `{name}`: expected `properties` by name, found `{properties}`")
    keys = b"".join(_bytes_field(1, property_name.encode()) for property_name in properties)
    return keys + b"".join(_bytes_field(2, _property(name, value)) for value in properties.values())


def _property(name: str, value: Any) -> bytes:
    type_ = _type_of(value)
    data = _number_field(1, TYPES.index(type_))
    return data + (_number_field(2, 1) if value is None else _value(name, type_, value, 3))


def _number(name: str, about: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_UINT:
        raise ContentError(f"metric `{name}`: expected a number as `{about}`, found `{value}`")
    return value
