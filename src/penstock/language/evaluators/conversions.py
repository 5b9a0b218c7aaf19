"""Conversions between types: `int()`, `string()` and the others."""

import math
import re
from decimal import Decimal

from penstock.language.errors import EvaluationError, FailureKind, failed
from penstock.language.evaluators.times import SECOND, duration_to_string, timestamp_to_string
from penstock.language.values import MAX_INT, MAX_UINT, MIN_INT, Duration, Timestamp, Uint, as_double, type_text

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.ASCII | re.I)
_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}
_SHOWN = 100


def _not_a(text: str, what: str) -> EvaluationError:
    shown = f"`{text}`" if len(text) <= _SHOWN else "a long string"
    return failed(FailureKind.INVALID_ARGUMENT, f"{shown} is not {what}")


def _too_large(value: object, what: str) -> EvaluationError:
    return failed(FailureKind.OUT_OF_RANGE, f"this {type_text(value)} is too large for {what}")


def to_int(value: int | float | str | Timestamp) -> int:
    """Return an int; of a double, what is before the point; of a timestamp, the seconds since 1970."""
    match value:
        case Timestamp():
            return value.nanos // SECOND
        case str():
            if not _INTEGER.fullmatch(value):
                raise _not_a(value, "an int")
            number = int(value)
        case float():
            # CEL: the least int as a double is already out of range.
            if not MIN_INT < value < MAX_INT + 1:
                raise _too_large(value, "an int")
            return int(value)
        case _:
            number = int(value)
    if not MIN_INT <= number <= MAX_INT:
        raise _too_large(value, "an int")
    return number


def to_uint(value: int | float | str) -> Uint:
    """Return a uint; of a double, what is before the point."""
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise _not_a(value, "a uint")
    if isinstance(value, float) and not math.isfinite(value):
        raise _too_large(value, "a uint")
    number = int(value)
    if not 0 <= number <= MAX_UINT or (isinstance(value, float) and value < 0):
        raise failed(FailureKind.OUT_OF_RANGE, f"this {type_text(value)} is not a uint")
    return Uint(number)


def to_double(value: int | float | str) -> float:
    """Return the nearest double."""
    if not isinstance(value, str):
        return as_double(value)
    if not _DOUBLE.fullmatch(value):
        raise _not_a(value, "a double")
    return float(value)


def to_string(value: str | int | float | bool | bytes | Timestamp | Duration) -> str:
    """Return the value in words; bytes as UTF-8."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _double_to_string(value)
        case Timestamp():
            return timestamp_to_string(value)
        case Duration():
            return duration_to_string(value)
        case _:
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise failed(FailureKind.INVALID_ARGUMENT, "these bytes are not UTF-8") from None


def _double_to_string(value: float) -> str:
    """Return the shortest digits that read back, as Go writes them: CEL has `1` for `1.0` and `1e+06` for a million."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    text = "".join(map(str, digits))
    before = "-" if sign else ""
    if -4 <= power < 6:
        return before + _plain(text, power)
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{before}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def _plain(digits: str, power: int) -> str:
    if power < 0:
        return "0." + "0" * (-power - 1) + digits
    if len(digits) <= power + 1:
        return digits.ljust(power + 1, "0")
    return digits[: power + 1] + "." + digits[power + 1 :]


def to_bytes(value: str | bytes) -> bytes:
    """Return a string's UTF-8."""
    if isinstance(value, bytes):
        return value
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise failed(FailureKind.INVALID_ARGUMENT, "a string with half a surrogate pair") from None


def to_bool(value: bool | str) -> bool:
    """Return a bool; of the strings that Go takes."""
    if isinstance(value, bool):
        return value
    if value not in _BOOLS:
        raise _not_a(value, "a bool")
    return _BOOLS[value]
