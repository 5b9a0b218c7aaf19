"""Values by topic filter, found by how the filter lies beside another one. No walk recurses: filters may be long."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from penstock.model.topic import covers, overlaps

V = TypeVar("V")


class _Branch(Generic[V]):
    __slots__ = ("below", "values")

    def __init__(self) -> None:
        self.below: dict[str, _Branch[V]] = {}
        self.values: dict[str, V] = {}
        """By filter: `#` and `+/#` are the same topics."""


_Walk = Callable[[_Branch[V], list[str], int, list[tuple[_Branch[V], int]]], Iterator[_Branch[V]]]
"""One step: from a branch and a level of the filter to what is found there; where to go on is put on the list."""


class FilterTree(Generic[V]):
    """One value for each filter."""

    __slots__ = ("_by_filter", "_root")

    def __init__(self) -> None:
        self._root: _Branch[V] = _Branch()
        self._by_filter: dict[str, V] = {}

    def __len__(self) -> int:
        return len(self._by_filter)

    def get(self, filter: str) -> V | None:
        return self._by_filter.get(filter)

    def values(self) -> Iterator[V]:
        return iter(self._by_filter.values())

    def set(self, filter: str, value: V) -> None:
        self._by_filter[filter] = value
        branch = self._root
        for level in _levels(filter):
            branch = branch.below.setdefault(level, _Branch())
        branch.values[filter] = value

    def remove(self, filter: str) -> None:
        del self._by_filter[filter]
        way = [self._root]
        levels = _levels(filter)
        for level in levels:
            way.append(way[-1].below[level])
        del way[-1].values[filter]
        for branch, level in zip(reversed(way[:-1]), reversed(levels), strict=True):
            if branch.below[level].values or branch.below[level].below:
                return
            del branch.below[level]

    def covering(self, filter: str) -> list[V]:
        """The values of the filters that match all that this one matches."""
        return [value for other, value in self._found(filter, _to_wider) if covers(other, filter)]

    def covered(self, filter: str) -> list[V]:
        """The values of the filters that match nothing but what this one matches."""
        return [value for other, value in self._found(filter, _to_narrower) if covers(filter, other)]

    def overlapping(self, filter: str) -> Iterator[V]:
        """The values of the filters that match something that this one matches."""
        return (value for other, value in self._found(filter, _to_overlapping) if overlaps(filter, other))

    def _found(self, filter: str, walk: "_Walk[V]") -> Iterator[tuple[str, V]]:
        levels = _levels(filter)
        waiting = [(self._root, 0)]
        while waiting:
            branch, at = waiting.pop()
            for found in walk(branch, levels, at, waiting):
                yield from found.values.items()


def _levels(filter: str) -> list[str]:
    """The levels, `#` as `+/#` and `/#` as `/+/#`: no topic is shorter."""
    levels = filter.split("/")
    if levels in (["#"], ["", "#"]):
        levels.insert(-1, "+")
    return levels


def _to_wider(
    branch: _Branch[V], levels: list[str], at: int, waiting: list[tuple[_Branch[V], int]]
) -> Iterator[_Branch[V]]:
    if "#" in branch.below:
        yield branch.below["#"]
    if at == len(levels):
        yield branch
        return
    for level in {levels[at], "+"} if levels[at] != "#" else ():
        if level in branch.below:
            waiting.append((branch.below[level], at + 1))


def _to_narrower(
    branch: _Branch[V], levels: list[str], at: int, waiting: list[tuple[_Branch[V], int]]
) -> Iterator[_Branch[V]]:
    if at == len(levels):
        yield branch
    elif levels[at] == "#":
        yield branch
        waiting.extend((below, at) for below in branch.below.values())
    elif levels[at] == "+":
        waiting.extend((below, at + 1) for level, below in branch.below.items() if level != "#")
    elif levels[at] in branch.below:
        waiting.append((branch.below[levels[at]], at + 1))


def _to_overlapping(
    branch: _Branch[V], levels: list[str], at: int, waiting: list[tuple[_Branch[V], int]]
) -> Iterator[_Branch[V]]:
    if at < len(levels) and levels[at] == "#":
        yield branch
        waiting.extend((below, at) for below in branch.below.values())
        return
    if "#" in branch.below:
        yield branch.below["#"]
    if at == len(levels):
        yield branch
    elif levels[at] == "+":
        waiting.extend((below, at + 1) for level, below in branch.below.items() if level != "#")
    else:
        for level in (levels[at], "+"):
            if level in branch.below:
                waiting.append((branch.below[level], at + 1))
