"""MQTT inside WebSocket: the `websockets` library's protocol core between a transport and a `Connection`."""

import asyncio
from http import HTTPStatus
from typing import Any

from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from penstock.broker.net.connection import CONNECT_LIMIT, Connection
from penstock.wire.session import OPEN


class WebSocket(asyncio.Protocol):
    """Unwraps frames for the connection, and is the transport that the connection writes to."""

    __slots__ = ("_connection", "_early", "_path", "_started", "_transport", "_ws")

    def __init__(self, connection: Connection, path: str, max_size: int) -> None:
        self._connection = connection
        self._path = path
        self._transport: Any = None
        self._started = False
        self._early = 0
        self._ws = ServerProtocol(subprotocols=[Subprotocol("mqtt")], max_size=max_size)

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connection.connection_made(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Request):
                self._accept(event)
            elif isinstance(event, Frame):
                self._take(event)
        if self._connection.phase < OPEN:
            self._bound_stranger(len(data))
        self._flush()

    def _bound_stranger(self, size: int) -> None:
        """Large frames are for those who are connected. The library's own limit cannot be changed later."""
        self._early += size
        if self._early > CONNECT_LIMIT and self._ws.state is State.OPEN:
            self._ws.fail(1009, f"more than {CONNECT_LIMIT} bytes before CONNECT")

    def eof_received(self) -> None:
        self._ws.receive_eof()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    # --- the transport

    def write(self, data: bytes) -> None:
        if self._ws.state is State.OPEN:
            self._ws.send_binary(data)  # [MQTT-6.0.0-1]
            self._flush()

    def write_eof(self) -> None:
        if self._ws.state is State.OPEN:
            self._ws.send_close(1000)
            self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        if self._ws.state is State.OPEN:
            self._ws.send_close(1000)
            self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """What needs no unwrapping: pause_reading, abort, get_extra_info and the like."""
        return getattr(self._transport, name)

    # --- frames

    def _accept(self, request: Request) -> None:
        response = self._response(request)
        self._ws.send_response(response)
        self._started = response.status_code == HTTPStatus.SWITCHING_PROTOCOLS
        if not self._started:
            extra = {"address": self._connection.door.address, "status": response.status_code}
            self._connection.server.log.info("refused", extra=extra)

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
        return self._ws.accept(request)

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            self._connection.data_received(bytes(frame.data))  # [MQTT-6.0.0-2] packets need not align with frames
        elif frame.opcode is Opcode.TEXT:
            self._ws.fail(1003, "MQTT is binary")  # [MQTT-6.0.0-1]

    def _flush(self) -> None:
        for data in self._ws.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()  # the protocol's way to say: now end the connection
