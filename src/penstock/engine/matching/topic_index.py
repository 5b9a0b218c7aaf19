"""Which filters match a topic (`Index`), and which topics a filter matches (`TopicTree`).

Filters and topics here are plain and have been checked (see `penstock.model.topic`).

In both, one dictionary holds what is stored, by text, and answers whatever has no wildcard. What has to be
walked is also in a trie by level, which holds only texts. No walk recurses, since a topic may have thousands
of levels, and none comes to a node twice.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from penstock.model.topic import is_wild

T = TypeVar("T")

# The values of one filter, by key. Most filters have one subscriber, and a pair takes a quarter of the room
# of a dictionary, which is there only from two on.
_Values = tuple[Hashable, T] | dict[Hashable, T]


class Index(Generic[T]):
    """Subscriptions: values by filter and key (who subscribed), found by topic."""

    __slots__ = ("_by_filter", "_size", "_wild")

    def __init__(self) -> None:
        self._by_filter: dict[str, _Values[T]] = {}
        self._wild = _Branch(None)
        self._size = 0

    def __len__(self) -> int:
        """The number of values, that is of different pairs of filter and key."""
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
        """All values of all filters that match the topic."""
        by_filter = self._by_filter
        filters = _filters_matching(self._wild, topic)
        if topic in by_filter:
            filters.append(topic)
        found: list[T] = []
        for filter in filters:
            values = by_filter[filter]
            if isinstance(values, tuple):
                found.append(values[1])
            else:
                found.extend(values.values())
        return found

    def filters(self) -> Iterator[tuple[str, Hashable, T]]:
        """Each filter, key and value; the index must not change meanwhile."""
        for filter, values in self._by_filter.items():
            for key, value in (values,) if isinstance(values, tuple) else values.items():
                yield filter, key, value


class TopicTree(Generic[T]):
    """Retained messages: one value for each topic, found by filter."""

    __slots__ = ("_by_topic", "_tree")

    def __init__(self) -> None:
        self._by_topic: dict[str, T] = {}
        self._tree = _Branch(None)

    def __len__(self) -> int:
        return len(self._by_topic)

    def __iter__(self) -> Iterator[str]:
        """The topics, sorted."""
        return iter(sorted(self._by_topic))

    def set(self, topic: str, value: T) -> None:
        """Store a value, in place of the one that the topic has."""
        if topic not in self._by_topic:
            _insert(self._tree, topic)
        self._by_topic[topic] = value

    def get(self, topic: str) -> T | None:
        return self._by_topic.get(topic)

    def pop(self, topic: str) -> T | None:
        """Forget the topic and return the value it had, None if it had none."""
        if topic not in self._by_topic:
            return None
        _delete(self._tree, topic)
        return self._by_topic.pop(topic)

    def match(self, filter: str) -> Iterator[tuple[str, T]]:
        """The topics that the filter matches, sorted, with their values, as they are when this is called."""
        by_topic = self._by_topic
        if not is_wild(filter):
            return iter([(filter, by_topic[filter])] if filter in by_topic else [])
        return iter([(topic, by_topic[topic]) for topic in sorted(_topics_matching(self._tree, filter))])


class _Branch:
    """A node of the trie that has nodes below it: a node that has none is just the text that ends there."""

    __slots__ = ("children", "text")

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.children: dict[str, _Node] = {}


_Node = _Branch | str


def _insert(root: _Branch, text: str) -> None:
    *way, last = text.split("/")
    branch = root
    for level in way:
        child = branch.children.get(level)
        if not isinstance(child, _Branch):
            child = branch.children[level] = _Branch(child)
        branch = child
    child = branch.children.get(last)
    if isinstance(child, _Branch):
        child.text = text
    else:
        branch.children[last] = text


def _delete(root: _Branch, text: str) -> None:
    """Take out a text that is in the trie, and the branches that this leaves empty."""
    *way, last = text.split("/")
    passed = []
    branch = root
    for level in way:
        passed.append((branch, level))
        child = branch.children[level]
        assert isinstance(child, _Branch)
        branch = child
    child = branch.children[last]
    if isinstance(child, _Branch):
        child.text = None
        return
    del branch.children[last]
    while passed and not branch.children:
        above, level = passed.pop()
        if branch.text is None:
            del above.children[level]
        else:
            above.children[level] = branch.text
        branch = above


def _filters_matching(root: _Branch, topic: str) -> list[str]:
    found: list[str] = []
    if not root.children:
        return found
    levels = topic.split("/")
    reached: list[_Node] = [root]
    if topic.startswith("$"):  # a wildcard at the first level does not match [MQTT-4.7.2-1]
        first = root.children.get(levels.pop(0))
        reached = [] if first is None else [first]
    for level in levels:
        following: list[_Node] = []
        for node in reached:
            if isinstance(node, str):  # this filter ends here, and the topic does not
                continue
            children = node.children
            for name in (level, "+"):
                child = children.get(name)
                if child is not None:
                    following.append(child)
            rest = children.get("#")
            if isinstance(rest, str):  # nothing is ever below `#`
                found.append(rest)
        reached = following
        if not reached:
            return found
    found.extend(_own_texts(reached))
    for node in reached:
        if isinstance(node, _Branch) and isinstance(rest := node.children.get("#"), str):
            found.append(rest)  # `#` matches its parent level too (MQTT 5, 4.7.1.2)
    return found


def _topics_matching(root: _Branch, filter: str) -> list[str]:
    levels = ["+", "#"] if filter == "#" else filter.split("/")
    reached: list[_Node] = [root]
    if levels[0] == "+":  # a wildcard at the first level does not match `$...` [MQTT-4.7.2-1]
        del levels[0]
        reached = [child for name, child in root.children.items() if not name.startswith("$")]
    for level in levels:
        if level == "#":
            return _all_texts(reached)
        branches = [node for node in reached if isinstance(node, _Branch)]
        if level == "+":
            reached = [child for branch in branches for child in branch.children.values()]
        else:
            reached = [branch.children[level] for branch in branches if level in branch.children]
        if not reached:
            return []
    return _own_texts(reached)


def _own_texts(nodes: Iterable[_Node]) -> list[str]:
    texts = (node if isinstance(node, str) else node.text for node in nodes)
    return [text for text in texts if text is not None]


def _all_texts(nodes: Iterable[_Node]) -> list[str]:
    """The texts that end at or below the nodes."""
    found: list[str] = []
    waiting = list(nodes)
    while waiting:
        found.extend(_own_texts(waiting))
        waiting = [child for node in waiting if isinstance(node, _Branch) for child in node.children.values()]
    return found
