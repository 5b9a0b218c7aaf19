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
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.metric import TYPES, read_metric
from penstock.model.sparkplug.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    key,
    length_field,
    varint_field,
    write_varint,
)
from penstock.model.values import LEAST_INT, MOST_INT, MOST_UINT, SECOND, Timestamp, Uint, Value

KEYS = ("value", "type", "alias", "timestamp", "properties", "historical", "transient")
"""What may be said of a metric."""

_INTEGERS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64, "UInt8": 8, "UInt16": 16, "UInt32": 32, "UInt64": 64}
_LONG = ("Int64", "UInt64", "DateTime")
_TEXTS = ("String", "Text", "UUID")


def write_plain(metrics: Mapping[str, Any], seq: int | None = None, timestamp: int | None = None) -> bytes:
    """The payload with these metrics, in this order; raises `ContentError` for what cannot be written."""
    made = bytearray()
    if timestamp is not None:
        made += varint_field(key(1, VARINT), timestamp)
    for name, said in metrics.items():
        made += length_field(key(2, LENGTH), _metric(name, said))
    if seq is not None:
        made += varint_field(key(3, VARINT), seq)
    return bytes(made)


def read_plain(payload: bytes) -> dict[str, Any]:
    """The values of a payload's metrics, by name, or as `alias 7` where only that is said; raises `ContentError`.

    Of several values of one metric it is the last.
    """
    message = parse(payload)
    return {
        f"alias {metric.alias}" if metric.name is None else metric.name: plain(
            read_metric(message.payload, metric.body, metric.stop)["value"]
        )
        for metric in message.metrics
    }


def plain(value: Value) -> Any:
    """A value as JSON can have it: a time is a text, bytes are in Base64."""
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


def _metric(name: str, said: Any) -> bytes:
    more: Mapping[str, Any] = said if isinstance(said, Mapping) else {"value": said}
    unknown = [one for one in more if one not in KEYS]
    if unknown:
        raise ContentError(f"metric `{name}`: unknown key `{unknown[0]}`: expected {', '.join(KEYS)}")
    value = more.get("value")
    type_ = more.get("type") or _type_of(value)
    if type_ not in TYPES:
        raise ContentError(f"metric `{name}`: unknown type `{type_}`")
    made = bytearray(length_field(key(1, LENGTH), name.encode()))
    for number, about in ((2, "alias"), (3, "timestamp")):
        if more.get(about) is not None:
            made += varint_field(key(number, VARINT), _number(name, about, more[about]))
    made += varint_field(key(4, VARINT), TYPES.index(type_))
    for number, about in ((5, "historical"), (6, "transient")):
        if more.get(about):
            made += varint_field(key(number, VARINT), 1)
    if more.get("properties"):
        made += length_field(key(9, LENGTH), _properties(name, more["properties"]))
    return bytes(made + (varint_field(key(7, VARINT), 1) if value is None else _value(name, type_, value, 10)))


def _type_of(value: Any) -> str:
    """The type of a value that is said without one."""
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int):
        return "Int64" if value <= MOST_INT else "UInt64"
    if isinstance(value, float):
        return "Double"
    return "String" if isinstance(value, str) else "Unknown"


def _value(name: str, type_: str, value: Any, first: int) -> bytes:
    """A value's field; `first` is the number of the first way to write one."""
    match value:
        case bool() if type_ == "Boolean":
            return varint_field(key(first + 4, VARINT), int(value))
        case int() if not isinstance(value, bool) and (type_ in _INTEGERS or type_ == "DateTime"):
            bits = _INTEGERS.get(type_, 64)
            if not LEAST_INT <= value <= MOST_UINT:
                raise ContentError(f"metric `{name}`: `{value}` has more than 64 bits")
            return varint_field(key(first + (type_ in _LONG), VARINT), value % (1 << max(bits, 32)))
        case int() | float() if not isinstance(value, bool) and type_ in ("Float", "Double"):
            written, code = (FIXED32, "<f") if type_ == "Float" else (FIXED64, "<d")
            number = first + 2 + (type_ == "Double")
            return write_varint(key(number, written)) + struct.pack(code, value)
        case str() if type_ in _TEXTS:
            return length_field(key(first + 5, LENGTH), value.encode())
    raise ContentError(f"metric `{name}`: `{value}` is no value of type {type_} that can be written here")


def _properties(name: str, said: Any) -> bytes:
    if not isinstance(said, Mapping):
        raise ContentError(f"metric `{name}`: expected `properties` by name, found `{said}`")
    keys = b"".join(length_field(key(1, LENGTH), one.encode()) for one in said)
    return keys + b"".join(length_field(key(2, LENGTH), _property(name, value)) for value in said.values())


def _property(name: str, value: Any) -> bytes:
    type_ = _type_of(value)
    made = varint_field(key(1, VARINT), TYPES.index(type_))
    return made + (varint_field(key(2, VARINT), 1) if value is None else _value(name, type_, value, 3))


def _number(name: str, about: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_UINT:
        raise ContentError(f"metric `{name}`: expected a number as `{about}`, found `{value}`")
    return value
