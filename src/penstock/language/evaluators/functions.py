"""The operators and functions on values, by the types that they take. Checker and evaluators read the same tables."""

import math
import operator
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from penstock.language import types, values
from penstock.language.errors import EvaluationError, FailureKind, failed
from penstock.language.evaluators import times
from penstock.language.evaluators.comparison import is_among, is_in, ordered, same
from penstock.language.evaluators.conversions import to_bool, to_bytes, to_double, to_int, to_string, to_uint
from penstock.language.evaluators.patterns import match_cost, matches
from penstock.language.evaluators.work import CHARACTERS, Work, charge
from penstock.language.limits import MAX_SIZE
from penstock.language.tree import Literal, Tree
from penstock.language.types import Type
from penstock.language.values import MAX_INT, MIN_INT, Duration, Timestamp, Uint, Value, as_key, no_overload


@dataclass(frozen=True, slots=True)
class Overload:
    """A function for arguments of certain types, the type of its result, and what it costs."""

    run: Callable[..., Value]
    result: Type
    cost: Callable[..., int] | None = None
    """Its steps, of the arguments; None if it takes no longer for long ones."""
    reading: Callable[..., int] | None = None
    """Steps before these, if its last argument is not written out in the condition."""


Overloads = Mapping[tuple[type, ...], Overload]


def _int(number: int, symbol: str) -> int:
    if MIN_INT <= number <= MAX_INT:
        return number
    raise failed(FailureKind.OUT_OF_RANGE, f"the result of `{symbol}` is too large for an int")


def _uint(number: int, symbol: str) -> Uint:
    if 0 <= number <= values.MAX_UINT:
        return Uint(number)
    raise failed(FailureKind.OUT_OF_RANGE, f"the result of `{symbol}` is not a uint")


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise failed(FailureKind.DIVIDE_BY_ZERO, "`/` by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise failed(FailureKind.DIVIDE_BY_ZERO, "`%` by zero")
    _int(_quotient(left, right), "%")  # CEL: the least int modulo -1 is an overflow, as its quotient is
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _double_quotient(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _joined(left: Any, right: Any) -> Any:
    if len(left) + len(right) > MAX_SIZE:
        raise failed(FailureKind.TOO_COSTLY, f"`+` makes a value of more than {MAX_SIZE} elements")
    return left + right


def _long(*arguments: Sized) -> int:
    return sum(map(len, arguments)) // CHARACTERS


def _long_last(_: Sized, last: Sized) -> int:
    return len(last) // CHARACTERS


def _integers(symbol: str, run: Callable[[int, int], int]) -> dict[tuple[type, ...], Overload]:
    return {
        (int, int): Overload(lambda left, right: _int(run(left, right), symbol), types.INT),
        (Uint, Uint): Overload(lambda left, right: _uint(run(left, right), symbol), types.UINT),
    }


OPERATORS: Mapping[str, Overloads] = {
    "+": {
        **_integers("+", operator.add),
        (float, float): Overload(operator.add, types.DOUBLE),
        (str, str): Overload(_joined, types.STRING, _long),
        (bytes, bytes): Overload(_joined, types.BYTES, _long),
        (list, list): Overload(_joined, types.ListType(types.DYN), lambda a, b: len(a) + len(b)),
        (Timestamp, Duration): Overload(lambda a, b: times.make_timestamp(a.nanos + b.nanos), types.TIMESTAMP),
        (Duration, Timestamp): Overload(lambda a, b: times.make_timestamp(a.nanos + b.nanos), types.TIMESTAMP),
        (Duration, Duration): Overload(lambda a, b: times.make_duration(a.nanos + b.nanos), types.DURATION),
    },
    "-": {
        **_integers("-", operator.sub),
        (float, float): Overload(operator.sub, types.DOUBLE),
        (Timestamp, Timestamp): Overload(lambda a, b: times.make_duration(a.nanos - b.nanos), types.DURATION),
        (Timestamp, Duration): Overload(lambda a, b: times.make_timestamp(a.nanos - b.nanos), types.TIMESTAMP),
        (Duration, Duration): Overload(lambda a, b: times.make_duration(a.nanos - b.nanos), types.DURATION),
    },
    "*": {**_integers("*", operator.mul), (float, float): Overload(operator.mul, types.DOUBLE)},
    "/": {**_integers("/", _quotient), (float, float): Overload(_double_quotient, types.DOUBLE)},
    "%": _integers("%", _remainder),
}
"""Arithmetic. There is none between numbers of different types, as in CEL."""


_TEXTS: Mapping[type, Type] = {str: types.STRING, bytes: types.BYTES}
"""Types whose conversion to another type reads the whole value."""


def _conversion(run: Callable[[Any], Value], result: Type, *kinds: type) -> dict[tuple[type, ...], Overload]:
    return {
        (python_type,): Overload(run, result, _long if _TEXTS.get(python_type, result) != result else None)
        for python_type in kinds
    }


def _same(value: Value) -> Value:
    return value


_SIZES: Overloads = {(python_type,): Overload(len, types.INT) for python_type in (str, bytes, list, dict)}
_MATCHES: Overloads = {
    # Compiling takes up to 0.1 ms for each character, and what was compiled is not kept for long.
    (str, str): Overload(matches, types.BOOL, match_cost, lambda text, pattern: 1_000 * len(pattern))
}

FUNCTIONS: Mapping[str, Overloads] = {
    "size": _SIZES,
    "matches": _MATCHES,
    "int": _conversion(to_int, types.INT, int, Uint, float, str, Timestamp),
    "uint": _conversion(to_uint, types.UINT, int, Uint, float, str),
    "double": _conversion(to_double, types.DOUBLE, int, Uint, float, str),
    "string": _conversion(to_string, types.STRING, str, int, Uint, float, bool, bytes, Timestamp, Duration),
    "bytes": _conversion(to_bytes, types.BYTES, str, bytes),
    "bool": _conversion(to_bool, types.BOOL, bool, str),
    "timestamp": {
        (str,): Overload(times.timestamp_from_string, types.TIMESTAMP, _long),
        (int,): Overload(lambda seconds: times.make_timestamp(seconds * times.SECOND), types.TIMESTAMP),
        (Timestamp,): Overload(_same, types.TIMESTAMP),
    },
    "duration": {
        (str,): Overload(times.duration_from_string, types.DURATION, _long),
        (Duration,): Overload(_same, types.DURATION),
    },
    "dyn": {(object,): Overload(_same, types.DYN)},
    "type": {(object,): Overload(lambda value: values.TypeName(values.kind(value)), types.TYPE)},
}
"""Functions called as `function(argument)`."""


def _accessors() -> dict[str, dict[tuple[type, ...], Overload]]:
    methods: dict[str, dict[tuple[type, ...], Overload]] = {}
    for name, zoned in times.timestamp_accessors().items():
        methods[name] = {
            (Timestamp,): Overload(lambda value, zoned=zoned: zoned(value, "UTC"), types.INT),
            # Time zones are read from files.
            (Timestamp, str): Overload(zoned, types.INT, reading=lambda moment, zone: 1_000),
        }
    for name, whole in times.duration_accessors().items():
        methods[name][(Duration,)] = Overload(whole, types.INT)
    return methods


METHODS: Mapping[str, Overloads] = {
    "size": _SIZES,
    "matches": _MATCHES,
    "startsWith": {(str, str): Overload(str.startswith, types.BOOL, _long_last)},
    "endsWith": {(str, str): Overload(str.endswith, types.BOOL, _long_last)},
    "contains": {(str, str): Overload(operator.contains, types.BOOL, lambda text, _: len(text) // CHARACTERS)},
    **_accessors(),
}
"""Functions called as `receiver.function(arguments)`; the receiver is the first of the arguments here."""


def find_overload(overloads: Overloads, arguments: tuple[Value, ...]) -> Overload | None:
    """Return the overload for these arguments, if there is one."""
    overload = overloads.get(tuple(map(type, arguments)))
    return overload or overloads.get((object,) * len(arguments))


def is_written(operands: tuple[Tree, ...]) -> bool:
    """Return whether the last argument of a call is written out in the condition."""
    return not operands or isinstance(operands[-1], Literal)


def call(
    function: str, overloads: Overloads | None, arguments: tuple[Value, ...], work: Work, written: bool = True
) -> Value:
    """Return the function's value; raises `EvaluationError` if it has none, or if there is no such function.

    `written`: the last argument is written out in the condition.
    """
    if overloads is None:
        raise failed(FailureKind.NO_MATCHING_OVERLOAD, f"there is no function `{function}`")
    overload = find_overload(overloads, arguments)
    if overload is None:
        raise no_overload(function, *arguments)
    if overload.reading is not None and not written:
        charge(work, overload.reading(*arguments))
    if overload.cost is not None:
        charge(work, overload.cost(*arguments))
    return overload.run(*arguments)


def calculate(symbol: str, left: Value, right: Value, work: Work, written: bool = False) -> Value:
    """Return the value of a binary operator other than `&&` and `||`.

    `written`: the right side is a list that is written out in the condition.
    """
    match symbol:
        case "==":
            return same(left, right, work)
        case "!=":
            return not same(left, right, work)
        case "<" | "<=" | ">" | ">=":
            return ordered(symbol, left, right, work)
        case "in":
            return (is_among if written else is_in)(left, right, work)
        case _:
            return call(symbol, OPERATORS[symbol], (left, right), work)


def invert(value: Value) -> bool:
    """Return `!value`."""
    if type(value) is bool:
        return not value
    raise no_overload("!", value)


def negate(value: Value) -> Value:
    """Return `-value`."""
    if type(value) is float:
        return -value
    if type(value) is int:
        return _int(-value, "-")
    raise no_overload("-", value)


def select(operand: Value, name: str, shown: str) -> Value:
    """Return `operand.name`; error messages call it `shown`."""
    if type(operand) is not dict:
        raise _no_fields(operand, shown)
    try:
        return operand[name]
    except KeyError:
        raise missing(shown) from None


def has_field(operand: Value, name: str, shown: str) -> bool:
    """Return `has(operand.name)`."""
    if type(operand) is not dict:
        raise _no_fields(operand, shown)
    return name in operand


def _no_fields(operand: Value, shown: str) -> EvaluationError:
    kind = values.type_text(operand)
    return failed(FailureKind.NO_MATCHING_OVERLOAD, f"`{shown}` is a field of {kind}, which has none")


def missing(shown: str) -> EvaluationError:
    """Return the error of an attribute or a field that is not there."""
    return failed(FailureKind.NO_SUCH_ATTRIBUTE, f"there is no `{shown}`")


def index(operand: Value, key: Value) -> Value:
    """Return `operand[key]`."""
    if type(operand) is list:
        return _element(operand, key)
    if type(operand) is not dict:
        raise no_overload("[]", operand, key)
    if type(key) in (list, dict) or as_key(key) not in operand:
        raise failed(FailureKind.NO_SUCH_ATTRIBUTE, f"there is no such key in the map: {_shown_key(key)}")
    return operand[as_key(key)]


def _element(elements: list[Value], key: Value) -> Value:
    if type(key) is float and key.is_integer():
        key = int(key)
    if type(key) is float:
        raise failed(FailureKind.INVALID_ARGUMENT, f"`{key!r}` is not the number of an element")
    if type(key) not in (int, Uint):
        raise no_overload("[]", elements, key)
    if not 0 <= key < len(elements):
        raise failed(FailureKind.OUT_OF_RANGE, f"there is no element `{int(key)}` in a list of {len(elements)}")
    return elements[key]


def _shown_key(key: Value) -> str:
    return f"`{key}`" if type(key) in (str, int) and len(str(key)) <= 100 else values.type_text(key)
