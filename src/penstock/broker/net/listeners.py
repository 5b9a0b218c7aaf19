"""The listeners of a node: their certificates, and the number of connections at each."""

import asyncio
import os
import ssl
from collections import Counter
from collections.abc import Callable, Mapping

from penstock.broker.net.protocol import SocketProtocol
from penstock.broker.net.tls import RenewableContext
from penstock.domain import Address, Listener, NodeSettings
from penstock.engine.connections.connection import NodeConnection
from penstock.engine.stages.admit import Door
from penstock.model.errors import PenstockError

Connect = Callable[[Door], NodeConnection]


def named_listeners(node: str, settings: NodeSettings) -> list[tuple[str, Listener]]:
    """Return the listeners in a node's settings, with their names."""
    return [(f"{node}/{number}", listener) for number, listener in enumerate(settings.listeners)]


class Listeners:
    """The listeners of one node."""

    def __init__(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        """`contexts`: TLS, by listener."""
        self.addresses: list[str] = []
        self.bound: list[Address] = []
        """Where it listens for MQTT without WebSocket, with the ports that it really got."""
        self._contexts = {name: RenewableContext(context) for name, context in contexts.items()}
        self._listeners: dict[str, Listener] = {}
        self._counts: Counter[str] = Counter()
        self._servers: list[asyncio.Server] = []

    async def listen(self, name: str, listener: Listener, settings: NodeSettings, connect: Connect) -> None:
        """Accept connections at an address."""
        context = self._contexts.get(name)
        handshake_seconds = settings.limits.connect_timeout if context else None
        self._listeners[name] = listener
        address = listener.address
        try:
            server = await asyncio.get_running_loop().create_server(
                _protocol_factory(name, listener, settings, connect),
                address.host,
                address.port,
                ssl=context,
                backlog=4096,
                ssl_handshake_timeout=handshake_seconds,
            )
        except OSError as error:
            raise PenstockError(f"`{address}` cannot be listened on: {_cause(error)}") from None
        self._servers.append(server)
        scheme = ("wss" if context else "ws") if listener.websocket else ("mqtts" if context else "mqtt")
        path = listener.path if listener.websocket else ""
        for listening in server.sockets:
            bound = Address(*listening.getsockname()[:2])
            if not listener.websocket:
                self.bound.append(bound)
            self.addresses.append(f"{scheme}://{bound}{path}")

    def renew_certificates(self, listeners: list[tuple[str, Listener]], contexts: Mapping[str, ssl.SSLContext]) -> None:
        """Take new certificates for the listeners whose address has not changed."""
        for name, listener in listeners:
            here = self._listeners.get(name)
            if name in contexts and name in self._contexts and here is not None and here.address == listener.address:
                self._contexts[name].present = contexts[name]

    def close(self) -> None:
        """Accept no more connections."""
        for server in self._servers:
            server.close()

    def is_full(self, name: str) -> bool:
        """Return whether a listener has as many connections as it may have."""
        maximum = self._listeners[name].max_connections
        return maximum is not None and self._counts[name] >= maximum

    def add(self, name: str) -> None:
        self._counts[name] += 1

    def remove(self, name: str) -> None:
        self._counts[name] -= 1


def _protocol_factory(
    name: str, listener: Listener, settings: NodeSettings, connect: Connect
) -> Callable[[], asyncio.BaseProtocol]:
    identity = listener.tls.identity if listener.tls else "none"
    anonymous = settings.allows_anonymous(listener)
    is_local = anonymous and listener.anonymous is None and settings.anonymous is None
    door = Door("", name, anonymous, identity if identity != "none" else None, is_local)
    if not listener.websocket:
        return lambda: SocketProtocol(connect(door))
    from penstock.broker.net.websocket import WebSocket

    return lambda: WebSocket(connect(door), listener.path, settings.limits.max_packet_size)


def _cause(error: OSError) -> str:
    """Return the cause of an error without the event loop's own words around it."""
    number = error.errno or 0  # below 0 if a name cannot be resolved
    return (os.strerror(number) if number > 0 else str(error.strerror)).lower()
