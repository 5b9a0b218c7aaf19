"""Keys with a condition each, or none, found by how it lies beside another one.

What a condition in normal form says of an attribute has a hull, from the first to the last value that it lets through.
A condition covers or meets another only if their hulls do so too, for each attribute that both name: this is how few
are compared of many. Conditions that nothing satisfies have no place here.
"""

from collections.abc import Hashable, Iterator
from math import inf
from typing import Generic, TypeVar

from penstock.engine.matching.intervals import Intervals
from penstock.language.condition import Condition
from penstock.language.ranges.ranges import Path, Ranges, covers, intersects
from penstock.language.ranges.regions import NUMBER, OTHER, Place

K = TypeVar("K", bound=Hashable)


class ConditionIndex(Generic[K]):
    """The keys of one topic filter."""

    __slots__ = ("_by_keenest", "_by_path", "_by_text", "_free", "_ranges")

    def __init__(self) -> None:
        self._free: dict[K, str] = {}
        """Those without condition, and those whose condition has no normal form, with its text."""
        self._by_text: dict[str, dict[K, None]] = {}
        self._ranges: dict[K, Ranges] = {}
        self._by_path: dict[Path, Intervals[K]] = {}
        """Each by all attributes that it names; and in `_by_keenest` by the one of which it lets the least through."""
        self._by_keenest: dict[Path, Intervals[K]] = {}

    def __len__(self) -> int:
        return len(self._free) + len(self._ranges)

    def __iter__(self) -> Iterator[K]:
        yield from self._free
        yield from self._ranges

    def add(self, key: K, condition: Condition | None) -> None:
        """Put in a key that is not there."""
        if condition is None or condition.ranges is None:
            text = self._free[key] = condition.text if condition is not None else ""
            self._by_text.setdefault(text, {})[key] = None
            return
        self._ranges[key] = condition.ranges
        for path, (low, high) in _hulls(condition.ranges):
            self._by_path.setdefault(path, Intervals()).add(key, low, high)
        path, (low, high) = _keenest(condition.ranges)
        self._by_keenest.setdefault(path, Intervals()).add(key, low, high)

    def remove(self, key: K) -> None:
        text = self._free.pop(key, None)
        if text is not None:
            del self._by_text[text][key]
            if not self._by_text[text]:
                del self._by_text[text]
            return
        ranges = self._ranges.pop(key)
        for path, _ in _hulls(ranges):
            _remove(self._by_path, path, key)
        _remove(self._by_keenest, _keenest(ranges)[0], key)

    def covering(self, condition: Condition | None) -> Iterator[K]:
        """Yield those that are true wherever this one is, as far as that can be told."""
        yield from self._by_text.get("", ())
        if condition is None:
            return
        if condition.ranges is None:
            yield from self._by_text.get(condition.text, ())
            return
        for path, (low, high) in _hulls(condition.ranges):
            if path in self._by_keenest:
                for key in self._by_keenest[path].containing(low, high):
                    if covers(self._ranges[key], condition.ranges) is True:
                        yield key

    def covered(self, condition: Condition | None) -> Iterator[K]:
        """Yield those that are true only where this one is, as far as that can be told."""
        if condition is None:
            yield from self
            return
        if condition.ranges is None:
            yield from self._by_text.get(condition.text, ())
            return
        named = condition.ranges.regions
        if not all(path in self._by_path for path in named):
            return
        path, hull = _keenest(condition.ranges)
        for key in self._by_path[path].inside(*hull):
            if covers(condition.ranges, self._ranges[key]) is True:
                yield key

    def meeting(self, condition: Condition | None) -> Iterator[K]:
        """Yield those that may be true where this one is."""
        yield from self._free
        if condition is None or condition.ranges is None:
            yield from self._ranges
            return
        for key in self._candidates(condition.ranges):
            if intersects(self._ranges[key], condition.ranges) is not False:
                yield key

    def _candidates(self, ranges: Ranges) -> Iterator[K]:
        known = [path for path in ranges.regions if path in self._by_path]
        if not known:
            yield from self._ranges
            return
        most = max(len(self._by_path[path]) for path in known)  # few are left that it says nothing of
        path, hull = _keenest(ranges, [path for path in known if len(self._by_path[path]) == most])
        among = self._by_path[path]
        if len(among) < len(self._ranges):
            yield from (key for key in self._ranges if key not in among)
        yield from among.meeting(*hull)


def _hulls(ranges: Ranges) -> Iterator[tuple[Path, tuple[Place, Place]]]:
    """Return the hull of each attribute that a condition names; one with a field is a map."""
    parents = {path[:length] for path in ranges.regions for length in range(1, len(path))}
    for path in parents - ranges.regions.keys():
        yield path, _MAP
    for path, region in ranges.regions.items():
        yield path, region.hull()


_MAP = OTHER.hull()


def _keenest(ranges: Ranges, among: list[Path] | None = None) -> tuple[Path, tuple[Place, Place]]:
    """Return the attribute of which a condition lets the least through, with its hull: one value, a span, or more."""
    hulls = {path: ranges.regions[path].hull() for path in (ranges.regions if among is None else among)}
    return min(hulls.items(), key=lambda item: (_width(*item[1]), item[0]))


def _width(low: Place, high: Place) -> float:
    if low == high:
        return 0.0
    return float(high[1]) - float(low[1]) if low[0] == high[0] == NUMBER else inf


def _remove(index: dict[Path, Intervals[K]], path: Path, key: K) -> None:
    index[path].remove(key)
    if not index[path]:
        del index[path]
