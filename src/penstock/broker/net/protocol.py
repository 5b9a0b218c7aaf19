"""Between asyncio and a connection: callbacks become calls of the connection, which writes to the transport itself."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.broker.net.tls import certificate_user
from penstock.engine.connections.connection import NodeConnection
from penstock.engine.connections.outbound import Outbound

_MAX_BUFFERED_BYTES = 2**20
"""Bytes that wait in a transport before it counts as blocked."""


class SocketProtocol(asyncio.BaseProtocol):
    """Drives a connection that a client or another node has made."""

    __slots__ = ("connection", "data_received")

    def __init__(self, connection: NodeConnection) -> None:
        self.connection = connection
        self.data_received: Callable[[bytes], None] = connection.receive  # itself: no call in between for each read

    def connection_made(self, transport: Any) -> None:
        peer = transport.get_extra_info("peername")
        door, user = self.connection.door, None
        if door.certificate_user is not None:
            user = certificate_user(transport.get_extra_info("peercert"), door.certificate_user)
        address = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self.connection.door = door._replace(address=address, certificate_user=user)
        self._begin(transport)

    def _begin(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=min(self.connection.host.node.limits.outbox_bytes, _MAX_BUFFERED_BYTES))
        self.connection.begin(transport)

    def eof_received(self) -> None:
        """Let the transport close: the peer sends no more."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.host.end_soon(self.connection, _cause(exc))

    def pause_writing(self) -> None:
        self.connection.pause()

    def resume_writing(self) -> None:
        self.connection.resume()


class DialledProtocol(SocketProtocol):
    """Drives a connection that this node has made."""

    __slots__ = ("closed",)

    def __init__(self, connection: Outbound) -> None:
        super().__init__(connection)
        self.closed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone; whether it had been open."""

    def connection_made(self, transport: Any) -> None:
        self._begin(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.end(_cause(exc))
        if not self.closed.done():
            self.closed.set_result(self.connection.session is not None)


def _cause(exc: Exception | None) -> str:
    return str(exc) if exc else "closed"
