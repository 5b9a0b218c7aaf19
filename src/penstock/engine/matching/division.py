"""Along which attribute a crowded node of the matching tree is best divided, and where a slab is best cut.

The measure is how many entries a value would still meet, if values are where entries are.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.engine.matching.block import Entry
from penstock.engine.matching.coordinates import Span, Where
from penstock.language.ranges.ranges import Path

WORTHWHILE = 0.75
"""The share of those naming an attribute that may still be met. With more, cells would take much room for little."""

LEAST_GAIN = 0.125
"""The share of all entries that must no longer be met."""

_MAX_BOUNDS = 32
"""Bounds that are tried, evenly chosen if there are more."""


class Cell(NamedTuple):
    """The range of an attribute in a node: its value is on this line, in this span; None: it is one value."""

    line: type
    span: Span | None


Within = dict[Path, Cell]
"""The known ranges in a node, of the attributes that it is inside axes of."""

_WHOLE: Span = (None, None)


def best_path(entries: Sequence[Entry], within: Within) -> Path | None:
    """Return the attribute that tells most entries apart; None if none does well enough."""
    naming: dict[Path, list[Where]] = {}
    for entry in entries:
        for path, where in entry.where.items():
            naming.setdefault(path, []).append(where)
    best, gain = None, LEAST_GAIN * len(entries)
    for path, wheres in naming.items():
        if len(wheres) <= gain:
            continue
        met = _met(wheres, within.get(path))
        if met <= WORTHWHILE * len(wheres) and len(wheres) - met > gain:
            best, gain = path, len(wheres) - met
    return best


def best_bound(entries: Sequence[Entry], path: Path, slab: Cell) -> Any:
    """Return the bound at which to cut a slab."""
    assert slab.span is not None
    cut = _best_cut([_hull(entry.where[path][slab.line].spans) for entry in entries], slab.span)
    assert cut is not None
    return cut[0]


def _met(wheres: list[Where], cell: Cell | None) -> float:
    """Return how many of the entries that name an attribute are met by a value of it."""
    if cell is not None and cell.span is None:
        return len(wheres)
    points: Counter[tuple[type, Any]] = Counter()
    hulls: dict[type, list[Span]] = {}
    for where in wheres:
        for line, places in where.items():
            if cell is not None and cell.line is not line:
                continue
            points.update((line, point) for point in places.points)
            if places.spans:
                hulls.setdefault(line, []).append(_hull(places.spans))
    groups = list(points.values())
    for spans in hulls.values():
        cut = _best_cut(spans, _WHOLE if cell is None or cell.span is None else cell.span)
        groups += [len(spans)] if cut is None else cut[1:]
    return sum(size * size for size in groups) / sum(groups)


def _hull(spans: tuple[Span, ...]) -> Span:
    return spans[0][0], spans[-1][1]


def _best_cut(spans: list[Span], inside: Span) -> tuple[Any, int, int] | None:
    """Return the bound that leaves least on both sides, and how many spans are on each; None without a bound inside."""
    starts = sorted(start for start, _ in spans)
    ends = sorted(end for _, end in spans if end is not None)
    low, high = inside
    known = {*starts, *ends}
    bounds = sorted(each for each in known if (low is None or low < each) and (high is None or each < high))
    best = None
    least = float(len(spans))
    for bound in bounds[:: -(-len(bounds) // _MAX_BOUNDS)] if bounds else ():
        below, above = bisect_left(starts, bound), len(spans) - bisect_right(ends, bound)
        met = (below * below + above * above) / (below + above)
        if met < least:
            best, least = (bound, below, above), met
    return best
