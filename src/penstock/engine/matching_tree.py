"""The tree that conditions are filed in, so that content meets only the few that may hold for it.

A node holds entries. When they become too many, it is divided along an *axis*, an attribute that tells them apart: by
value where conditions name single values, by slabs (the line of all values, cut at some bounds) where they name ranges.
An entry is then in each cell that it may hold in, and a value leads to one cell, or two. What does not name the
attribute stays in the node, and may be divided along another axis. Cells are nodes, and are divided in turn; a slab may
also be cut in two.

Everything is local: adding and removing touch the cells of one entry, and nothing is ever built anew. An entry is found
again by the way it was filed: along the first axis of a node that takes it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from typing import Any

from penstock.engine.division import Cell, Within, best_bound, best_path
from penstock.engine.lines import LINES, Places, Span, Where
from penstock.language.closures import Decider
from penstock.language.condition import Condition
from penstock.language.ranges import Path
from penstock.language.values import Value

MOST_IN_CELL = 12
"""Entries of a node before it is divided."""

FEW_IN_CELL = 4
"""Entries of a divided node, or of two slabs side by side, that become one cell again."""

MOST_SLABS = 8
"""Slabs of one axis that an entry may be in. A wider one stays in the node, where another axis may suit it."""

MOST_DEPTH = 16
"""Nodes inside each other. Each needs entries that the one around it could not tell apart, so this is never reached."""


class Entry:
    """A condition, all that wait for it, and the places where it may hold."""

    __slots__ = ("condition", "decide", "values", "where")

    def __init__(self, condition: Condition, where: dict[Path, Where]) -> None:
        self.condition = condition
        self.decide: Decider | None = None if condition.ranges is None else condition.decide
        """From attributes alone; None: the condition may want more of the content."""
        self.where = where
        self.values: dict[Hashable, Any] = {}


class Node:
    """Entries, and the axes along which others are divided."""

    __slots__ = ("axes", "count", "entries", "limit")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.axes: list[Axis] = []
        self.count = 0
        """All entries, those of the axes included."""
        self.limit = MOST_IN_CELL

    def put(self, entry: Entry) -> None:
        """Add an entry to a node without axes, and leave it to the caller to divide it."""
        self.count += 1
        self.entries.append(entry)

    def add(self, entry: Entry, within: Within, depth: int) -> None:
        """Add an entry, and divide the node if there are too many."""
        self.count += 1
        self._file(entry, within, depth)
        self.settle(within, depth)

    def settle(self, within: Within, depth: int) -> None:
        """Divide the node for as long as there are too many entries on no axis."""
        while len(self.entries) > self.limit:
            path = best_path(self.entries, within) if depth < MOST_DEPTH else None
            if path is None:
                self.limit = 2 * len(self.entries)
            else:
                self.axes.append(Axis(path))
                entries, self.entries = self.entries, []
                for entry in entries:
                    self._file(entry, within, depth)

    def _file(self, entry: Entry, within: Within, depth: int) -> None:
        waiting = [entry]
        while waiting:
            one = waiting.pop()
            for axis in self.axes:
                if axis.takes(one):
                    waiting += axis.add(one, within, depth)
                    break
            else:
                self.entries.append(one)

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is in the node."""
        self.count -= 1
        for axis in self.axes:
            if axis.has(entry):
                axis.remove(entry)
                if not axis.count:
                    self.axes.remove(axis)
                break
            axis.refused.discard(entry)
        else:
            self.entries.remove(entry)
        if self.axes and self.count <= FEW_IN_CELL:
            self.entries, self.axes = list(dict.fromkeys(self.all())), []
        if self.limit > 4 * len(self.entries):
            self.limit = max(MOST_IN_CELL, self.limit // 2)

    def all(self) -> Iterator[Entry]:
        """All entries, some of them several times."""
        yield from self.entries
        for axis in self.axes:
            for line in set(axis.lines.values()):
                for cell in (*line.points.values(), *line.slabs):
                    yield from cell.all()


class Line:
    """The cells of one axis for values that can be compared with each other."""

    __slots__ = ("bounds", "points", "slabs")

    def __init__(self) -> None:
        self.points: dict[Value, Node] = {}
        self.bounds: list[Any] = []
        """Each is the first value of a slab."""
        self.slabs: list[Node] = [Node()]

    def numbers(self, spans: tuple[Span, ...]) -> list[int]:
        """The numbers of the slabs that spans are in."""
        bounds = self.bounds
        found: list[int] = []
        for start, end in spans:
            first = bisect_right(bounds, start)
            last = len(bounds) if end is None else bisect_left(bounds, end)
            found.extend(range(max(first, found[-1] + 1) if found else first, last + 1))
        return found

    def span(self, number: int) -> Span:
        """The values of a slab."""
        bounds = self.bounds
        return bounds[number - 1] if number else None, bounds[number] if number < len(bounds) else None

    def cut(self, number: int, bound: Any) -> None:
        """Put two empty slabs in the place of one."""
        self.bounds.insert(number, bound)
        self.slabs[number : number + 1] = Node(), Node()

    def tidy(self, number: int) -> None:
        """Make one slab of this and the next, if they have become small."""
        if not 0 <= number < len(self.bounds):
            return
        low, high = self.slabs[number : number + 2]
        if low.axes or high.axes:
            return
        together = dict.fromkeys(low.entries + high.entries)
        if len(together) > FEW_IN_CELL:
            return
        low.entries, low.count = list(together), len(together)
        del self.bounds[number], self.slabs[number + 1]


class Axis:
    """An attribute that entries are divided by."""

    __slots__ = ("count", "fields", "lines", "name", "path", "refused")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name, *self.fields = path
        self.lines: dict[type, Line] = {}
        """By the type of a value."""
        self.count = 0
        self.refused: set[Entry] = set()
        """Entries of the node that would be in too many slabs."""

    def has(self, entry: Entry) -> bool:
        """Whether an entry of the node is filed here, if it is not on an axis before this."""
        return self.path in entry.where and entry not in self.refused

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is to be filed here."""
        if not self.has(entry):
            return False
        if any(len(line.numbers(places.spans)) > MOST_SLABS for _, line, places in self._lines(entry)):
            self.refused.add(entry)
            return False
        return True

    def add(self, entry: Entry, within: Within, depth: int) -> list[Entry]:
        """File an entry that is taken; returns those that are refused from now on."""
        self.count += 1
        refused: list[Entry] = []
        for kind, line, places in self._lines(entry):
            for point in places.points:
                cell = line.points.get(point)
                if cell is None:
                    cell = line.points[point] = Node()
                cell.add(entry, {**within, self.path: Cell(kind, None)}, depth + 1)
            numbers = line.numbers(places.spans)
            for number in numbers:
                slab = line.slabs[number]
                if slab.axes:
                    slab.add(entry, {**within, self.path: Cell(kind, line.span(number))}, depth + 1)
                else:
                    slab.put(entry)
            for number in reversed(numbers):  # a cut changes the numbers after it
                refused += self._settle(kind, line, number, within, depth)
        return refused

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is filed here."""
        self._withdraw(entry)
        for _, line, places in self._lines(entry):
            for number in reversed(line.numbers(places.spans)):
                line.tidy(number)
                line.tidy(number - 1)

    def _lines(self, entry: Entry) -> Iterator[tuple[type, Line, Places]]:
        for kind, places in entry.where[self.path].items():
            if kind not in self.lines:
                self.lines.update(dict.fromkeys(LINES[kind], Line()))
            yield kind, self.lines[kind], places

    def _withdraw(self, entry: Entry) -> None:
        self.count -= 1
        for _, line, places in self._lines(entry):
            for point in places.points:
                line.points[point].remove(entry)
                if not line.points[point].count:
                    del line.points[point]
            for number in line.numbers(places.spans):
                line.slabs[number].remove(entry)

    def _settle(self, kind: type, line: Line, number: int, within: Within, depth: int) -> list[Entry]:
        """Cut or divide a slab that has too many entries; returns those that are in too many slabs then."""
        slab = line.slabs[number]
        if slab.axes or len(slab.entries) <= slab.limit:
            return []
        cell = Cell(kind, line.span(number))
        inside = {**within, self.path: cell}
        if best_path(slab.entries, inside) != self.path:
            slab.settle(inside, depth + 1)
            return []
        line.cut(number, best_bound(slab.entries, self.path, kind, line.span(number)))
        refused = []
        for entry in slab.entries:
            numbers = line.numbers(entry.where[self.path][kind].spans)
            for half in (number, number + 1):
                if half in numbers:
                    line.slabs[half].put(entry)
            if len(numbers) > MOST_SLABS:
                refused.append(entry)
        for entry in refused:
            self._withdraw(entry)
            self.refused.add(entry)
        for half in (number + 1, number):
            refused += self._settle(kind, line, half, within, depth)
        return refused
