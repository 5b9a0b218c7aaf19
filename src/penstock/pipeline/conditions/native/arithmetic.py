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
from penstock.pipeline.conditions.native.tables import Made, Native, Table

_Two = Callable[[Column, Column], Column]


def _int(run: _Two) -> Native:
    return lambda left, right: Made(types.INT, run(left, right), FailureKind.OUT_OF_RANGE, uses=2)


def _uint(run: _Two) -> Native:
    return lambda left, right: Made(types.UINT, within_uint(run(left, right)), FailureKind.OUT_OF_RANGE, uses=2)


def _double(run: _Two) -> Native:
    return lambda left, right: Made(types.DOUBLE, run(left, right))


def within_uint(number: Column) -> Column:
    """A decimal as a uint; NULL if it is none."""
    return within(number, 0, MAX_UINT).cast(UINT)


def _uint_product(left: Column, right: Column) -> Column:
    return F.try_multiply(left, right).try_cast("decimal(28,0)")


def _by_zero(divisor: Column) -> Column:
    return where(divisor == 0, FailureKind.DIVIDE_BY_ZERO)


def _is_overflow(left: Column, right: Column) -> Column:
    """CEL: the least int divided by -1 is no int, and so its remainder is an error too."""
    return (left == F.lit(MIN_INT)) & (right == -1)


def _int_quotient(left: Column, right: Column) -> Made:
    quotient = F.call_function("div", left, F.when((right != 0) & ~_is_overflow(left, right), right))
    return Made(types.INT, quotient, FailureKind.OUT_OF_RANGE, (_by_zero(right),), uses=3)


def _int_remainder(left: Column, right: Column) -> Made:
    remainder = left % F.when((right != 0) & ~_is_overflow(left, right), right)
    return Made(types.INT, remainder, FailureKind.OUT_OF_RANGE, (_by_zero(right),), uses=3)


def _uint_remainder(left: Column, right: Column) -> Made:
    return Made(types.UINT, left % _not_zero(right), before=(_by_zero(right),), uses=2)


def _uint_quotient(left: Column, right: Column) -> Made:
    # `div` gives a bigint, and `/` rounds: so what does not divide evenly is taken away first.
    quotient = (left - left % _not_zero(right)) / _not_zero(right)
    return Made(types.UINT, quotient.cast(UINT), before=(_by_zero(right),), uses=4)


def _not_zero(divisor: Column) -> Column:
    return F.when(divisor != 0, divisor)


def _double_quotient(left: Column, right: Column) -> Made:
    # The power is an infinity with the sign of the zero.
    quotient = F.coalesce(left / _not_zero(right), left * F.pow(right, F.lit(-1.0)))
    return Made(types.DOUBLE, quotient, uses=3)


def _joined(shape: ScalarType) -> Native:
    def joined(left: Column, right: Column) -> Made:
        size = F.octet_length if shape == types.BYTES else F.length
        together = F.when(size(left) + size(right) <= MAX_SIZE, F.concat(left, right))
        return Made(shape, together, FailureKind.TOO_COSTLY, uses=2)

    return joined


OPERATORS: Table = {
    ("+", (int, int)): _int(F.try_add),
    ("-", (int, int)): _int(F.try_subtract),
    ("*", (int, int)): _int(F.try_multiply),
    ("/", (int, int)): _int_quotient,
    ("%", (int, int)): _int_remainder,
    ("+", (Uint, Uint)): _uint(F.try_add),
    ("-", (Uint, Uint)): _uint(F.try_subtract),
    ("*", (Uint, Uint)): _uint(_uint_product),
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
    int: lambda value: Made(types.INT, F.try_subtract(F.lit(0), value), FailureKind.OUT_OF_RANGE, uses=2),
    float: lambda value: Made(types.DOUBLE, F.negative(value)),
}
"""`-value`, by type."""
