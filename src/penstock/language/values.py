"""The values of the language as Python values, and their equality and order.

| CEL | Python |
| --- | --- |
| int, uint, double | int, `Uint`, float |
| string, bytes, bool, null | str, bytes, bool, None |
| list, map | list, dict |
| timestamp, duration, type | `Timestamp`, `Duration`, `TypeName` |

Two keys of a Python dict are one if they are equal, as CEL wants it for numbers; but `True == 1` in Python, so bool
keys of a map are kept as `BoolKey`. Content from JSON has string keys only, so its dicts are values as they are.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.language.errors import EvaluationError, FailureKind, failed
from penstock.model.values import MAX_INT, MAX_UINT, MIN_INT, Duration, Timestamp, Uint, Value

__all__ = ["MAX_INT", "MAX_UINT", "MIN_INT", "Duration", "Timestamp", "Uint", "Value"]  # beside what is defined here


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value: what `type(x)` gives and what `int` alone means."""

    name: str


class BoolKey(Enum):
    """A bool as the key of a map."""

    FALSE = False
    TRUE = True


_KIND_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeName: "type",
}

TYPE_NAMES = frozenset(_KIND_NAMES.values())
"""Names that stand for a type where an expression is expected."""


def kind(value: Value) -> str:
    """Return the name of a value's type, as `type()` gives it."""
    return _KIND_NAMES[type(value)]


def type_text(value: Value) -> str:
    """Return the name of a value's type, as messages give it."""
    return kind(value).removeprefix("google.protobuf.").lower()


def no_overload(function: str, *arguments: Value) -> EvaluationError:
    """Return the error of a function or an operator that does not take values of these types."""
    types = " and ".join(type_text(argument) for argument in arguments) or "nothing"
    return failed(FailureKind.NO_MATCHING_OVERLOAD, f"`{function}` does not take {types}")


_NUMBERS = frozenset({int, Uint, float})
_ORDERED = frozenset({str, bytes, bool, Timestamp, Duration})

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _on_one_line(left: Value, right: Value) -> tuple[Value, Value]:
    """Return two numbers that Python compares as CEL does: an integer beside a double becomes a double."""
    if (type(left) is float) is (type(right) is float):
        return left, right
    return as_double(left), as_double(right)


def as_double(number: int | float) -> float:
    """Return the nearest double; beyond the doubles, infinity."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal; values of different types are not, except numbers."""
    first, second = type(left), type(right)
    if first is not second:
        if first not in _NUMBERS or second not in _NUMBERS:
            return False
        left, right = _on_one_line(left, right)
    elif first is list:
        return len(left) == len(right) and all(map(equal, left, right))
    elif first is dict:
        return len(left) == len(right) and all(key in right and equal(left[key], right[key]) for key in left)
    return left == right  # type: ignore[no-any-return]


def in_order(symbol: str, left: Value, right: Value) -> bool:
    """Return `left < right`, or one of the other three; raises `EvaluationError` for values without an order."""
    first, second = type(left), type(right)
    if first in _NUMBERS and second in _NUMBERS:
        return ORDERS[symbol](*_on_one_line(left, right))
    if first is second and first in _ORDERED:
        return ORDERS[symbol](left, right)
    raise no_overload(symbol, left, right)


_KEYS = frozenset({int, Uint, str, bool})


def as_key(value: Value) -> Any:
    """Return a value as the key of a dict."""
    return BoolKey(value) if type(value) is bool else value


def keys(value: dict[Any, Value]) -> list[Value]:
    """Return the keys of a map as values."""
    return [key.value if type(key) is BoolKey else key for key in value]


def make_map(entries: Iterable[tuple[Value, Value]]) -> dict[Any, Value]:
    """Make a map of its entries; raises `EvaluationError` for an invalid or repeated key."""
    result: dict[Any, Value] = {}
    for key, value in entries:
        if type(key) not in _KEYS:
            raise failed(FailureKind.NO_MATCHING_OVERLOAD, f"{type_text(key)} cannot be the key of a map")
        if as_key(key) in result:
            raise failed(FailureKind.INVALID_ARGUMENT, "a key is in a map twice")
        result[as_key(key)] = value
    return result
