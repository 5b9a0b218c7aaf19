"""Which conditions hold for content: the conditional subscriptions of one topic filter.

Equal conditions are one entry. An entry is filed by the name of an attribute that it needs, and there by what it says
about attributes, in a tree of blocks (`engine/matching_tree.py`, `engine/block.py`). A condition with `||` between
attributes is filed as its alternatives. One that says of no attribute which numbers, strings or bools it may be, such
as `a > b`, is decided for every content.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from penstock.engine.block import Entry
from penstock.engine.matching_tree import CROWD, Node
from penstock.language.alternatives import alternatives
from penstock.language.condition import Condition, condition_of
from penstock.model.content import Content, Unreadable

T = TypeVar("T")


class Predicates(Generic[T]):
    """Values by key, each with a condition, found by content."""

    __slots__ = ("_alternatives", "_by_key", "_by_text", "_crowd", "_loose", "_trees")

    def __init__(self, crowd: int = CROWD) -> None:
        """An index that divides its conditions when there are more than `crowd` of them."""
        self._crowd = crowd
        self._by_key: dict[Hashable, Entry] = {}
        self._by_text: dict[str, Entry] = {}
        self._trees: dict[str, Node] = {}
        """By the name of an attribute that all entries of the tree need."""
        self._loose: dict[str, Entry] = {}
        """Entries that need none, by their texts."""
        self._alternatives: Predicates[Entry] | None = None
        """Entries by text and number of the alternative; no alternative has alternatives."""

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._by_key)

    def __iter__(self) -> Iterator[T]:
        """The values, whatever their conditions."""
        for entry in self._by_text.values():
            yield from entry.values.values()

    def add(self, key: Hashable, condition: Condition, value: T) -> None:
        """Store a value, in place of the one that the key has."""
        entry = self._by_text.get(condition.text)
        if self._by_key.get(key, entry) is not entry:
            self.remove(key)
        if entry is None:
            entry = self._by_text[condition.text] = Entry(condition)
            self._file(entry)
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
            self._withdraw(entry)
        return True

    def values(self) -> Iterator[T]:
        """All of them."""
        for key, entry in self._by_key.items():
            yield entry.values[key]

    def match(self, content: Content) -> list[T]:
        """The values whose condition is true for this content; one that fails is not."""
        found: list[T] = []
        for entry in self._loose.values():
            if entry.condition.holds(content) is True:
                found.extend(entry.values.values())
        if self._alternatives is not None:
            for entry in dict.fromkeys(self._alternatives.match(content)):
                found.extend(entry.values.values())
        if not self._trees:
            return found
        attributes = content.attributes
        if isinstance(attributes, Unreadable):
            return found
        trees = self._trees
        names = trees if len(trees) < len(attributes) else attributes
        for name in names:
            if name in attributes and name in trees:
                for block in trees[name].blocks(attributes):
                    block.find(attributes, content, found)
        return found

    def _file(self, entry: Entry) -> None:
        several = alternatives(entry.condition.tree) if entry.condition.ranges is None else ()
        if several:
            if self._alternatives is None:
                self._alternatives = Predicates(self._crowd)
            for number, tree in enumerate(several):
                self._alternatives.add((entry.condition.text, number), condition_of(tree), entry)
            entry.alternatives = len(several)
            return
        names = [path[0] for path in entry.where]
        if names:
            trees = self._trees
            # Where most are that need the same, so that there are few trees to look into.
            entry.name = max(names, key=lambda name: trees[name].count if name in trees else 0)
            if entry.name not in trees:
                trees[entry.name] = Node(self._crowd)
            trees[entry.name].add(entry)
        elif not entry.is_nowhere:
            self._loose[entry.condition.text] = entry

    def _withdraw(self, entry: Entry) -> None:
        name = entry.name
        if entry.alternatives and self._alternatives is not None:
            for number in range(entry.alternatives):
                self._alternatives.remove((entry.condition.text, number))
            if not len(self._alternatives):
                self._alternatives = None
            return
        if name is None:
            self._loose.pop(entry.condition.text, None)
            return
        self._trees[name].remove(entry)
        if not self._trees[name].count:
            del self._trees[name]
