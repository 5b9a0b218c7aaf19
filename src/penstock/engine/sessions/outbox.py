"""Bytes to a session: into its buffer, behind whatever it waits for, and out at the end of a turn."""

from collections import deque

from penstock.engine.events.plan import Plan
from penstock.engine.node import Node
from penstock.engine.sessions.refusal import Answer, encode_told
from penstock.engine.sessions.render import packet_id_of, to_version_4, to_version_5
from penstock.engine.sessions.session import Session
from penstock.wire.codec import encode
from penstock.wire.kinds import PUBLISH
from penstock.wire.session import WAITING

MAX_DEFERRED_BYTES = 64 * 2**20
"""Bytes that wait for the store before QoS 0 messages behind them are dropped."""


def push(node: Node, session: Session, packet: bytes) -> None:
    """Send a packet that must arrive, behind whatever the session already waits for."""
    if session.open:
        if not session.buffer:
            node.dirty.append(session)
        session.buffer.append(packet)
    elif session.outlet is None:
        return
    elif session.connection.held:
        node.ledger.defer(session, packet)
    else:
        session.connection.backlog += len(packet)
        session.buffer.append(packet)


def push_lossy(node: Node, session: Session, packet: bytes) -> bool:
    """Send a QoS 0 message, counted as sent; return False if it is dropped, because the client is away or too much
    waits already.
    """
    if session.outlet is None:
        node.stats.sent -= 1
        return False
    slow = session.connection.blocked and session.connection.backlog > node.limits.outbox_bytes
    if slow or (session.connection.held and node.ledger.deferred_bytes > MAX_DEFERRED_BYTES):
        node.stats.sent -= 1
        node.stats.dropped += 1
        if not session.connection.overflowing:
            session.connection.overflowing = True
            cause = "the client does not read" if slow else "the store is behind"
            node.notice("slow", session, "", f"QoS 0 messages are dropped: {cause}")
        return False
    push(node, session, packet)
    return True


def push_durable(node: Node, session: Session, packet: bytes) -> None:
    """Send a packet that may leave only when every change so far is in the store."""
    if not node.ledger.durable:
        push(node, session, packet)
    elif session.outlet is not None:
        session.open = False
        node.ledger.defer(session, packet)


def push_answer(node: Node, session: Session, answer: Answer, reason: str) -> None:
    """Send an answer when every change so far is in the store, with the reason if the client takes reasons."""
    state = session.connection
    if reason:
        packet = encode_told(answer, reason, session.version, state.problem_info, state.maximum_packet_size)
    else:
        packet = encode(answer, session.version)
    push_durable(node, session, packet)


def recall(node: Node, session: Session) -> None:
    """Take back the messages that a client which does not read has not been sent, because policies change: those at
    QoS 1 and 2 wait in the queue and are judged again when they leave, those at QoS 0 are dropped.
    """
    messages = [packet for packet in session.buffer if packet[0] >> 4 == PUBLISH]
    if not session.connection.blocked or not messages:
        return
    session.buffer[:] = [packet for packet in session.buffer if packet[0] >> 4 != PUBLISH]
    session.connection.backlog = sum(map(len, session.buffer))
    if session.connection.aliases_out is not None:
        session.connection.aliases_out.clear()  # some were told in what is taken back
    outbox, waiting = session.outbox, []
    for packet in messages:
        delivery = outbox.inflight.get(packet_id_of(packet)) if packet[0] & 0x06 else None
        if delivery is None:
            node.stats.dropped += 1
        elif not packet[0] & 0x08:  # not sent before
            del outbox.inflight[delivery.packet_id]
            delivery.packet_id, delivery.state = 0, WAITING
            node.ledger.moved(delivery)
            outbox.quota += 1
            outbox.queued_bytes += delivery.event.size()
            waiting.append(delivery)
        else:
            outbox.quota += 1
            outbox.resend = outbox.resend or deque()
            outbox.resend.append(delivery)
    if waiting:
        outbox.queue = deque((*waiting, *(outbox.queue or ())))
    node.sessions.go_on(session)


def release_deferred(node: Node, deferred: list[tuple[Session, object, bytes]]) -> None:
    """Send packets that waited for the store."""
    for session, outlet, packet in deferred:
        if session.outlet is not outlet:
            continue
        if session.connection.blocked:
            session.connection.backlog += len(packet)
        elif not session.buffer:
            node.dirty.append(session)
        session.buffer.append(packet)
        session.connection.held -= 1
        if not session.connection.held:
            session.open = not session.connection.blocked


def flush(node: Node) -> None:
    """Hand what sessions have to say to their outlets."""
    dirty, node.dirty = node.dirty, []
    for session in dirty:
        if session.outlet is not None and session.buffer:
            session.outlet.send(session.buffer)


def relay(node: Node, plan: Plan, packet: bytes, version: int, after_topic: int) -> None:
    """Pass a QoS 0 packet's own bytes on to all sessions of a simple plan."""
    same, other = (plan.direct4, plan.direct5) if version == 4 else (plan.direct5, plan.direct4)
    dirty = node.dirty
    for session in same:
        if session.open:
            buffer = session.buffer
            if not buffer:
                dirty.append(session)
            buffer.append(packet)
        elif not push_lossy(node, session, packet) and node.recorder is not None:
            node.recorder.dropped(plan, session)
    if other:
        packet = (to_version_5 if version == 4 else to_version_4)(packet, after_topic)
        for session in other:
            if not push_lossy(node, session, packet) and node.recorder is not None:
                node.recorder.dropped(plan, session)
    node.stats.sent += len(same) + len(other)
    if plan.closed:
        for session in plan.closed:
            session.denied += 1
