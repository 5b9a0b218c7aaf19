"""Stage 6, route: may an event from this link's type go on to that link's type? (brokering §4.1)"""

from penstock.engine.events import dedup, publishers
from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.passage import Delivery
from penstock.engine.mobility.state import Moving
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages.draft import Draft
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict


def plan(draft: Draft) -> None:
    """Leave out the links that the brokering table closes, and the one that the event came by."""
    node, link = draft.node, draft.link
    if draft.waits is not None:
        draft.for_each_delivery(ask_again)
        return
    if node.ensemble.connections or node.ensemble.foreign:
        draft.for_each_delivery(run, is_for_plain=False)
    if link.is_own:
        return
    matched = draft.matched
    draft.matched = [subscribed for subscribed in matched if is_open(node, link, subscribed.session)]
    if len(draft.matched) < len(matched):
        draft.closed = tuple(
            dict.fromkeys(subscribed.session for subscribed in matched if is_closed(node, link, subscribed.session))
        )
        if node.recorder is not None:
            draft.withheld += ((session, closed_to(session)) for session in draft.closed)
    draft.onlookers = [
        onlooker
        for onlooker in draft.onlookers
        if node.table.allows(link.link_type, onlooker.link.type) and onlooker.link.target != link.neighbour
    ]


_BEEN_THERE = Verdict("route", Effect.SUPPRESS, "path")
_HAD_IT = Verdict("route", Effect.SUPPRESS, "once")


def run(delivery: Delivery) -> Verdict | None:
    """Keep an event from where it has been, and from who has had it by another way: graphs may have cycles."""
    passage, session = delivery.passage, delivery.session
    event = passage.event
    if session.connection.moving is not None and _comes_otherwise(delivery, session.connection.moving):
        return _COMES_OTHERWISE
    if event.path and has_been(passage.node, event, session.neighbour):
        return _BEEN_THERE
    if event.id and dedup.has_had(passage.node.once, delivery):
        return _HAD_IT
    return _LOOP if session.version == 4 and event.path and _goes_round(delivery) else None


_COMES_OTHERWISE = Verdict("route", Effect.SUPPRESS, "once")


def _comes_otherwise(delivery: Delivery, moving: Moving) -> bool:
    """Return True if a session between two nodes gets the event from the other one, among what waits for it there."""
    sender = delivery.passage.sender
    return sender is not None and sender.neighbour is not None and sender.neighbour == moving.skips


MAX_LAPS = 200
"""Equal events in a second that go from one foreign broker to another, where MQTT 3.1.1 cannot say which is which."""
_LOOP = Verdict("route", Effect.SUPPRESS, "loop")


def _goes_round(delivery: Delivery) -> bool:
    """Return True if foreign brokers seem to be joined without nodes: the same event comes and goes again and again."""
    node, event, session = delivery.passage.node, delivery.passage.event, delivery.session
    broker = node.ensemble.brokers.get(session.neighbour or "")
    if broker is None or node.ensemble.brokers.keys().isdisjoint(event.path):
        return False
    laps = node.once.laps(event, broker, delivery.passage.now)
    if laps == MAX_LAPS + 1:
        text = f"more than {MAX_LAPS} equal events in a second go on to foreign broker `{session.neighbour}`"
        node.notice("loop", session, event.topic, f"{text}: it seems to be joined to another without a node")
    return laps > MAX_LAPS


def has_been(node: Node, event: Event, neighbour: str | None) -> bool:
    """Return True if an event has been at a neighbour; a foreign broker may have several names."""
    if neighbour in event.path:
        return True
    broker = node.ensemble.brokers.get(neighbour or "")
    return broker is not None and any(node.ensemble.brokers.get(hop) == broker for hop in event.path)


def ask_again(delivery: Delivery) -> Verdict | None:
    """Ask the brokering table as it is now; and keep a retained event from where it came from."""
    passage, session = delivery.passage, delivery.session
    event = delivery.event
    is_back = event.origin == session.client_id or has_been(passage.node, event, session.neighbour)
    if passage.is_replay and session.neighbour is not None and is_back:
        return _BEEN_THERE  # brokering §5.3 T-Broker: z != x; it would also replace what is newer there
    return None if _may_have_come(passage.node, event, session) else closed_to(session)


def closed_to(session: Session) -> Verdict:
    """Return the verdict that brokering tables keep an event from a session."""
    reason = f"the brokering table does not let it go on to a link of type `{session.place.notify_type}`"
    return Verdict("route", Effect.SUPPRESS, "brokering", reason)


def _may_have_come(node: Node, event: Event, session: Session) -> bool:
    """Return True if the tables of all nodes on its way let an event come here, and go on to a session."""
    publisher = publishers.publisher_of(node, event)
    entry = None if publisher is None else publishers.entry_of(node, publisher)
    link_type = event.link_type
    before: Link | None = None
    for link in publishers.way_of(node, event, publisher, entry):
        if link is None or (before is not None and not node.ensemble.table(link.source).allows(before.type, link.type)):
            return False
        before, link_type = link, link.type
    return may_pass(node, link_type, session)


def is_open(node: Node, link: LinkClass, session: Session) -> bool:
    """Return True if events from such a link may go on to this session."""
    return link.is_own or (
        node.table.allows(link.link_type, session.place.notify_type)
        and (link.neighbour is None or session.neighbour != link.neighbour)  # brokering §5.3 T-Broker: z != x
    )


def is_closed(node: Node, link: LinkClass, session: Session) -> bool:
    """Return True if the brokering table denies it."""
    return not link.is_own and not node.table.allows(link.link_type, session.place.notify_type)


def may_pass(node: Node, link_type: str, session: Session) -> bool:
    """Return True if an event from a link of this type may go on to this session."""
    return not link_type or node.table.allows(link_type, session.place.notify_type)


def may_have(node: Node, event: Event, session: Session) -> bool:
    """Return True if rights and brokering table, as they are now, let this session have the event."""
    rights = session.rights
    return (rights is None or rights.may_read(event.topic)) and may_pass(node, event.link_type, session)
