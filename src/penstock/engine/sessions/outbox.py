"""Bytes to a session: into its buffer, behind whatever it waits for, and out at the end of a turn."""

from typing import TYPE_CHECKING

from penstock.engine.sessions.session import Session

if TYPE_CHECKING:
    from penstock.engine.node import Node

MOST_DEFERRED_BYTES = 64 * 2**20
"""Bytes that wait for the store before QoS 0 messages behind them are dropped."""


def push(node: "Node", session: Session, packet: bytes) -> None:
    """Send a packet that must arrive, behind whatever the session already waits for."""
    if session.open:
        if not session.buffer:
            node.dirty.append(session)
        session.buffer.append(packet)
    elif session.outlet is None:
        return
    elif session.held:
        node.ledger.defer(session, packet)
    else:
        session.backlog += len(packet)
        session.buffer.append(packet)


def push_lossy(node: "Node", session: Session, packet: bytes) -> bool:
    """Send a QoS 0 message, counted as sent; return False if it is dropped, because the client is away or too much
    waits already.
    """
    if session.outlet is None:
        node.stats.sent -= 1
        return False
    slow = session.blocked and session.backlog > node.limits.outbox_bytes
    if slow or (session.held and node.ledger.deferred_bytes > MOST_DEFERRED_BYTES):
        node.stats.sent -= 1
        node.stats.dropped += 1
        if not session.overflowing:
            session.overflowing = True
            cause = "the client does not read" if slow else "the store is behind"
            node.notice("slow", session, "", f"QoS 0 messages are dropped: {cause}")
        return False
    push(node, session, packet)
    return True


def push_durable(node: "Node", session: Session, packet: bytes) -> None:
    """Send a packet that may leave only when every change so far is in the store."""
    if not node.ledger.durable:
        push(node, session, packet)
    elif session.outlet is not None:
        session.open = False
        node.ledger.defer(session, packet)


def release_deferred(node: "Node", deferred: list[tuple[Session, object, bytes]]) -> None:
    """Send packets that waited for the store."""
    for session, outlet, packet in deferred:
        if session.outlet is not outlet:
            continue
        if session.blocked:
            session.backlog += len(packet)
        elif not session.buffer:
            node.dirty.append(session)
        session.buffer.append(packet)
        session.held -= 1
        if not session.held:
            session.open = not session.blocked


def flush(node: "Node") -> None:
    """Hand what sessions have to say to their outlets."""
    dirty, node.dirty = node.dirty, []
    for session in dirty:
        if session.outlet is not None and session.buffer:
            session.outlet.send(session.buffer)
