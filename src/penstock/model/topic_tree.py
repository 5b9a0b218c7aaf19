"""Trees of values by topic or topic filter, found by their relation to another topic or filter.

Topics and filters here are plain and have been checked (see `penstock.model.topic`). A topic, read as a filter, matches
just itself: so the filters that match a topic are those that cover it, and a filter matches the topics that it covers.

`TopicTree` has one value for each topic or filter and answers every question; `FilterIndex` has several for a filter,
and answers the question of the hot path. In both one dictionary holds the values, by text. What has to be walked is in
a tree by level, which holds only texts. No walk recurses (a topic may have thousands of levels), or sees a node twice.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from .topic import covers, is_wild, overlaps, shape

T = TypeVar("T")

# The values of one filter, by key. Most filters have one subscriber, and a pair takes a quarter of the room
# of a dictionary, which is there only from two on.
_Values = tuple[Hashable, T] | dict[Hashable, T]


class FilterIndex(Generic[T]):
    """Values by filter and key (for subscriptions: who subscribed), found by topic."""

    __slots__ = ("_by_filter", "_size", "_wild")

    def __init__(self) -> None:
        self._by_filter: dict[str, _Values[T]] = {}
        self._wild = _Branch(None)
        self._size = 0

    def __len__(self) -> int:
        """Return the number of values, that is of different pairs of filter and key."""
        return self._size

    def add(self, filter: str, key: Hashable, value: T) -> None:
        """Store a value, in place of the one that the same filter and key have."""
        values = self._by_filter.get(filter)
        if isinstance(values, dict):
            self._size += key not in values
            values[key] = value
            return
        if values is not None and values[0] != key:
            self._by_filter[filter] = {values[0]: values[1], key: value}
            self._size += 1
            return
        self._by_filter[filter] = key, value
        if values is None:
            self._size += 1
            if is_wild(filter):
                _insert(self._wild, filter)

    def remove(self, filter: str, key: Hashable) -> bool:
        """Forget a value; False if there was none."""
        values = self._by_filter.get(filter)
        if isinstance(values, dict):
            if key not in values:
                return False
            del values[key]
            if len(values) == 1:
                ((key, value),) = values.items()
                self._by_filter[filter] = key, value
        elif values is None or values[0] != key:
            return False
        else:
            del self._by_filter[filter]
            if is_wild(filter):
                _delete(self._wild, filter)
        self._size -= 1
        return True

    def match(self, topic: str) -> list[T]:
        """Return all values of all filters that match the topic."""
        by_filter = self._by_filter
        filters = _covering(self._wild, topic)
        if topic in by_filter:
            filters.append(topic)
        matching: list[T] = []
        for filter in filters:
            values = by_filter[filter]
            if isinstance(values, tuple):
                matching.append(values[1])
            else:
                matching.extend(values.values())
        return matching

    def filters(self) -> Iterator[tuple[str, Hashable, T]]:
        """Yield each filter, key and value; the index must not change meanwhile."""
        for filter, values in self._by_filter.items():
            for key, value in (values,) if isinstance(values, tuple) else values.items():
                yield filter, key, value


def place_index(filters: Iterable[str]) -> FilterIndex[int]:
    """Return an index that finds the places in this sequence of the filters that match a topic, in any order."""
    index: FilterIndex[int] = FilterIndex()
    for place, filter in enumerate(filters):
        index.add(filter, place, place)
    return index


class TopicTree(Generic[T]):
    """One value for each topic or filter, such as retained messages, or what neighbours want."""

    __slots__ = ("_by_text", "_tree")

    def __init__(self) -> None:
        self._by_text: dict[str, T] = {}
        self._tree = _Branch(None)

    def __len__(self) -> int:
        return len(self._by_text)

    def __iter__(self) -> Iterator[str]:
        """Return the topics and filters, sorted."""
        return iter(sorted(self._by_text))

    def values(self) -> Iterator[T]:
        """Return the values, in the order in which their topics and filters came."""
        return iter(self._by_text.values())

    def set(self, text: str, value: T) -> None:
        """Store a value, in place of the one that the topic or filter has."""
        if text not in self._by_text:
            _insert(self._tree, text)
        self._by_text[text] = value

    def get(self, text: str) -> T | None:
        """Return the value of a topic or filter, None if it has none."""
        return self._by_text.get(text)

    def pop(self, text: str) -> T | None:
        """Forget a topic or filter and return the value it had, None if it had none."""
        if text not in self._by_text:
            return None
        _delete(self._tree, text)
        return self._by_text.pop(text)

    def match(self, filter: str) -> Iterator[tuple[str, T]]:
        """Return the topics that the filter matches, sorted, with their values, as they are when this is called."""
        by_text = self._by_text
        if not is_wild(filter):
            return iter([(filter, by_text[filter])] if filter in by_text else [])
        return iter([(text, by_text[text]) for text in sorted(_beside(self._tree, filter, covers))])

    def may_match(self, filter: str) -> bool:
        """Return False if the filter matches no topic, as far as a short look tells."""
        return bool(self._by_text) if is_wild(filter) else filter in self._by_text

    def walk(self, filter: str) -> Iterator[list[str]]:
        """Yield the topics that the filter matches, in lists; each takes about `MAX_BATCH` steps. The tree
        may change meanwhile: what is not touched is found, what comes or goes may be.
        """
        return _batches(self._tree, filter, covers) if is_wild(filter) else iter([[filter]])

    def covering(self, filter: str) -> Iterator[T]:
        """Return the values of the filters that match all that this one matches."""
        return map(self._by_text.__getitem__, _covering(self._tree, filter))

    def covered(self, filter: str) -> Iterator[T]:
        """Return the values of the topics and filters that match nothing but what this filter matches."""
        return map(self._by_text.__getitem__, _beside(self._tree, filter, covers))

    def overlapping(self, filter: str) -> Iterator[T]:
        """Return the values of the topics and filters that match something that this filter matches."""
        return map(self._by_text.__getitem__, _beside(self._tree, filter, overlaps))


class _Branch:
    """A node of the tree that has nodes below it: a node that has none is just the text that ends there."""

    __slots__ = ("children", "rest", "text")

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.children: dict[str, _Node] = {}
        self.rest: str | None = None
        """The filter that goes on with `#`, below which nothing ever is."""


_Node = _Branch | str


def _insert(root: _Branch, text: str) -> None:
    *way, last = text.split("/")
    branch = root
    for level in way:
        child = branch.children.get(level)
        if not isinstance(child, _Branch):
            child = branch.children[level] = _Branch(child)
        branch = child
    if last == "#":
        branch.rest = text
    elif isinstance(child := branch.children.get(last), _Branch):
        child.text = text
    else:
        branch.children[last] = text


def _delete(root: _Branch, text: str) -> None:
    """Take out a text that is in the tree, and the branches that this leaves empty."""
    *way, last = text.split("/")
    passed = []
    branch = root
    for level in way:
        passed.append((branch, level))
        child = branch.children[level]
        assert isinstance(child, _Branch)
        branch = child
    if last == "#":
        branch.rest = None
    elif isinstance(child := branch.children[last], _Branch):
        child.text = None
    else:
        del branch.children[last]
    while passed and not branch.children and branch.rest is None:
        above, level = passed.pop()
        if branch.text is None:
            del above.children[level]
        else:
            above.children[level] = branch.text
        branch = above


def _covering(root: _Branch, text: str) -> list[str]:
    """Return the filters in the tree that match all that this topic or filter matches. This is in the hot path."""
    texts: list[str] = []
    if not root.children and root.rest is None:
        return texts
    levels = text.split("/")
    is_open = levels[-1] == "#"
    if is_open:
        levels, _ = shape(text)
    reached: list[_Node] = [root]
    if text.startswith("$"):  # a wildcard at the first level does not match [MQTT-4.7.2-1]
        first = root.children.get(levels.pop(0))
        reached = [] if first is None else [first]
    for level in levels:
        following: list[_Node] = []
        for node in reached:
            if isinstance(node, str):  # this filter ends here, and the topic does not
                continue
            children = node.children
            child = children.get(level)
            if child is not None:
                following.append(child)
            if level != "+":
                child = children.get("+")
                if child is not None:
                    following.append(child)
            if node.rest is not None:
                texts.append(node.rest)
        reached = following
        if not reached:
            return texts
    for node in reached:
        own, rest = (node, None) if isinstance(node, str) else (node.text, node.rest)
        if own is not None and not is_open:
            texts.append(own)
        if rest is not None:
            texts.append(rest)  # `#` matches its parent level too (MQTT 5, 4.7.1.2)
    return texts


MAX_BATCH = 1_000
"""Nodes that a walk takes a step further at once: the first results come soon, also where there are many."""


def _beside(root: _Branch, filter: str, asks: Callable[[str, str], bool]) -> Iterator[str]:
    """Return the texts in the tree that the filter covers, or those that it overlaps; `asks` is `covers` or
    `overlaps`.
    """
    return chain.from_iterable(_batches(root, filter, asks))


def _batches(root: _Branch, filter: str, asks: Callable[[str, str], bool]) -> Iterator[list[str]]:
    levels, is_open = shape(filter)
    waiting: list[tuple[list[_Node], int]] = [([root], 0)]
    while waiting:
        nodes, depth = waiting.pop()
        if depth == len(levels) and not is_open:
            yield from _ending(nodes, filter, asks)
            continue
        branches = [node for node in nodes if isinstance(node, _Branch)]
        if depth == len(levels):  # all that ends at or below the nodes
            yield [node for node in nodes if isinstance(node, str)]
            yield [text for branch in branches for text in (branch.text, branch.rest) if text is not None]
            below = [child for branch in branches for child in branch.children.values()]
            waiting.extend((below[at : at + MAX_BATCH], depth) for at in range(0, len(below), MAX_BATCH))
            continue
        yield [rest for branch in branches if (rest := branch.rest) is not None and asks(filter, rest)]
        level = levels[depth]
        if level != "+":
            below = [branch.children[level] for branch in branches if level in branch.children]
            if asks is overlaps and not (depth == 0 and level.startswith("$")):  # [MQTT-4.7.2-1]
                below += [branch.children["+"] for branch in branches if "+" in branch.children]
        elif depth:
            below = [child for branch in branches for child in branch.children.values()]
        else:
            below = [child for name, child in root.children.items() if not name.startswith("$")]  # [MQTT-4.7.2-1]
        for at in range(0, len(below), MAX_BATCH):
            waiting.append((below[at : at + MAX_BATCH], depth + 1))


def _ending(nodes: list[_Node], filter: str, asks: Callable[[str, str], bool]) -> Iterator[list[str]]:
    """Yield the texts that end at the nodes, and those that go on with `#` and are `asks`ed for."""
    texts = [node for node in nodes if isinstance(node, str)]
    yield texts
    if len(texts) < len(nodes):
        branches = [node for node in nodes if isinstance(node, _Branch)]
        yield [branch.text for branch in branches if branch.text is not None]
        yield [rest for branch in branches if (rest := branch.rest) is not None and asks(filter, rest)]
