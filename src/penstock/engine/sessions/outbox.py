"""Bytes to a session: into its buffer, behind whatever it waits for, and out at the end of a turn."""

from penstock.engine.events.plan import Plan
from penstock.engine.node import Node
from penstock.engine.sessions.refusal import Answer, encode_told
from penstock.engine.sessions.render import to_version_4, to_version_5
from penstock.engine.sessions.session import Session
from penstock.wire.codec import encode

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
