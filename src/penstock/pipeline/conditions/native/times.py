"""Timestamps, as decimals of nanoseconds, and durations, as bigints of nanoseconds; Spark's time zone has no part."""

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.language import types
from penstock.language.errors import FailureKind
from penstock.language.values import MAX_INT, MIN_INT, Duration, Timestamp
from penstock.model.values import FIRST_SECOND, LAST_SECOND, SECOND
from penstock.pipeline.conditions.native.bounds import within
from penstock.pipeline.conditions.native.parts import NANOS, where
from penstock.pipeline.conditions.native.tables import Native, NativeCall, Table

_DAY = 86_400
_FORM = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})\z"


def _nanos(seconds: Column) -> Column:
    """Seconds as a timestamp; NULL beyond the years that there are."""
    return within(seconds, FIRST_SECOND, LAST_SECOND).cast("decimal(12,0)") * F.lit(Decimal(SECOND))


def _moved(nanos: Column) -> NativeCall:
    there = within(nanos, FIRST_SECOND * SECOND, LAST_SECOND * SECOND + SECOND - 1)
    return NativeCall(types.TIMESTAMP, there.cast(NANOS), FailureKind.OUT_OF_RANGE)


def _wide(duration: Column) -> Column:
    return duration.cast("decimal(20,0)")


def _between(left: Column, right: Column) -> NativeCall:
    return NativeCall(types.DURATION, within(left - right, MIN_INT, MAX_INT).cast("long"), FailureKind.OUT_OF_RANGE)


OPERATORS: Table = {
    ("+", (Timestamp, Duration)): lambda left, right: _moved(left + _wide(right)),
    ("+", (Duration, Timestamp)): lambda left, right: _moved(_wide(left) + right),
    ("-", (Timestamp, Duration)): lambda left, right: _moved(left - _wide(right)),
    ("-", (Timestamp, Timestamp)): _between,
    ("+", (Duration, Duration)): lambda left, right: NativeCall(
        types.DURATION, F.try_add(left, right), FailureKind.OUT_OF_RANGE, uses=2
    ),
    ("-", (Duration, Duration)): lambda left, right: NativeCall(
        types.DURATION, F.try_subtract(left, right), FailureKind.OUT_OF_RANGE
    ),
}
"""Arithmetic with time."""


def _from_string(text: Column) -> NativeCall:
    """Return a timestamp as RFC 3339 writes it. Spark reads what has no fraction and is in UTC; the rest is added."""
    in_utc = F.concat(F.upper(F.substring(text, 1, 19)), F.lit("Z")).try_cast("timestamp")
    right = text.rlike(_FORM) & in_utc.isNotNull() & ~F.startswith(text, F.lit("0000"))
    seconds = F.unix_seconds(F.when(right, in_utc)) - _offset(text)
    fraction = F.rpad(F.regexp_extract(text, r"\.([0-9]{1,9})", 1), 9, "0").try_cast("decimal(9,0)")
    invalid = where(~right, FailureKind.INVALID_ARGUMENT)
    return NativeCall(
        types.TIMESTAMP, (_nanos(seconds) + fraction).cast(NANOS), FailureKind.OUT_OF_RANGE, (invalid,), uses=9
    )


def _offset(text: Column) -> Column:
    """Return how many seconds the zone of a timestamp is from UTC."""
    sign = F.substring(text, -6, 1)
    hours, minutes = F.substring(text, -5, 2).try_cast("long"), F.substring(text, -2, 2).try_cast("long")
    return F.when(sign == "+", F.lit(60)).when(sign == "-", F.lit(-60)).otherwise(F.lit(0)) * F.coalesce(
        hours * 60 + minutes, F.lit(0)
    )


def to_seconds(nanos: Column) -> Column:
    """Return the seconds of a timestamp since 1970, rounded down."""
    return F.floor(nanos / F.lit(Decimal(SECOND))).cast("long")


CONVERSIONS: Table = {
    ("int", (Timestamp,)): lambda value: NativeCall(types.INT, to_seconds(value)),
    ("timestamp", (str,)): _from_string,
    ("timestamp", (int,)): lambda seconds: NativeCall(
        types.TIMESTAMP, _nanos(seconds).cast(NANOS), FailureKind.OUT_OF_RANGE
    ),
    ("timestamp", (Timestamp,)): lambda value: NativeCall(types.TIMESTAMP, value),
    ("duration", (Duration,)): lambda value: NativeCall(types.DURATION, value),
}
"""To and from time."""


def _date(seconds: Column) -> Column:
    return F.date_from_unix_date(F.floor(seconds / F.lit(_DAY)).cast("int"))


def _in_day(seconds: Column, unit: int, count: int) -> Column:
    """Return the hour, minute or second of a day, by the seconds that it has and how many there are."""
    return F.floor(F.pmod(seconds, F.lit(unit * count)) / F.lit(unit))


CALENDAR: dict[str, Callable[[Column], Column]] = {
    "getDate": lambda seconds: F.dayofmonth(_date(seconds)),
    "getDayOfMonth": lambda seconds: F.dayofmonth(_date(seconds)) - 1,
    "getDayOfWeek": lambda seconds: F.dayofweek(_date(seconds)) - 1,
    "getDayOfYear": lambda seconds: F.dayofyear(_date(seconds)) - 1,
    "getFullYear": lambda seconds: F.year(_date(seconds)),
    "getHours": lambda seconds: _in_day(seconds, 3_600, 24),
    "getMinutes": lambda seconds: _in_day(seconds, 60, 60),
    "getMonth": lambda seconds: F.month(_date(seconds)) - 1,
    "getSeconds": lambda seconds: _in_day(seconds, 1, 60),
}
"""What a timestamp says on a calendar, of its seconds."""


def milliseconds(nanos: Column) -> NativeCall:
    """Return the milliseconds of a timestamp after the second."""
    rest = F.pmod(nanos, F.lit(Decimal(SECOND)))
    return NativeCall(types.INT, F.floor(rest / F.lit(Decimal(1_000_000))).cast("long"))


def on_calendar(name: str, nanos: Column, offset: int) -> NativeCall:
    """Return what a timestamp says on the calendar of places with an offset from UTC, in seconds."""
    there = within(to_seconds(nanos) + F.lit(offset), FIRST_SECOND, LAST_SECOND).cast("long")
    return NativeCall(types.INT, CALENDAR[name](there).cast("long"), FailureKind.OUT_OF_RANGE)


def _whole(unit: int) -> Native:
    return lambda nanos: NativeCall(types.INT, F.call_function("div", nanos, F.lit(unit).cast("long")))


DURATIONS: Table = {
    ("getHours", (Duration,)): _whole(3_600 * SECOND),
    ("getMinutes", (Duration,)): _whole(60 * SECOND),
    ("getSeconds", (Duration,)): _whole(SECOND),
    ("getMilliseconds", (Duration,)): lambda nanos: NativeCall(
        types.INT, F.call_function("div", nanos % F.lit(SECOND).cast("long"), F.lit(1_000_000).cast("long"))
    ),
}
"""A duration in whole hours, minutes and seconds."""
