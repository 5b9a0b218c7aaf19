"""All that a node wants of one neighbour, and what of it the neighbour must be told; kept up to date by differences."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from msgspec import structs

from penstock.engine.federation.maximal_wants import MAX_CONDITIONS, MaximalWants, Place
from penstock.engine.federation.wants import Path, Want
from penstock.language.condition import Condition
from penstock.model.topic import covers

Demands = Mapping[Want, Condition | None]
_NOTHING: Demands = {}
_NO_WANTS: frozenset[Want] = frozenset()


class Difference(NamedTuple):
    """The wants to tell that were not told before, and those to withdraw."""

    more: frozenset[Want]
    less: frozenset[Want]


class NeighbourWants:
    """The wants of sources: subscriptions, offers, the node itself. A want ends with the last of its sources."""

    def __init__(self, max_conditions: int = MAX_CONDITIONS) -> None:
        """Make an empty set that tells at most `max_conditions` incomparable conditions on one filter one by one."""
        self._demands: dict[Hashable, Demands] = {}
        self._counts: dict[Want, int] = {}
        self._conditions: dict[Want, Condition | None] = {}
        self._ways: dict[Want, set[Want]] = {}
        self._entering: dict[Want, Condition | None] = {}
        self._leaving: dict[Want, None] = {}
        """Wants that come and go with the next `changes`."""
        self._widest = MaximalWants(max_conditions)
        self._told: dict[Place, frozenset[Want]] = {}
        self._widened: set[Place] = set()

    def put(self, source: Hashable, demands: Demands) -> None:
        """Set the wants of a source."""
        before = self._demands.pop(source, _NOTHING)
        if demands:
            self._demands[source] = demands
        for want, condition in demands.items():
            if want not in before:
                self._count(want, condition)
        for want in before:
            if want not in demands:
                self._discount(want)

    def of(self, source: Hashable) -> frozenset[Want]:
        """Return the wants of a source."""
        return frozenset(self._demands.get(source, _NOTHING))

    def changes(self) -> Difference:
        """Return what to tell the neighbour since the last call."""
        places = self._widest.change(self._leaving, self._entering)
        self._leaving, self._entering = {}, {}
        widened = {place for place in places if self._widest.is_crowded(place)}
        if widened != self._widened.intersection(places):
            self._widened = (self._widened - set(places)) | widened
            places = list({*self._told, *self._widest.places()})
        more: set[Want] = set()
        less: set[Want] = set()
        for place in places:
            before, now = self._told.pop(place, _NO_WANTS), self._telling(place)
            if now:
                self._told[place] = now
            more |= now - before
            less |= before - now
        return Difference(frozenset(more), frozenset(less))

    def told(self) -> frozenset[Want]:
        """Return all that the neighbour is to know, as of the last `changes`."""
        return frozenset().union(*self._told.values())

    def _count(self, want: Want, condition: Condition | None) -> None:
        count = self._counts.get(want, 0)
        self._counts[want] = count + 1
        if count:
            return
        self._conditions[want] = condition
        # Of equal wants of one node only the one with the shortest path counts.
        ways = self._ways.setdefault(_same_but_for_way(want), set())
        best = min(ways, key=_length, default=None)
        ways.add(want)
        if best is None or _length(want) < _length(best):
            if best is not None:
                self._leave(best)
            self._enter(want)

    def _discount(self, want: Want) -> None:
        self._counts[want] -= 1
        if self._counts[want]:
            return
        key = _same_but_for_way(want)
        ways = self._ways[key]
        best = min(ways, key=_length)
        ways.discard(want)
        if best == want:
            self._leave(want)
            if ways:
                self._enter(min(ways, key=_length))
        if not ways:
            del self._ways[key]
        del self._counts[want], self._conditions[want]

    def _enter(self, want: Want) -> None:
        if want in self._leaving:
            del self._leaving[want]
        else:
            self._entering[want] = self._conditions[want]

    def _leave(self, want: Want) -> None:
        if want in self._entering:
            del self._entering[want]
        else:
            self._leaving[want] = None

    def _telling(self, place: Place) -> frozenset[Want]:
        """Return what to tell of a place: its wants, its whole filter, or nothing if a whole filter covers it."""
        if not place[2] and any(other != place and _shadows(other, place) for other in self._widened):
            return _NO_WANTS
        if place in self._widened:
            return frozenset({Want(place[0], "", place[1])})
        group = self._widest.at(place)
        return frozenset(group) if group is not None else _NO_WANTS


def _same_but_for_way(want: Want) -> Want:
    return structs.replace(want, path=want.path[:1])


def _length(want: Want) -> tuple[int, Path]:
    return len(want.path), want.path


def _shadows(wide: Place, narrow: Place) -> bool:
    """Return True if `narrow` need not be told; of two that cover each other the greater one is told."""
    return _covers(wide, narrow) and (wide > narrow or not _covers(narrow, wide))


def _covers(wide: Place, narrow: Place) -> bool:
    return set(wide[1]) <= set(narrow[1]) and covers(wide[0], narrow[0])
