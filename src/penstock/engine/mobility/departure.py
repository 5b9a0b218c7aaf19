"""A session that goes to another node: first what it is, then, once that node serves its client, what waits for it.

Until the other node has told what the client wants (`Ready`) and has marked from where on it gives the client what
reaches it directly (`Taken`), everything is kept here as for a client that is offline. Then all that waits goes out in
one row behind the events that go the same way, and `Done` ends it: from there on events go the ordinary way.

A message is judged here as one that goes to the other node, and does not cross the link if it may not; at the other
node it is judged as what has waited, when it leaves for the client.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from penstock.engine.contracts import client_contracts
from penstock.engine.events import entrances, publishers, user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.events.plan import WaitingPlace
from penstock.engine.mobility import messages, receive
from penstock.engine.mobility.state import (
    Ask,
    Done,
    Handed,
    HandedAdvertisement,
    HandedContract,
    HandedSubscription,
    MovedMessage,
    Moving,
    Newest,
)
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions import lifecycle, window
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import NEVER, Outgoing, Session
from penstock.model.event import Event
from penstock.model.verdict import Verdict
from penstock.wire.session import RELEASED

MAX_PART_BYTES = 32 * 1024
"""Bytes of subscriptions, advertisements and contracts in one part of a session that is handed over."""
GONE = "its client has moved to another node"


def depart(node: Node, session: Session, neighbour: Session, ask: Ask | Newest, now: float) -> None:
    """Begin to hand a session over."""
    session.connection.will = None  # its client is back, at another node
    for part in _parts(session, ask):
        messages.say_in_turn(node, neighbour, part, now)
    session.connection.moving = Moving(neighbour.neighbour or "", is_arriving=False)
    node.sessions.timers.cancel(session)
    node.federation.moves.leaving.add(session.client_id)
    node.ledger.moving(session)


def _parts(session: Session, ask: Ask | Newest) -> Iterator[Handed]:
    """Return what a session is, in parts that fit into packets."""
    outbox, connection = session.outbox, session.connection
    entries: list[tuple[str, msgspec.Struct]] = [("subscriptions", each) for each in _subscriptions(session)]
    entries += [("advertisements", each) for each in _advertisements(session)]
    entries += [("contracts", each) for each in _contracts(session)]
    parts: list[dict[str, list[msgspec.Struct]]] = [{}]
    left = MAX_PART_BYTES
    for kind, entry in entries:
        size = len(msgspec.json.encode(entry))
        if size > left and parts[-1]:
            parts.append({})
            left = MAX_PART_BYTES
        parts[-1].setdefault(kind, []).append(entry)
        left -= size
    whole = Handed(
        client=session.client_id,
        entity=session.place.entity,
        user=session.subject.user,
        version=session.version,
        expiry=-1 if connection.expiry == NEVER else connection.expiry,
        at=ask.at,
        began=connection.began,
        last_id=outbox.last_id,
        bound=tuple(sorted(session.trust.bound)),
        released=tuple(number for number, each in outbox.inflight.items() if each.state == RELEASED),
        received=tuple(sorted(session.received or ())),
        monitors_in=_states(session.place.watch_in),
        monitors_out=_states(session.place.watch_out),
    )
    for at, part in enumerate(parts):
        listed = {kind: tuple(each) for kind, each in part.items()}
        is_last = at == len(parts) - 1
        yield msgspec.structs.replace(whole, is_first=at == 0, is_last=is_last, **listed)


def _subscriptions(session: Session) -> Iterator[HandedSubscription]:
    for key, each in session.subscriptions.items():
        policy = "" if each.policy is None else each.policy.text
        asked = (each.name, each.asked, each.scope, policy)
        options = (each.no_local, each.retain_as_published, each.identifier, key in session.replays)
        yield HandedSubscription(each.filter, each.qos, *asked, *options)


def _advertisements(session: Session) -> Iterator[HandedAdvertisement]:
    for each in session.declared.advertisements.values():
        where = "" if each.condition is None else each.condition.text
        policy = "" if each.policy is None else each.policy.text
        yield HandedAdvertisement(each.name, each.filter, where, each.scope, policy)


def _contracts(session: Session) -> Iterator[HandedContract]:
    for name, stored in client_contracts.stored(session):
        yield HandedContract(name, msgspec.Raw(msgspec.json.encode(stored)))


def _states(watch: Watch | None) -> dict[str, msgspec.Raw]:
    if watch is None:
        return {}
    states = zip(watch.monitors, watch.states, strict=True)
    return {monitor.name: msgspec.Raw(msgspec.json.encode(state)) for monitor, state in states}


def move_out(node: Node, session: Session, neighbour: Session, now: float) -> None:
    """Send what waits for a session that leaves, as far as there is room; when all is sent, the session ends here."""
    outbox, moving = session.outbox, session.connection.moving
    if moving is None or not (moving.is_taken and moving.is_ready) or neighbour.replays:
        return
    outbox.resend = None
    for packet_id, delivery in list(outbox.inflight.items()):
        if not window.has_room(node, neighbour):
            return
        del outbox.inflight[packet_id]
        if delivery.state == RELEASED:  # the other node knows
            node.ledger.settle(delivery)
            continue
        _send(node, session, neighbour, delivery, WaitingPlace.RESENT, now)
    while outbox.queue:
        if not window.has_room(node, neighbour):
            return
        delivery = outbox.queue.popleft()
        outbox.queued_bytes -= delivery.event.size()
        _send(node, session, neighbour, delivery, WaitingPlace.QUEUED, now)
    for held in node.later.of(session):
        if not window.has_room(node, neighbour):
            return
        node.later.remove(held)
        moved = MovedMessage(session.client_id, held.event.qos, held.event.retain, due=held.at)
        _cross(node, neighbour, held.event, moved, now)
    messages.say_in_turn(node, neighbour, Done(session.client_id), now)
    receive.end_move(node, session, moving)
    node.federation.moves.leaving.discard(session.client_id)
    lifecycle.end(node, session, now, is_moved=True)


def _send(
    node: Node, session: Session, neighbour: Session, delivery: Outgoing, place: WaitingPlace, now: float
) -> None:
    """Send a message that waits, if it may still go to the session and to the node that the session goes to."""
    expires = delivery.event.expires
    if expires is not None and expires <= now and place is WaitingPlace.QUEUED:  # [MQTT-3.3.2-5]
        node.stats.expired += 1
        node.ledger.settle(delivery)
        publishers.record_withdrawn(node, delivery, now, "it expired while it waited")
        return
    if delivery.is_stale() and not entrances.recheck(node, delivery, now, place):
        return
    moved = MovedMessage(session.client_id, delivery.qos, delivery.retain, delivery.ids, delivery.packet_id)
    _cross(node, neighbour, delivery.event, moved, now)
    if place is WaitingPlace.QUEUED:
        publishers.record_withdrawn(node, delivery, now, GONE)
    node.ledger.settle(delivery)


def _cross(node: Node, neighbour: Session, event: Event, moved: MovedMessage, now: float) -> None:
    """Send a message to the node that its session goes to. One that came from there has nothing new for that node."""
    event = event._replace(retain=False)
    if event.path and event.path[-1] == neighbour.neighbour:
        moved = msgspec.structs.replace(moved, is_back=True)
        delivery = Delivery(neighbour, event, 2, False, ())
        delivery.forms = Forms(event, now)
        _hand(node, moved, delivery)
        return
    entrances.send_moved(node, neighbour, event, now, partial(_hand, node, moved))


def _hand(node: Node, moved: MovedMessage, delivery: Delivery) -> Verdict | None:
    """Put a message into the neighbour's window or queue, with what is to be known of it there."""
    event = publishers.hide_cause(node, publishers.carried(node, delivery.forms.event))
    text = msgspec.json.encode(moved).decode()
    event = user_properties.having(event, None, ((user_properties.MOVED, text),), without=user_properties.MOVED)
    delivery.event, delivery.qos, delivery.retain = event, 2, False
    window.send_or_queue(node, delivery, delivery.forms.view_of(event))
    delivery.wait()
    return None
