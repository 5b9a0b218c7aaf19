"""Sets of points on a line, as spans that contain their start and not their end, in order and without touching."""

from typing import Any

Span = tuple[Any, Any]
Spans = tuple[Span, ...]

NOTHING: Spans = ()


def spans(*parts: Span) -> Spans:
    """The set of all points of these spans."""
    made: list[Span] = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return tuple(made)


def unite(left: Spans, right: Spans) -> Spans:
    """Points in either."""
    return spans(*left, *right)


def intersect(left: Spans, right: Spans) -> Spans:
    """Points in both."""
    return spans(*((max(a, c), min(b, d)) for a, b in left for c, d in right))


def without(whole: Spans, removed: Spans) -> Spans:
    """Points of the first that are not in the second."""
    for start, end in removed:
        whole = spans(*(part for a, b in whole for part in ((a, min(b, start)), (max(a, end), b))))
    return whole


def has_point(line: Spans, point: Any) -> bool:
    """Whether a point is in the set."""
    return any(start <= point < end for start, end in line)


def are_inside(inner: Spans, outer: Spans) -> bool:
    """Whether all points of the first are in the second."""
    return all(any(first <= start and end <= after for first, after in outer) for start, end in inner)


def meet(left: Spans, right: Spans) -> bool:
    """Whether there is a point in both."""
    return any(a < d and c < b for a, b in left for c, d in right)
