"""The surroundings of a connection: a transport for its bytes, and a host that runs its node.

Both are written so that doing nothing is right for a connection in memory. A live node passes asyncio's transports, and
its server is the host.
"""

from collections.abc import Callable
from logging import INFO
from typing import Any, Protocol

from penstock.engine.ledger import Changes
from penstock.engine.mobility import turn as mobility
from penstock.engine.node import Node
from penstock.engine.sessions import outbox, session_flow
from penstock.engine.sessions.session import Session
from penstock.wire.framing import Frame

Sampler = Callable[[Session, bytes, list[Frame]], None]
"""Looks at some of the packets that a session sends."""


class Transport:
    """Carries bytes to the peer; this one, nowhere. asyncio's transports have the same methods."""

    def write(self, data: bytes) -> None:
        """Send bytes behind those sent before."""

    def write_eof(self) -> None:
        """Send nothing more; bytes of the peer still come. Raises `OSError` if the peer has gone already."""

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        """Close as soon as what was written is out."""

    def abort(self) -> None:
        """Close at once."""

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Let what the peer sends wait."""

    def resume_reading(self) -> None:
        """Read on."""


DISCARD = Transport()


class Storage(Protocol):
    """The storage of a node that survives a restart."""

    def write(self, changes: Changes) -> None:
        """Put one batch into an open transaction."""

    def commit(self) -> None:
        """End the transaction."""

    def load(self, node: Node, now: float) -> None:
        """Fill a new node with what was stored."""


class Host:
    """Runs a node, without sockets, log or journal: whoever gives bytes to connections takes the node's turns too.

    Connections (`NodeConnection`) tell their host what has happened. The live server overrides what it must act on.
    """

    def __init__(self, node: Node, now: Callable[[], float], storage: Storage | None = None) -> None:
        self.node = node
        self.now = now
        self._storage = storage
        self.is_full = False
        """Nothing may be published now: connections hold publications back until `go_on`."""
        self.sampler: Sampler | None = None

    def turn(self) -> None:
        """Between two rounds of input: go on with what waits, store what has changed, and send what there is."""
        session_flow.take_turn(self.node, self.now())
        if self.node.federation.moves:
            mobility.take_turn(self.node, self.now())
        self.commit()
        outbox.flush(self.node)

    def commit(self) -> None:
        """Store what has changed, then let go the packets that waited for it."""
        changes, deferred = self.node.ledger.take()
        if self._storage is not None and changes:
            self._storage.write(changes)
            self._storage.commit()
        outbox.release_deferred(self.node, deferred)

    def wake(self) -> None:
        """Take a turn once the present round of input is through."""

    def add_connection(self, connection: Any) -> None:
        """Count a connection that has a transport, or close it if there are too many."""

    def count_packets(self, connection: Any, packets: int) -> None:
        """Note that a connection has handled so many packets."""

    def begin_share(self) -> None:
        """Note that a connection begins to use its share of this turn."""

    def is_late(self) -> bool:
        """Return whether that share is used up."""
        return False

    def has_room_for(self, connection: Any) -> bool:
        """Return whether more of the connection's peer can be taken now."""
        return True

    def add_held(self, connection: Any) -> None:
        """Note that a connection is not read until it may go on (`NodeConnection.go_on`): here, at once."""
        if not self.is_full:
            connection.go_on()

    def remove_held(self, connection: Any) -> None:
        """Note that the connection is read again."""

    def end_soon(self, connection: Any, cause: str) -> None:
        """End a connection whose transport is gone, now or in a later turn."""
        connection.end(cause)

    def remove_connection(self, connection: Any) -> None:
        """Note that the transport of a connection is gone."""

    def log_event(self, text: str, level: int = INFO, **details: object) -> None:
        """Log what has happened to a connection."""

    def log_error(self, error: Exception, client: str) -> None:
        """Log or raise the error of a packet that could not be handled."""
        raise error
