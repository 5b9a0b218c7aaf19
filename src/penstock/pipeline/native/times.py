"""Timestamps, as decimals of nanoseconds, and durations, as bigints of nanoseconds; Spark's time zone has no part."""

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.language import types
from penstock.language.errors import Kind
from penstock.language.values import LEAST_INT, MOST_INT, Duration, Timestamp
from penstock.model.values import FIRST_SECOND, LAST_SECOND, SECOND
from penstock.pipeline.native.parts import NANOS, where
from penstock.pipeline.native.tables import Made, Native, Table

_DAY = 86_400
_FORM = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})\z"
)


def _timestamp(nanos: Column) -> Column:
    """Nanoseconds as a timestamp; NULL beyond the years that there are."""
    first, last = Decimal(FIRST_SECOND * SECOND), Decimal(LAST_SECOND * SECOND + SECOND - 1)
    return F.when((nanos >= F.lit(first)) & (nanos <= F.lit(last)), nanos).cast(NANOS)


def _in_nanos(seconds: Column) -> Column:
    return seconds.cast("decimal(20,0)") * F.lit(Decimal(SECOND))


def _wide(duration: Column) -> Column:
    return duration.cast("decimal(20,0)")


def _moved(nanos: Column) -> Made:
    return Made(types.TIMESTAMP, _timestamp(nanos), Kind.OUT_OF_RANGE, uses=2)


def _between(left: Column, right: Column) -> Made:
    nanos = left - right
    whole = F.when((nanos >= F.lit(Decimal(LEAST_INT))) & (nanos <= F.lit(Decimal(MOST_INT))), nanos)
    return Made(types.DURATION, whole.cast("long"), Kind.OUT_OF_RANGE, uses=2)


OPERATORS: Table = {
    ("+", (Timestamp, Duration)): lambda left, right: _moved(left + _wide(right)),
    ("+", (Duration, Timestamp)): lambda left, right: _moved(_wide(left) + right),
    ("-", (Timestamp, Duration)): lambda left, right: _moved(left - _wide(right)),
    ("-", (Timestamp, Timestamp)): _between,
    ("+", (Duration, Duration)): lambda left, right: Made(types.DURATION, F.try_add(left, right), Kind.OUT_OF_RANGE),
    ("-", (Duration, Duration)): lambda left, right: Made(
        types.DURATION, F.try_subtract(left, right), Kind.OUT_OF_RANGE
    ),
}
"""Arithmetic with time."""


def _from_string(text: Column) -> Made:
    """A timestamp as RFC 3339 writes it. All positions are known, once the form is right."""
    date = F.substring(text, 1, 10).try_cast("date")
    right = text.rlike(_FORM) & date.isNotNull() & (F.substring(text, 1, 4) != "0000")
    fraction = F.rpad(F.regexp_extract(text, r"\.([0-9]+)", 1), 9, "0")
    seconds = F.unix_date(date) * F.lit(_DAY).cast("long") + _clock(text, 12) + _number(text, 18) - _offset(text)
    nanos = _in_nanos(seconds) + fraction.try_cast("decimal(9,0)")
    invalid = where(~right, Kind.INVALID_ARGUMENT)
    return Made(types.TIMESTAMP, F.when(right, _timestamp(nanos)), Kind.OUT_OF_RANGE, (invalid,), uses=20)


def _number(text: Column, place: int) -> Column:
    return F.substring(text, place, 2).try_cast("long")


def _clock(text: Column, place: int) -> Column:
    """`hh:mm` at a place, in seconds."""
    return _number(text, place) * 3_600 + _number(text, place + 3) * 60


def _offset(text: Column) -> Column:
    sign = F.substring(text, -6, 1)
    return F.when(sign == "+", _clock(text, -5)).when(sign == "-", -_clock(text, -5)).otherwise(F.lit(0))


def to_seconds(nanos: Column) -> Column:
    """The seconds of a timestamp since 1970, rounded down."""
    return F.floor(nanos / F.lit(Decimal(SECOND))).cast("long")


CONVERSIONS: Table = {
    ("int", (Timestamp,)): lambda value: Made(types.INT, to_seconds(value)),
    ("timestamp", (str,)): _from_string,
    ("timestamp", (int,)): lambda seconds: _moved(_in_nanos(seconds)),
    ("timestamp", (Timestamp,)): lambda value: Made(types.TIMESTAMP, value),
    ("duration", (Duration,)): lambda value: Made(types.DURATION, value),
}
"""To and from time."""


def _date(seconds: Column) -> Column:
    return F.date_from_unix_date(F.floor(seconds / F.lit(_DAY)).cast("int"))


def _in_day(seconds: Column, unit: int, count: int) -> Column:
    """The hour, minute or second of a day, by the seconds that it has and how many there are."""
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


def milliseconds(nanos: Column) -> Made:
    """The milliseconds of a timestamp after the second."""
    rest = F.pmod(nanos, F.lit(Decimal(SECOND)))
    return Made(types.INT, F.floor(rest / F.lit(Decimal(1_000_000))).cast("long"))


def on_calendar(name: str, nanos: Column, offset: int) -> Made:
    """What a timestamp says on the calendar of places with an offset from UTC, in seconds."""
    seconds = to_seconds(nanos) + F.lit(offset).cast("long")
    there = F.when((seconds >= F.lit(FIRST_SECOND)) & (seconds <= F.lit(LAST_SECOND)), seconds)
    return Made(types.INT, CALENDAR[name](there).cast("long"), Kind.OUT_OF_RANGE, uses=3)


def _whole(unit: int) -> Native:
    return lambda nanos: Made(types.INT, F.call_function("div", nanos, F.lit(unit).cast("long")))


DURATIONS: Table = {
    ("getHours", (Duration,)): _whole(3_600 * SECOND),
    ("getMinutes", (Duration,)): _whole(60 * SECOND),
    ("getSeconds", (Duration,)): _whole(SECOND),
    ("getMilliseconds", (Duration,)): lambda nanos: Made(
        types.INT,
        F.call_function("div", nanos % F.lit(SECOND).cast("long"), F.lit(1_000_000).cast("long")),
    ),
}
"""A duration in whole hours, minutes and seconds."""
