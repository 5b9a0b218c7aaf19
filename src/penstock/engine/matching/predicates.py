"""An index of the conditional subscriptions of one topic filter: which conditions hold for a content.

Equal conditions are one entry. An entry is filed by the name of an attribute that it needs, and there by what it says
about attributes, in a tree of blocks (`engine/matching/matching_tree.py`, `engine/matching/block.py`). A condition with
`||` between attributes is filed as its alternatives. One that asks XPath for nodes is filed by a text that the document
must have for it. One that says of no attribute which numbers, strings or bools it may be, such as `a > b`, is decided
for every content.
"""

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from penstock.engine.matching.block import Asker, Entry
from penstock.engine.matching.matching_tree import CROWD, TreeNode
from penstock.language.condition import Condition, condition_of
from penstock.language.finds import texts_needed
from penstock.language.ranges.alternatives import alternatives
from penstock.model.content.content import Content, Unreadable

T = TypeVar("T")

_EVALUATING, _GATHERING = 400, 25
"""The cost of asking an expression, and of looking at a text of a document, if an expression costs 1 for each node."""


class Predicates(Generic[T]):
    """Values by key, each with a condition, found by content."""

    __slots__ = ("_alternatives", "_by_key", "_by_text", "_crowd", "_finding", "_loose", "_trees")

    def __init__(self, crowd: int = CROWD) -> None:
        """Make an index that divides its conditions when there are more than `crowd` of them."""
        self._crowd = crowd
        self._by_key: dict[Hashable, Entry] = {}
        self._by_text: dict[str, Entry] = {}
        self._trees: dict[str, TreeNode] = {}
        """By the name of an attribute that all entries of the tree need."""
        self._loose: dict[str, Entry] = {}
        """Entries that need none, by their texts."""
        self._finding: dict[str, dict[str, Entry]] = {}
        """Those of them that need a text in XML, by that text."""
        self._alternatives: Predicates[Entry] | None = None
        """Entries by text and number of the alternative; no alternative has alternatives."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._by_key)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the values, whatever their conditions."""
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
        """Return all values."""
        for key, entry in self._by_key.items():
            yield entry.values[key]

    def match(self, content: Content, ask: Asker | None = None) -> list[T]:
        """Return the values whose condition is true for this content; one that fails is not. Where a condition counts
        steps, `ask` decides, if it is given.
        """
        values: list[T] = []
        loose: Iterable[Entry] = self._loose.values()
        if self._finding:
            loose = chain(loose, self._findable(content))
        for entry in loose:
            if entry.holds_for(content, ask):
                values.extend(entry.values.values())
        if self._alternatives is not None:
            for entry in dict.fromkeys(self._alternatives.match(content, ask)):
                values.extend(entry.values.values())
        if not self._trees:
            return values
        attributes = content.attributes
        if isinstance(attributes, Unreadable):
            return values
        trees = self._trees
        names = trees if len(trees) < len(attributes) else attributes
        for name in names:
            if name in attributes and name in trees:
                for block in trees[name].blocks(attributes):
                    block.find(attributes, content, values, ask)
        return values

    def _findable(self, content: Content) -> Iterator[Entry]:
        """Yield those whose text is in a document; or all, if it would take longer to look."""
        document = content.document
        if document is None:
            return
        finding = self._finding
        if len(finding) * (_EVALUATING + document.size) < _GATHERING * document.size:
            for entries in finding.values():
                yield from entries.values()
            return
        for text in document.texts:
            if text in finding:
                yield from finding[text].values()

    def _file(self, entry: Entry) -> None:
        parts = alternatives(entry.condition.tree) if entry.condition.ranges is None else ()
        if parts:
            if self._alternatives is None:
                self._alternatives = Predicates(self._crowd)
            for number, tree in enumerate(parts):
                self._alternatives.add((entry.condition.text, number), condition_of(tree), entry)
            entry.alternatives = len(parts)
            return
        names = [path[0] for path in entry.where]
        if names:
            trees = self._trees
            # File it with the most entries that need the same attribute, so that few trees are searched.
            entry.name = max(names, key=lambda name: trees[name].count if name in trees else 0)
            if entry.name not in trees:
                trees[entry.name] = TreeNode(self._crowd)
            trees[entry.name].add(entry)
        elif not entry.is_nowhere:
            self._file_loose(entry)

    def _file_loose(self, entry: Entry) -> None:
        finding, texts = self._finding, texts_needed(entry.condition.tree)
        if not texts:
            self._loose[entry.condition.text] = entry
            return
        # File it with the fewest entries: a text that all need does not discriminate.
        entry.text = min(sorted(texts), key=lambda text: len(finding.get(text, ())))
        finding.setdefault(entry.text, {})[entry.condition.text] = entry

    def _withdraw(self, entry: Entry) -> None:
        name = entry.name
        if entry.alternatives and self._alternatives is not None:
            for number in range(entry.alternatives):
                self._alternatives.remove((entry.condition.text, number))
            if not len(self._alternatives):
                self._alternatives = None
            return
        if name is None:
            self._withdraw_loose(entry)
            return
        self._trees[name].remove(entry)
        if not self._trees[name].count:
            del self._trees[name]

    def _withdraw_loose(self, entry: Entry) -> None:
        if entry.text is None:
            self._loose.pop(entry.condition.text, None)
            return
        filed = self._finding[entry.text]
        del filed[entry.condition.text]
        if not filed:
            del self._finding[entry.text]
