"""MQTT inside WebSocket: paho's, and the `websockets` client for what paho would never send."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError
from websockets.typing import Subprotocol

from penstock.wire.codec import encode
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
from penstock.wire.stream import StreamDecoder
from tests.support.clients.paho import Paho
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
