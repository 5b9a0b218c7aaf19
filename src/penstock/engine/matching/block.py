"""Some hundred conditions, decided together.

For each attribute there are the bounds of all ranges that the conditions name, sorted, and between each two of them the
set of conditions that a value there leaves open. A set is an int with one bit for each condition, so one lookup and
one `&` for each attribute decide about all of them.

Sorting a condition in takes longer than deciding it alone. So what is new is decided alone, until that has taken as
long as sorting would.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress
from operator import xor
from typing import Any, NamedTuple

from penstock.engine.matching.coordinates import LINES, Where, place
from penstock.language.condition import Condition
from penstock.language.evaluators.closures import Decider
from penstock.language.ranges.ranges import Path
from penstock.language.values import Value
from penstock.model.content.content import Content

MAX_COLUMNS = 12
"""Attributes that a block is sorted by: those that most conditions name. What names others is still decided alone."""

FEW = 4
"""So many conditions are not worth sorting."""

COST_OF_SORTING = 4
"""The number of conditions that can be decided in the time that it takes to sort one in."""


class Entry:
    """A condition, all that wait for it, and the places where it can be true."""

    __slots__ = ("alternatives", "condition", "decide", "is_exact", "is_nowhere", "name", "text", "values", "where")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.where, self.is_exact, self.is_nowhere = place(condition)
        self.decide: Decider | None = None if condition.ranges is None else condition.decide
        """From attributes alone; None: the condition may want more of the content."""
        self.name: str | None = None
        """The attribute that it is filed by."""
        self.text: str | None = None
        """The text in XML that it is filed by."""
        self.alternatives = 0
        """The number of alternatives that it is filed as instead."""
        self.values: dict[Hashable, Any] = {}

    def waiting(self) -> Iterator[Any]:
        """Yield the values that wait for it; of an alternative, those of the whole condition."""
        for value in self.values.values():
            if isinstance(value, Entry):
                yield from value.waiting()
            else:
                yield value

    def holds(self, attributes: Mapping[str, Value], content: Content, ask: "Asker | None" = None) -> bool:
        """Return True if the condition is true; a failure is not. `ask` decides instead where steps are counted."""
        return self.decide(attributes) is True if self.decide is not None else self.holds_for(content, ask)

    def holds_for(self, content: Content, ask: "Asker | None") -> bool:
        """Return the same, of the content alone."""
        if ask is not None and self.condition.is_metered:
            return ask(self, content)
        return self.condition.holds(content) is True


Asker = Callable[[Entry, Content], bool]


class _Line(NamedTuple):
    """The entries that values of some types leave open. It is flat, because few blocks fit the processor's cache."""

    types: tuple[type, ...]
    points: dict[Value, int] | None
    """By value, the conditions that name it; None if there are none on this line."""
    bounds: Sequence[Any]
    sets: tuple[int, ...]
    """Those with a range that the value is in, and those that do not name the attribute: for values before the first
    bound, between it and the next, and so on."""


class _Column(NamedTuple):
    """One attribute: the line that most conditions name, the others, and the conditions that do not name it."""

    name: str
    fields: tuple[str, ...]
    types: tuple[type, ...]
    points: dict[Value, int] | None
    bounds: Sequence[Any]
    sets: tuple[int, ...]
    more: dict[type, _Line] | None
    others: int


_NOTHING = object()


class Block:
    """Conditions that are decided together."""

    __slots__ = ("_columns", "_debt", "_fresh", "_removed", "_sorted", "_unsure", "_values", "known")

    def __init__(self, known: Collection[Path] = ()) -> None:
        """Make a block for content in which some attributes are known to be what all of its conditions want."""
        self.known = known
        self._fresh: tuple[Entry, ...] = ()
        self._debt = 0
        self._columns: tuple[_Column, ...] = ()
        self._sorted: tuple[Entry, ...] = ()
        """The entries in the columns, by bit."""
        self._values: tuple[Mapping[Hashable, Any], ...] = ()
        """The values waiting for each of them, to be read without reading the entry."""
        self._removed = 0
        """Those of them that are there no more."""
        self._unsure = 0
        """Those that the columns do not say everything about."""

    def __len__(self) -> int:
        return len(self._sorted) - self._removed.bit_count() + len(self._fresh)

    def __iter__(self) -> Iterator[Entry]:
        removed = self._removed
        yield from (entry for bit, entry in enumerate(self._sorted) if not removed >> bit & 1)
        yield from self._fresh

    def add(self, entry: Entry) -> None:
        """Put in an entry that is not there."""
        self._fresh += (entry,)

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is there."""
        if entry in self._fresh:
            self._fresh = tuple([each for each in self._fresh if each is not entry])
            return
        self._removed |= 1 << self._sorted.index(entry)
        if 2 * self._removed.bit_count() > len(self._sorted):
            self._fresh, self._sorted, self._values, self._columns, self._removed = tuple(self), (), (), (), 0

    def find(
        self, attributes: Mapping[str, Value], content: Content, matches: list[Any], ask: Asker | None = None
    ) -> None:
        """Put the values of what holds into the list."""
        if self._fresh:
            self._debt += len(self._fresh)
            if self._debt > COST_OF_SORTING * len(self) and len(self) > FEW:
                self._sort()
            for entry in self._fresh:
                if entry.holds(attributes, content, ask):
                    matches.extend(entry.values.values())
        columns = self._columns
        still = -1 if columns else (1 << len(self._sorted)) - 1
        unsure = self._unsure
        for name, fields, types, points, bounds, sets, more, others in columns:
            value = attributes.get(name, _NOTHING)
            for field in fields:
                value = value.get(field, _NOTHING) if type(value) is dict else _NOTHING
            if type(value) not in types:
                line = None if more is None else more.get(type(value))
                if line is None:
                    still &= others
                    if still:
                        continue
                    return
                _, points, bounds, sets = line
            left = sets[bisect_right(bounds, value)]
            still &= left if points is None else left | points.get(value, 0)
            if not still:
                return
            if value != value:  # not a number: `bisect` took it for a very large one
                unsure = -1
        still &= ~self._removed
        values = self._values
        while still:
            bit = still & -still
            still ^= bit
            number = bit.bit_length() - 1
            if not bit & unsure or self._sorted[number].holds(attributes, content, ask):
                matches.extend(values[number].values())

    def _sort(self) -> None:
        entries = tuple(self)
        naming: dict[Path, list[tuple[int, Where]]] = {}
        for number, entry in enumerate(entries):
            for path, where in entry.where.items():
                naming.setdefault(path, []).append((number, where))
        for path in self.known:
            naming.pop(path, None)
        columns = sorted(naming, key=lambda path: -len(naming[path]))[:MAX_COLUMNS]
        paths = {*columns, *self.known}
        unsure = [not entry.is_exact or not paths.issuperset(entry.where) for entry in entries]
        self._columns = tuple([_column(path, naming[path], len(entries)) for path in columns])
        self._unsure = _set(compress(range(len(entries)), unsure), len(entries))
        self._sorted, self._values, self._removed = entries, tuple([entry.values for entry in entries]), 0
        self._fresh, self._debt = (), 0


def _set(numbers: Iterable[int], size: int) -> int:
    """Return the bit set of these among so many entries."""
    digits = bytearray(b"0") * size
    for number in numbers:
        digits[~number] = ord("1")
    return int(digits, 2)


def _column(path: Path, naming: list[tuple[int, Where]], size: int) -> _Column:
    lines: dict[type, tuple[dict[Value, int], dict[Any, int]]] = {}
    for number, where in naming:
        bit = 1 << number
        for kind, places in where.items():
            points, changes = lines.setdefault(kind, ({}, {}))
            for point in places.points:
                points[point] = points.get(point, 0) | bit
            for span in places.spans:
                for edge in span:
                    if edge is not None:
                        changes[edge] = changes.get(edge, 0) ^ bit
    others = (1 << size) - 1 ^ _set((number for number, _ in naming), size)
    ordered = [_line(kind, points, changes, others) for kind, (points, changes) in lines.items()]
    longest = max(ordered, key=lambda line: len(line.bounds) + len(line.points or ()))
    ordered.remove(longest)
    more = {kind: line for line in ordered for kind in line.types} or None
    return _Column(path[0], path[1:], *longest, more, others)


def _line(kind: type, points: dict[Value, int], changes: dict[Any, int], others: int) -> _Line:
    bounds = sorted(changes)
    sets = tuple(accumulate(map(changes.__getitem__, bounds), xor, initial=others))
    is_flat = kind is float and all(float(bound) == bound for bound in bounds)
    return _Line(LINES[kind], points or None, array("d", bounds) if is_flat else bounds, sets)
