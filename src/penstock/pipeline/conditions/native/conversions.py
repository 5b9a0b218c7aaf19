"""Conversions and the functions on strings."""

from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.values import MAX_INT, MIN_INT, Uint
from penstock.pipeline.conditions.native.arithmetic import within_uint
from penstock.pipeline.conditions.native.parts import UINT, where
from penstock.pipeline.conditions.native.tables import NativeCall, Table

_INTEGER = r"\A[+-]?[0-9]{1,40}\z"
_DOUBLE = r"\A[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf(inity)?|nan))\z"
_NAN = r"\A[+-]?(?i:nan)\z"
_TRUE = ["true", "True", "TRUE", "t", "T", "1"]
_FALSE = ["false", "False", "FALSE", "f", "F", "0"]
_HALF = float(1 << 63)


def _invalid(right: Column) -> tuple[Column, ...]:
    return (where(~right, FailureKind.INVALID_ARGUMENT),)


def _int_of_double(value: Column) -> NativeCall:
    # CEL: the least int as a double is already out of range.
    inside = F.when((value > float(MIN_INT)) & (value < _HALF), value)
    return NativeCall(types.INT, inside.cast("long"), FailureKind.OUT_OF_RANGE, uses=3)


def _int_of_string(text: Column) -> NativeCall:
    right = text.rlike(_INTEGER)
    return NativeCall(
        types.INT, F.when(right, text.try_cast("long")), FailureKind.OUT_OF_RANGE, _invalid(right), uses=2
    )


def _uint_of_int(value: Column) -> NativeCall:
    return NativeCall(types.UINT, F.when(value >= 0, value).cast(UINT), FailureKind.OUT_OF_RANGE, uses=2)


def _uint_of_double(value: Column) -> NativeCall:
    # A double becomes a decimal by way of its shortest digits, which are not all of it; a bigint is exact.
    low = F.when((value >= 0) & (value < _HALF), value).cast("long").cast(UINT)
    high = F.when((value >= _HALF) & (value < 2 * _HALF), value - F.lit(_HALF)).cast("long")
    whole = F.coalesce(low, (high.cast(UINT) + F.lit(Decimal(MAX_INT + 1))).cast(UINT))
    return NativeCall(types.UINT, whole, FailureKind.OUT_OF_RANGE, uses=6)


def _uint_of_string(text: Column) -> NativeCall:
    right = text.rlike(_INTEGER)
    whole = F.when(right, within_uint(text.try_cast("decimal(28,0)")))
    return NativeCall(types.UINT, whole, FailureKind.OUT_OF_RANGE, _invalid(right), uses=2)


def _double_of_string(text: Column) -> NativeCall:
    right = text.rlike(_DOUBLE)
    number = F.when(text.rlike(_NAN), F.lit(float("nan"))).otherwise(text.try_cast("double"))
    return NativeCall(types.DOUBLE, F.when(right, number), before=_invalid(right), uses=3)


def _string_of_bytes(value: Column) -> NativeCall:
    text = value.cast("string")
    return NativeCall(types.STRING, F.when(F.is_valid_utf8(text), text), FailureKind.INVALID_ARGUMENT, uses=2)


def _bool_of_string(text: Column) -> NativeCall:
    truth = F.when(text.isin(_TRUE), F.lit(True)).when(text.isin(_FALSE), F.lit(False))
    return NativeCall(types.BOOL, truth, FailureKind.INVALID_ARGUMENT, uses=2)


FUNCTIONS: Table = {
    ("int", (int,)): lambda value: NativeCall(types.INT, value),
    ("int", (Uint,)): lambda value: NativeCall(types.INT, value.try_cast("long"), FailureKind.OUT_OF_RANGE),
    ("int", (float,)): _int_of_double,
    ("int", (str,)): _int_of_string,
    ("uint", (int,)): _uint_of_int,
    ("uint", (Uint,)): lambda value: NativeCall(types.UINT, value),
    ("uint", (float,)): _uint_of_double,
    ("uint", (str,)): _uint_of_string,
    ("double", (int,)): lambda value: NativeCall(types.DOUBLE, value.cast("double")),
    ("double", (Uint,)): lambda value: NativeCall(types.DOUBLE, value.cast("double")),
    ("double", (float,)): lambda value: NativeCall(types.DOUBLE, value),
    ("double", (str,)): _double_of_string,
    ("string", (str,)): lambda value: NativeCall(types.STRING, value),
    ("string", (int,)): lambda value: NativeCall(types.STRING, value.cast("string")),
    ("string", (Uint,)): lambda value: NativeCall(types.STRING, value.cast("string")),
    ("string", (bool,)): lambda value: NativeCall(types.STRING, value.cast("string")),
    ("string", (bytes,)): _string_of_bytes,
    ("bytes", (str,)): lambda value: NativeCall(types.BYTES, value.cast("binary")),
    ("bytes", (bytes,)): lambda value: NativeCall(types.BYTES, value),
    ("bool", (bool,)): lambda value: NativeCall(types.BOOL, value),
    ("bool", (str,)): _bool_of_string,
    ("size", (str,)): lambda value: NativeCall(types.INT, F.length(value).cast("long")),
    ("size", (bytes,)): lambda value: NativeCall(types.INT, F.octet_length(value).cast("long")),
    ("startsWith", (str, str)): lambda text, other: NativeCall(types.BOOL, F.startswith(text, other)),
    ("endsWith", (str, str)): lambda text, other: NativeCall(types.BOOL, F.endswith(text, other)),
    ("contains", (str, str)): lambda text, other: NativeCall(types.BOOL, F.contains(text, other)),
}
"""Functions and methods whose native form depends on nothing but the types of their arguments."""
