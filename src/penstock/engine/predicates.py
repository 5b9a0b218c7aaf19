"""Which conditions hold for content: the conditional subscriptions of one topic filter.

Equal conditions are one entry. Entries are in a tree (`engine/matching_tree.py`) by what they say about attributes, so
that content meets only those that may hold; each of these is then decided by its own closures. A condition that says of
no attribute which numbers, strings or bools it may be, such as `a > b`, is decided for every content.
"""

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from penstock.engine.lines import where
from penstock.engine.matching_tree import Entry, Node
from penstock.language.condition import Condition
from penstock.language.ranges import Ranges, ranges
from penstock.language.tree import And
from penstock.model.content import Content, Unreadable
from penstock.model.values import Value

T = TypeVar("T")


class Predicates(Generic[T]):
    """Values by key, each with a condition, found by content."""

    __slots__ = ("_by_key", "_by_text", "_loose", "_tree")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, Entry] = {}
        self._by_text: dict[str, Entry] = {}
        self._tree = Node()
        self._loose: dict[str, Entry] = {}
        """Entries that no attribute can rule out."""

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._by_key)

    def add(self, key: Hashable, condition: Condition, value: T) -> None:
        """Store a value, in place of the one that the key has."""
        entry = self._by_text.get(condition.text)
        if self._by_key.get(key, entry) is not entry:
            self.remove(key)
        if entry is None:
            entry = self._by_text[condition.text] = self._filed(condition)
        entry.values[key] = value
        self._by_key[key] = entry

    def remove(self, key: Hashable) -> bool:
        """Forget a value; False if there was none."""
        entry = self._by_key.pop(key, None)
        if entry is None:
            return False
        del entry.values[key]
        if not entry.values:
            del self._by_text[entry.condition.text]
            if entry.where:
                self._tree.remove(entry)
            else:
                self._loose.pop(entry.condition.text, None)
        return True

    def match(self, content: Content) -> list[T]:
        """The values whose condition is true for this content; one that fails is not."""
        found: list[T] = []
        for entry in self._loose.values():
            if entry.condition.holds(content) is True:
                found.extend(entry.values.values())
        if self._tree.count:
            attributes = content.attributes
            if not isinstance(attributes, Unreadable):
                self._search(attributes, content, found)
        return found

    def _search(self, attributes: Mapping[str, Value], content: Content, found: list[T]) -> None:
        waiting = [self._tree]
        while waiting:
            node = waiting.pop()
            for entry in node.entries:
                decide = entry.decide
                if (entry.condition.holds(content) if decide is None else decide(attributes)) is True:
                    found.extend(entry.values.values())
            for axis in node.axes:
                name = axis.name
                if name not in attributes:
                    continue
                value = attributes[name]
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

    def _filed(self, condition: Condition) -> Entry:
        needed = _needed(condition)
        if needed is not None and needed.is_empty:
            return Entry(condition, {})
        places = {} if needed is None else {path: where(region) for path, region in needed.regions.items()}
        entry = Entry(condition, {path: each for path, each in places.items() if each is not None})
        if entry.where:
            self._tree.add(entry, {}, 0)
        else:
            self._loose[condition.text] = entry
        return entry


_NOTHING = object()


def _needed(condition: Condition) -> Ranges | None:
    """Ranges that the attributes are in wherever a condition is true; None if nothing is known."""
    if condition.ranges is not None or not isinstance(condition.tree, And):
        return condition.ranges
    known = tuple(operand for operand in condition.tree.operands if ranges(operand) is not None)
    if len(known) < 2:
        return ranges(known[0]) if known else None
    return ranges(And(known))
