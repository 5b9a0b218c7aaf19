"""A plant on sockets: edge nodes that give birth and report, two applications that read; and how long it takes.

One process plays all clients, so that one clock tells when a message was sent and when it came. The time stands in the
payload's timestamp, in microseconds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict

from benchmarks.reproduce.sparkplug.deployments import PRIMARY, SECONDARY, Deployment, topic
from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Publish, Subscribe, SubscriptionRequest, WillMessage
from penstock.wire.stream import StreamDecoder

Times = dict[str, list[float]]
"""By message type, seconds from publishing to receiving."""

PERIOD = 2.0
"""Seconds between two reports of an edge node or device."""
BIRTHS_PER_SECOND = 400
_SETTLED = 0.5


def payload(names: list[str], seq: int, draw: random.Random, birth: bool) -> bytes:
    """A message with these metrics, sent now."""
    metrics = b"".join(_metric(name, draw.randrange(100), birth) for name in names)
    return b"\x08" + _varint(time.time_ns() // 1000) + metrics + b"\x18" + _varint(seq)


def _metric(name: str, value: int, birth: bool) -> bytes:
    alias = int(name[1:])
    metric = (
        (_field(0x0A, name.encode()) if birth else b"") + b"\x10" + _varint(alias) + b"\x20\x03\x50" + _varint(value)
    )
    return _field(0x12, metric)


def _field(tag: int, body: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*data, number))


def sent_at(message: bytes) -> float:
    """Return when a message was sent: its first field is the timestamp."""
    number, shift, at = 0, 0, 1
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return number / 1e6


class _Client(asyncio.Protocol):
    """A client of the broker; what it gets is timed as it arrives."""

    def __init__(self, name: str, times: Times, will: WillMessage | None = None) -> None:
        self._name = name
        self._times = times
        self._will = will
        self._decoder = StreamDecoder(version=5)
        self._transport: asyncio.Transport
        self.ready = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send(Connect(self._name, 5, keepalive=0, will=self._will))

    def data_received(self, data: bytes) -> None:
        now = time.time_ns() / 1e9
        for packet in self._decoder.feed(data):
            if isinstance(packet, Publish):
                kind = packet.topic.split("/")[2]
                self._times[kind].append(now - sent_at(packet.payload))
            else:
                self.ready.set()

    def send(self, packet: Connect | Publish | Subscribe) -> None:
        self._transport.write(encode(packet, 5))

    def close(self) -> None:
        self._transport.close()


async def measure(port: int, deployment: Deployment, seconds: float, seed: int, load: float = 1) -> dict[str, Times]:
    """Play a deployment against the broker on a port, with so many times the reports; the times of each application."""
    times: dict[str, Times] = {name: defaultdict(list) for name in (PRIMARY, SECONDARY)}
    clients = {}
    for name, own in times.items():
        clients[name] = await _connected(port, name, own)
        clients[name].ready.clear()
        clients[name].send(Subscribe(1, (SubscriptionRequest("spBv1.0/G/#", 0),)))
        await clients[name].ready.wait()
    draw = random.Random(seed)
    edges = {f"E{at}": await _connected(port, f"E{at}", defaultdict(list)) for at in range(deployment.edges)}
    seqs = dict.fromkeys(edges, -1)

    def publish(edge: str, device: str, kind: str) -> None:
        names = deployment.metrics(device)
        if kind == "DATA":
            names = draw.sample(names, max(1, len(names) // 2))
        seqs[edge] = (seqs[edge] + 1) % 256
        edges[edge].send(Publish(topic(edge, device, kind), payload(names, seqs[edge], draw, kind == "BIRTH")))

    sources = list(deployment.sources())
    await _paced([(*source, "BIRTH") for source in sources], len(sources) / BIRTHS_PER_SECOND, publish)
    rounds = max(1, round(seconds * load / PERIOD))
    for _ in range(rounds):
        draw.shuffle(sources)
        await _paced([(*source, "DATA") for source in sources], PERIOD / load, publish)
    await asyncio.sleep(_SETTLED)
    for client in (*clients.values(), *edges.values()):
        client.close()
    return times


async def _connected(port: int, name: str, times: Times) -> _Client:
    _, client = await asyncio.get_running_loop().create_connection(lambda: _Client(name, times), "127.0.0.1", port)
    await client.ready.wait()
    return client


async def _paced(publications: list[tuple[str, str, str]], seconds: float, publish: object) -> None:
    """Publish all of it, evenly over so many seconds."""
    assert callable(publish)
    began = time.monotonic()
    for number, publication in enumerate(publications):
        due = began + seconds * number / len(publications)
        delay = due - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        publish(*publication)
