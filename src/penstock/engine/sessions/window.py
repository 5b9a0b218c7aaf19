"""Messages to a session, within its window: sent, or queued."""

from penstock.engine.events import user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.mobility.state import TOPIC as MOVE
from penstock.engine.node import Node
from penstock.engine.sessions.outbox import push, push_durable, push_lossy
from penstock.engine.sessions.render import Forms, mark_duplicate, packet_parts
from penstock.engine.sessions.session import Outgoing, Session
from penstock.engine.trust import outgoing_tokens, publication_proofs
from penstock.model.event import Event
from penstock.wire.session import OFFERED, START

STEP_BYTES = 256 * 1024
"""Bytes of what waits that a session is sent in one turn: only when they are written shows whether its client reads."""


def send_or_queue(node: Node, delivery: Delivery, forms: Forms) -> bool:
    """Send the event now, or keep it until the window has room; return whether either was done.

    `delivery.event` is what is kept as long as it waits, `forms` what is sent.
    """
    session, qos = delivery.session, delivery.qos
    outbox = session.outbox
    if qos == 0:
        if session.outlet is None or not is_ready(session):
            return False
        if session.trust.tokens is not None and not outgoing_tokens.tell_token(node, session, forms.event):
            forms = Forms(outgoing_tokens.with_token(node, forms.event), forms.now)
        forms = _proving(node, session, forms, 0, delivery.retain)
        if _too_large(session, forms, qos, delivery.retain, delivery.ids):
            return False
        head, tail = _parts(session, forms.event, 0, delivery.retain, delivery.ids, forms.now, forms)
        node.stats.sent += 1
        return push_lossy(node, session, head + tail)
    delivery.revision = outbox.revision
    sendable = outbox.quota > 0 and session.outlet is not None and not session.connection.blocked and is_ready(session)
    if sendable and not outbox.queue and not outbox.resend and outbox.behind is None:
        if session.durable:
            forms.kept = node.ledger.keep(delivery, forms.kept)
        return transmit(node, delivery, forms.now, forms)
    if not _has_room(node, delivery):
        return False
    if session.durable:
        forms.kept = node.ledger.keep(delivery, forms.kept)
    if outbox.behind is None:
        outbox.put(delivery)
    else:
        outbox.behind.append(delivery)
        outbox.queued_bytes += delivery.event.size()
    return True


def is_ready(session: Session) -> bool:
    """Return True if events may go to a session now: a neighbour must first have shown the token it was given."""
    return session.trust.tokens is None or session.trust.tokens.is_registered


def has_room(node: Node, session: Session) -> bool:
    """Return True if one more message may be queued for a session."""
    outbox, limits = session.outbox, node.limits
    most = outbox.queue_limit or limits.queued_messages
    return outbox.waiting() < most and outbox.queued_bytes < limits.queued_bytes


def _has_room(node: Node, delivery: Outgoing) -> bool:
    session = delivery.session
    if has_room(node, session) or delivery.event.topic == MOVE:  # what nodes say of sessions must not be dropped
        return True
    node.stats.dropped += 1
    if not session.connection.overflowing:
        session.connection.overflowing = True
        node.notice("full", session, delivery.event.topic, "the session's queue is full, new messages are dropped")
    return False


def transmit(node: Node, delivery: Outgoing, now: float, forms: Forms | None) -> bool:
    """Give the message a packet identifier and send it; return whether the client takes a packet of that size."""
    session = delivery.session
    outbox = session.outbox
    if session.connection.maximum_packet_size:
        largest = forms = forms or Forms(_leaving(node, delivery), now)
        if session.trust.tokens is not None:
            largest = Forms(outgoing_tokens.with_token(node, delivery.event), now)
        largest = _proving(node, session, largest, delivery.qos, delivery.retain)
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
    send(node, delivery, now, forms, duplicate=False)
    return True


def _leaving(node: Node, delivery: Outgoing) -> Event:
    """Return the event as it leaves: what it is marked with while it waits is only for nodes."""
    event, neighbour = delivery.event, delivery.session.neighbour
    if neighbour is not None:
        return event if neighbour in node.ensemble.overlays else user_properties.for_foreign(event)
    return user_properties.for_clients(event) if event.properties else event


def send(node: Node, delivery: Outgoing, now: float, forms: Forms | None, duplicate: bool) -> None:
    session, event = delivery.session, _leaving(node, delivery)
    if session.trust.tokens is not None and not outgoing_tokens.tell_token(node, session, event):
        event, forms = outgoing_tokens.with_token(node, event), None
    if node.ensemble.uncached_groups:
        proving = publication_proofs.proving(node, session, event, delivery.qos, delivery.retain, now)
        event, forms = (event, forms) if proving is event else (proving, None)
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


def _proving(node: Node, session: Session, forms: Forms, qos: int, retain: bool) -> Forms:
    """Return an event as it leaves, with the proof of a trust group if the session takes one."""
    if not node.ensemble.uncached_groups:
        return forms
    event = publication_proofs.proving(node, session, forms.event, qos, retain, forms.now)
    return forms if event is forms.event else Forms(event, forms.now)


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
