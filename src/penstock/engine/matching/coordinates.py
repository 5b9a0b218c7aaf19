"""The coordinates of conditions: intervals on the lines by which the index of conditions is sorted.

There are three lines: numbers, strings, and the words true, false and null. Lists, maps, times and what is not there
lie on none, so nothing can be said of an attribute that may be one of these. Places may hold more than the condition
accepts, never less: beyond 2^53 an integer and a double are one number here, and two in the language.
"""

import math
from typing import NamedTuple

from penstock.language.condition import Condition
from penstock.language.ranges.ranges import Path, Ranges, ranges
from penstock.language.ranges.regions import Region, double_at
from penstock.language.ranges.spans import Spans, intersect, union
from penstock.language.tree import And
from penstock.language.values import MAX_UINT, MIN_INT, Uint, Value

MAX_POINTS = 8
"""So many single values are kept as such; more become spans, so that no condition is in very many places."""

_EXACT = 1 << 53
"""Below, integers and doubles are compared as the numbers that they are; beyond, integers are rounded."""

Span = tuple[Value, Value]
"""From its start, which is in it, to its end, which is not; an end of None: no end."""

LINES: dict[type, tuple[type, ...]] = {float: (int, float, Uint), str: (str,), bool: (bool, type(None))}
"""The lines by name, and the types of the values on each."""


class Places(NamedTuple):
    """Places on one line: points, or spans that are sorted and do not touch."""

    points: tuple[Value, ...] = ()
    spans: tuple[Span, ...] = ()
    is_exact: bool = True
    """The condition accepts all of it."""


Where = dict[type, Places]
"""Places on each line; on a line that is not there, none."""


class Placement(NamedTuple):
    """For each attribute that a condition restricts, where it must be for the condition to be true."""

    where: dict[Path, Where]
    is_exact: bool
    """The condition is true wherever all attributes are in their places."""
    is_nowhere: bool
    """It is never true."""


def place(condition: Condition) -> Placement:
    """Return the places of a condition; without a normal form, those of the operands of its `&&` that have one."""
    needed = _needed(condition)
    if needed is None or needed.is_empty:
        return Placement({}, is_exact=False, is_nowhere=needed is not None)
    regions = {path: _where(region) for path, region in needed.regions.items()}
    where = {path: each for path, each in regions.items() if each is not None}
    is_exact = all(places.is_exact for each in where.values() for places in each.values())
    return Placement(where, is_exact and needed is condition.ranges and len(where) == len(regions), is_nowhere=False)


def _needed(condition: Condition) -> Ranges | None:
    if condition.ranges is not None or not isinstance(condition.tree, And):
        return condition.ranges
    known = tuple(operand for operand in condition.tree.operands if ranges(operand) is not None)
    if len(known) < 2:
        return ranges(known[0]) if known else None
    return ranges(And(known))


def _where(region: Region) -> Where | None:
    """None if there is something in the region that lies on no line."""
    if region.other or region.absent or region.broken:
        return None
    words = (*sorted(region.bools), *((None,) if region.null else ()))
    lines = {float: _numbers(region), str: _strings(region.strings), bool: Places(points=words)}
    return {line: places for line, places in lines.items() if places.points or places.spans}


def _numbers(region: Region) -> Places:
    integers, doubles = region.integers, region.doubles
    if max(_size(integers), _size(doubles)) <= MAX_POINTS and not region.not_a_number:
        points: set[float] = {number for start, end in integers for number in range(start, end)}
        points.update(double_at(place) for start, end in doubles for place in range(start, end))
        return Places(points=tuple(points), is_exact=all(abs(point) < _EXACT for point in points))
    of_doubles = [_double_span(double_at(start), double_at(end - 1)) for start, end in doubles]
    both = [*(_integer_span(start, end - 1) for start, end in integers), *of_doubles]
    if region.not_a_number:
        both.append((math.inf, None))  # to `bisect`, what is not a number is after everything; there infinity is too
    merged = _merged(both)
    edges = (edge for span in merged for edge in span if edge is not None)
    is_exact = (
        all(abs(edge) < _EXACT or math.isinf(edge) for edge in edges)
        and set(merged) <= set(_merged(of_doubles))  # not `x != 0.5`: integers on both sides, and a hole
        and intersect(integers, _integers(merged)) == _integers(merged)
    )
    return Places(spans=merged, is_exact=is_exact)


def _integers(line: tuple[Span, ...]) -> Spans:
    """Return the integers on a line of numbers."""
    first, last = -math.inf, math.inf
    finite = ((start, last if end is None else end) for start, end in line if start != last)
    edges = ((MIN_INT if start == first else math.ceil(start), end) for start, end in finite)
    return union(*((start, MAX_UINT + 1 if end == last else math.ceil(end)) for start, end in edges))


def _size(line: Spans) -> int:
    return sum(end - start for start, end in line)


def _integer_span(first: int, last: int) -> Span:
    start = -math.inf if first == MIN_INT else first
    if last == MAX_UINT:
        return start, None
    return start, math.nextafter(last, math.inf) if abs(last) < _EXACT else last + 1


def _double_span(first: float, last: float) -> Span:
    return first, None if last == math.inf else math.nextafter(last, math.inf)


def _merged(spans: list[Span]) -> tuple[Span, ...]:
    gaps: list[Span] = []
    for start, end in sorted(spans, key=lambda span: span[0]):
        if gaps and (gaps[-1][1] is None or start <= gaps[-1][1]):
            first, last = gaps[-1]
            gaps[-1] = first, None if last is None or end is None else max(last, end)
        else:
            gaps.append((start, end))
    return tuple(gaps)


def _strings(line: Spans) -> Places:
    # A place of a string is (0, string); the end of all strings is (1, "").
    spans = tuple((start[1], None if end[0] else end[1]) for start, end in line)
    if len(spans) <= MAX_POINTS and all(end == f"{start}\0" for start, end in spans):
        return Places(points=tuple(start for start, _ in spans))
    return Places(spans=spans)
