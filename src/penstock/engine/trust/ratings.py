"""A node's trust in its neighbours, and the tokens it accepts by that (trust §II-C, §II-D).

Evidence becomes ratings, ratings and the neighbours' vectors become least-trustworthy paths, and these say whose tokens
are accepted. What was decided is kept until the decision would be another.
"""

from penstock.engine.events import link_plans
from penstock.engine.node import Node
from penstock.engine.trust.state import Ratings
from penstock.policy.trust.rating import Evidence


def renewed(node: Node, before: Ratings | None) -> Ratings | None:
    """Return the ratings by the domain as it is now, with the evidence that there is."""
    settings = node.ensemble.trust
    if settings is None:
        return None
    ratings = Ratings(node.name, len(node.ensemble.nodes), settings, node.ensemble.thresholds[node.name])
    if before is not None:
        ratings.evidence, ratings.counts = before.evidence, before.counts
    return ratings


def saw(node: Node, neighbour: str, is_good: bool, source: str, now: float) -> None:
    """Evidence about a neighbour; decisions follow in this turn."""
    ratings = node.trust.ratings
    if ratings is None:
        return
    evidence = ratings.of(neighbour, now).with_message(is_good, ratings.settings.weights, now)
    set_evidence(node, neighbour, evidence, now)
    key = (neighbour, source, is_good)
    ratings.counts[key] = ratings.counts.get(key, 0) + 1


def set_evidence(node: Node, neighbour: str, evidence: Evidence, now: float) -> None:
    """Hold this about a neighbour from now on."""
    assert node.trust.ratings is not None
    node.trust.ratings.evidence[neighbour] = evidence
    node.ledger.evidence(neighbour, evidence)
    node.trust.ratings.is_stale = True


def refresh(node: Node, now: float) -> None:
    """Recompute what is accepted after a change of ratings or paths."""
    assert node.trust.ratings is not None
    names = node.federation.rated
    connected = {name for name in names if node.federation.neighbours[name].outlet is not None}
    if node.trust.ratings.refresh(names, connected, now):
        for name in names:
            link_plans.forget_link(node, node.federation.neighbours[name])
