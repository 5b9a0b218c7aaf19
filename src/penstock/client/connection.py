"""An MQTT 5 session for asyncio, on paho-mqtt: its thread does the I/O and calls back into the event loop.

paho-mqtt reconnects by itself, and resends unanswered publications of QoS 1. Other requests that were under way when a
connection was cut are repeated here.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock.client.errors import Disconnected, Refused
from penstock.client.group_auth import ProvingClient
from penstock.client.token_auth import ProvingWithToken, TokenAsPassword, TokenByMethod
from penstock.client.tokens import TokenRenewer

_BACK_OFF = (0.1, 60)  # seconds: the first pause before reconnecting, and the longest; each is twice the last
_GOODBYE = 5.0  # seconds that the thread has to end
_WINDOW = 20  # paho-mqtt's limit of unanswered messages
_TAKEN_OVER = 0x8E
_NOT_AUTHORIZED = 0x87
_TRY_LATER = {0x88, 0x89, 0x97, 0x9F}  # unavailable, busy, quota exceeded, too many connections at once


@dataclass(frozen=True)
class NodeAddress:
    """The address of a node, and the credentials to use there."""

    host: str
    port: int
    client_id: str
    username: str | None
    password: str | None
    tls: ssl.SSLContext | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Acknowledgement(NamedTuple):
    """The node's answer to a packet."""

    code: int
    words: str


class SessionListener(Protocol):
    """Receives the events of a session, on the event loop."""

    def connected(self, is_resumed: bool) -> None:
        """Handle a new connection, with the earlier session or with a new one."""

    def cut(self) -> None:
        """Handle a connection that is cut for now."""

    def ended(self, error: Exception) -> None:
        """Handle the final end of the session."""

    def received(self, message: paho.MQTTMessage) -> None:
        """Handle a message. One of QoS 1 must be acknowledged."""


class MqttSession:
    """A session with a node, over as many connections as it takes."""

    def __init__(
        self,
        address: NodeAddress,
        listener: SessionListener,
        session_expiry: int,
        keep_alive: int,
        window: int,
        timeout: float,
        groups: Mapping[str, bytes],
        tokens: TokenRenewer | None,
    ) -> None:
        self._address = address
        self._tokens = tokens
        self._listener = listener
        self._keep_alive = keep_alive
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._greeting: asyncio.Future[None] = self._loop.create_future()
        self._up = asyncio.Event()
        self._end: Exception | None = None
        self._answers: dict[object, asyncio.Future[Acknowledgement | None]] = {}
        self._fragile: set[object] = set()
        self._slots = asyncio.Semaphore(_WINDOW)
        self._connect_properties = properties(
            PacketTypes.CONNECT,
            SessionExpiryInterval=session_expiry,
            ReceiveMaximum=window,
            RequestProblemInformation=1,
        )
        self._paho = self._make_client(groups)

    @property
    def groups(self) -> frozenset[str]:
        """Return the trust groups that are proven to the node at present."""
        return self._paho.accepted if isinstance(self._paho, ProvingClient) else frozenset()

    def _make_client(self, groups: Mapping[str, bytes]) -> paho.Client:
        address = self._address
        client = _client_class(groups, self._tokens)(
            CallbackAPIVersion.VERSION2, address.client_id, protocol=paho.MQTTv5, manual_ack=True
        )
        client.connect_timeout = self._timeout
        client.reconnect_delay_set(*_BACK_OFF)  # type: ignore[arg-type]  # it only adds and compares
        if address.username is not None or address.password is not None:
            client.username_pw_set(address.username or "", address.password)
        if address.tls is not None:
            client.tls_set_context(address.tls)
        client.on_socket_open = _send_at_once
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = lambda _client, _data, message: self._schedule(self._listener.received, message)
        client.on_publish = lambda _client, _data, mid, code, packet_properties: self._schedule(
            self._answered, mid, answer(code, packet_properties)
        )
        client.on_subscribe = lambda _client, _data, mid, codes, packet_properties: self._schedule(
            self._answered, mid, answer(codes[0], packet_properties)
        )
        client.on_unsubscribe = client.on_subscribe
        return client

    # --- begin and end

    async def open(self) -> None:
        """Connect; raise `Refused` or `Disconnected`, or the error of getting a token."""
        if self._tokens is not None:
            await self._tokens.begin()
        try:
            await asyncio.to_thread(
                self._paho.connect,
                self._address.host,
                self._address.port,
                self._keep_alive,
                clean_start=paho.MQTT_CLEAN_START_FIRST_ONLY,
                properties=self._connect_properties,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self._stop_tokens()
            raise Disconnected(f"cannot connect to `{self._address}`: {reason}") from error
        self._paho.loop_start()
        try:
            async with asyncio.timeout(self._timeout):
                await self._greeting
        except TimeoutError:
            await self.close()
            problem = self._paho.problem if isinstance(self._paho, ProvingClient) else ""
            what = f"cannot prove trust groups: {problem}" if problem else "does not answer"
            raise Disconnected(f"`{self._address}` {what}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect and end the session."""
        self._ended(Disconnected("the client has left"))
        self._paho.disconnect(properties=properties(PacketTypes.DISCONNECT, SessionExpiryInterval=0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await asyncio.to_thread(self._paho.loop_stop)

    def _stop_tokens(self) -> None:
        if self._tokens is not None:
            self._tokens.stop()

    # --- requests

    async def publish(
        self, topic: str, payload: bytes, qos: int, retain: bool, packet_properties: Properties
    ) -> Acknowledgement:
        """Publish. QoS 1: return the node's answer, over however many connections; QoS 0: return when it is sent."""
        if qos == 0:
            await self._is_up()
            sent = self._paho.publish(topic, payload, qos, retain, packet_properties)
            await self._fragile_answer(sent.rc, sent.mid)
            return Acknowledgement(0, "")
        async with self._slots:
            self._check()
            sent = self._paho.publish(topic, payload, qos, retain, packet_properties)
            answer = await self._answer(sent.mid)
            assert answer is not None
            return answer

    async def subscribe(self, filter: str, qos: int, packet_properties: Properties) -> Acknowledgement:
        """Subscribe; repeat the request if the connection is cut before the answer."""
        return await self._ask(
            lambda: self._paho.subscribe(filter, options=SubscribeOptions(qos), properties=packet_properties)
        )

    async def unsubscribe(self, filter: str, packet_properties: Properties) -> Acknowledgement:
        """Unsubscribe; repeat the request if the connection is cut before the answer."""
        return await self._ask(lambda: self._paho.unsubscribe(filter, properties=packet_properties))

    def acknowledge(self, mid: int) -> None:
        """Acknowledge a message of QoS 1."""
        self._paho.ack(mid, 1)

    async def _ask(self, send: Callable[[], tuple[MQTTErrorCode, int | None]]) -> Acknowledgement:
        while True:
            await self._is_up()
            answer = await self._fragile_answer(*send())
            if answer is not None:
                return answer

    async def _is_up(self) -> None:
        self._check()
        await self._up.wait()
        self._check()

    def _check(self) -> None:
        if self._end is not None:
            raise self._end

    async def _fragile_answer(self, sent: MQTTErrorCode, mid: int | None) -> Acknowledgement | None:
        """Wait for an answer that cannot come over another connection: None if this one is cut before."""
        key: object = mid if sent == MQTTErrorCode.MQTT_ERR_SUCCESS else object()
        self._fragile.add(key)
        try:
            return await self._answer(key)
        finally:
            self._fragile.discard(key)

    async def _answer(self, key: object) -> Acknowledgement | None:
        future: asyncio.Future[Acknowledgement | None] = self._loop.create_future()
        self._answers[key] = future
        try:
            return await future
        finally:
            self._answers.pop(key, None)

    # --- on the event loop

    def _connected(self, is_resumed: bool, window: int) -> None:
        if self._end is not None:
            return
        self._up.set()
        if not self._greeting.done():
            self._slots = asyncio.Semaphore(min(_WINDOW, window))
            self._greeting.set_result(None)
        self._listener.connected(is_resumed)

    def _cut(self) -> None:
        if self._end is not None:
            return
        self._up.clear()
        for key in self._fragile:
            self._answered(key, None)
        self._listener.cut()

    def _ended(self, error: Exception) -> None:
        if self._end is not None:
            return
        self._end = error
        self._stop_tokens()
        if not self._greeting.done():
            self._greeting.set_exception(error)
            self._greeting.exception()  # mark as retrieved: the caller closed before the connection was made
        for future in self._answers.values():
            if not future.done():
                future.set_exception(error)
        self._up.set()
        self._listener.ended(error)

    def _answered(self, key: object, answer: Acknowledgement | None) -> None:
        future = self._answers.get(key)
        if future is not None and not future.done():
            future.set_result(answer)

    # --- on paho-mqtt's thread

    def _schedule(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: there are no callers any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_connect(
        self, client: paho.Client, _data: object, flags: paho.ConnectFlags, code: ReasonCode, extra: Properties | None
    ) -> None:
        if not code.is_failure:
            if self._tokens is not None:
                self._tokens.accepted()
            self._schedule(self._connected, flags.session_present, getattr(extra, "ReceiveMaximum", _WINDOW))
        elif self._greeting.done() and code.value == _NOT_AUTHORIZED and self._has_another_token(client):
            return
        elif not self._greeting.done() or code.value not in _TRY_LATER:
            client.disconnect()  # ends the thread
            self._schedule(self._ended, Refused(f"connection to `{self._address}`", *answer(code, extra)))

    def _has_another_token(self, client: paho.Client) -> bool:
        """Return whether there is a newer token: the one shown may have expired while there was no connection."""
        if self._tokens is None or not isinstance(client, TokenAsPassword | TokenByMethod):
            return False
        return self._tokens.refused(client.shown)

    def _on_disconnect(
        self, client: paho.Client, _data: object, flags: paho.DisconnectFlags, code: ReasonCode, _extra: object
    ) -> None:
        self._schedule(self._cut)
        if flags.is_disconnect_packet_from_server and code.value == _TAKEN_OVER:
            # Reconnecting would take the session over again, by turns and for ever.
            client.disconnect()
            reason = f"another client with the id `{self._address.client_id}` has connected to `{self._address}`"
            self._schedule(self._ended, Disconnected(reason))


def _client_class(groups: Mapping[str, bytes], tokens: TokenRenewer | None) -> Callable[..., paho.Client]:
    if tokens is None:
        return functools.partial(ProvingClient, groups=groups) if groups else paho.Client
    if groups:
        return functools.partial(ProvingWithToken, groups=groups, token=tokens.current)
    return functools.partial(TokenByMethod, token=tokens.current)


def _send_at_once(client: paho.Client, data: object, connection: Any) -> None:
    """Disable Nagle's algorithm: an acknowledgement before a publication would delay it by 40 ms."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def answer(code: ReasonCode, packet_properties: Properties | None) -> Acknowledgement:
    """Return a reason code with the node's own words, or the code's name if there are none."""
    return Acknowledgement(code.value, getattr(packet_properties, "ReasonString", "") or str(code))


def properties(kind: int, **values: object) -> Properties:
    """Return properties of a packet as paho-mqtt takes them, without those that are None."""
    packet_properties = Properties(kind)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        if value is not None:
            setattr(packet_properties, name, value)
    return packet_properties
