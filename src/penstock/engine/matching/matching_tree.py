"""The tree of blocks that conditions are filed in, so that content meets only the few blocks with what may hold for it.

A node holds entries in a block. When they become too many, it is divided along an *axis*, an attribute that tells them
apart: by value where conditions name single values, by slabs (the line of all values, cut at some bounds) where they
name ranges. An entry is then in each cell that it may hold in, and a value leads to one cell, or two. What does not
name the attribute stays in the node, and may be divided along another axis. Cells are nodes, and are divided in turn; a
slab may also be cut in two.

Everything is local: adding and removing touch the cells of one entry, and the tree is never built anew. An entry is
found again by the way it was filed: along the first axis of a node that takes it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.engine.matching.block import Block, Entry
from penstock.engine.matching.coordinates import LINES, Places, Span
from penstock.engine.matching.division import Cell, Within, best_bound, best_path
from penstock.language.ranges.ranges import Path
from penstock.language.values import Value

CROWD = 1_000
"""Entries of a node before it is divided, unless a tree is made with another number."""

MAX_SLABS = 8
"""Slabs of one axis that an entry may be in. A wider one stays in the node, where another axis may suit it."""

MAX_DEPTH = 16
"""Nodes inside each other; then they just grow."""

_NOTHING = object()


class TreeNode:
    """Entries in a block, and axes along which more are divided."""

    __slots__ = ("axes", "block", "count", "crowd", "depth", "limit", "within")

    def __init__(self, crowd: int = CROWD, within: Within | None = None, depth: int = 0) -> None:
        self.crowd = self.limit = crowd
        self.within = within or {}
        self.depth = depth
        self.block = Block([path for path, cell in self.within.items() if cell.span is None])
        self.axes: tuple[Axis, ...] = ()
        self.count = 0
        """All entries, those along the axes included."""

    def add(self, entry: Entry) -> None:
        """Add an entry, and divide the node if it gets too many."""
        self.count += 1
        self._file(entry)
        self.settle()

    def put(self, entry: Entry) -> None:
        """Add an entry to a node without axes, and leave it to the caller to divide it."""
        self.count += 1
        self.block.add(entry)

    @property
    def is_crowded(self) -> bool:
        """True if its block has too many entries."""
        return len(self.block) > self.limit

    def settle(self) -> None:
        """Divide the node for as long as it is crowded."""
        while self.is_crowded:
            path = best_path(list(self.block), self.within) if self.depth < MAX_DEPTH else None
            if path is None:
                self.limit = 2 * len(self.block)
                return
            self.axes += (Axis(path, self),)
            self._file(*self._emptied())

    def _emptied(self) -> list[Entry]:
        entries, self.block = list(self.block), Block(self.block.known)
        return entries

    def _file(self, *entries: Entry) -> None:
        waiting = list(entries)
        while waiting:
            entry = waiting.pop()
            for axis in self.axes:
                if axis.takes(entry):
                    waiting += axis.add(entry)
                    break
            else:
                self.block.add(entry)

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is in the node."""
        self.count -= 1
        for axis in self.axes:
            if axis.has(entry):
                axis.remove(entry)
                if not axis.count:
                    self.axes = tuple([each for each in self.axes if each is not axis])
                break
            axis.refused.discard(entry)
        else:
            self.block.remove(entry)
        if self.axes and self.count <= self.crowd // 4:
            entries, self.axes = dict.fromkeys(self.all()), ()
            self._emptied()
            self._file(*entries)
        if self.limit > 4 * len(self.block):
            self.limit = max(self.crowd, self.limit // 2)

    def all(self) -> Iterator[Entry]:
        """Yield all entries, some of them several times."""
        yield from self.block
        for axis in self.axes:
            for cell in axis.cells():
                yield from cell.all()

    def blocks(self, attributes: Mapping[str, Value]) -> list[Block]:
        """Return blocks with all entries that may hold for content with these attributes."""
        blocks: list[Block] = []
        waiting = [self]
        while waiting:
            node = waiting.pop()
            blocks.append(node.block)
            for axis in node.axes:
                value = attributes.get(axis.name, _NOTHING)
                for field in axis.fields:
                    value = value.get(field, _NOTHING) if type(value) is dict else _NOTHING
                line = axis.lines.get(type(value))
                if line is None:
                    continue
                cell = line.points.get(value)
                if cell is not None:
                    waiting.append(cell)
                slab = line.slabs[bisect_right(line.bounds, value)]
                if slab.count:
                    waiting.append(slab)
        return blocks


class Line:
    """The cells of one axis for values that can be compared with each other."""

    __slots__ = ("bounds", "points", "slabs")

    def __init__(self, slab: TreeNode) -> None:
        self.points: dict[Value, TreeNode] = {}
        self.bounds: list[Any] = []
        """Each is the first value of a slab."""
        self.slabs = [slab]

    def numbers(self, spans: tuple[Span, ...]) -> list[int]:
        """Return the numbers of the slabs that spans are in."""
        bounds = self.bounds
        slabs: list[int] = []
        for start, end in spans:
            first = bisect_right(bounds, start)
            last = len(bounds) if end is None else bisect_left(bounds, end)
            slabs.extend(range(max(first, slabs[-1] + 1) if slabs else first, last + 1))
        return slabs


class Axis:
    """An attribute that the entries of a node are divided by."""

    __slots__ = ("_node", "count", "fields", "lines", "name", "path", "refused")

    def __init__(self, path: Path, node: TreeNode) -> None:
        self._node = node
        self.path = path
        self.name, *self.fields = path
        self.lines: dict[type, Line] = {}
        """By the type of a value."""
        self.count = 0
        self.refused: set[Entry] = set()
        """Entries of the node that would be in too many slabs."""

    def has(self, entry: Entry) -> bool:
        """Return True if an entry of the node is filed here, unless it is along an earlier axis."""
        return self.path in entry.where and entry not in self.refused

    def takes(self, entry: Entry) -> bool:
        """Return True if an entry is to be filed here."""
        if not self.has(entry):
            return False
        if any(len(line.numbers(places.spans)) > MAX_SLABS for _, line, places in self._lines(entry)):
            self.refused.add(entry)
            return False
        return True

    def add(self, entry: Entry) -> list[Entry]:
        """File an entry that is taken; returns those that are refused from now on."""
        self.count += 1
        refused: list[Entry] = []
        for kind, line, places in self._lines(entry):
            for point in places.points:
                if point not in line.points:
                    line.points[point] = self._cell(kind, None)
                line.points[point].add(entry)
            numbers = line.numbers(places.spans)
            for number in numbers:
                slab = line.slabs[number]
                if slab.axes:
                    slab.add(entry)
                else:
                    slab.put(entry)
            for number in reversed(numbers):  # a cut changes the numbers after it
                refused += self._settle(kind, line, number)
        return refused

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is filed here."""
        self._withdraw(entry)
        for kind, line, places in self._lines(entry):
            for number in reversed(line.numbers(places.spans)):
                self._join(kind, line, number)
                self._join(kind, line, number - 1)

    def cells(self) -> Iterator[TreeNode]:
        """Yield all cells, empty slabs included."""
        for line in set(self.lines.values()):
            yield from line.points.values()
            yield from line.slabs

    def _lines(self, entry: Entry) -> Iterator[tuple[type, Line, Places]]:
        for kind, places in entry.where[self.path].items():
            if kind not in self.lines:
                self.lines.update(dict.fromkeys(LINES[kind], Line(self._cell(kind, self._whole(kind)))))
            yield kind, self.lines[kind], places

    def _whole(self, kind: type) -> Span:
        """Return the cell of all values that get here."""
        cell = self._node.within.get(self.path)
        return cell.span if cell is not None and cell.line is kind and cell.span is not None else (None, None)

    def _slab(self, kind: type, line: Line, number: int) -> TreeNode:
        """Make a slab for this place among the bounds."""
        low, high = self._whole(kind)
        bounds = [low, *line.bounds, high]
        return self._cell(kind, (bounds[number], bounds[number + 1]))

    def _cell(self, kind: type, span: Span | None) -> TreeNode:
        node = self._node
        return TreeNode(node.crowd, {**node.within, self.path: Cell(kind, span)}, node.depth + 1)

    def _withdraw(self, entry: Entry) -> None:
        self.count -= 1
        for _, line, places in self._lines(entry):
            for point in places.points:
                line.points[point].remove(entry)
                if not line.points[point].count:
                    del line.points[point]
            for number in line.numbers(places.spans):
                line.slabs[number].remove(entry)

    def _settle(self, kind: type, line: Line, number: int) -> list[Entry]:
        """Cut or divide a crowded slab; returns the entries that are in too many slabs then."""
        slab = line.slabs[number]
        if slab.axes or not slab.is_crowded:
            return []
        entries = list(slab.block)
        if best_path(entries, slab.within) != self.path:
            slab.settle()
            return []
        line.bounds.insert(number, best_bound(entries, self.path, slab.within[self.path]))
        line.slabs[number : number + 1] = [self._slab(kind, line, half) for half in (number, number + 1)]
        refused = []
        for entry in entries:
            numbers = line.numbers(entry.where[self.path][kind].spans)
            for half in (number, number + 1):
                if half in numbers:
                    line.slabs[half].put(entry)
            if len(numbers) > MAX_SLABS:
                refused.append(entry)
        for entry in refused:
            self._withdraw(entry)
            self.refused.add(entry)
        for half in (number + 1, number):
            refused += self._settle(kind, line, half)
        return refused

    def _join(self, kind: type, line: Line, number: int) -> None:
        """Make one slab of this and the next, if they have few entries."""
        if not 0 <= number < len(line.bounds):
            return
        low, high = line.slabs[number : number + 2]
        if low.axes or high.axes or max(low.count, high.count) > self._node.crowd // 4:
            return
        together = dict.fromkeys((*low.block, *high.block))
        if len(together) > self._node.crowd // 4:
            return
        del line.bounds[number]
        joined = self._slab(kind, line, number)
        line.slabs[number : number + 2] = [joined]
        for entry in together:
            joined.put(entry)
