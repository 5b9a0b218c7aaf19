"""How far a node trusts its neighbours, and which tokens it accepts by that (trust §II-C, §II-D).

Evidence becomes ratings, ratings and the neighbours' vectors become least-trustworthy paths, and these say whose tokens
are accepted. What was decided is kept until the decision would be another.
"""

from typing import TYPE_CHECKING, NamedTuple

from penstock.domain.schema.trust import TrustSettings
from penstock.policy.trust.rating import (
    RULES,
    Average,
    Evidence,
    ReceivedToken,
    Thresholds,
    TokenRuling,
    in_millionths,
    may_sign,
)
from penstock.policy.trust.vectors import TrustTable, Update

if TYPE_CHECKING:
    from penstock.engine.node import Node

MOST_RULINGS = 10_000


class Ruled(NamedTuple):
    """What is decided about tokens with some signers, from one neighbour."""

    ruling: TokenRuling
    signs: bool
    """Whether this node introduces the neighbour to others."""


class Ratings:
    """What one node holds of its neighbours."""

    def __init__(self, node: str, nodes: int, settings: TrustSettings, thresholds: Thresholds) -> None:
        self.node = node
        self.settings = settings
        self.thresholds = thresholds
        self.evidence: dict[str, Evidence] = {}
        self.counts: dict[tuple[str, str, bool], int] = {}
        """By neighbour, where it came from and whether it was good: how much evidence there was since the start."""
        self.table = TrustTable(node, nodes, settings.longest)
        self.least: dict[str, Average] = {}
        """The least-trustworthy paths to this node, from each other."""
        self.is_stale = True
        """There is something new since all was worked out; and in `is_changed` something to tell neighbours, who may be
        told again when it is `due`.
        """
        self.is_changed = True
        self.due = 0.0
        self._ratings: dict[str, float] = {}
        self._rulings: dict[tuple[str, frozenset[str]], Ruled] = {}

    def rating(self, neighbour: str, now: float) -> float:
        return self.of(neighbour, now).rating(self.settings.weights, now)

    def held(self, neighbour: str) -> float | None:
        """The rating by which things are decided now; None of who is no neighbour."""
        return self._ratings.get(neighbour)

    def of(self, neighbour: str, now: float) -> Evidence:
        """The evidence about a neighbour; before there is any, what the domain gives, which is as of now: it begins to
        age with the first that is seen.
        """
        return self.evidence.get(neighbour) or self.settings.begins(self.node, neighbour, now)

    def rule(self, sender: str, signers: frozenset[str]) -> Ruled:
        """Whether tokens that these have signed are accepted from a neighbour."""
        key = (sender, signers)
        found = self._rulings.get(key)
        if found is None:
            if len(self._rulings) >= MOST_RULINGS:
                self._rulings.clear()
            found = self._rulings[key] = self._rule(*key)
        return found

    def _rule(self, sender: str, signers: frozenset[str]) -> Ruled:
        came = ReceivedToken(signers, sender, self.table.through(sender))
        ruling = RULES[self.settings.rule](came, self._ratings, self.least, self.thresholds)
        return Ruled(ruling, may_sign(sender, self._ratings, self.thresholds))

    def refresh(self, neighbours: list[str], connected: set[str], now: float) -> bool:
        """Work out ratings and paths anew; whether a decision is another by them."""
        ratings = {name: self.rating(name, now) for name in neighbours}
        for name in connected:
            before = self._ratings.get(name)
            if (
                before is None
                or in_millionths(before) != in_millionths(ratings[name])
                or not self.table.has_neighbour(name)
            ):
                self.table.set_rating(name, ratings[name])
                self.is_changed = True
        self._ratings = ratings
        self.is_stale = False
        self.least = self.table.least()
        rulings, self._rulings = self._rulings, {}
        is_other = False
        for key, ruled in rulings.items():
            found = self.rule(*key)
            is_other |= (found.ruling.accepts, found.signs) != (ruled.ruling.accepts, ruled.signs)
        return is_other

    def lost(self, neighbour: str) -> None:
        """The link is down: paths over it are gone."""
        self.table.forget(neighbour)
        self.is_stale = self.is_changed = True

    def heard(self, neighbour: str, update: Update) -> bool:
        """A neighbour tells of paths; False if it must begin anew. Raises `PolicyError`."""
        taken = self.table.receive(neighbour, update)
        if taken:
            self.is_stale = self.is_changed = True
        return taken


def renewed(node: "Node", before: Ratings | None) -> Ratings | None:
    """The ratings by the domain as it is now, with the evidence that there is."""
    settings = node.ensemble.trust
    if settings is None:
        return None
    made = Ratings(node.name, len(node.ensemble.nodes), settings, node.ensemble.thresholds[node.name])
    if before is not None:
        made.evidence, made.counts = before.evidence, before.counts
    return made


def saw(node: "Node", neighbour: str, is_good: bool, source: str, now: float) -> None:
    """Evidence about a neighbour; decisions follow in this turn."""
    ratings = node.ratings
    if ratings is None:
        return
    found = ratings.of(neighbour, now).with_message(is_good, ratings.settings.weights, now)
    set_evidence(node, neighbour, found, now)
    key = (neighbour, source, is_good)
    ratings.counts[key] = ratings.counts.get(key, 0) + 1


def set_evidence(node: "Node", neighbour: str, evidence: Evidence, now: float) -> None:
    """Hold this about a neighbour from now on."""
    assert node.ratings is not None
    node.ratings.evidence[neighbour] = evidence
    node.ledger.evidence(neighbour, evidence)
    node.ratings.is_stale = True


def refresh(node: "Node", now: float) -> None:
    """Ratings or paths may be others: so may be what is accepted."""
    assert node.ratings is not None
    names = node.rated
    connected = {name for name in names if node.neighbours[name].outlet is not None}
    if node.ratings.refresh(names, connected, now):
        for name in names:
            node.forget_link(node.neighbours[name])
