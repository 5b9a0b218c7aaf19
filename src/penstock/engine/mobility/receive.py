"""Messages of neighbours about sessions that change their node, as they come in.

What says from which event on something holds is handled at once. The rest needs more than one packet's time, or ends
sessions: the next turn does it.
"""

from collections import deque

import msgspec

from penstock.engine.contracts import release_recheck
from penstock.engine.contracts.held import HeldEvent
from penstock.engine.events import publishers, user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.federation.wants import NODE_PREFIX
from penstock.engine.mobility.state import Done, Message, MovedMessage, Moving, Ready, Taken
from penstock.engine.node import Node
from penstock.engine.sessions.session import NO_REVISION, Session
from penstock.model.event import Event
from penstock.wire.errors import WireError
from penstock.wire.reason import Reason
from penstock.wire.session import START


def take(node: Node, neighbour: Session, payload: bytes, now: float) -> None:
    """Take a message of a neighbour about a session."""
    try:
        message = msgspec.json.decode(payload, type=Message)
    except msgspec.MsgspecError as error:
        text = f"what node `{neighbour.neighbour}` says about a session: {error}"
        raise WireError(Reason.PROTOCOL_ERROR, text) from None
    if isinstance(message, Taken | Ready | Done):
        session = node.sessions.get(message.client)
        moving = None if session is None else session.connection.moving
        if session is None or moving is None or moving.neighbour != neighbour.neighbour:
            return
        if isinstance(message, Done) and moving.is_arriving:
            is_here(node, session, moving)
        elif isinstance(message, Taken) and not moving.is_arriving:
            moving.is_taken = True
            node.ledger.moving(session)
        elif isinstance(message, Ready) and not moving.is_arriving:
            moving.is_ready = True
        return
    node.federation.moves.inbox.append((neighbour.neighbour or "", message))


def is_here(node: Node, session: Session, moving: Moving) -> None:
    """Go on with a session of which all that waited elsewhere has come."""
    end_move(node, session, moving)
    node.federation.moves.here.append(session.client_id)
    let_go(node, session)


def end_move(node: Node, session: Session, moving: Moving) -> None:
    """End the move of a session; the next turn takes what further sessions of its client hand over."""
    session.connection.moving = None
    node.ledger.moving(session)
    node.federation.moves.inbox += moving.pending


def restore(node: Node, session: Session, state: bytes) -> None:
    """Go on, after a start, with a session between two nodes."""
    session.connection.moving = moving = msgspec.json.decode(state, type=Moving)
    if not moving.is_arriving:
        node.federation.moves.leaving.add(session.client_id)
        node.sessions.timers.cancel(session)


def let_go(node: Node, session: Session) -> None:
    """Let what has reached a session here follow what came from the other node."""
    outbox = session.outbox
    behind, outbox.behind = outbox.behind, None
    if behind:
        if outbox.queue is None:
            outbox.queue = behind
        else:
            outbox.queue.extend(behind)
    node.sessions.go_on(session)


def take_moved(node: Node, neighbour: Session, event: Event, text: str, now: float) -> None:
    """Take a message that waited for a session at a neighbour: it waits here, and is judged here when it leaves."""
    try:
        moved = msgspec.json.decode(text, type=MovedMessage)
    except msgspec.MsgspecError as error:
        text = f"a message that node `{neighbour.neighbour}` hands over: {error}"
        raise WireError(Reason.PROTOCOL_ERROR, text) from None
    session = node.sessions.get(moved.client)
    moving = None if session is None else session.connection.moving
    if session is None or moving is None or not moving.is_arriving or moving.neighbour != neighbour.neighbour:
        node.stats.dropped += 1  # its session has ended here meanwhile
        return
    event = event._replace(qos=moved.qos, retain=moved.retain)
    if moved.is_back:
        event = _as_before(node, event)
    if moved.due:
        release_recheck.hold_back(node, HeldEvent(moved.due, session, event, NO_REVISION))
        return
    delivery = Delivery(session, event, moved.qos, moved.retain, moved.ids)
    delivery.revision = NO_REVISION
    if session.durable:
        node.ledger.keep(delivery, None)
    publishers.record_arrived(node, delivery, now)
    outbox = session.outbox
    if moved.packet_id and moved.packet_id not in outbox.inflight:
        delivery.packet_id, delivery.state = moved.packet_id, START[moved.qos]
        outbox.inflight[moved.packet_id] = delivery
        if session.outlet is not None:
            outbox.resend = outbox.resend or deque()
            outbox.resend.append(delivery)
        delivery.wait()
    else:
        outbox.put(delivery)
        delivery.wait()
    node.sessions.go_on(session)


def _as_before(node: Node, event: Event) -> Event:
    """Return an event that went to the neighbour from here as it was here before."""
    publisher = publishers.publisher_of(node, event)
    if publisher is None:
        return event
    if publisher.node == node.name:
        entry = publishers.entry_of(node, publisher)
        link_type = event.link_type if entry is None else entry.publish
        return event._replace(origin=publisher.client_id, user=publisher.user, link_type=link_type, path=())
    way = tuple(node.ensemble.way(publisher.node, node.name))
    hop = way[-2] if len(way) > 1 else publisher.node
    before = node.federation.neighbours.get(hop)
    link_type = event.link_type if before is None else before.place.publish_type
    return event._replace(origin=NODE_PREFIX + hop, link_type=link_type, path=(hop,))


def moved_in(pairs: tuple[tuple[str, str], ...]) -> str:
    """Return what a neighbour's packet says of the session that it waited for; empty if it is no such packet."""
    return next((value for name, value in pairs if name == user_properties.MOVED), "")
