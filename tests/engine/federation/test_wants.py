"""What a neighbour is told, kept up to date by differences, beside what comparing everything with everything gives."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.federation.neighbour_wants import NeighbourWants
from penstock.engine.federation.offer_matches import Matter, Meetings
from penstock.engine.federation.wants import Want
from penstock.engine.matching.intervals import Intervals
from penstock.language.condition import Condition, make_condition
from penstock.language.ranges.ranges import covers as ranges_cover
from penstock.language.ranges.ranges import intersects
from penstock.model.topic import covers, overlaps
from tests.support.generators.examples import some

FILTERS = ("#", "+/#", "a", "a/#", "a/+", "+/b", "a/b", "/#", "/+", "$a/b", "$a/#", "a/b/c", "+/+", "+")
CONDITIONS = (
    *(f"x > {number}" for number in range(6)),
    *(f"x < {number}" for number in range(4)),
    *(f"x == {number}" for number in range(4)),
    *(
        "x >= 1 && x <= 3",
        "x > 1 && x < 5",
        "x > 1 && x > 0",
        "x in [1, 4]",
        "x != 2",
        "x > 1.5",
        "x == 'text'",
        "x >= 'a'",
        "x",
    ),
    *("x > 2 && y == 'k'", "x > 1 && y == 'k'", "y == 'k'", "y.startsWith('k')", "x > 0 && y < 5", "has(x)", "!has(x)"),
    *("a.b > 1", "a.b > 3", "has(a)", "a.b > 1 && x > 2", "a != 4", "has(a.b)", "x % 2 == 0", "x > y", "x == null"),
    *("x > 5 || x < 2", "x > 6 || x < 1", "!(x > 3)", "x > 3 && x < 2", "a == 1 && a.b == 2"),
)
PATHS = ((), ("n1",), ("n1", "n2"), ("n2", "n1"), ("n3", "n1"), ("n3", "n2", "n1"))


@cache
def condition(where: str) -> Condition | None:
    return make_condition(where) if where else None


def is_empty(one: Condition | None) -> bool:
    return one is not None and one.ranges is not None and one.ranges.is_empty


WHERES = ("", *(make_condition(text).text for text in CONDITIONS if not is_empty(condition(text))))
Rounds = list[list[tuple[int, list[Want]]]]


@st.composite
def rounds(draw: st.DrawFn) -> Rounds:
    """Rounds of changes, each of which gives a source other wants. Few filters and conditions: they meet often."""
    parts = (draw(st.lists(st.sampled_from(some), min_size=1, max_size=4)) for some in (FILTERS, WHERES, PATHS))
    want = st.builds(Want, *map(st.sampled_from, parts))
    change = st.tuples(st.integers(0, 11), st.lists(want, max_size=2, unique=True))
    return draw(st.lists(st.lists(change, max_size=6), max_size=8))


@cache
def is_told_by(want: Want, other: Want) -> bool:
    """Whether who knows the other need not be told the want."""
    inner, outer = condition(want.where), condition(other.where)
    return (
        set(other.path) <= set(want.path)
        and covers(other.filter, want.filter)
        and (
            outer is None
            or (inner is not None and (inner == outer or ranges_cover(outer.ranges, inner.ranges) is True))
        )
    )


def shortest(wants: set[Want]) -> set[Want]:
    best: dict[tuple[object, ...], Want] = {}
    for want in sorted(wants, key=lambda one: (len(one.path), one.path)):
        best.setdefault((want.filter, want.where, want.path[:1]), want)
    return set(best.values())


@given(rounds())
@settings(max_examples=some(150))
def test_told_is_what_no_other_want_covers_whatever_came_and_went(rounds: Rounds) -> None:
    wanted = NeighbourWants()
    sources: dict[int, list[Want]] = {}
    told: set[Want] = set()
    for one in rounds:
        for source, wants in one:
            wanted.put(source, {want: condition(want.where) for want in wants})
            sources[source] = wants
        more, less = wanted.changes()
        assert not more & told
        assert less <= told
        told = (told | more) - less
        assert told == wanted.told()
        every = shortest({want for wants in sources.values() for want in wants})
        widest = {
            want
            for want in every
            if not any(
                is_told_by(want, other) and (other > want or not is_told_by(other, want)) for other in every - {want}
            )
        }
        assert told == widest


@given(rounds())
@settings(max_examples=some(100))
def test_where_conditions_crowd_all_is_told_that_is_wanted(rounds: Rounds) -> None:
    wanted = NeighbourWants(max_conditions=2)
    sources: dict[int, list[Want]] = {}
    for one in rounds:
        for source, wants in one:
            wanted.put(source, {want: condition(want.where) for want in wants})
            sources[source] = wants
        wanted.changes()
        told = wanted.told()
        every = shortest({want for wants in sources.values() for want in wants})
        for want in every:
            assert any(is_told_by(want, other) for other in told)
        for want in told - every:  # a filter as such, in place of more conditions than are told
            assert not want.where
            assert len([other for other in every if (other.filter, other.path) == (want.filter, want.path)]) > 2
    for source in sources:
        wanted.put(source, {})
    wanted.changes()
    assert not wanted.told()


matters = st.builds(Matter, st.sampled_from(FILTERS), st.sampled_from([None, *map(make_condition, CONDITIONS)]))
moves = st.lists(st.tuples(st.booleans(), st.integers(0, 11), st.none() | matters), max_size=30)


def meet(left: Matter, right: Matter) -> bool:
    if is_empty(left.condition) or is_empty(right.condition) or not overlaps(left.filter, right.filter):
        return False
    if left.condition is None or right.condition is None:
        return True
    return intersects(left.condition.ranges, right.condition.ranges) is not False


@given(moves)
@settings(max_examples=some(150))
def test_a_subscription_is_met_if_it_meets_an_offer_whatever_came_and_went(
    moves: list[tuple[bool, int, Matter | None]],
) -> None:
    meetings: Meetings[int] = Meetings()
    asked: dict[int, Matter] = {}
    offered: dict[str, Matter] = {}
    for is_offer, number, matter in moves:
        before = {key: meetings.is_met(key) for key in asked}
        if is_offer:
            named = meetings.offer(str(number), matter)
            offered.pop(str(number), None)
            offered.update({str(number): matter} if matter is not None else {})
            assert {key for key in asked if meetings.is_met(key) != before[key]} <= set(named)
        elif matter is None:
            meetings.forget(number)
            asked.pop(number, None)
        else:
            meetings.ask(number, matter)
            asked[number] = matter
        for key, one in asked.items():
            assert meetings.is_met(key) == any(meet(one, other) for other in offered.values())


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 20)), max_size=400))
@settings(max_examples=some(60))
def test_intervals_are_found_by_how_they_lie(moves: list[tuple[int, int, int]]) -> None:
    intervals: Intervals[int] = Intervals()
    known: dict[int, tuple[int, int]] = {}
    for at, (key, one, other) in enumerate(moves):
        if key in known:
            del known[key]
            intervals.remove(key)
        else:
            known[key] = min(one, other), max(one, other)
            intervals.add(key, *known[key])
        if at % 7 == 0:
            low, high = min(one, other), max(one, other)
            assert sorted(intervals.containing(low, high)) == sorted(
                k for k, (a, b) in known.items() if a <= low and high <= b
            )
            assert sorted(intervals.inside(low, high)) == sorted(
                k for k, (a, b) in known.items() if low <= a and b <= high
            )
            assert sorted(intervals.meeting(low, high)) == sorted(
                k for k, (a, b) in known.items() if a <= high and low <= b
            )
    assert len(intervals) == len(known)


def test_intervals_in_many_blocks() -> None:
    intervals: Intervals[int] = Intervals()
    for number in range(1000):
        intervals.add(number, number * 7 % 1000, number * 7 % 1000 + 2)
    for number in range(0, 1000, 2):
        intervals.remove(number)
    left = {number: number * 7 % 1000 for number in range(1, 1000, 2)}
    assert sorted(intervals.containing(500, 501)) == sorted(k for k, low in left.items() if 499 <= low <= 500)
    assert sorted(intervals.inside(100, 400)) == sorted(k for k, low in left.items() if 100 <= low <= 398)
    assert sorted(intervals.meeting(100, 400)) == sorted(k for k, low in left.items() if 98 <= low <= 400)
