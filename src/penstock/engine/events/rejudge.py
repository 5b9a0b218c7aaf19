"""What was kept is judged again, by policies as they are now: might its publisher still say it, its receiver have it?

A publisher's own advertisements are left out: they say what it will publish from now on. So are publishers with
monitors on their link. What these let in, they may have made: on topics that the publisher itself has no right to.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.contracts import release_recheck
from penstock.engine.events import user_properties
from penstock.engine.recorder import Source
from penstock.engine.sessions.session import Delivery, Session, Subscribed
from penstock.engine.stages import conform, judge, match, project, route
from penstock.engine.statements import bindings
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Effect
from penstock.policy.statements.advertisement import claims
from penstock.policy.statements.judging import Bound

if TYPE_CHECKING:
    from penstock.engine.node import Node


def may_say(node: "Node", event: Event) -> bool:
    """Whether the publisher of an event has a place, the right to its topic, and the domain's word for its content, and
    the token that it was published with is not revoked.
    """
    if node.tokens is not None and node.tokens.is_revoked(event.token):
        return False
    session = node.sessions.get(event.origin)
    if not event.origin or (session is not None and session.neighbour is not None):
        return True  # the node's own, or judged where it began
    entry = _publisher(node, event)
    if entry is None:
        return False
    inwards, _ = entry.links(node.name)
    if node.ensemble.monitors(inwards):
        return True
    rights = node.rights_of(event.origin, event.user)
    if rights is not None and not rights.may_write(event.topic):
        return False
    verdicts = conform.judged(node, claims((), entry.advertises), event)
    return all(one.effect is not Effect.SUPPRESS for one in verdicts)


def judged(node: "Node", event: Event, session: Session, subscribed: Sequence[Subscribed], now: float) -> Event | None:
    """A retained event as policies let a session have it. Of a client's advertisements the policies are with it."""
    sender = node.sessions.get(event.origin)
    is_neighbour = sender is not None and sender.neighbour is not None
    found = bindings.bounds_of(node, sender) if sender is not None and is_neighbour else _given(node, event)
    statements = [one for one in found if matches(one.filter, event.topic)]
    is_judged = session.policies or any(one.policy is not None for one in subscribed)
    if not statements and not is_judged and user_properties.RESERVED_BYTES not in event.properties:
        return event
    judging = judge.Judging(node, event, sender, now, statements)
    if judging.verdict is not None:
        return None
    forms = judging.forms(session, subscribed)
    return None if forms is None else forms.event


def judge_queue(node: "Node", session: Session, now: float | None) -> None:
    """Policies may have changed: what waits and may no longer be said or read is dropped. What was sent is beyond
    recall.
    """
    queue = session.queue
    if not queue:
        return
    session.queue = deque()
    session.queued_bytes = 0
    for delivery in queue:
        left = _left(node, delivery, now)
        if left is None:
            node.ledger.settle(delivery)
            continue
        if left is not delivery.event:
            node.ledger.settle(delivery)
            delivery = Delivery(session, left, delivery.qos, delivery.retain, delivery.ids)
            if session.durable:
                node.ledger.keep(delivery, None)
        session.queue.append(delivery)
        session.queued_bytes += left.size()


def _left(node: "Node", delivery: Delivery, now: float | None) -> Event | None:
    """What of a message that waits may be read as things are now."""
    event, session = delivery.event, delivery.session
    is_said = session.watch_out is not None or may_say(node, event)  # a monitor may have made another of it
    if not (is_said and route.may_have(node, event, session) and match.is_wanted(node, event, session)):
        return None
    at = node.clock() if now is None else now
    left = _still(node, event, session, at)
    left = None if left is None else release_recheck.still(node, session, left, at)
    return None if left is None else project.judge_again(node, session, left, now)


def _still(node: "Node", event: Event, session: Session, now: float) -> Event | None:
    """What was judged before and waits, as policies that the domain gives now let the session have it."""
    if node.judged_statements == node.ensemble.statements_digest:
        return event  # what was made of it may not be what its policies would ask for
    given = [one for one in _given(node, event) if matches(one.filter, event.topic)]
    if not session.policies and not given:
        return event
    found = tuple(
        one for one in session.subscriptions.values() if matches(parse_filter(one.filter).filter, event.topic)
    )
    return judge.still(node, event, session, given, found, now)


def _given(node: "Node", event: Event) -> Sequence[Bound]:
    """The policies that the domain gives to what the publisher of an event says."""
    session = node.sessions.get(event.origin)
    is_client = event.origin and (session is None or session.neighbour is None)
    entry = _publisher(node, event) if is_client else None
    return bindings.own_bounds(node) if entry is None else bindings.given_bounds(node, entry.name)


def source(node: "Node", event: Event) -> Source:
    """Whom a kept event came from, for the journal."""
    session = node.sessions.get(event.origin)
    entry = _publisher(node, event) if session is None or session.neighbour is None else None
    entity = entry.name if entry is not None else session.entity if session is not None else event.origin
    neighbour = session.neighbour if session is not None else None
    return Source(event.origin, event.user, entity, event.link_type, neighbour, 5, 5)


def _publisher(node: "Node", event: Event) -> ClientEntry | None:
    """Who published, as the domain has it now. How a client came in is known only while its session lasts."""
    session = node.sessions.get(event.origin)
    if session is None or session.subject.user != event.user:
        return node.ensemble.publisher(node.name, event.origin, event.user)
    shown = session.subject
    return node.ensemble.client(node.name, shown.client_id, shown.user, shown.listener, shown.certificate)
