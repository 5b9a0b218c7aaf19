"""MQTT inside WebSocket: the `websockets` library's protocol core between a transport and a connection."""

import asyncio
import ipaddress
import logging
from collections import deque
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from penstock.broker.net.protocol import SocketProtocol
from penstock.engine.connections.connection import MAX_CONNECT_BYTES, NodeConnection
from penstock.engine.connections.host import DISCARD
from penstock.wire.framing import Framer
from penstock.wire.session import OPEN

_SILENT = logging.Logger("websockets", logging.CRITICAL)
"""The library would log tracebacks of what anybody may send; refusals are logged here."""
_PONG = bytes([0x80 | Opcode.PONG])
_PIECE = 1_024
"""Bytes that are divided into frames before others may have their turn: a frame may be six bytes."""


class WebSocket(SocketProtocol):
    """Unwraps frames for the connection, and is the transport that the connection writes to.

    Once this side has ended, what the library would still say is left out. While the transport takes no more bytes,
    only the last PONG waits (RFC 6455 §5.5.3), so that PINGs take no memory. What has come is divided into frames as
    far as the connection's share of the turn goes; the rest waits for the next one, and the peer is not read meanwhile.
    """

    __slots__ = (
        "_bytes_before_connect",
        "_is_blocked",
        "_is_ended",
        "_is_scheduled",
        "_lost",
        "_path",
        "_pong",
        "_transport",
        "_waiting",
        "_ws",
    )

    def __init__(self, connection: NodeConnection, path: str, max_size: int) -> None:
        super().__init__(connection)
        self.data_received = self._unwrap
        self._path = path
        self._transport: Any = None
        self._bytes_before_connect = 0
        self._is_blocked = self._is_ended = self._is_scheduled = False
        self._waiting: deque[bytes] = deque()
        """What has come and is not divided into frames yet."""
        self._lost: tuple[Exception | None] | None = None
        """The reason why the transport is gone, while something that came before is still waiting."""
        self._pong = b""
        self._ws = ServerProtocol(subprotocols=[Subprotocol("mqtt")], max_size=max_size, logger=_SILENT)

    # --- asyncio

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        super().connection_made(self)

    def _unwrap(self, data: bytes) -> None:
        """Read what the socket has received."""
        self._waiting.extend(data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
        if not self._is_scheduled:
            self._go_on()

    def _go_on(self) -> None:
        self._is_scheduled = False
        connection = self.connection
        connection.host.begin_share()
        while self._waiting and not self._is_ended and not connection.is_held:
            self._divide(self._waiting.popleft())
            if connection.host.is_late():
                break
        if self._is_ended:
            self._waiting.clear()
        if self._waiting:
            self._transport.pause_reading()
            self._schedule()
        elif not connection.is_held:
            self._transport.resume_reading()
            if self._lost is not None:
                super().connection_lost(self._lost[0])

    def _schedule(self) -> None:
        """Go on in the next turn; if the connection is held, when it is let go."""
        if not self._is_scheduled and not self.connection.is_held:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _divide(self, data: bytes) -> None:
        while data and not self._is_ended:
            # Line by line up to the end of the request: the library reads on before the request is answered.
            end = data.find(b"\n") + 1 if self._ws.state is State.CONNECTING else 0
            self._receive(data[:end] if end else data)
            data = data[end:] if end else b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting:
            self._transport, self._lost = DISCARD, (exc,)
        else:
            super().connection_lost(exc)

    def _receive(self, data: bytes) -> None:
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Request):
                self._accept(event)
            elif isinstance(event, Frame):
                self._receive_frame(event)
        if self.connection.phase < OPEN:
            self._limit_before_connect(len(data))
        self._flush()

    def _limit_before_connect(self, size: int) -> None:
        """Refuse large frames before CONNECT. The library's own limit cannot be changed later."""
        self._bytes_before_connect += size
        if self._bytes_before_connect > MAX_CONNECT_BYTES and self._ws.state is State.OPEN:
            self._ws.fail(1009, f"more than {MAX_CONNECT_BYTES} bytes before CONNECT")

    def eof_received(self) -> None:
        while self._waiting:  # TLS alone: a plain socket is not read while something waits
            self._divide(self._waiting.popleft())
        self._ws.receive_eof()
        self._flush()

    def pause_writing(self) -> None:
        self._is_blocked = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_blocked = False
        if self._pong and self._ws.state is State.OPEN:
            self._transport.write(self._pong)
        self._pong = b""
        super().resume_writing()

    # --- the transport

    def write(self, data: bytes) -> None:
        """Send whole packets, each in a frame of its own: some clients do not take several in one."""
        if self._ws.state is State.OPEN and not self._is_ended:
            parts: list[bytes] = []
            begin = 0
            for _, _, end in Framer().feed(data)[1]:
                parts += (_head(end - begin), data[begin:end])
                begin = end
            self._transport.write(b"".join(parts))

    def write_eof(self) -> None:
        self._send_close()
        self._is_ended = True
        self._transport.write_eof()

    def close(self) -> None:
        self._send_close()
        self._is_ended = True
        self._transport.close()

    def _send_close(self) -> None:
        if self._ws.state is State.OPEN:
            self._ws.send_close(1000)
            self._flush()

    def resume_reading(self) -> None:
        """Read on, once what has come is divided into frames."""
        if self._waiting:
            self._schedule()
        else:
            self._transport.resume_reading()

    def __getattr__(self, name: str) -> Any:
        """Pass on what needs no unwrapping: pause_reading, abort, get_extra_info and the like."""
        return getattr(self._transport, name)

    # --- frames

    def _accept(self, request: Request) -> None:
        response = self._response(request)
        self._ws.send_response(response)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self.connection.host.log_event("refused", address=self.connection.door.address, status=response.status_code)

    def _response(self, request: Request) -> Response:
        path = request.path.partition("?")[0]
        if path not in (self._path, "/"):
            return self._ws.reject(HTTPStatus.NOT_FOUND, f"MQTT is at {self._path}\n")
        try:
            offered = [name for value in request.headers.get_all("Sec-WebSocket-Protocol") for name in value.split(",")]
        except (KeyError, InvalidHandshake):
            offered = []
        # [MQTT-6.0.0-4]
        if "mqtt" not in {name.strip() for name in offered}:  # [MQTT-6.0.0-3]
            return self._ws.reject(HTTPStatus.BAD_REQUEST, "the WebSocket subprotocol `mqtt` is missing\n")
        self._look_at_origin(request)
        return self._ws.accept(request)

    def _look_at_origin(self, request: Request) -> None:
        """Give a page of another site nothing that its reader's browser has: no place on loopback, no certificate.
        Any page may open a WebSocket to any address; browsers say which page it was.
        """
        origins, hosts = request.headers.get_all("Origin"), request.headers.get_all("Host")
        if not origins:
            return
        pages, door = {_host(origin) for origin in origins}, self.connection.door
        is_here = all(map(_is_loopback, pages))
        user = door.certificate_user if pages == {_host(f"//{host}") for host in hosts} else None
        self.connection.door = door._replace(
            anonymous=door.anonymous and (is_here or not door.is_local), certificate_user=user
        )

    def _receive_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            self.connection.receive(bytes(frame.data))  # [MQTT-6.0.0-2] packets need not align with frames
        elif frame.opcode is Opcode.TEXT:
            self._ws.fail(1003, "MQTT is binary")  # [MQTT-6.0.0-1]

    def _flush(self) -> None:
        writes, is_last = [], False
        for data in self._ws.data_to_send():
            if self._is_blocked and data[:1] == _PONG:
                self._pong = data
            elif data:
                writes.append(data)
            else:
                is_last = True  # the protocol's way to say: now end the connection
        if writes and not self._is_ended:
            self._transport.write(b"".join(writes))
        if is_last:
            self._is_ended = True
            self._transport.close()


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _head(size: int) -> bytes:
    """Return what comes before the bytes of a binary frame."""  # [MQTT-6.0.0-1]
    if size < 126:
        return bytes((0x82, size))
    return b"\x82\x7e" + size.to_bytes(2, "big") if size < 65536 else b"\x82\x7f" + size.to_bytes(8, "big")
