"""Evidence about neighbours that comes of itself: what monitors, advertisements and the deployment's own function make
of the events that a neighbour sends (trust §II-C).
"""

from penstock.engine.contracts import registry
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements.facts import EvidenceNote
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, MetricKey, Quality
from penstock.model.topic import matches
from penstock.policy.contracts.contract import ProducerContract
from penstock.policy.quality.collectors import ArgumentSource, collect
from penstock.policy.quality.needs import why_not
from penstock.policy.trust.evaluation import Interaction, evaluated
from penstock.policy.trust.rating import Evidence


def looks_at(node: Node, session: Session, topic: str) -> bool:
    """Return True if each event of a neighbour on a topic is evidence, so that none may pass without a look."""
    if node.trust.ratings is None:
        return False
    settings = node.trust.ratings.settings.evidence
    if node.ensemble.evaluate is not None or (settings.contracts and _guaranteed(node, topic)):
        return True
    offers = (offered for offered in session.federation.offers.values() if offered.condition is not None)
    return settings.conform and any(matches(offered.offer.filter, topic) for offered in offers)


def look(node: Node, session: Session, event: Event, now: float) -> None:
    """Look at an event that a neighbour sends and that is accepted from it."""
    assert node.trust.ratings is not None
    name, settings = session.neighbour or "", node.trust.ratings.settings.evidence
    if settings.conform and _keeps(node, session, event) is False:
        # That it keeps its own word is no merit: it could say anything.
        observe(node, name, False, "conform", now, is_before=True)
    if settings.contracts:
        promised = _promised(node, event, now)
        if promised is not None:
            observe(node, name, promised, "contract", now, is_before=True)
    if node.ensemble.evaluate is not None:
        content = node.ensemble.reader.read(event)
        evaluation = evaluated(node.ensemble.evaluate, Interaction(name, event.topic, event.payload, content))
        if isinstance(evaluation, str):
            node.notice("evaluation failed", session, event.topic, evaluation)
        elif evaluation is not None:
            observe(node, name, evaluation, "evaluate", now, is_before=True)


def edited(node: Node, sender: Session | None, is_good: bool, now: float) -> None:
    """Note that the link's monitors let an event of a neighbour pass, or suppressed it."""
    ratings = node.trust.ratings
    if sender is not None and sender.trust.tokens is not None and ratings and ratings.settings.evidence.monitors:
        observe(node, sender.neighbour or "", is_good, "monitor", now)


def _keeps(node: Node, session: Session, event: Event) -> bool | None:
    """Return True if an event is as the neighbour advertises; None if no advertisement concerns it."""
    offers = session.federation.offers.values()
    offered = [offer.condition for offer in offers if matches(offer.offer.filter, event.topic)]
    conditions = [condition for condition in offered if condition is not None]
    if not conditions or len(conditions) < len(offered) or (event.retain and not event.payload):
        return None
    content = node.ensemble.reader.read(event)
    return any(condition.holds(content) is True for condition in conditions)


def _guaranteed(node: Node, topic: str) -> list[ProducerContract]:
    """Return the domain's contracts that guarantee something of the quality of events on a topic."""
    contracts = () if node.contracts is None else node.contracts.contracts.producers
    return [contract for contract in contracts if contract.guarantees and matches(contract.filter, topic)]


def _promised(node: Node, event: Event, now: float) -> bool | None:
    """Return True if an event has the quality that one of its producer's contracts guarantees; None if none applies.

    Its producer's node has measured it, and should not have let it in.
    """
    bound = _guaranteed(node, event.topic)
    if not bound:
        return None
    assert node.contracts is not None
    governed = registry.governed(node, event, now)
    claimed = NO_QUALITY if governed is None else governed.quality
    content = node.ensemble.reader.read(event)
    kept = set()
    for contract in bound:
        for collectors in {node.contracts.binding(client, event.topic)[1] for client in contract.producers}:
            measured = collect(collectors, node.contracts.contracts.catalogue, content, now).quality
            clock = {each.key for each in collectors if ArgumentSource.CLOCK in each.sources}
            kept.add(_kept(contract, claimed, measured, clock, content))
    return True if True in kept else None if None in kept else False


def _kept(
    contract: ProducerContract, claimed: Quality, measured: Quality, clock: set[MetricKey], content: Content
) -> bool | None:
    """Return True if an event keeps a contract, by its own quality and the quality measured here; None if only the
    neighbour says so: it could say anything.

    What goes by the clock is worse here than it was at the producer's node, which is nobody's fault.
    """
    if why_not(contract.guarantees, claimed.with_(measured.without(clock)), content):
        return False
    if why_not(contract.guarantees, claimed, content):
        return False
    return None if why_not(contract.guarantees, measured, content) else True


def observe(node: Node, neighbour: str, is_good: bool, source: str, now: float, is_before: bool = False) -> None:
    """Add evidence about a neighbour, and have the journal note it."""
    add_evidence(node, neighbour, is_good, source, now)
    if node.recorder is not None:
        node.recorder.saw(EvidenceNote(neighbour, is_good, source), is_before)


def add_evidence(node: Node, neighbour: str, is_good: bool, source: str, now: float) -> None:
    """Add evidence about a neighbour; decisions follow in this turn."""
    ratings = node.trust.ratings
    if ratings is not None:
        set_evidence(node, neighbour, ratings.of(neighbour, now).with_message(is_good, ratings.settings.weights, now))
        key = (neighbour, source, is_good)
        ratings.counts[key] = ratings.counts.get(key, 0) + 1


def set_evidence(node: Node, neighbour: str, evidence: Evidence) -> None:
    """Hold this about a neighbour from now on."""
    assert node.trust.ratings is not None
    node.trust.ratings.evidence[neighbour] = evidence
    node.ledger.evidence(neighbour, evidence)
    node.trust.ratings.is_stale = True
