"""Times at which a policy is valid, held against the calendar; and when they change next."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.policy.sparkplug.validity import DAYS, Validity, make_validity

ZONES = ("UTC", "Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
MINUTE, DAY = 60, 86_400
SPRING = datetime(2026, 3, 28, tzinfo=UTC).timestamp()
AUTUMN = datetime(2026, 10, 24, tzinfo=UTC).timestamp()
HOURS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from((0, 15, 30, 59)))
NEAR = st.builds(lambda base, m: base + m * MINUTE, st.sampled_from((SPRING, AUTUMN)), st.integers(0, 3 * 1440))
MOMENTS = st.one_of(NEAR, st.integers(0, 360 * 1440).map(lambda m: 1_767_225_600.0 + m * MINUTE))


@st.composite
def validities(draw: st.DrawFn) -> Validity:
    days = tuple(draw(st.sets(st.sampled_from(DAYS))))
    zone = draw(st.sampled_from(ZONES))
    match draw(st.integers(0, 2)):
        case 0:
            begin, end = draw(st.lists(HOURS, min_size=2, max_size=2, unique=True))
            made = make_validity(begin, end, days, zone)
        case 1:
            moments = sorted(draw(st.lists(MOMENTS, min_size=2, max_size=2, unique=True)))
            since, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in moments)
            begin, end = draw(st.sampled_from(((since, until), (since, ""), ("", until))))
            made = make_validity(begin, end, days, zone)
        case _:
            made = make_validity("", "", days or ("mon",), zone)
    assert made is not None
    return made


def holds(valid: Validity, now: float) -> bool:
    """The calendar: on which days does a time begin, and does the clock on the wall stand within it?"""
    if not (valid.start or 0) <= now < (valid.end or 10**12):
        return False
    wall = datetime.fromtimestamp(now, ZoneInfo(valid.zone)).replace(tzinfo=None)

    def within(day: date) -> bool:
        begin, end = valid.hours or (time(), time())
        last = day if begin < end else day + timedelta(days=1)
        return datetime.combine(day, begin) <= wall < datetime.combine(last, end)

    days = (wall.date() - timedelta(days=back) for back in (0, 1))
    return any(day.weekday() in valid.days and within(day) for day in days)


@given(validities(), MOMENTS)
def test_it_is_valid_as_the_calendar_says(valid: Validity, now: float) -> None:
    assert valid.holds(now) == holds(valid, now)


@given(validities(), NEAR)
def test_nothing_changes_before_the_next_change(valid: Validity, now: float) -> None:
    """Also on the days on which clocks are set."""
    minutes = (now + minute * MINUTE for minute in range(8 * 1440))
    first = next((at for at in minutes if valid.holds(at) != valid.holds(now)), None)
    asked = valid.next_change(now)
    while asked is not None and first is not None and asked < first:
        assert valid.holds(asked) == valid.holds(now)
        asked = valid.next_change(asked)
    assert first is None or asked == first


@given(validities(), validities(), st.lists(MOMENTS, min_size=20, max_size=20))
def test_what_is_said_of_two_is_true(one: Validity, other: Validity, moments: list[float]) -> None:
    for now in moments:
        if one.covers(other):
            assert one.holds(now) or not other.holds(now)
        if not one.meets(other):
            assert not (one.holds(now) and other.holds(now))


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (("08:00", "2026-12-01", (), ""), "two times of the day, or two dates"),
        (("08:00", "", (), ""), "two times of the day"),
        (("08:00", "08:00", (), ""), "never valid"),
        (("2026-12-02", "2026-12-01", (), ""), "never valid"),
        (("25:00", "26:00", (), ""), "expected a time of the day"),
        (("", "", ("monday",), ""), "no day of the week"),
        (("", "", ("mon",), "Europe/Rom"), "not a time zone"),
        (("", "", (), "UTC"), "stands alone"),
    ],
)
def test_what_is_wrong_is_said(written: tuple[str, str, tuple[str, ...], str], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        make_validity(*written)
