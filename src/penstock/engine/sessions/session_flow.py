"""Messages that wait for a session: sent as its window has room, acknowledged, sent again when its client is back."""

from collections import deque

from penstock.engine.capsules import running
from penstock.engine.events import entrances, publishers
from penstock.engine.events.plan import WaitingPlace
from penstock.engine.federation import overlay
from penstock.engine.node import Node
from penstock.engine.sessions import window
from penstock.engine.sessions.outbox import push, push_durable
from penstock.engine.sessions.session import Session
from penstock.engine.trust import token_exchange
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.kinds import PUBREC, PUBREL
from penstock.wire.packet import Pubrel
from penstock.wire.reason import Reason
from penstock.wire.session import DONE, RELEASED, SENDER


def pump(node: Node, session: Session, now: float) -> None:
    """Send what waits, as far as the window allows; what is left goes on in a later turn, as the client reads.

    The revision that a message was judged by decides whether the stages are asked about it again.
    """
    outbox = session.outbox
    if not window.is_ready(session):
        return
    room = window.STEP_BYTES
    while outbox.resend and outbox.quota > 0 and room > 0 and not session.connection.blocked:
        # [MQTT-4.3.3-7] [MQTT-4.8.2-4] [MQTT311-2.3.1-4] [MQTT311-4.6.0-1]
        delivery = outbox.resend.popleft()
        room -= delivery.event.size()
        if delivery.is_stale() and not entrances.recheck(node, delivery, now, WaitingPlace.RESENT):
            del outbox.inflight[delivery.packet_id]
            continue
        outbox.quota -= 1
        window.send(node, delivery, now, None, duplicate=True)
    queue = outbox.queue
    # [MQTT-3.3.4-10] [MQTT-4.9.0-2] [MQTT-4.9.0-3]
    while queue and outbox.quota > 0 and room > 0 and not session.connection.blocked and not outbox.resend:
        delivery = queue.popleft()
        outbox.queued_bytes -= delivery.event.size()
        room -= delivery.event.size()
        expires = delivery.event.expires
        if expires is not None and expires <= now:  # [MQTT-3.3.2-5]
            node.stats.expired += 1
            node.ledger.settle(delivery)
            publishers.record_withdrawn(node, delivery, now, "it expired while it waited")
        elif delivery.is_stale() and not entrances.recheck(node, delivery, now, WaitingPlace.QUEUED):
            continue
        elif not window.transmit(node, delivery, now, None):
            publishers.record_withdrawn(node, delivery, now, "its receiver does not take a packet of that size")
    if not queue:
        session.connection.overflowing = False
    if room <= 0 and (queue or outbox.resend):
        node.sessions.go_on(session)


def resume(node: Node, session: Session, now: float) -> None:
    """Repeat what a client that is back has not acknowledged, in order, as far as it may still have it."""
    # [MQTT-4.4.0-1] [MQTT-4.6.0-1]
    outbox = session.outbox
    outbox.resend = deque()
    for delivery in outbox.inflight.values():
        if delivery.state == RELEASED:
            outbox.quota -= 1  # it has a place in the window until PUBCOMP, even if the window is smaller now
            push(node, session, encode(Pubrel(delivery.packet_id), session.version))
        else:
            outbox.resend.append(delivery)
    pump(node, session, now)


def acknowledge(node: Node, session: Session, kind: int, packet_id: int, reason: int, now: float) -> None:
    """Handle a PUBACK, PUBREC or PUBCOMP."""
    outbox = session.outbox
    delivery = outbox.inflight.get(packet_id)
    if delivery is None:
        if kind == PUBREC and reason < 0x80:  # one that refuses has released the identifier itself
            push(node, session, encode(Pubrel(packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND), session.version))
        return
    step = SENDER.get((delivery.state, kind))
    if step is None:
        raise WireError(Reason.PROTOCOL_ERROR, f"wrong acknowledgement for packet identifier {packet_id}")
    state, reply = (DONE, 0) if reason >= 0x80 else step  # [MQTT-4.4.0-2]
    if outbox.resend and delivery in outbox.resend:  # acknowledged before it could be repeated
        outbox.resend.remove(delivery)
        outbox.quota -= 1
    if state == DONE:
        # [MQTT-4.8.2-6]
        del outbox.inflight[packet_id]
        node.ledger.settle(delivery)
        outbox.quota += 1
        if outbox.queue or outbox.resend:
            pump(node, session, now)
        return
    delivery.state = state
    if reply == PUBREL:
        packet = encode(Pubrel(packet_id), session.version)
        if session.durable:
            node.ledger.moved(delivery)
            push_durable(node, session, packet)
        else:
            push(node, session, packet)


def unblock(node: Node, session: Session, now: float) -> None:
    """Resume sending to a connection that takes bytes again."""
    session.unblock()
    if session.buffer:
        node.dirty.append(session)
    _continue(node, session, now)


def take_turn(node: Node, now: float) -> None:
    """Between two rounds of input: go on with what was too much for one round."""
    federation, sessions, plans = node.federation, node.sessions, node.plans
    if plans.discarded or plans.searched:
        plans.sweep()
    if federation.neighbours and federation.news:
        overlay.refresh(node, now)
    ratings = node.trust.ratings
    if ratings is not None and (ratings.is_stale or ratings.is_changed):
        token_exchange.turn(node, now)
    if node.statements.made:
        entrances.publish_made(node, now)
    if node.capsules.running:
        running.take_turn(node, now)
    if sessions.undone:
        sessions.do_some()
    if sessions.replaying or sessions.lagging:
        unfinished = sessions.take_unfinished()
        for session in unfinished:
            if session.outlet is None:
                continue
            if session.connection.held:
                sessions.lagging[session.id] = session
            else:
                _continue(node, session, now, len(unfinished))


def _continue(node: Node, session: Session, now: float, beside: int = 1) -> None:
    """Send what waits, in a turn in which so many sessions do."""
    pump(node, session, now)
    entrances.replay(node, session, now, entrances.MAX_REPLAYED // beside)
