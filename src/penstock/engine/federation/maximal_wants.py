"""Of many wants those that no other one covers, kept up to date as wants come and go.

What is covered hangs below one that covers it; when that goes, what hung there finds another, or stands for itself. So
a change costs what it touches. Which wants stand does not depend on the order in which they came.
"""

from collections.abc import Iterable, Iterator, Mapping

from penstock.engine.federation.wants import Path, Want
from penstock.engine.matching.condition_index import ConditionIndex
from penstock.language.condition import Condition
from penstock.language.ranges.ranges import covers as ranges_cover
from penstock.model.topic import covers
from penstock.model.topic_tree import TopicTree

Place = tuple[str, Path, str]
"""Filter and path: wants that differ in nothing but their conditions. One with a policy is at a place of its own: what
the policy does may depend on the condition, so that no other want can stand for it. So is one that names a consumer,
and so are those with the same needs of quality.
"""


def place_of(want: Want) -> Place:
    return want.filter, want.path, _apart(want)


def _apart(want: Want) -> str:
    if want.policy or want.consumer:
        return f"{want.where}\0{want.policy}\0{want.consumer}\0{want.is_global}\0{want.needs}"
    return (_GLOBAL if want.is_global else "") + want.needs


_GLOBAL = "global"
"""One that is told over every link must not hang below one that is not."""


MAX_CONDITIONS = 1000
"""Conditions on one filter, of which none covers another, that are told one by one; of more the filter is told.

Beyond, conditions on several attributes are not compared either: each would be with all others.
"""


class MaximalWants:
    """Wants with their conditions, and which of them stand for all."""

    def __init__(self, max_conditions: int = MAX_CONDITIONS) -> None:
        """Make an empty set; a place with more than `max_conditions` wants is crowded."""
        self._max_conditions = max_conditions
        self._conditions: dict[Want, Condition | None] = {}
        self._standing_wants: set[Want] = set()
        self._standing: TopicTree[dict[str, dict[Path, ConditionIndex[Want]]]] = TopicTree()
        """By filter, what sets wants apart, and path."""
        self._above: dict[Want, Want] = {}
        self._below: dict[Want, set[Want]] = {}
        self._changed: dict[Place, None] = {}
        self._crowd: dict[Place, dict[Want, None]] = {}
        """Wants that came to a crowded place and have not been compared."""
        self._hints: tuple[Want, ...] = ()
        """The last one that was settled, and what covered it: they often cover the next, which then hangs near by."""

    def change(self, less: Iterable[Want], more: Mapping[Want, Condition | None]) -> list[Place]:
        """Take out wants that are there and put in others that are not; returns where other wants stand than before.

        All that go are taken out before any that hung below them looks for another: it may be one that goes too.
        """
        unsettled = dict.fromkeys(more)
        self._conditions.update(more)
        for want in less:
            self._take_out(want, unsettled)
        for want in unsettled:
            self._settle(want)
        self._disperse()
        changed, self._changed = list(self._changed), {}
        return changed

    def _take_out(self, want: Want, unsettled: dict[Want, None]) -> None:
        unsettled.pop(want, None)
        self._crowd.get(place_of(want), {}).pop(want, None)
        above = self._above.pop(want, None)
        if above is not None:
            self._below[above].discard(want)
        elif want in self._standing_wants:
            self._withdraw(want)
        del self._conditions[want]
        for each in self._below.pop(want, ()):
            del self._above[each]
            unsettled[each] = None

    def at(self, place: Place) -> ConditionIndex[Want] | None:
        """Return the wants that stand at a place."""
        filter, path, apart = place
        return (self._standing.get(filter) or {}).get(apart, {}).get(path)

    def places(self) -> Iterator[Place]:
        for by_kind in self._standing.values():
            for apart, by_path in by_kind.items():
                for path, group in by_path.items():
                    yield next(iter(group)).filter, path, apart

    def is_crowded(self, place: Place) -> bool:
        """Return True if a place has so many wants that wanting all is simpler. A policy is never widened."""
        group = None if place[2] else self.at(place)
        return group is not None and len(group) > self._max_conditions

    def _disperse(self) -> None:
        """File the wants that were not compared while the place was crowded."""
        for place in [place for place in self._changed if place in self._crowd]:
            waiting = self._crowd[place]
            while waiting and not self.is_crowded(place):
                want, _ = waiting.popitem()
                self._settle(want)
            if not waiting:
                del self._crowd[place]

    def _settle(self, want: Want) -> None:
        place, condition = place_of(want), self._conditions[want]
        for hint in self._hints:
            if hint in self._conditions and self._is_above(hint, want):
                self._hang(want, hint)
                self._hints = (want, hint)
                return
        if _is_manifold(condition) and self.is_crowded(place):
            self._crowd.setdefault(place, {})[want] = None
            return
        above = next(self._covering(want), None)
        if above is not None:
            self._hang(want, above)
            self._hints = (want, above)
            return
        self._hints = (want,)
        for each in list(self._covered(want)):
            self._withdraw(each)
            self._hang(each, want)
        by_kind = self._standing.get(want.filter)
        if by_kind is None:
            by_kind = {}
            self._standing.set(want.filter, by_kind)
        by_kind.setdefault(_apart(want), {}).setdefault(want.path, ConditionIndex()).add(want, condition)
        self._standing_wants.add(want)
        self._changed[place_of(want)] = None

    def _withdraw(self, want: Want) -> None:
        """Remove a want that stood."""
        self._standing_wants.discard(want)
        by_kind, apart = self._standing.get(want.filter), _apart(want)
        assert by_kind is not None
        by_path = by_kind[apart]
        by_path[want.path].remove(want)
        self._changed[place_of(want)] = None
        if not len(by_path[want.path]):
            del by_path[want.path]
            if not by_path:
                del by_kind[apart]
            if not by_kind:
                self._standing.pop(want.filter)

    def _hang(self, want: Want, above: Want) -> None:
        self._above[want] = above
        self._below.setdefault(above, set()).add(want)

    def _covering(self, want: Want) -> Iterator[Want]:
        """Return the standing wants that cover it. Of two that cover each other the greater one stands."""
        nodes, condition = set(want.path), self._conditions[want]
        for by_kind in self._standing.covering(want.filter):
            for path, group in by_kind.get(_apart(want), {}).items():
                if nodes.issuperset(path):
                    for other in group.covering(condition):
                        if other != want and (other > want or not self._covers(want, other)):
                            yield other

    def _is_above(self, other: Want, want: Want) -> bool:
        return other != want and self._covers(other, want) and (other > want or not self._covers(want, other))

    def _covered(self, want: Want) -> Iterator[Want]:
        nodes, condition = set(want.path), self._conditions[want]
        for by_kind in self._standing.covered(want.filter):
            for path, group in by_kind.get(_apart(want), {}).items():
                if nodes.issubset(path):
                    for other in group.covered(condition):
                        if other < want or not self._covers(other, want):
                            yield other

    def _covers(self, wide: Want, narrow: Want) -> bool:
        """Return True if the first covers the second; a path that is part of another goes wherever that one goes."""
        outer, inner = self._conditions[wide], self._conditions[narrow]
        return (
            _apart(wide) == _apart(narrow)
            and set(wide.path) <= set(narrow.path)
            and covers(wide.filter, narrow.filter)
            and (
                outer is None
                or (inner is not None and (outer == inner or ranges_cover(outer.ranges, inner.ranges) is True))
            )
        )


def _is_manifold(condition: Condition | None) -> bool:
    """Return True if it is about several attributes."""
    return condition is not None and condition.ranges is not None and len(condition.ranges.regions) > 1
