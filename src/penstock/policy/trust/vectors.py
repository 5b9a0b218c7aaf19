"""Least-trustworthy paths, computed by nodes that announce to their neighbours what they know (trust §II-D).

The least average is not a plain distance vector: the best prefix of a path depends on how long the rest is. So a node
keeps, for each origin and each number of edges, the least sum of ratings, and takes the least average at the end. A sum
over n edges is made of sums over n-1 only, so what is no longer true climbs one edge with each message and is gone when
it reaches the bound: there is no counting to infinity, and the order of messages does not matter.

On graphs with cycles the sums are over walks, of at most `longest` edges: more than the paths, so the least of them can
only be lower. Walks that turn back at once, and those that come back to where they began, are left out: with links in
both directions the worst pair of neighbours would otherwise drag every rating down. On trees only paths remain.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.policy.trust.rating import UNIT, Average, in_millionths


class Walk(NamedTuple):
    """A walk to a node: its origin, and its number of edges."""

    origin: str
    edges: int


Vector = Mapping[Walk, int]
"""The least sums of the walks that end at a node, in millionths."""


@dataclass(frozen=True, slots=True)
class Update:
    """A message of a node to a neighbour: its whole vector, or the difference to the last update."""

    number: int
    is_whole: bool
    sums: Mapping[Walk, int | None]
    """The new sums. None: the walk does not exist any more."""


class TrustTable:
    """The trust of one node in walks. It does no I/O: `update_for` returns what to send, `receive` takes what came.

    A neighbour is believed only about walks that lead through it: each is continued by this node's own rating of it. A
    neighbour that has not been rated is rated 0.
    """

    def __init__(self, node: str, nodes: int, longest: int | None = None) -> None:
        """Make the table of a node among |B| `nodes`; a `longest` of less than |B| - 1 makes vectors shorter."""
        self.node = node
        self.nodes = nodes
        self.longest = max(1, nodes - 1) if longest is None else longest
        if self.longest < 1 or nodes < 1:
            raise PolicyError(f"walks of `{self.longest}` edges in a network of `{nodes}` nodes lead nowhere")
        self._ratings: dict[str, int] = {}
        self._announced: dict[str, dict[Walk, int]] = {}
        self._received: dict[str, int] = {}
        self._sent: dict[str, tuple[int, Vector]] = {}

    def set_rating(self, neighbour: str, rating: float) -> None:
        """Set this node's own rating of a neighbour."""
        self._ratings[neighbour] = in_millionths(rating)
        self._announced.setdefault(neighbour, {})

    def has_neighbour(self, neighbour: str) -> bool:
        """Return whether there is a link to the neighbour."""
        return neighbour in self._ratings

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
        sums = {} if update.is_whole else dict(self._announced.get(neighbour, {}))
        self.check(neighbour, update)
        for walk, total in update.sums.items():
            if total is None:
                sums.pop(walk, None)
            elif walk.origin not in (neighbour, self.node) and walk.edges < self.longest:
                sums[walk] = total
        if len({walk.origin for walk in sums}) > self.nodes:
            raise PolicyError(f"`{neighbour}` announces more than {self.nodes} nodes")
        self._announced[neighbour] = sums
        self._received[neighbour] = update.number
        return True

    def forget(self, neighbour: str) -> None:
        """Forget a neighbour and every path over it. When it comes back, both sides begin with whole vectors."""
        for by_neighbour in (self._ratings, self._announced, self._received, self._sent):
            by_neighbour.pop(neighbour, None)

    def resend_whole(self, neighbour: str) -> None:
        """Send a whole vector next time: the neighbour has missed an update."""
        if neighbour in self._sent:
            self._sent[neighbour] = self._sent[neighbour][0], {}

    def vector_for(self, neighbour: str) -> Vector:
        """Return the vector for a neighbour: walks that end here, without those that come from it or through it."""
        return {Walk(self.node, 0): 0, **self._sums(neighbour, self.longest - 1)}

    def update_for(self, neighbour: str) -> Update | None:
        """Return the update to send to a neighbour, None if nothing has changed; it counts as sent."""
        vector = self.vector_for(neighbour)
        number, before = self._sent.get(neighbour, (0, {}))
        sums = difference(before, vector)
        if not sums:
            return None
        self._sent[neighbour] = number + 1, vector
        return Update(number + 1, not before, sums)

    def least(self, origins: Iterable[str] | None = None) -> dict[str, Average]:
        """Return the least-trustworthy path to this node from each of these origins, or from all, if there is one."""
        chosen = None if origins is None else frozenset(origins)
        averages: dict[str, Average] = {}
        for walk, total in self.sums().items():
            if chosen is None or walk.origin in chosen:
                average = Average(total, walk.edges)
                if walk.origin not in averages or average < averages[walk.origin]:
                    averages[walk.origin] = average
        return averages

    def through(self, neighbour: str) -> set[str]:
        """Return the origins of paths to this node whose last edge is from the neighbour, with the neighbour itself."""
        return {neighbour, *(walk.origin for walk in self._announced.get(neighbour, ()))}

    def sums(self) -> Vector:
        """Return the least sums over all walks that end here."""
        return self._sums(None, self.longest)

    def _sums(self, but: str | None, longest: int) -> dict[Walk, int]:
        """Return the least sums of walks whose last edge is not from `but`, and that do not begin there."""
        least: dict[Walk, int] = {}
        for neighbour, sums in self._announced.items():
            if neighbour == but:
                continue
            rating = self._ratings.get(neighbour, 0)
            for (origin, edges), total in ((Walk(neighbour, 0), 0), *sums.items()):
                walk = Walk(origin, edges + 1)
                if walk.edges <= longest and origin != but and total + rating < least.get(walk, _NONE):
                    least[walk] = total + rating
        return least


_NONE = 1 << 62


def difference(before: Vector, after: Vector) -> dict[Walk, int | None]:
    """Return the changes from one vector to another."""
    changed: dict[Walk, int | None] = {walk: total for walk, total in after.items() if before.get(walk) != total}
    changed.update((walk, None) for walk in before if walk not in after)
    return changed
