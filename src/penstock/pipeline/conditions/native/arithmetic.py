"""Arithmetic. Nothing here depends on Spark's ANSI mode: what overflows or divides by zero is NULL, then an error."""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.limits import MAX_SIZE
from penstock.language.types import ScalarType
from penstock.language.values import MAX_UINT, MIN_INT, Uint
from penstock.pipeline.conditions.native.bounds import within
from penstock.pipeline.conditions.native.parts import UINT, where
from penstock.pipeline.conditions.native.tables import Native, NativeCall, Table

_Two = Callable[[Column, Column], Column]


def _int(run: _Two) -> Native:
    return lambda left, right: NativeCall(types.INT, run(left, right), FailureKind.OUT_OF_RANGE, uses=2)


def _uint(run: _Two) -> Native:
    return lambda left, right: NativeCall(types.UINT, within_uint(run(left, right)), FailureKind.OUT_OF_RANGE, uses=2)


def _double(run: _Two) -> Native:
    return lambda left, right: NativeCall(types.DOUBLE, run(left, right))


def within_uint(number: Column) -> Column:
    """Return a decimal as a uint; NULL if it is none."""
    return within(number, 0, MAX_UINT).cast(UINT)


def _by_zero(divisor: Column) -> Column:
    return where(divisor == 0, FailureKind.DIVIDE_BY_ZERO)


def _is_overflow(left: Column, right: Column) -> Column:
    """CEL: the least int divided by -1 is no int, and so its remainder is an error too."""
    return (left == F.lit(MIN_INT)) & (right == -1)


def _int_quotient(left: Column, right: Column) -> NativeCall:
    quotient = F.call_function("div", left, F.when((right != 0) & ~_is_overflow(left, right), right))
    return NativeCall(types.INT, quotient, FailureKind.OUT_OF_RANGE, (_by_zero(right),), uses=3)


def _int_remainder(left: Column, right: Column) -> NativeCall:
    remainder = left % F.when((right != 0) & ~_is_overflow(left, right), right)
    return NativeCall(types.INT, remainder, FailureKind.OUT_OF_RANGE, (_by_zero(right),), uses=3)


def _uint_remainder(left: Column, right: Column) -> NativeCall:
    return NativeCall(types.UINT, left % _not_zero(right), before=(_by_zero(right),), uses=2)


def _uint_quotient(left: Column, right: Column) -> NativeCall:
    # `div` gives a bigint, and `/` rounds: so what does not divide evenly is taken away first.
    quotient = (left - left % _not_zero(right)) / _not_zero(right)
    return NativeCall(types.UINT, quotient.cast(UINT), before=(_by_zero(right),), uses=4)


def _not_zero(divisor: Column) -> Column:
    return F.when(divisor != 0, divisor)


def _double_quotient(left: Column, right: Column) -> NativeCall:
    # The power is an infinity with the sign of the zero.
    quotient = F.coalesce(left / _not_zero(right), left * F.pow(right, F.lit(-1.0)))
    return NativeCall(types.DOUBLE, quotient, uses=3)


def _joined(shape: ScalarType) -> Native:
    def joined(left: Column, right: Column) -> NativeCall:
        size = F.octet_length if shape == types.BYTES else F.length
        together = F.when(size(left) + size(right) <= MAX_SIZE, F.concat(left, right))
        return NativeCall(shape, together, FailureKind.TOO_COSTLY, uses=2)

    return joined


OPERATORS: Table = {
    ("+", (int, int)): _int(F.try_add),
    ("-", (int, int)): _int(F.try_subtract),
    ("*", (int, int)): _int(F.try_multiply),
    ("/", (int, int)): _int_quotient,
    ("%", (int, int)): _int_remainder,
    ("+", (Uint, Uint)): _uint(F.try_add),
    ("-", (Uint, Uint)): _uint(F.try_subtract),
    ("*", (Uint, Uint)): _uint(lambda left, right: F.try_multiply(left, right).try_cast("decimal(28,0)")),
    ("/", (Uint, Uint)): _uint_quotient,
    ("%", (Uint, Uint)): _uint_remainder,
    ("+", (float, float)): _double(lambda left, right: left + right),
    ("-", (float, float)): _double(lambda left, right: left - right),
    ("*", (float, float)): _double(lambda left, right: left * right),
    ("/", (float, float)): _double_quotient,
    ("+", (str, str)): _joined(types.STRING),
    ("+", (bytes, bytes)): _joined(types.BYTES),
}
"""Arithmetic between numbers, strings and bytes."""


NEGATION: dict[type, Native] = {
    int: lambda value: NativeCall(types.INT, F.try_subtract(F.lit(0), value), FailureKind.OUT_OF_RANGE, uses=2),
    float: lambda value: NativeCall(types.DOUBLE, F.negative(value)),
}
"""`-value`, by type."""
