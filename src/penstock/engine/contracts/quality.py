"""Quality at a node: it is measured where an event is published, and its producer is held to what it guarantees."""

from penstock.engine.contracts.registry import named, producing, recorded
from penstock.engine.events import user_properties
from penstock.engine.events.user_properties import AT, CONTRACT
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, Quality, moment
from penstock.model.verdict import Effect, Verdict
from penstock.policy.quality.carriage import ATTACHED, CLAIMED, read_properties, read_quality, write_properties
from penstock.policy.quality.collectors import collect
from penstock.policy.quality.needs import why_not


def attach(node: Node, session: Session, event: Event, now: float) -> Event | Verdict:
    """Measure the quality of a client's event, hold its producer to its guarantees, and put both to the event."""
    state = node.contracts
    assert state is not None
    bound = producing(node, session, event.topic)
    _, collectors = state.binding(session.place.entity, event.topic)
    is_private = any(contract.is_private for contract in bound) or bool(state.contracts.private(event.topic))
    at = [(AT, f"{recorded(now):.6f}")] if is_private and not user_properties.told(event, AT) else []
    if not bound and not collectors and not is_private:
        return user_properties.having(event, None, at) if at else event
    content, now = node.ensemble.reader.read(event), recorded(now)
    known = user_properties.told(event, CONTRACT)
    measured = tuple((ATTACHED, value) for value in user_properties.told(event, ATTACHED))
    catalogue = state.contracts.catalogue
    try:
        if measured:  # before a monitor put it on this topic
            quality = read_properties(measured, moment(now), ATTACHED)
        else:
            quality = collect(collectors, catalogue, content, now).beside(_claimed(event, content, now), catalogue)
    except ContentError as error:
        return Verdict("conform", Effect.SUPPRESS, "quality", f"its quality cannot be read: {error}")
    for contract in bound:
        missed = why_not(contract.guarantees, quality, content)
        if missed:
            reason = f"not as its producer guarantees: {'; '.join(missed)}"
            return Verdict("conform", Effect.SUPPRESS, f"contract {contract.name}", reason)
    names = (named(state, contract) for contract in bound if contract.is_private)
    contracts = [(CONTRACT, name) for name in names if name not in known]
    attached = () if measured else write_properties(quality, ATTACHED)
    state.last = measured or attached, quality
    described = user_properties.having(event, None, (*attached, *contracts, *at), without=CLAIMED)
    return node.ensemble.reader.known(described, content)


def _claimed(event: Event, content: Content, now: float) -> Quality:
    """Return the quality that an event claims: in its content, and in properties, which take precedence."""
    received = moment(now)
    try:
        inside = read_quality(content, received)
    except ContentError:
        inside = NO_QUALITY  # it need not speak of quality, nor be readable
    properties = user_properties.carried(event.properties).user_properties if event.properties else ()
    return inside.with_(read_properties(properties, received, CLAIMED))


def claimed(node: Node, event: Event, content: Content, now: float) -> Quality:
    """Return the quality of an event that no node has measured: its producer's claims, where metrics allow claims."""
    assert node.contracts is not None
    catalogue = node.contracts.contracts.catalogue
    try:
        return collect((), catalogue, content, now).beside(_claimed(event, content, now), catalogue)
    except ContentError:
        return NO_QUALITY
