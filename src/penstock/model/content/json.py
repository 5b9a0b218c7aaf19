"""JSON as attributes."""

from typing import Any

import msgspec

from penstock.model.content.bounds import MAX_DEPTH, MAX_NODES
from penstock.model.content.json_members import check_members
from penstock.model.errors import BoundError, ContentError
from penstock.model.values import MAX_INT, MAX_UINT, MIN_INT, Uint, Value

_BOM = b"\xef\xbb\xbf"
decode = msgspec.json.Decoder().decode
_CONTAINERS = frozenset({dict, list})
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * len(str(MAX_INT))


def read_json(payload: bytes) -> dict[str, Value]:
    """Return the members of a JSON object; any other JSON value as the one attribute `value`. Raises `ContentError`."""
    value = _read(payload.removeprefix(_BOM))
    return value if type(value) is dict else {"value": value}


def _read(payload: bytes) -> Value:
    try:
        value = decode(payload)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise ContentError("not JSON: a string is not UTF-8") from None
    except msgspec.MsgspecError as error:
        raise ContentError(f"not JSON: {_lowered(error)}") from None
    return checked(payload, value)


def checked(payload: bytes, value: Value) -> Value:
    """Check and convert a decoded value of this payload; raises `ContentError` if it may not be read so."""
    # Most contents cannot have what is looked for here, and counting bytes is much faster than going through values.
    objects = payload.count(b"{")
    openings = payload.count(b"[") + objects
    if openings > MAX_DEPTH or openings + payload.count(b",") > MAX_NODES:
        _check_bounds(value)
    is_flat = openings == 1 and type(value) is dict
    if objects and not (is_flat and payload.count(b":") == len(value)):
        check_members(payload, value)
    return _within_64_bits(value) if has_long_number(payload) else value


def has_long_number(text: bytes) -> bool:
    """Return whether there are so many digits that a number may have more than 64 bits."""
    return _LONG_NUMBER in text.translate(_DIGITS_ALIKE)


def _lowered(error: msgspec.MsgspecError) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _too_deep() -> BoundError:
    return BoundError(f"more than {MAX_DEPTH} JSON values inside each other")


def _check_bounds(value: Value) -> None:
    level, depth, nodes = [value] if type(value) in _CONTAINERS else [], 0, 0
    while level:
        depth += 1
        nodes += sum(map(len, level))
        if depth > MAX_DEPTH:
            raise _too_deep()
        if nodes > MAX_NODES:
            raise BoundError(f"more than {MAX_NODES} JSON values")
        level = [
            inner
            for container in level
            for inner in (container.values() if type(container) is dict else container)
            if type(inner) in _CONTAINERS
        ]


def _within_64_bits(value: Value) -> Any:
    match value:
        case dict():
            return {key: _within_64_bits(inner) for key, inner in value.items()}
        case list():
            return [_within_64_bits(inner) for inner in value]
        case int() if not MIN_INT <= value <= MAX_INT:
            return Uint(value) if 0 < value <= MAX_UINT else _nearest_double(value)
        case _:
            return value


def _nearest_double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise ContentError("not JSON: number out of range") from None
