"""Real nodes, clients on sockets, and taps: what goes between two nodes is seen by what stands between them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.brokers import Broker, Process, penstock_program, start
from examples.nodes import free_ports
from penstock.engine.federation.messages import INTEREST
from penstock.engine.sessions.advertise import ADVERTISE, UNADVERTISE
from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Packet, Publish, Subscribe, SubscriptionRequest, Unsubscribe
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.stream import StreamDecoder

TIMEOUT = 30.0


@contextlib.contextmanager
def nodes(domain: dict[str, Any], ports: dict[str, int]) -> Iterator[dict[str, Process]]:
    """The nodes of a domain, started and listening."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        file = Path(name) / "domain.yaml"
        file.write_text(yaml.safe_dump(domain, sort_keys=False))
        nodes = {}
        for node, port in ports.items():
            command = [penstock_program(), "run", str(file), "--node", node]
            nodes[node] = start(Broker(node, "penstock", "", lambda *_, line=command: line), port, Path(name))
            stack.callback(nodes[node].stop)
        for process in nodes.values():
            process.wait_until_listening()
        yield nodes


def settings(port: int) -> dict[str, Any]:
    """A node in a domain file."""
    return {"listen": f"127.0.0.1:{port}", "store": "memory", "sys_interval": 0}


class Client(asyncio.Protocol):
    """A client of a node, which counts the bytes of what it gets."""

    def __init__(self, name: str) -> None:
        self.got: list[tuple[float, Publish]] = []
        """The received packets, and when."""
        self.bytes = 0
        self._name = name
        self._decoder = StreamDecoder(version=5)
        self._answers: asyncio.Queue[Packet] = asyncio.Queue()
        self._transport: asyncio.Transport
        self._came = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self.bytes += len(data)
        for packet in self._decoder.feed(data):
            if isinstance(packet, Publish):
                self.got.append((now, packet))
                self._came.set()
            else:
                self._answers.put_nowait(packet)

    def send(self, packet: Packet) -> None:
        self._transport.write(encode(packet, 5))

    async def ask(self, packet: Packet) -> Packet:
        """Send something and wait for the answer."""
        self.send(packet)
        return await asyncio.wait_for(self._answers.get(), TIMEOUT)

    async def subscribe(self, filter: str, where: str = "", name: str = "", policy: str = "") -> Packet:
        user_properties = tuple(pair for pair in (("where", where), ("name", name), ("policy", policy)) if pair[1])
        properties = Properties(user_properties=user_properties) if user_properties else NO_PROPERTIES
        return await self.ask(Subscribe(1, (SubscriptionRequest(filter, 0),), properties))

    async def unsubscribe(self, filter: str, name: str) -> Packet:
        return await self.ask(Unsubscribe(1, (filter,), Properties(user_properties=(("name", name),))))

    async def advertise(self, name: str, filter: str, policy: str = "") -> Packet:
        user_properties = {"name": name, "filter": filter, **({"policy": policy} if policy else {})}
        return await self.ask(Publish(ADVERTISE, json.dumps(user_properties).encode(), 1, packet_id=1))

    async def unadvertise(self, name: str) -> Packet:
        return await self.ask(Publish(UNADVERTISE, json.dumps({"name": name}).encode(), 1, packet_id=1))

    async def wait_for(self, count: int) -> None:
        """Wait until so many publications have come in all."""
        while len(self.got) < count:
            self._came.clear()
            await asyncio.wait_for(self._came.wait(), TIMEOUT)

    def close(self) -> None:
        self._transport.close()


async def connected(port: int, name: str) -> Client:
    """A client, connected."""
    _, client = await asyncio.get_running_loop().create_connection(lambda: Client(name), "127.0.0.1", port)
    await client.ask(Connect(name, 5, keepalive=0))
    return client


class Tap:
    """Stands between two nodes, hands on all that goes either way, and notes it."""

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self.control: list[tuple[float, str, int]] = []
        """The kind and time of each control message, and its part of the packet's bytes."""
        self.events: list[tuple[float, int]] = []
        """The time of each publication, and its bytes."""

    @contextlib.asynccontextmanager
    async def towards(self, port: int) -> AsyncIterator[Tap]:
        """Listen for one node, and dial the other on this port."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            node_reader, back = await asyncio.open_connection("127.0.0.1", port)
            # Nodes and taps end in any order; what is under way then is of no interest.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(self._hand_on(reader, back), self._hand_on(node_reader, writer))

        server = await asyncio.start_server(serve, "127.0.0.1", self.port)
        try:
            yield self
        finally:
            server.close()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = StreamDecoder(version=5)
        while data := await reader.read(1 << 16):
            writer.write(data)
            now = time.perf_counter()
            for packet in decoder.feed(data):
                if isinstance(packet, Publish):
                    self._note(now, packet)
        writer.close()

    def _note(self, now: float, packet: Publish) -> None:
        if packet.topic != INTEREST:
            self.events.append((now, len(encode(packet, 5))))
            return
        user_properties: dict[str, Any] = json.loads(packet.payload)
        for key, kind in KINDS.items():
            for entry in user_properties.get(key, ()):
                self.control.append((now, kind, len(json.dumps(entry, separators=(",", ":")))))


KINDS = {"offer": "advertisement", "withdraw": "unadvertisement", "add": "subscription", "remove": "unsubscription"}
"""Name the control messages between nodes as the paper does."""
