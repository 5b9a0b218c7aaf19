"""An MQTT 5 session for asyncio, on paho-mqtt: its thread does the I/O, the event loop hears of it by calls.

paho-mqtt connects again by itself, and sends again what was published with QoS 1 and not answered. What else was under
way when a connection was cut is asked again here.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock.client.errors import Disconnected, Refused
from penstock.client.proving import ProvingClient
from penstock.client.showing import ProvingWithToken, TokenAsPassword, TokenByMethod
from penstock.client.tokens import Tokens

UserProperties = Sequence[tuple[str, str]]

_BACK_OFF = (0.1, 60)  # seconds: the first pause before connecting again, and the longest; each is twice the last
_GOODBYE = 5.0  # seconds that the thread has to end
_WINDOW = 20  # what paho-mqtt lets be unanswered at a time
_TAKEN_OVER = 0x8E
_NOT_AUTHORIZED = 0x87
_TRY_LATER = {0x88, 0x89, 0x97, 0x9F}  # unavailable, busy, quota exceeded, too many connections at once


@dataclass(frozen=True)
class Address:
    """Where the node is, and who asks."""

    host: str
    port: int
    client_id: str
    username: str | None
    password: str | None
    tls: ssl.SSLContext | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Answer(NamedTuple):
    """What the node answered to a packet."""

    code: int
    words: str


class Listener(Protocol):
    """Who is told, on the event loop, what happens on a connection."""

    def connected(self, is_resumed: bool) -> None:
        """There is a connection, with the session of before or with a new one."""

    def cut(self) -> None:
        """There is none for now."""

    def ended(self, error: Exception) -> None:
        """There is none, and there will be none."""

    def received(self, message: paho.MQTTMessage) -> None:
        """A message has come. Of QoS 1, it must be acknowledged."""


class Connection:
    """A session with a node, over as many connections as it takes."""

    def __init__(
        self,
        address: Address,
        listener: Listener,
        *,
        session_expiry: int,
        keep_alive: int,
        window: int,
        timeout: float,
        groups: Mapping[str, bytes],
        tokens: Tokens | None = None,
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
        self._answers: dict[object, asyncio.Future[Answer | None]] = {}
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
        """The trust groups that are proven to the node, now."""
        return self._paho.accepted if isinstance(self._paho, ProvingClient) else frozenset()

    def _make_client(self, groups: Mapping[str, bytes]) -> paho.Client:
        address = self._address
        client = _kind(groups, self._tokens)(
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
        client.on_message = lambda _client, _data, message: self._tell(self._listener.received, message)
        client.on_publish = lambda _client, _data, mid, code, said: self._tell(self._answered, mid, answer(code, said))
        client.on_subscribe = lambda _client, _data, mid, codes, said: self._tell(
            self._answered, mid, answer(codes[0], said)
        )
        client.on_unsubscribe = client.on_subscribe
        return client

    # --- begin and end

    async def open(self) -> None:
        """Connect; raises `Refused` or `Disconnected`, or what getting a token raises."""
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
        """Leave, and end the session."""
        self._ended(Disconnected("the client has left"))
        self._paho.disconnect(properties=properties(PacketTypes.DISCONNECT, SessionExpiryInterval=0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await asyncio.to_thread(self._paho.loop_stop)

    def _stop_tokens(self) -> None:
        if self._tokens is not None:
            self._tokens.stop()

    # --- ask

    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool, said: Properties) -> Answer:
        """Publish. QoS 1: returns the node's answer, over however many connections; QoS 0: returns when it is sent."""
        if qos == 0:
            await self._is_up()
            sent = self._paho.publish(topic, payload, qos, retain, said)
            await self._fragile_answer(sent.rc, sent.mid)
            return Answer(0, "")
        async with self._slots:
            self._check()
            sent = self._paho.publish(topic, payload, qos, retain, said)
            answer = await self._answer(sent.mid)
            assert answer is not None
            return answer

    async def subscribe(self, filter: str, qos: int, said: Properties) -> Answer:
        """Subscribe; asks again if the connection is cut before the answer."""
        return await self._ask(lambda: self._paho.subscribe(filter, options=SubscribeOptions(qos), properties=said))

    async def unsubscribe(self, filter: str, said: Properties) -> Answer:
        """Unsubscribe; asks again if the connection is cut before the answer."""
        return await self._ask(lambda: self._paho.unsubscribe(filter, properties=said))

    def acknowledge(self, mid: int) -> None:
        """Answer a message of QoS 1."""
        self._paho.ack(mid, 1)

    async def _ask(self, send: Callable[[], tuple[MQTTErrorCode, int | None]]) -> Answer:
        while True:
            await self._is_up()
            found = await self._fragile_answer(*send())
            if found is not None:
                return found

    async def _is_up(self) -> None:
        self._check()
        await self._up.wait()
        self._check()

    def _check(self) -> None:
        if self._end is not None:
            raise self._end

    async def _fragile_answer(self, sent: MQTTErrorCode, mid: int | None) -> Answer | None:
        """An answer that will not come over another connection: None if this one is cut before."""
        key: object = mid if sent == MQTTErrorCode.MQTT_ERR_SUCCESS else object()
        self._fragile.add(key)
        try:
            return await self._answer(key)
        finally:
            self._fragile.discard(key)

    async def _answer(self, key: object) -> Answer | None:
        future: asyncio.Future[Answer | None] = self._loop.create_future()
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
            self._greeting.exception()  # who closes before it is there does not want it
        for future in self._answers.values():
            if not future.done():
                future.set_exception(error)
        self._up.set()
        self._listener.ended(error)

    def _answered(self, key: object, found: Answer | None) -> None:
        future = self._answers.get(key)
        if future is not None and not future.done():
            future.set_result(found)

    # --- on paho-mqtt's thread

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody is interested any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_connect(
        self, client: paho.Client, data: object, flags: paho.ConnectFlags, code: ReasonCode, said: Properties | None
    ) -> None:
        if not code.is_failure:
            if self._tokens is not None:
                self._tokens.accepted()
            self._tell(self._connected, flags.session_present, getattr(said, "ReceiveMaximum", _WINDOW))
        elif self._greeting.done() and code.value == _NOT_AUTHORIZED and self._has_another_token(client):
            return
        elif not self._greeting.done() or code.value not in _TRY_LATER:
            client.disconnect()  # ends the thread
            self._tell(self._ended, Refused(f"connection to `{self._address}`", *answer(code, said)))

    def _has_another_token(self, client: paho.Client) -> bool:
        """The one that was shown may have ended while there was no connection."""
        if self._tokens is None or not isinstance(client, TokenAsPassword | TokenByMethod):
            return False
        return self._tokens.refused(client.shown)

    def _on_disconnect(
        self, client: paho.Client, data: object, flags: paho.DisconnectFlags, code: ReasonCode, said: Properties | None
    ) -> None:
        self._tell(self._cut)
        if flags.is_disconnect_packet_from_server and code.value == _TAKEN_OVER:
            # To take it back would be taken over again, by turns and for ever.
            client.disconnect()
            reason = f"another client with the id `{self._address.client_id}` has connected to `{self._address}`"
            self._tell(self._ended, Disconnected(reason))


def _kind(groups: Mapping[str, bytes], tokens: Tokens | None) -> Callable[..., paho.Client]:
    if tokens is None:
        return functools.partial(ProvingClient, groups=groups) if groups else paho.Client
    if groups:
        return functools.partial(ProvingWithToken, groups=groups, token=tokens.current)
    return functools.partial(TokenByMethod, token=tokens.current)


def _send_at_once(client: paho.Client, data: object, connection: Any) -> None:
    """No Nagle's algorithm: an acknowledgement before a publication would hold it up for 40 ms."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def answer(code: ReasonCode, said: Properties | None) -> Answer:
    """A reason code with the node's own words, or its name if there are none."""
    return Answer(code.value, getattr(said, "ReasonString", "") or str(code))


def properties(kind: int, **values: object) -> Properties:
    """Properties of a packet as paho-mqtt takes them; without those that are None."""
    made = Properties(kind)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        if value is not None:
            setattr(made, name, value)
    return made
