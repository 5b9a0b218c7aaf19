"""MQTT inside WebSocket: paho's, and the `websockets` client for what paho would never send."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol

from penstock.broker.net.websocket import WebSocket
from penstock.engine.connections.host import Host
from penstock.engine.connections.inbound import Inbound
from penstock.wire.codec import encode
from penstock.wire.framing import Framer
from penstock.wire.packet import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    WillMessage,
)
from penstock.wire.reason import Reason
from penstock.wire.stream import StreamDecoder
from tests.support.clients.paho import Paho
from tests.support.memory.node import MemoryNode
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import LiveNode

MQTT = Subprotocol("mqtt")
PATIENCE = 20


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("path", ["/mqtt", "/"])
def test_paho(node: LiveNode, name: str, version: int, path: str) -> None:
    with Paho(version=version, transport="websockets") as ann, Paho(version=version).connects(node.port) as bob:
        ann.client.ws_set_options(path)
        ann.connects(node.ports("ws")[0])
        ann.subscribe(f"{name}/#", 2)
        for qos in (0, 1, 2):
            bob.publish(f"{name}/a", b"in", qos)
        assert ann.payloads(3) == [b"in"] * 3
        large = bytes(300_000)
        bob.subscribe(f"{name}/b", 1)
        ann.publish(f"{name}/b", large, 1)
        assert bob.receive().payload == large
        assert ann.receive().payload == large


class Framed:
    """One WebSocket connection: bytes out as told, packets in."""

    def __init__(self, inner: ClientConnection) -> None:
        self.inner = inner
        self._decoder = StreamDecoder(version=5)
        self._arrived: list[Packet] = []

    async def send(self, message: Any) -> None:
        """Bytes: one binary frame; text: a text frame; a list: one message in several frames."""
        await self.inner.send(message)

    async def receive(self) -> Packet:
        while not self._arrived:
            data = await asyncio.wait_for(self.inner.recv(), PATIENCE)
            assert isinstance(data, bytes), "text frame from the node"
            self._arrived.extend(self._decoder.feed(data))
            assert self._decoder.error is None
        return self._arrived.pop(0)

    async def ended(self) -> ConnectionClosed:
        """Return how the node ends the connection, after nothing more."""
        with pytest.raises(ConnectionClosed) as caught:
            await self.receive()
        return caught.value


@asynccontextmanager
async def framed(node: LiveNode, path: str = "/mqtt", **options: Any) -> AsyncIterator[Framed]:
    uri = f"ws://{HOST}:{node.ports('ws')[0]}{path}"
    async with connect(uri, **{"subprotocols": [MQTT], "compression": None, **options}) as inner:
        yield Framed(inner)


CONNECT = encode(Connect("", 5), 5)


async def test_the_subprotocol_is_agreed_on(node: LiveNode) -> None:
    async with framed(node, subprotocols=[Subprotocol("other"), MQTT]) as client:
        assert client.inner.subprotocol == "mqtt"


@pytest.mark.parametrize("options", [{"subprotocols": None}, {"subprotocols": [Subprotocol("mqttv3.1")]}])
async def test_without_the_subprotocol(node: LiveNode, options: dict[str, Any]) -> None:
    with pytest.raises((InvalidStatus, NegotiationError)) as caught:
        async with framed(node, **options):
            pass
    assert isinstance(caught.value, InvalidStatus)
    assert caught.value.response.status_code == 400


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (None, Reason.SUCCESS),
        ("http://localhost:8000", Reason.SUCCESS),
        ("http://[::1]", Reason.SUCCESS),
        ("https://evil.example", Reason.NOT_AUTHORIZED),
        ("http://127.0.0.1.evil.example", Reason.NOT_AUTHORIZED),
        ("null", Reason.NOT_AUTHORIZED),
        ("http://[", Reason.NOT_AUTHORIZED),
    ],
)
async def test_a_page_of_another_site_is_not_on_loopback(node: LiveNode, origin: Any, reason: Reason) -> None:
    """Attacked again: any page in a browser on this machine could publish and subscribe to everything."""
    async with framed(node, origin=origin) as peer:
        await peer.send(encode(Connect("page"), 5))
        answer = await peer.receive()
        assert isinstance(answer, Connack)
        assert answer.reason == reason


async def test_a_wrong_path(node: LiveNode) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with framed(node, path="/other"):
            pass
    assert caught.value.response.status_code == 404
    assert b"/mqtt" in (caught.value.response.body or b"")


async def test_a_query_is_not_part_of_the_path(node: LiveNode) -> None:
    async with framed(node, path="/mqtt?token=1") as client:
        await client.send(CONNECT)
        assert isinstance(await client.receive(), Connack)


async def test_plain_http(node: LiveNode) -> None:
    reader, writer = await asyncio.open_connection(HOST, node.ports("ws")[0])
    writer.write(b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    assert answer.startswith(b"HTTP/1.1 4")
    writer.close()


async def test_mqtt_without_websocket(node: LiveNode) -> None:
    reader, writer = await asyncio.open_connection(HOST, node.ports("ws")[0])
    writer.write(CONNECT + b"\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    writer.close()


async def test_several_packets_in_one_frame(node: LiveNode, name: str) -> None:
    packets: list[Packet] = [Connect("", 5), Subscribe(1, (SubscriptionRequest(name),)), Publish(name, b"x"), Pingreq()]
    async with framed(node) as client:
        await client.send(b"".join(encode(packet, 5) for packet in packets))
        kinds = [type(await client.receive()) for _ in range(4)]
        assert kinds == [Connack, Suback, Publish, Pingresp]


async def test_one_packet_over_several_frames(node: LiveNode) -> None:
    async with framed(node) as client:
        for place in range(len(CONNECT)):
            await client.send(CONNECT[place : place + 1])
        assert isinstance(await client.receive(), Connack)


async def test_a_fragmented_message(node: LiveNode, name: str) -> None:
    async with framed(node) as client:
        await client.send([CONNECT[:1], CONNECT[1:7], b"", CONNECT[7:]])
        assert isinstance(await client.receive(), Connack)
        whole = encode(Subscribe(1, (SubscriptionRequest(name),)), 5) + encode(Publish(name, bytes(100_000)), 5)
        await client.send([whole[place : place + 9_999] for place in range(0, len(whole), 9_999)])
        assert isinstance(await client.receive(), Suback)
        assert isinstance(await client.receive(), Publish)


async def test_pings_of_websocket_are_answered_between_fragments(node: LiveNode) -> None:
    async with framed(node) as client:
        await client.send(CONNECT[:5])
        await asyncio.wait_for(await client.inner.ping(), PATIENCE)
        await client.send(CONNECT[5:])
        assert isinstance(await client.receive(), Connack)


@pytest.mark.parametrize("first", [b"", CONNECT])
async def test_text_frames_end_the_connection(node: LiveNode, first: bytes) -> None:
    async with framed(node) as client:
        if first:
            await client.send(first)
            assert isinstance(await client.receive(), Connack)
        await client.send("text")
        ended = await client.ended()
        assert ended.rcvd is not None
        assert ended.rcvd.code == 1003


async def test_garbage_in_a_frame(node: LiveNode) -> None:
    async with framed(node) as client:
        await client.send(b"\x00\x00\xff\xff")
        await client.ended()


async def test_a_breach_is_told_before_the_end(node: LiveNode) -> None:
    async with framed(node) as client:
        await client.send(CONNECT + b"\x36\x00")  # QoS 3
        assert isinstance(await client.receive(), Connack)
        packet = await client.receive()
        assert isinstance(packet, Disconnect)
        assert (packet.reason, packet.properties.reason_string) == (0x81, "PUBLISH has QoS 3")
        ended = await client.ended()
        assert ended.rcvd is not None
        assert ended.rcvd.code == 1000


async def test_a_large_frame_is_only_for_those_who_are_connected(node: LiveNode, name: str) -> None:
    whole = encode(Subscribe(1, (SubscriptionRequest(name),)), 5) + encode(Publish(name, bytes(1_000_000)), 5)
    async with framed(node) as client:
        await client.send(CONNECT)
        assert isinstance(await client.receive(), Connack)
        await client.send(whole)
        assert isinstance(await client.receive(), Suback)
    async with framed(node) as stranger:
        await stranger.send(bytes(1_000_000))
        ended = await stranger.ended()
        assert ended.rcvd is not None
        assert ended.rcvd.code == 1009


async def test_nothing_is_heard_after_disconnect(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(name, 1)
        message = encode(Publish(name, b"early"), 5)
        async with framed(node) as client:
            await client.send(CONNECT + message)  # now the topic has a plan
            assert ann.receive().payload == b"early"
            late = [encode(Disconnect(), 5), encode(Publish(name, b"late"), 5)]
            for packet in late:
                await client.send(packet)
        ann.publish(name, b"last", 1)
        assert ann.receive().payload == b"last"


@pytest.mark.parametrize("how", ["close frame", "broken connection"])
async def test_a_will_when_the_websocket_ends(node: LiveNode, name: str, how: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(name, 1)
        async with framed(node) as client:
            await client.send(encode(Connect("", 5, will=WillMessage(name, b"gone")), 5))
            assert isinstance(await client.receive(), Connack)
            if how == "close frame":
                await client.inner.close()
            else:
                client.inner.transport.abort()
            assert (await asyncio.to_thread(ann.receive)).payload == b"gone"


# --- what anybody may send, before any CONNECT (issue 17, item 22)

_UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
_PLAIN = b"GET /mqtt HTTP/1.1\r\nHost: here\r\n\r\n"


def _frame(opcode: Opcode, data: bytes) -> bytes:
    return Frame(opcode, data).serialize(mask=True)


async def _opened(node: LiveNode) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, node.ports("ws")[0])
    writer.write(_UPGRADE)
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    return reader, writer


async def _rest(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), PATIENCE)
    return b""


def test_pings_whose_answers_nobody_reads_take_no_memory(node: LiveNode) -> None:
    """A PONG for the latest PING is enough (RFC 6455 §5.5.3), so a peer that does not read makes nothing wait."""
    pings = _frame(Opcode.PING, bytes(125)) * 1000
    with socket.create_connection((HOST, node.ports("ws")[0]), PATIENCE) as peer:
        peer.sendall(_UPGRADE + _frame(Opcode.BINARY, CONNECT))
        peer.recv(4096)
        peer.sendall(pings)
        before = node.rss()
        for _ in range(400):
            peer.sendall(pings)
        assert node.rss() - before < 16 * 2**20


async def test_no_input_writes_a_traceback(node: LiveNode, name: str) -> None:
    """Requests behind a request, and PINGs behind what ends a connection: a refused CONNECT, a takeover."""
    before = len(node.log)
    for chunk in (_PLAIN * 2, _UPGRADE * 2, _UPGRADE + _PLAIN, _UPGRADE.replace(b"AAA=", b"\xff\xff\xff=")):
        reader, writer = await asyncio.open_connection(HOST, node.ports("ws")[0])
        writer.write(chunk)
        await _rest(reader)
        writer.close()
    refused = encode(Connect("", 4, clean_start=False), 4)
    reader, writer = await _opened(node)
    writer.write(_frame(Opcode.BINARY, refused))
    await reader.readexactly(1)
    writer.write(_frame(Opcode.PING, b"late") * 3)
    await _rest(reader)
    writer.close()
    reader, writer = await _opened(node)
    writer.write(_frame(Opcode.BINARY, encode(Connect(name, 5), 5)))
    await reader.readexactly(1)
    with Paho(name).connects(node.port):
        await asyncio.sleep(0)
        writer.write(_frame(Opcode.PING, b"late") * 3)
        await _rest(reader)
        writer.write(_frame(Opcode.PING, b"later") * 3)
        writer.close()
    with Paho().connects(node.port):  # the node has seen all that came before
        assert "Traceback" not in node.log[before:]


async def test_each_packet_has_a_frame_of_its_own(node: LiveNode, name: str) -> None:
    """Paho's C client stalls on several packets in one frame, which the standard allows."""
    async with framed(node) as client:
        await client.send(CONNECT + encode(Subscribe(1, (SubscriptionRequest(name),)), 5))
        assert isinstance(await client.receive(), Connack)
        assert isinstance(await client.receive(), Suback)
        sizes = [0, 100, 200, 70_000, 5] * 5
        await client.send(b"".join(encode(Publish(name, bytes(size)), 5) for size in sizes))
        for size in sizes:
            data = await asyncio.wait_for(client.inner.recv(), PATIENCE)
            assert isinstance(data, bytes)
            assert StreamDecoder(version=5).feed(data) == [Publish(name, bytes(size))]


class _Wire:
    """A transport as asyncio's: what is written after the end is an error."""

    def __init__(self) -> None:
        self.written = b""
        self.is_ended = False

    def write(self, data: bytes) -> None:
        assert data
        assert not self.is_ended, "written after the end"
        self.written += data

    def write_eof(self) -> None:
        self.is_ended = True

    def can_write_eof(self) -> bool:
        return True

    close = abort = write_eof

    def is_closing(self) -> bool:
        return self.is_ended

    def get_extra_info(self, _name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    pause_reading = resume_reading = lambda _self: None


_PACKETS: list[Packet] = [
    Connect("a", 5),
    Connect("", 4, clean_start=False),
    Pingreq(),
    Publish("t", b"x"),
    Disconnect(),
]
_PIECES = st.one_of(
    st.sampled_from([_UPGRADE, _PLAIN, b"\r\n", b"\xff" * 20, _frame(Opcode.CLOSE, b""), _frame(Opcode.TEXT, b"t")]),
    st.binary(max_size=3).map(lambda data: _frame(Opcode.PING, data)),
    st.lists(st.sampled_from(_PACKETS), max_size=3).map(
        lambda packets: _frame(Opcode.BINARY, b"".join(encode(packet, 5) for packet in packets))
    ),
)


@given(
    st.lists(st.lists(_PIECES, min_size=1).map(b"".join) | st.sampled_from(["pause", "resume", "eof", "taken over"])),
    st.booleans(),
)
def test_any_input_is_answered_in_order_or_ends_the_connection(steps: list[bytes | str], opens: bool) -> None:
    joined = MemoryNode()
    websocket, wire = WebSocket(Inbound(Host(joined.node, lambda: joined.now), joined.door), "/mqtt", 1000), _Wire()
    websocket.connection_made(wire)
    is_blocked = False
    if opens:
        websocket.data_received(_UPGRADE + _frame(Opcode.BINARY, encode(Connect("a", 5), 5)))
    for step in steps:
        if isinstance(step, bytes):
            before = len(wire.written)
            if not wire.is_ended:
                websocket.data_received(step)
            joined.turn()
            if is_blocked and opens:
                assert b"\x8a" not in (frame[:1] for frame in _frames(wire.written[before:]))
        elif step == "taken over":
            joined.connect("a")
        elif step == "eof":
            websocket.eof_received()
            break
        else:
            is_blocked = step == "pause"
            (websocket.pause_writing if is_blocked else websocket.resume_writing)()
    head, _, frames = wire.written.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 101"):
        for frame in _frames(frames):
            if frame[:1] == b"\x82":
                assert len(Framer().feed(frame[2:])[1]) == 1
    elif head:
        assert head.startswith(b"HTTP/1.1 4")


def _frames(data: bytes) -> list[bytes]:
    """The frames of a server, all short."""
    frames = []
    while data:
        size = 2 + data[1]
        frames.append(data[:size])
        data = data[size:]
    return frames
