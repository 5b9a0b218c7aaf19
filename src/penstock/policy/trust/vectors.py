"""Least-trustworthy paths, computed by nodes that announce to their neighbours what they know (trust §II-D).

The least average is not a plain distance vector: the best prefix of a path depends on how long the rest is. So a node
keeps, for each origin and each number of edges, the least sum of ratings, and takes the least average at the end. A sum
over n edges is made of sums over n-1 only, so what is no longer true climbs one edge with each message and is gone when
it reaches the bound: there is no counting to infinity, and the order of messages does not matter.

On graphs with cycles the sums are over walks, of at most `longest` edges: more than the paths, so the least of them can
only be lower. Walks that turn back at once, and those that come back to where they began, are left out: with links in
both directions the worst pair of neighbours would otherwise drag every rating down. On trees only paths remain.

Cost follows what changes: only the origins that an update or a rating concerns are worked out and announced again, and
an update has at most as many bytes as there is room for; the next one goes on where it ended.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.policy.trust.rating import UNIT, Average, in_millionths

MAX_EDGES = 6
"""Edges of the longest path looked at, unless set."""
_SUM_BYTES = 24
"""Of one sum in an update, beside the name of its origin: brackets, quotes, commas, edges and sum."""


class Walk(NamedTuple):
    """A walk to a node: its origin, and its number of edges."""

    origin: str
    edges: int


Vector = Mapping[Walk, int]
"""The least sums of the walks that end at a node, in millionths."""
Sums = dict[int, int]
"""By number of edges, the least sum of the walks from one origin."""


@dataclass(frozen=True, slots=True)
class Update:
    """A message of a node to a neighbour: its whole vector, or the difference to the last update."""

    number: int
    is_whole: bool
    sums: Mapping[Walk, int | None]
    """The new sums. None: the walk does not exist any more."""


class Least(NamedTuple):
    """Of the walks of one length from one origin, the least sum, the neighbour it comes over, and the least over
    others."""

    total: int
    over: str
    second: int


@dataclass(slots=True)
class Told:
    """The sums that a neighbour has been told, and the origins of which there may be something to tell."""

    number: int = 0
    sums: dict[str, Sums] = field(default_factory=dict)
    is_begun: bool = False
    origins: dict[str, None] = field(default_factory=dict)
    """In the order in which they are told, so that each has its turn."""


class TrustTable:
    """The trust of one node in walks. It does no I/O: `update_for` returns what to send, `receive` takes what came.

    A neighbour is believed only about walks that lead through it: each is continued by this node's own rating of it. A
    neighbour that has not been rated is rated 0.
    """

    def __init__(self, node: str, nodes: int, longest: int | None = None) -> None:
        """Make the table of a node among |B| `nodes`, with walks of at most `longest` edges."""
        self.node = node
        self.nodes = nodes
        self.longest = max(1, min(nodes - 1, MAX_EDGES)) if longest is None else longest
        if self.longest < 1 or nodes < 1:
            raise PolicyError(f"walks of `{self.longest}` edges in a network of `{nodes}` nodes lead nowhere")
        self._ratings: dict[str, int] = {}
        self._rerated: set[str] = set()
        """Neighbours whose rating is another since somebody was told of walks."""
        self._announced: dict[str, dict[str, Sums]] = {}
        """By neighbour and origin, the sums of walks to the neighbour."""
        self._received: dict[str, int] = {}
        self._told: dict[str, Told] = {}
        self._least: dict[str, dict[int, Least]] = {}
        """By origin; empty again after each change."""

    def set_rating(self, neighbour: str, rating: float) -> bool:
        """Set this node's own rating of a neighbour; return whether it is another."""
        millionths = in_millionths(rating)
        if self._ratings.get(neighbour) == millionths:
            return False
        self._ratings[neighbour] = millionths
        self._announced.setdefault(neighbour, {})
        self._rerated.add(neighbour)
        self._least.clear()
        return True

    @staticmethod
    def check(neighbour: str, update: Update) -> None:
        """Raise `PolicyError` if an update is impossible, whatever else is known."""
        for (origin, edges), total in update.sums.items():
            if edges < 0 or (total is not None and not 0 <= total <= edges * UNIT):
                raise PolicyError(f"`{neighbour}` announces `{edges}` edges from `{origin:.80}` that sum to `{total}`")
            if edges == 0 and origin != neighbour:
                raise PolicyError(f"`{neighbour}` says that it is `{origin:.80}`")

    def receive(self, neighbour: str, update: Update) -> bool:
        """Take a neighbour's update; False if one before it is missing, so that the whole is needed.

        Raises `PolicyError` if the update is impossible; then nothing is changed.
        """
        before = self._received.get(neighbour, 0)
        if update.number <= before:
            return True
        if not update.is_whole and update.number != before + 1:
            return False
        self.check(neighbour, update)
        known = self._announced.get(neighbour, {})
        news = {walk: total for walk, total in update.sums.items() if self._is_followed(neighbour, walk)}
        origins = {walk.origin for walk, total in news.items() if total is not None}
        if len(origins if update.is_whole else origins | known.keys()) > self.nodes:
            raise PolicyError(f"`{neighbour}` announces more than {self.nodes} nodes")
        changed = {walk.origin for walk in news} | {neighbour} - self._announced.keys()
        self._announced[neighbour] = known
        if update.is_whole:
            changed |= known.keys()
            known.clear()
        for walk, total in news.items():
            if total is not None:
                known.setdefault(walk.origin, {})[walk.edges] = total
            elif walk.origin in known:
                known[walk.origin].pop(walk.edges, None)
                if not known[walk.origin]:
                    del known[walk.origin]
        self._received[neighbour] = update.number
        self._changed(changed, neighbour)
        return True

    def _is_followed(self, neighbour: str, walk: Walk) -> bool:
        return walk.origin not in (neighbour, self.node) and walk.edges < self.longest

    def forget(self, neighbour: str) -> None:
        """Forget a neighbour and every path over it. When it comes back, both sides begin with whole vectors."""
        if neighbour in self._announced:
            self._changed({neighbour, *self._announced[neighbour]}, neighbour)
        for by_neighbour in (self._ratings, self._announced, self._received, self._told):
            by_neighbour.pop(neighbour, None)
        self._rerated.discard(neighbour)

    def resend_whole(self, neighbour: str) -> None:
        """Send a whole vector next time: the neighbour has missed an update."""
        if neighbour in self._told:
            self._told[neighbour] = Told(self._told[neighbour].number, origins=self._origins())

    def resume(self, before: "TrustTable") -> None:
        """Number updates from where another table of this node ended, so that neighbours do not take them for old."""
        self._told = {neighbour: Told(sent.number, origins=self._origins()) for neighbour, sent in before._told.items()}

    def vector_for(self, neighbour: str) -> Vector:
        """Return the vector for a neighbour: walks that end here, without those that come from it or through it."""
        return {
            Walk(origin, edges): total for origin in self._origins() for edges, total in self._for(neighbour, origin)
        }

    def update_for(self, neighbour: str, room: float = inf) -> Update | None:
        """Return the update to send to a neighbour, of at most so many bytes; None if nothing has changed.

        It counts as sent. If there is more to tell, the next one has it.
        """
        for other in self._rerated:
            self._changed((other, *self._announced[other]), other)
        self._rerated.clear()
        sent = self._told.get(neighbour)
        if sent is None:
            sent = self._told[neighbour] = Told(origins=self._origins())
        changes: dict[Walk, int | None] = {}
        while sent.origins and (room > 0 or not changes):
            origin = next(iter(sent.origins))
            room -= self._tell(sent, neighbour, origin, room, changes)
        if not changes:
            return None
        sent.number += 1
        is_whole, sent.is_begun = not sent.is_begun, True
        return Update(sent.number, is_whole, changes)

    def _tell(self, sent: Told, neighbour: str, origin: str, room: float, changes: dict[Walk, int | None]) -> float:
        """Add the sums of an origin that have changed, as far as there is room, but at least one; return the bytes."""
        new, old = dict(self._for(neighbour, origin)), sent.sums.setdefault(origin, {})
        size, used = len(origin) + _SUM_BYTES, 0
        for edges in sorted(new.keys() | old.keys()):
            total = new.get(edges)
            if total == old.get(edges):
                continue
            if changes and used + size > room:
                return room  # the rest comes with the next update
            used += size
            changes[Walk(origin, edges)] = total
            if total is None:
                del old[edges]
            else:
                old[edges] = total
        del sent.origins[origin]
        if not old:
            del sent.sums[origin]
        return used

    def has_more(self, neighbour: str) -> bool:
        """Return whether there may be something that the neighbour has not been told."""
        return neighbour in self._told and bool(self._told[neighbour].origins)

    def least(self, origins: Iterable[str] | None = None) -> dict[str, Average]:
        """Return the least-trustworthy path to this node from each of these origins, or from all, if there is one."""
        averages = {}
        for origin in self._origins() if origins is None else origins:
            lengths = [Average(least.total, edges) for edges, least in self._of(origin).items() if edges]
            if lengths:
                averages[origin] = min(lengths)
        return averages

    def through(self, neighbour: str) -> set[str]:
        """Return the origins of paths to this node whose last edge is from the neighbour, with the neighbour itself."""
        return {neighbour, *self._announced.get(neighbour, ())}

    def sums(self) -> Vector:
        """Return the least sums over all walks that end here."""
        lengths = ((origin, self._of(origin)) for origin in self._origins())
        return {Walk(origin, edges): least.total for origin, of in lengths for edges, least in of.items() if edges}

    def _changed(self, origins: Iterable[str], over: str) -> None:
        """Note that walks over a neighbour are others."""
        self._least.clear()
        again = dict.fromkeys(origins)
        for neighbour, sent in self._told.items():
            if neighbour != over:
                sent.origins.update(again)

    def _origins(self) -> dict[str, None]:
        """Return all nodes from which there are walks, this one first."""
        origins = {self.node: None, **dict.fromkeys(self._announced)}
        for announced in self._announced.values():
            origins.update(dict.fromkeys(announced))
        return origins

    def _for(self, neighbour: str, origin: str) -> Iterator[tuple[int, int]]:
        """Yield the least sums by edges of walks that do not begin at a neighbour and do not come over it."""
        if origin != neighbour:
            for edges, least in self._of(origin).items():
                total = least.total if least.over != neighbour else least.second
                if edges < self.longest and total < _NONE:
                    yield edges, total

    def _of(self, origin: str) -> dict[int, Least]:
        """Return by edges the least sums of walks from an origin."""
        lengths = self._least.get(origin)
        if lengths is None:
            lengths = self._least[origin] = {0: Least(0, "", _NONE)} if origin == self.node else {}
            for neighbour, announced in self._announced.items():
                sums = _ITSELF if neighbour == origin else announced.get(origin, {})
                rating = self._ratings.get(neighbour, 0)
                for edges, total in sums.items():
                    old, new = lengths.get(edges + 1, _NO_WALK), total + rating
                    if new < old.total:
                        lengths[edges + 1] = Least(new, neighbour, old.total)
                    elif new < old.second:
                        lengths[edges + 1] = Least(old.total, old.over, new)
        return lengths


_NONE = 1 << 62
_NO_WALK = Least(_NONE, "", _NONE)
_ITSELF: Sums = {0: 0}
