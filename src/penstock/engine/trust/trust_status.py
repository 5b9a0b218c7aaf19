"""The status of neighbours and tokens, for operators."""

from heapq import nsmallest

import msgspec

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust.state import Ratings
from penstock.policy.trust.rating import may_sign


class Path(msgspec.Struct, frozen=True):
    """The least trustworthy path from a node."""

    rating: float
    edges: int
    accepts: bool
    """True if a signature of that node is enough by the rule `path`, if it asks for one."""


class NeighbourStanding(msgspec.Struct, frozen=True):
    """A node's rating of a neighbour."""

    connected: bool
    good: float
    bad: float
    at: float
    """Since when the evidence, r and s, stands so; it ages from then on."""
    belief: float
    disbelief: float
    uncertainty: float
    rating: float
    signs: bool
    """True if the node signs what comes from it."""
    evidence: dict[str, dict[str, int]]
    """Since the start, by where it came from, how much was good and how much bad."""


class TrustStanding(msgspec.Struct, frozen=True):
    """The rule of a node, its neighbours, and the paths that it knows."""

    rule: str
    sign: float
    accept: float
    signers: int
    penalty: int
    base_rate: float
    half_life: float | None
    neighbours: dict[str, NeighbourStanding]
    paths: dict[str, Path]


class TokenStanding(msgspec.Struct, frozen=True):
    """Tokens that a node has at hand for neighbours, and how many it has refused since the start."""

    required: bool
    known: int
    refused: int
    key: str
    """The id of the key that it signs with."""


class Standing(msgspec.Struct, frozen=True):
    """All of it; None where the domain says nothing."""

    node: str
    tokens: TokenStanding | None
    trust: TrustStanding | None


def standing(node: Node, now: float, paths: int | None = None) -> Standing:
    """Return the status now, with at most so many paths, the least trustworthy ones."""
    tokens = None
    if node.trust.tokens is not None:
        required, key = node.trust.tokens.settings.required, node.trust.tokens.keys.signing.key_id
        tokens = TokenStanding(required, len(node.trust.tokens.known), node.stats.tokens_refused, key)
    ratings = node.trust.ratings
    return Standing(node.name, tokens, _trust(node, ratings, now, paths) if ratings is not None else None)


def _trust(node: Node, ratings: Ratings, now: float, paths: int | None) -> TrustStanding:
    settings, thresholds, neighbours = ratings.settings, ratings.thresholds, node.federation.neighbours
    least = sorted(ratings.least.items())
    if paths is not None:
        least = nsmallest(paths, least, key=lambda path: path[1].rating)
    rule = (settings.rule, thresholds.sign, thresholds.theta, thresholds.signers)
    weights = (settings.penalty, settings.base_rate, settings.half_life)
    rated = {name: _neighbour(ratings, neighbours[name], now) for name in sorted(node.federation.rated)}
    known = {name: Path(path.rating, path.edges, path.reaches(thresholds.theta)) for name, path in least}
    return TrustStanding(*rule, *weights, rated, known)


def _neighbour(ratings: Ratings, session: Session, now: float) -> NeighbourStanding:
    name = session.neighbour or ""
    held = ratings.of(name, now)
    opinion = held.aged(ratings.settings.weights, now).opinion
    rating = ratings.rating(name, now)
    signs = may_sign(name, {name: rating}, ratings.thresholds)
    counts: dict[str, dict[str, int]] = {}
    for (of, source, is_good), count in sorted(ratings.counts.items()):
        if of == name:
            counts.setdefault(source, {"good": 0, "bad": 0})["good" if is_good else "bad"] = count
    evidence, beliefs = (held.good, held.bad, held.at), (opinion.belief, opinion.disbelief, opinion.uncertainty)
    return NeighbourStanding(session.outlet is not None, *evidence, *beliefs, rating, signs, counts)
