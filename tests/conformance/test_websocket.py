"""MQTT inside WebSocket: MQTT 5 §6; MQTT 3.1.1 §6."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from penstock.wire.codec import encode
from penstock.wire.packet import Connack, Connect, Packet, Pingreq, Pingresp
from penstock.wire.stream import StreamDecoder
from tests.support.processes.server import REFERENCE, Server, Wishes, serving

MQTT = Subprotocol("mqtt")
Open = Callable[..., Awaitable[ClientConnection]]


@pytest.fixture(scope="module")
def web_server() -> Iterator[Server]:
    if REFERENCE:
        pytest.skip("Debian's Mosquitto does not listen for WebSocket on a loopback address")
    with serving(Wishes(websocket=True)) as running:
        yield running


@pytest.fixture
async def open_socket(web_server: Server) -> AsyncIterator[Open]:
    """WebSocket connections, closed at the end."""
    opened: list[ClientConnection] = []

    async def open_one(*offered: Subprotocol) -> ClientConnection:
        address = f"ws://{web_server.host}:{web_server.port}/mqtt"
        opened.append(await connect(address, subprotocols=offered or (MQTT,), compression=None))
        return opened[-1]

    yield open_one
    for each in opened:
        await each.close()


async def packets(socket: ClientConnection, count: int, version: int = 5) -> list[Packet]:
    """The next packets, however the server has cut them into frames."""
    decoder, got = StreamDecoder(version=version), list[Packet]()
    while len(got) < count:
        chunk = await socket.recv()
        assert isinstance(chunk, bytes), "[MQTT-6.0.0-1]"
        got += decoder.feed(chunk)
    return got


async def test_the_server_chooses_the_mqtt_subprotocol(open_socket: Open) -> None:
    """[MQTT-6.0.0-3] [MQTT-6.0.0-4]"""
    socket = await open_socket(Subprotocol("other"), MQTT)
    assert socket.subprotocol == "mqtt"


async def test_packets_come_in_binary_frames(open_socket: Open, version: int) -> None:
    """[MQTT-6.0.0-1]"""
    socket = await open_socket()
    await socket.send(encode(Connect("", version=version), version))
    (connack,) = await packets(socket, 1, version)
    assert isinstance(connack, Connack)
    assert connack.reason == 0


async def test_packets_need_not_keep_to_frames(open_socket: Open) -> None:
    """[MQTT-6.0.0-2]: parts of one packet in many frames, many packets in one."""
    socket = await open_socket()
    for byte in encode(Connect(""), 5):
        await socket.send(bytes([byte]))
    ping = encode(Pingreq(), 5)
    await socket.send(ping * 3 + ping[:1])
    await socket.send(ping[1:])
    connack, *pings = await packets(socket, 5)
    assert isinstance(connack, Connack)
    assert pings == [Pingresp()] * 4


async def test_a_text_frame_ends_the_connection(open_socket: Open) -> None:
    """[MQTT-6.0.0-1]"""
    socket = await open_socket()
    await socket.send(encode(Connect(""), 5))
    await packets(socket, 1)
    await socket.send(encode(Pingreq(), 5).decode("latin-1"))
    with pytest.raises(ConnectionClosed):
        await packets(socket, 1)
