"""An index of a node's subscriptions by the advertisements that they meet (statements §3.2).

A subscription remembers one advertisement that it meets. When that is withdrawn it looks for another; when a new one
comes, only subscriptions that meet none are asked.
"""

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from penstock.engine.matching.condition_index import ConditionIndex
from penstock.language.condition import Condition
from penstock.model.topic import overlaps
from penstock.model.topic_tree import TopicTree

K = TypeVar("K", bound=Hashable)

MAX_FILTERS = 8
"""Filters to look at one by one; where more overlap, conditions are compared first."""


class Matter(NamedTuple):
    """Topics, and a condition on the content."""

    filter: str
    condition: Condition | None

    @property
    def is_empty(self) -> bool:
        """True if no content can be of it."""
        ranges = self.condition.ranges if self.condition is not None else None
        return ranges is not None and ranges.is_empty


class Matters(Generic[K]):
    """Keys by what they are about."""

    def __init__(self) -> None:
        self._by_filter: TopicTree[ConditionIndex[K]] = TopicTree()
        self._by_condition: ConditionIndex[K] = ConditionIndex()
        self.known: dict[K, Matter] = {}

    def add(self, key: K, matter: Matter) -> None:
        self.known[key] = matter
        if matter.is_empty:
            return
        index = self._by_filter.get(matter.filter)
        if index is None:
            index = ConditionIndex()
            self._by_filter.set(matter.filter, index)
        index.add(key, matter.condition)
        self._by_condition.add(key, matter.condition)

    def pop(self, key: K) -> Matter | None:
        matter = self.known.pop(key, None)
        if matter is None or matter.is_empty:
            return matter
        index = self._by_filter.get(matter.filter)
        assert index is not None
        index.remove(key)
        self._by_condition.remove(key)
        if not len(index):
            self._by_filter.pop(matter.filter)
        return matter

    def meeting(self, matter: Matter) -> Iterator[K]:
        """Yield those that have something in common with it, or may have."""
        if matter.is_empty:
            return
        near = list(islice(self._by_filter.overlapping(matter.filter), MAX_FILTERS + 1))
        if len(near) <= MAX_FILTERS:
            for index in near:
                yield from index.meeting(matter.condition)
            return
        for key in self._by_condition.meeting(matter.condition):
            if overlaps(self.known[key].filter, matter.filter):
                yield key


class Meetings(Generic[K]):
    """Subscriptions by key, and advertisements by id."""

    def __init__(self) -> None:
        self._offers: Matters[str] = Matters()
        self._unmet: Matters[K] = Matters()
        self._met: dict[K, tuple[Matter, str]] = {}
        """Of those that meet one: what they are about, and the id of one that they meet."""
        self._meeting: dict[str, dict[K, None]] = {}

    def ask(self, key: K, matter: Matter) -> bool:
        """Add a subscription; return True if it meets an advertisement."""
        known = self._met[key][0] if key in self._met else self._unmet.known.get(key)
        if known == matter:
            return key in self._met
        self.forget(key)
        id = next(self._offers.meeting(matter), None)
        if id is None:
            self._unmet.add(key, matter)
            return False
        self._meet(key, matter, id)
        return True

    def forget(self, key: K) -> None:
        _, id = self._met.pop(key, (None, None))
        if id is not None:
            self._part(key, id)
        else:
            self._unmet.pop(key)

    def is_met(self, key: K) -> bool:
        return key in self._met

    def offer(self, id: str, matter: Matter | None) -> list[K]:
        """Set the advertisement under an id; return the subscriptions for which that may change something."""
        if self._offers.known.get(id) == matter:
            return []
        self._offers.pop(id)
        if matter is not None:
            self._offers.add(id, matter)
        left = list(self._meeting.pop(id, ()))
        for key in left:
            asked, _ = self._met.pop(key)
            self.ask(key, asked)
        unmet = list(self._unmet.meeting(matter)) if matter is not None else []
        for key in unmet:
            asked_for = self._unmet.pop(key)
            assert asked_for is not None
            self._meet(key, asked_for, id)
        return left + unmet

    def _meet(self, key: K, matter: Matter, id: str) -> None:
        self._met[key] = matter, id
        self._meeting.setdefault(id, {})[key] = None

    def _part(self, key: K, id: str) -> None:
        del self._meeting[id][key]
        if not self._meeting[id]:
            del self._meeting[id]
