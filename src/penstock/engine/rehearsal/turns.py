"""The turns of a node without an event loop: what it does between two rounds of input."""

from typing import Protocol

from penstock.engine.ledger import Changes
from penstock.engine.node import Node
from penstock.engine.sessions import outbox, session_flow


class Storage(Protocol):
    """The storage of a node that survives a restart."""

    def write(self, changes: Changes) -> None:
        """Put one batch into an open transaction."""

    def commit(self) -> None:
        """End the transaction."""

    def load(self, node: Node, now: float) -> None:
        """Fill a new node with what was stored."""


def turn(node: Node, now: float, store: Storage | None = None) -> None:
    """Go on with what waits, store what has changed, and send what there is to send."""
    session_flow.take_turn(node, now)
    commit(node, store)
    outbox.flush(node)


def commit(node: Node, store: Storage | None = None) -> Changes:
    """Store what has changed, then let go the packets that waited for it."""
    changes, deferred = node.ledger.take()
    if store is not None and changes:
        store.write(changes)
        store.commit()
    outbox.release_deferred(node, deferred)
    return changes
