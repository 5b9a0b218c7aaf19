"""Timestamps and durations: reading, writing, and what they say on a calendar."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.language.errors import FailureKind, failed
from penstock.language.values import MAX_INT, MIN_INT, Duration, Timestamp
from penstock.model.durations import GO_UNITS, read_nanos
from penstock.model.values import FIRST_SECOND, LAST_SECOND
from penstock.model.values import SECOND as SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def make_timestamp(nanos: int) -> Timestamp:
    """Return a timestamp from the year 1 to the year 9999; raises `EvaluationError` beyond."""
    if not FIRST_SECOND <= nanos // SECOND <= LAST_SECOND:
        raise failed(FailureKind.OUT_OF_RANGE, "a timestamp is from the year 1 to the year 9999")
    return Timestamp(nanos)


def make_duration(nanos: int) -> Duration:
    """Return a duration of at most 2^63 nanoseconds, about 292 years, as in CEL; raises `EvaluationError` beyond."""
    if not MIN_INT <= nanos <= MAX_INT:
        raise failed(FailureKind.OUT_OF_RANGE, "a duration has at most 2^63 nanoseconds")
    return Duration(nanos)


def timestamp_from_string(text: str) -> Timestamp:
    """Return a timestamp as RFC 3339 writes it."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise failed(FailureKind.INVALID_ARGUMENT, f"`{text}` is not a timestamp like `2009-02-13T23:31:30Z`")
    *numbers, fraction, sign, hours, minutes = match.groups()
    try:
        seconds = (datetime(*map(int, numbers), tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)  # type: ignore[misc, arg-type]
    except ValueError:
        raise failed(FailureKind.INVALID_ARGUMENT, f"`{text}` is not a valid date and time") from None
    if sign:
        seconds -= (int(hours) * 60 + int(minutes)) * (-60 if sign == "-" else 60)
    return make_timestamp(seconds * SECOND + int((fraction or "").ljust(9, "0")))


def duration_from_string(text: str) -> Duration:
    """Return a duration as Go writes it: `90s`, `1h30m`, `-1.5ms`."""
    nanos = read_nanos(text, GO_UNITS)
    if nanos is None:
        raise failed(FailureKind.INVALID_ARGUMENT, f"`{text}` is not a duration like `1h30m` or `1.5s`")
    return make_duration(nanos)


def timestamp_to_string(value: Timestamp) -> str:
    """Format a timestamp as RFC 3339 in UTC, with as many digits after the second as needed."""
    second, nanos = divmod(value.nanos, SECOND)
    return f"{_whole_second(second)}{_fraction(nanos)}Z"


@lru_cache(maxsize=256)  # much is of the same second
def _whole_second(second: int) -> str:
    moment = _EPOCH + timedelta(seconds=second)
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0")


def duration_to_string(value: Duration) -> str:
    """Format a duration in seconds, with as many digits after the point as needed: `1.5s`."""
    seconds, nanos = divmod(abs(value.nanos), SECOND)
    return f"{'-' if value.nanos < 0 else ''}{seconds}{_fraction(nanos)}s"


def _fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


def fixed_offset(zone: str) -> timedelta | None:
    """Return the offset of a time zone like `+02:00` from UTC; None if it has a name, or is invalid."""
    match = _OFFSET.fullmatch(zone)
    if match is None or int(match[2]) >= 24 or int(match[3]) >= 60:
        return None
    return timedelta(hours=int(match[2]), minutes=int(match[3])) * (-1 if match[1] == "-" else 1)


_LONG_ZONE = 100
"""No time zone has a longer name."""


@lru_cache(maxsize=256)
def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by its name or its offset: `Europe/Zurich`, `+02:00`; None if there is none."""
    if (offset := fixed_offset(name)) is not None:
        return timezone(offset)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return None


def _moment(value: Timestamp, zone: str) -> datetime:
    time_zone = find_zone(zone) if len(zone) <= _LONG_ZONE else None
    if time_zone is None:
        raise failed(FailureKind.INVALID_ARGUMENT, f"`{zone[:_LONG_ZONE]}` is not a time zone")
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // SECOND)).astimezone(time_zone)
    except OverflowError:
        raise failed(FailureKind.OUT_OF_RANGE, "a timestamp is from the year 1 to the year 9999") from None


_CALENDAR: dict[str, Callable[[datetime], int]] = {
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getFullYear": lambda moment: moment.year,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getMonth": lambda moment: moment.month - 1,
    "getSeconds": lambda moment: moment.second,
}

_DURATION_UNITS = {"getHours": 3_600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND}


def timestamp_accessors() -> dict[str, Callable[[Timestamp, str], int]]:
    """Return the methods of a timestamp, each with a time zone."""
    accessors: dict[str, Callable[[Timestamp, str], int]] = {
        name: lambda value, zone, read=read: read(_moment(value, zone))  # type: ignore[misc]
        for name, read in _CALENDAR.items()
    }
    return {**accessors, "getMilliseconds": lambda value, zone: value.nanos % SECOND // 1_000_000}


def duration_accessors() -> dict[str, Callable[[Duration], int]]:
    """Return the methods of a duration: whole hours, minutes or seconds, and the milliseconds after the second."""
    accessors: dict[str, Callable[[Duration], int]] = {
        name: lambda value, unit=unit: _towards_zero(value.nanos, unit)  # type: ignore[misc]
        for name, unit in _DURATION_UNITS.items()
    }
    return {**accessors, "getMilliseconds": lambda value: _towards_zero(_rest(value.nanos, SECOND), 1_000_000)}


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def _rest(number: int, divisor: int) -> int:
    return number - _towards_zero(number, divisor) * divisor
