"""Where a condition's region of an attribute lies on the lines that an index is sorted by.

There are three lines: numbers, strings, and the words true, false and null. Lists, maps, times and what is not there
lie on none, so a region that has any of these has no place in an index. Places may hold more than the region (an int
and a double are one number here), never less: about what is in them the condition itself decides.
"""

import math
from typing import NamedTuple

from penstock.language.regions import Region, double_at
from penstock.language.spans import Spans
from penstock.language.values import LEAST_INT, MOST_UINT, Uint, Value

MOST_POINTS = 8
"""So many single values are kept as such; more become spans, so that no condition is in very many places."""

_EXACT = 1 << 53

Span = tuple[Value, Value]
"""From its start, which is in it, to its end, which is not; an end of None: no end."""

LINES: dict[type, tuple[type, ...]] = {float: (int, float, Uint), str: (str,), bool: (bool, type(None))}
"""The types of the values on each line; the line is named by the first column."""


class Places(NamedTuple):
    """Where on one line a condition can be true: at points, or within spans that are sorted and do not touch."""

    points: tuple[Value, ...] = ()
    spans: tuple[Span, ...] = ()


Where = dict[type, Places]


def where(region: Region) -> Where | None:
    """The places of a region on each line; None if there is something in it that lies on no line."""
    if region.other or region.absent or region.broken:
        return None
    words = (*sorted(region.bools), *((None,) if region.null else ()))
    found = {float: _numbers(region), str: _strings(region.strings), bool: Places(points=words)}
    return {line: places for line, places in found.items() if places.points or places.spans}


def _numbers(region: Region) -> Places:
    integers, doubles = region.integers, region.doubles
    if _size(integers) + _size(doubles) <= 2 * MOST_POINTS and not region.not_a_number:
        points: set[float] = {number for start, end in integers for number in range(start, end)}
        points.update(double_at(place) for start, end in doubles for place in range(start, end))
        return Places(points=tuple(points))
    spans = [_integer_span(start, end - 1) for start, end in integers]
    spans += [_double_span(double_at(start), double_at(end - 1)) for start, end in doubles]
    if region.not_a_number:
        spans.append((math.inf, None))  # to `bisect`, what is not a number is after everything
    return Places(spans=_merged(spans))


def _size(line: Spans) -> int:
    return sum(end - start for start, end in line)


def _integer_span(first: int, last: int) -> Span:
    start = -math.inf if first == LEAST_INT else first
    if last == MOST_UINT:
        return start, None
    return start, math.nextafter(last, math.inf) if abs(last) < _EXACT else last + 1


def _double_span(first: float, last: float) -> Span:
    return first, None if last == math.inf else math.nextafter(last, math.inf)


def _merged(spans: list[Span]) -> tuple[Span, ...]:
    made: list[Span] = []
    for start, end in sorted(spans, key=lambda span: span[0]):
        if made and (made[-1][1] is None or start <= made[-1][1]):
            first, last = made[-1]
            made[-1] = first, None if last is None or end is None else max(last, end)
        else:
            made.append((start, end))
    return tuple(made)


def _strings(line: Spans) -> Places:
    # A place of a string is (0, string); the end of all strings is (1, "").
    spans = tuple((start[1], None if end[0] else end[1]) for start, end in line)
    if len(spans) <= MOST_POINTS and all(end == f"{start}\0" for start, end in spans):
        return Places(points=tuple(start for start, _ in spans))
    return Places(spans=spans)
