"""Times at which an access policy is valid: from a moment to another, or at hours of the day, on some days of the week.

Between two changes (`next_change`) nothing about a policy depends on the time, so a node needs to look again only then.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, tzinfo
from math import ceil

from penstock.language.evaluators.times import find_zone
from penstock.model.errors import PolicyError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORM = "a time of the day such as `08:00`, a date, or a date and time such as `2026-12-01T08:00:00Z`"
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_WEEK = 7
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Validity:
    """The times at which a policy is valid. Made by `make_validity`."""

    start: float | None
    """Seconds since the epoch; None: since ever."""
    end: float | None
    """The first moment at which it is no longer valid."""
    hours: tuple[time, time] | None
    """The times of the day from and until which it is valid; it may go past midnight. None: all day."""
    days: frozenset[int]
    """Days of the week, Monday is 0; hours past midnight belong to the day on which they begin."""
    zone: str
    """The zone of hours and days."""
    text: str = field(default="", compare=False)
    """Its form in explanations."""

    def holds(self, now: float) -> bool:
        """Return whether the policy is valid at this time, in seconds since the epoch."""
        if (self.start is not None and now < self.start) or (self.end is not None and now >= self.end):
            return False
        if self.hours is None and len(self.days) == _WEEK:
            return True
        local = datetime.fromtimestamp(now, _zone(self.zone))
        today, at = local.weekday() in self.days, local.time()
        if self.hours is None:
            return today
        begin, end = self.hours
        if begin < end:
            return today and begin <= at < end
        return (today and at >= begin) or ((local.weekday() - 1) % _WEEK in self.days and at < end)

    def next_change(self, now: float) -> float | None:
        """Return the next time after `now` at which it may begin or end; None if it stays as it is for ever."""
        if self.end is not None and now >= self.end:
            return None
        return min((at for at in self._changes(now) if at > now), default=None)

    def is_over(self, now: float) -> bool:
        """Return whether it will never be valid again."""
        return self.end is not None and now >= self.end

    def covers(self, other: "Validity | None") -> bool:
        """Return whether it is known to be valid whenever the other is."""
        if other is None:
            return self.start is None and self.end is None and self.hours is None and len(self.days) == _WEEK
        is_long = (self.start is None or (other.start is not None and self.start <= other.start)) and (
            self.end is None or (other.end is not None and self.end >= other.end)
        )
        is_wide = self.hours is None and len(self.days) == _WEEK
        is_alike = (self.hours, self.zone) == (other.hours, other.zone) and self.days >= other.days
        return is_long and (is_wide or is_alike)

    def meets(self, other: "Validity | None") -> bool:
        """Return whether both may be valid at one time; true if that is not known."""
        if other is None:
            return True
        starts = [each.start for each in (self, other) if each.start is not None]
        ends = [each.end for each in (self, other) if each.end is not None]
        if starts and ends and max(starts) >= min(ends):
            return False
        if self.zone != other.zone:
            return True
        within = [each for each in (self, other) if each.hours is None or each.hours[0] < each.hours[1]]
        if len(within) < 2:  # one goes past midnight
            return True
        if not self.days & other.days:
            return False
        if self.hours is None or other.hours is None:
            return True
        return max(self.hours[0], other.hours[0]) < min(self.hours[1], other.hours[1])

    def _changes(self, now: float) -> Iterator[float]:
        yield from (at for at in (self.start, self.end) if at is not None)
        if self.hours is None and len(self.days) == _WEEK:
            return
        zone = _zone(self.zone)
        base = max(now, self.start or now)
        today = datetime.fromtimestamp(base, zone).date()
        begin, end = self.hours or (time(), time())
        for ahead in range(-1, _WEEK + 2):
            for at in {begin, end}:
                for fold in (0, 1):
                    yield datetime.combine(today + ahead * _DAY, at, zone).replace(fold=fold).timestamp()
        # Where clocks are set, hours may begin or end at that moment, which no clock shows.
        before, moment = datetime.fromtimestamp(base, zone).utcoffset(), base
        for _ in range(_WEEK + 2):
            if datetime.fromtimestamp(moment + _DAY.total_seconds(), zone).utcoffset() != before:
                yield _clocks_set(moment, moment + _DAY.total_seconds(), zone)
                return
            moment += _DAY.total_seconds()


def _clocks_set(since: float, until: float, zone: tzinfo) -> float:
    """Return the moment between two at which the clocks of a zone are set."""
    before = datetime.fromtimestamp(since, zone).utcoffset()
    while until - since > 0.5:
        middle = (since + until) / 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            since = middle
        else:
            until = middle
    return float(ceil(since))


def make_validity(start: str, end: str, days: tuple[str, ...], zone: str) -> Validity | None:
    """Make the times at which a policy is valid, of what is written; None if nothing is; raises `PolicyError`.

    `start` and `end` are both times of the day, or dates, with or without a time; empty: not limited.
    """
    for day in days:
        if day not in DAYS:
            raise PolicyError(f"`on`: `{day}` is no day of the week: expected {', '.join(DAYS)}")
    place = _zone(zone or "UTC")
    if not (start or end or days):
        if zone:
            raise PolicyError("`zone` stands alone: expected `from`, `until` or `on`")
        return None
    of_day = [_HOURS.fullmatch(text) is not None for text in (start, end) if text]
    chosen = frozenset(map(DAYS.index, days)) or frozenset(range(_WEEK))
    text = " ".join(
        (
            *((f"from {start}",) if start else ()),
            *((f"until {end}",) if end else ()),
            *((f"on {', '.join(days)}",) if days else ()),
            *((zone,) if zone else ()),
        )
    )
    if any(of_day):
        if of_day != [True, True]:
            raise PolicyError("`from` and `until` are two times of the day, or two dates: expected both to be alike")
        if start == end:
            raise PolicyError(f"it is never valid: from `{start}` until `{end}`")
        return Validity(None, None, (_time(start), _time(end)), chosen, zone or "UTC", text)
    since, until = (_moment(written, place) if written else None for written in (start, end))
    if since is not None and until is not None and since >= until:
        raise PolicyError(f"it is never valid: from `{start}` until `{end}`")
    return Validity(since, until, None, chosen, zone or "UTC", text)


def _time(text: str) -> time:
    match = _HOURS.fullmatch(text)
    assert match is not None
    return time(int(match[1]), int(match[2]))


def _moment(text: str, zone: tzinfo) -> float:
    try:
        written = datetime.fromisoformat(text)
        return (written if written.tzinfo is not None else written.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise PolicyError(f"`{text:.80}`: expected {FORM}") from None


def _zone(name: str) -> tzinfo:
    zone = find_zone(name)
    if zone is None:
        raise PolicyError(f"`zone`: `{name:.80}` is not a time zone such as `Europe/Rome` or `+02:00`")
    return zone
