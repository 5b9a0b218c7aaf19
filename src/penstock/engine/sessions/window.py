"""Messages to a session, within its window: sent, queued, acknowledged, and sent again when its client is back."""

from collections import deque
from collections.abc import Callable

from penstock.engine.contracts import release_recheck
from penstock.engine.events import user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.node import Node
from penstock.engine.sessions.outbox import push, push_durable, push_lossy
from penstock.engine.sessions.render import Forms, mark_duplicate, packet_parts
from penstock.engine.sessions.session import Outgoing, Session
from penstock.engine.trust import outgoing_tokens
from penstock.model.event import Event
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.kinds import PUBREC, PUBREL
from penstock.wire.packet import Pubrel
from penstock.wire.reason import Reason
from penstock.wire.session import DONE, OFFERED, RELEASED, SENDER, START

STEP_BYTES = 256 * 1024
"""Bytes of what waits that a session is sent in one turn: only when they are written shows whether its client reads."""


def send_or_queue(node: Node, delivery: Delivery, forms: Forms) -> bool:
    """Send the event now, or keep it until the window has room; return whether either was done.

    `delivery.event` is what is kept as long as it waits, `forms` what is sent.
    """
    session, qos = delivery.session, delivery.qos
    outbox = session.outbox
    if qos == 0:
        if session.outlet is None or not _is_ready(session):
            return False
        if session.trust.tokens is not None and not outgoing_tokens.tell_token(node, session, forms.event):
            forms = Forms(outgoing_tokens.with_token(node, forms.event), forms.now)
        if _too_large(session, forms, qos, delivery.retain, delivery.ids):
            return False
        head, tail = _parts(session, forms.event, 0, delivery.retain, delivery.ids, forms.now, forms)
        node.stats.sent += 1
        return push_lossy(node, session, head + tail)
    sendable = outbox.quota > 0 and session.outlet is not None and not session.connection.blocked and _is_ready(session)
    if sendable and not outbox.queue and not outbox.resend:
        if session.durable:
            forms.kept = node.ledger.keep(delivery, forms.kept)
        return _transmit(node, delivery, forms.now, forms)
    if not _has_room(node, delivery):
        return False
    if session.durable:
        forms.kept = node.ledger.keep(delivery, forms.kept)
    if outbox.queue is None:
        outbox.queue = deque()
    outbox.queue.append(delivery)
    outbox.queued_bytes += delivery.event.size()
    return True


def _is_ready(session: Session) -> bool:
    """Return True if events may go to a session now: a neighbour must first have shown the token it was given."""
    return session.trust.tokens is None or session.trust.tokens.is_registered


def _has_room(node: Node, delivery: Outgoing) -> bool:
    session, limits = delivery.session, node.limits
    outbox = session.outbox
    most = outbox.queue_limit or limits.queued_messages
    if outbox.waiting() < most and outbox.queued_bytes < limits.queued_bytes:
        return True
    node.stats.dropped += 1
    if not session.connection.overflowing:
        session.connection.overflowing = True
        node.notice("full", session, delivery.event.topic, "the session's queue is full, new messages are dropped")
    return False


def pump(node: Node, session: Session, now: float) -> None:
    """Send what waits, as far as the window allows; what is left goes on in a later turn, as the client reads."""
    outbox = session.outbox
    if not _is_ready(session):
        return
    room = STEP_BYTES
    while outbox.resend and outbox.quota > 0 and room > 0 and not session.connection.blocked:
        # [MQTT-4.3.3-7] [MQTT-4.8.2-4] [MQTT311-2.3.1-4] [MQTT311-4.6.0-1]
        delivery = outbox.resend.popleft()
        outbox.quota -= 1
        room -= delivery.event.size()
        _send(node, delivery, now, None, duplicate=True)
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
        elif release_recheck.MARKED in delivery.event.properties and not release_recheck.may_go(
            node, delivery.event, session, now
        ):
            node.stats.dropped += 1
            node.ledger.settle(delivery)
        else:
            _transmit(node, delivery, now, None)
    if not queue:
        session.connection.overflowing = False
    if room <= 0 and (queue or outbox.resend):
        node.sessions.go_on(session)


def resume(node: Node, session: Session, now: float, recheck: Callable[[Node, Outgoing, float], Event | None]) -> None:
    """Repeat what a client that is back has not acknowledged, in order, as far as it may still have it."""
    # [MQTT-4.4.0-1] [MQTT-4.6.0-1]
    outbox = session.outbox
    outbox.resend = deque()
    for packet_id, delivery in list(outbox.inflight.items()):
        if delivery.state == RELEASED:
            outbox.quota -= 1  # it has a place in the window until PUBCOMP, even if the window is smaller now
            push(node, session, encode(Pubrel(delivery.packet_id), session.version))
            continue
        left = recheck(node, delivery, now)
        if left is None:
            del outbox.inflight[packet_id]
            node.ledger.settle(delivery)
        else:
            delivery.event = left
            outbox.resend.append(delivery)
    pump(node, session, now)


def acknowledge(node: Node, session: Session, kind: int, packet_id: int, reason: int, now: float) -> None:
    """Handle a PUBACK, PUBREC or PUBCOMP."""
    outbox = session.outbox
    delivery = outbox.inflight.get(packet_id)
    if delivery is None:
        if kind == PUBREC:
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


def _transmit(node: Node, delivery: Outgoing, now: float, forms: Forms | None) -> bool:
    """Give the message a packet identifier and send it; return whether the client takes a packet of that size."""
    session = delivery.session
    outbox = session.outbox
    if session.connection.maximum_packet_size:
        largest = forms = forms or Forms(delivery.event, now)
        if session.trust.tokens is not None:
            largest = Forms(outgoing_tokens.with_token(node, delivery.event), now)
        if _too_large(session, largest, delivery.qos, delivery.retain, delivery.ids):
            node.ledger.settle(delivery)  # [MQTT-3.1.2-25] as if it had been sent
            return False
    # [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2]
    packet_id = outbox.next_id()
    delivery.packet_id = packet_id
    delivery.state = START[delivery.qos]
    outbox.inflight[packet_id] = delivery
    outbox.quota -= 1
    if session.durable:
        node.ledger.moved(delivery)
    _send(node, delivery, now, forms, duplicate=False)
    return True


def _send(node: Node, delivery: Outgoing, now: float, forms: Forms | None, duplicate: bool) -> None:
    session, event = delivery.session, delivery.event
    if release_recheck.MARKED in event.properties:
        event = user_properties.for_clients(event)
    if session.trust.tokens is not None and not outgoing_tokens.tell_token(node, session, event):
        event, forms = outgoing_tokens.with_token(node, event), None
    head, tail = _parts(session, event, delivery.qos, delivery.retain, delivery.ids, now, forms)
    packet = head + delivery.packet_id.to_bytes(2, "big") + tail
    if duplicate:
        packet = mark_duplicate(packet)  # [MQTT-3.3.1-1]
    node.stats.sent += 1
    # A QoS 2 packet identifier must survive a restart, or the peer could not tell the repetition from a new message.
    if delivery.state == OFFERED and session.durable:
        push_durable(node, session, packet)
    else:
        push(node, session, packet)


def _parts(
    session: Session, event: Event, qos: int, retain: bool, ids: tuple[int, ...], now: float, forms: Forms | None
) -> tuple[bytes, bytes]:
    """Return the packet before and after its identifier, with a topic alias where the client takes them."""
    aliases = session.connection.aliases_out
    if aliases is not None:
        alias = aliases.get(event.topic, 0)
        known = alias != 0
        # The packet that introduces an alias must not be one that may be dropped: QoS 0 while something waits.
        if not known and (qos or session.open) and len(aliases) < session.connection.alias_maximum:  # [MQTT-3.1.2-26]
            alias = len(aliases) + 1
        if alias:
            head, tail = packet_parts(event, session.version, qos, retain, ids, now, alias, known)
            if _fits(session, qos, head, tail):  # an alias is no reason not to send
                aliases[event.topic] = alias
                return head, tail
    if forms is None:
        return packet_parts(event, session.version, qos, retain, ids, now)
    return forms.parts(session.version, qos, retain, ids)


def _too_large(session: Session, forms: Forms, qos: int, retain: bool, ids: tuple[int, ...]) -> bool:
    """Return True if the client's maximum packet size forbids it."""  # [MQTT-3.1.2-24]
    if not session.connection.maximum_packet_size:
        return False
    return not _fits(session, qos, *forms.parts(session.version, qos, retain, ids))


def _fits(session: Session, qos: int, head: bytes, tail: bytes) -> bool:
    most = session.connection.maximum_packet_size
    return not most or len(head) + (2 if qos else 0) + len(tail) <= most
