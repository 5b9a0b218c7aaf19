"""Sets of points on a line, as spans that contain their start and not their end, in order and without touching."""

from bisect import bisect_right
from operator import itemgetter
from typing import Any

Span = tuple[Any, Any]
Spans = tuple[Span, ...]

NOTHING: Spans = ()
_start = itemgetter(0)


def union(*parts: Span) -> Spans:
    """Return the set of all points of these spans."""
    united: list[Span] = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return tuple(united)


def intersect(left: Spans, right: Spans) -> Spans:
    """Return the points in both."""
    common: list[Span] = []
    at = other = 0
    while at < len(left) and other < len(right):
        start, end = max(left[at][0], right[other][0]), min(left[at][1], right[other][1])
        if start < end:
            common.append((start, end))
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1
    return tuple(common)


def without(whole: Spans, removed: Spans) -> Spans:
    """Return the points of the first that are not in the second."""
    remaining: list[Span] = []
    other = 0
    for start, end in whole:
        while other < len(removed) and removed[other][1] <= start:
            other += 1
        at = other
        while at < len(removed) and removed[at][0] < end:
            if start < removed[at][0]:
                remaining.append((start, removed[at][0]))
            start = max(start, removed[at][1])
            at += 1
        if start < end:
            remaining.append((start, end))
    return tuple(remaining)


def has_point(line: Spans, point: Any) -> bool:
    """Return whether a point is in the set."""
    at = bisect_right(line, point, key=_start) - 1
    return at >= 0 and bool(point < line[at][1])


def are_inside(inner: Spans, outer: Spans) -> bool:
    """Return whether all points of the first are in the second."""
    for start, end in inner:
        at = bisect_right(outer, start, key=_start) - 1
        if at < 0 or outer[at][1] < end:
            return False
    return True


def meet(left: Spans, right: Spans) -> bool:
    """Return whether there is a point in both."""
    at = other = 0
    while at < len(left) and other < len(right):
        if left[at][0] < right[other][1] and right[other][0] < left[at][1]:
            return True
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1
    return False
