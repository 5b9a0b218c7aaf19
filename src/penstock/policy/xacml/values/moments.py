"""Dates, times and durations of XML Schema, in nanoseconds.

A moment without a time zone is taken as UTC where it is compared: that is our implicit time zone, as the norm leaves it
open.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_MAX_ZONE = 14 * 60 + 59
"""Minutes. XML Schema allows 14:00; the public conformance cases have -14:30."""

_ZONE = r"(?P<zone>Z|[+-]\d\d:\d\d)?"
_DATE = r"(?P<year>-?\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9})0*)?"
_DATE_PATTERN = re.compile(_DATE + _ZONE, re.ASCII)
_TIME_PATTERN = re.compile(_TIME + _ZONE, re.ASCII)
_DATE_TIME_PATTERN = re.compile(_DATE + "T" + _TIME + _ZONE, re.ASCII)
_DAY_TIME_PATTERN = re.compile(
    r"(?P<sign>-)?P(?=[\dT])(?:(?P<day>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hour>\d{1,9})H)?(?:(?P<minute>\d{1,9})M)?(?:(?P<second>\d{1,9})(?:\.(?P<fraction>\d{1,9})0*)?S)?)?",
    re.ASCII,
)
_YEAR_MONTH_PATTERN = re.compile(r"(?P<sign>-)?P(?=\d)(?:(?P<year>\d{1,6})Y)?(?:(?P<month>\d{1,9})M)?", re.ASCII)


@dataclass(init=False, order=True, unsafe_hash=True, slots=True)
class Moment:
    """A date, a time of day or both: nanoseconds as written, and minutes of the time zone, if it has one.

    Two are equal, and in order, by the instant that they are.
    """

    local: int = field(compare=False)
    zone: int | None = field(compare=False)
    instant: int

    def __init__(self, local: int, zone: int | None) -> None:
        self.local, self.zone = local, zone
        self.instant = local - (zone or 0) * MINUTE


class Days(NamedTuple):
    """A duration of days and times, in nanoseconds."""

    nanos: int


class Months(NamedTuple):
    """A duration of years and months, in months."""

    months: int


def read_date(text: str) -> Moment:
    match = _matched(_DATE_PATTERN, text)
    return Moment(_date(match), _zone(match["zone"]))


def read_time(text: str) -> Moment:
    match = _matched(_TIME_PATTERN, text)
    return Moment(_time(match) % DAY, _zone(match["zone"]))


def read_date_time(text: str) -> Moment:
    match = _matched(_DATE_TIME_PATTERN, text)
    return Moment(_date(match) + _time(match), _zone(match["zone"]))


def read_days(text: str) -> Days:
    match = _matched(_DAY_TIME_PATTERN, text)
    parts = (("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND))
    nanos = sum(int(match[name] or 0) * unit for name, unit in parts) + _fraction(match["fraction"])
    return Days(-nanos if match["sign"] else nanos)


def read_months(text: str) -> Months:
    match = _matched(_YEAR_MONTH_PATTERN, text)
    months = int(match["year"] or 0) * 12 + int(match["month"] or 0)
    return Months(-months if match["sign"] else months)


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _zone(text: str | None) -> int | None:
    if text is None or text == "Z":
        return None if text is None else 0
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59 or hours * 60 + minutes > _MAX_ZONE:
        raise ValueError(text)
    return (-1 if text[0] == "-" else 1) * (hours * 60 + minutes)


def _date(match: re.Match[str]) -> int:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if not 1 <= month <= 12 or not 1 <= day <= days_of_month(year, month):
        raise ValueError(match[0])
    return days_of(year, month, day) * DAY


def _time(match: re.Match[str]) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    nanos = hour * HOUR + minute * MINUTE + second * SECOND + _fraction(match["fraction"])
    if minute > 59 or second > 59 or nanos > DAY:
        raise ValueError(match[0])
    return nanos


def _fraction(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    century = year // 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    of_era = (year % 400) * 365 + (year % 400) // 4 - (year % 400) // 100 + of_year
    return century * 146097 + of_era - 719468


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day: the inverse of `days_of`."""
    days += 719468
    era, of_era = divmod(days, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return era * 400 + year + (month <= 2), month, day


def days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def add_months(moment: Moment, months: int) -> Moment:
    """Add months by XML Schema 2, appendix E: a day that the month does not have becomes its last."""
    days, rest = divmod(moment.local, DAY)
    year, month, day = date_of(days)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    day = min(day, days_of_month(year, month + 1))
    return Moment(days_of(year, month + 1, day) * DAY + rest, moment.zone)


def in_range(time: Moment, low: Moment, high: Moment) -> bool:
    """Return whether a time is between two, around midnight too; by default they have the zone of the first."""
    low, high = (Moment(bound.local, time.zone if bound.zone is None else bound.zone) for bound in (low, high))
    return (time.instant - low.instant) % DAY <= (high.instant - low.instant) % DAY


def show_date(moment: Moment) -> str:
    year, month, day = date_of(moment.local // DAY)
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}{_shown_zone(moment.zone)}"


def show_time(moment: Moment) -> str:
    return _shown_time(moment.local % DAY) + _shown_zone(moment.zone)


def show_date_time(moment: Moment) -> str:
    return f"{show_date(Moment(moment.local, None))}T{show_time(moment)}"


def _shown_time(nanos: int) -> str:
    seconds, nanos = divmod(nanos, SECOND)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}{_shown_fraction(nanos)}"


def _shown_fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


def _shown_zone(zone: int | None) -> str:
    if zone is None or zone == 0:
        return "" if zone is None else "Z"
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}"


def show_canonical_time(moment: Moment) -> str:
    """Return the canonical form of XML Schema: what has a time zone is in UTC."""
    return show_time(moment if moment.zone is None else Moment(moment.instant % DAY, 0))


def show_canonical_date_time(moment: Moment) -> str:
    return show_date_time(moment if moment.zone is None else Moment(moment.instant, 0))


def show_days(duration: Days) -> str:
    seconds, nanos = divmod(abs(duration.nanos), SECOND)
    days, seconds = divmod(seconds, 86400)
    parts = ((seconds // 3600, "H"), (seconds // 60 % 60, "M"))
    time = "".join(f"{count}{unit}" for count, unit in parts if count)
    if seconds % 60 or nanos:
        time += f"{seconds % 60}{_shown_fraction(nanos)}S"
    sign = "-" if duration.nanos < 0 else ""
    if not days and not time:
        return "PT0S"
    return f"{sign}P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"


def show_months(duration: Months) -> str:
    years, months = divmod(abs(duration.months), 12)
    sign = "-" if duration.months < 0 else ""
    if not years and not months:
        return "P0M"
    return f"{sign}P{f'{years}Y' if years else ''}{f'{months}M' if months else ''}"
