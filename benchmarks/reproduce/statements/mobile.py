"""Fig. 10 to 12: publishers that move from node to node, and what nodes tell each other because of it.

Links are `routed`: subscriptions go where something is advertised. With the policy of Fig. 8 at all nodes, they go
everywhere, and advertisements stay where they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from statistics import median
from typing import Any, NamedTuple

from benchmarks.reproduce.statements.live import Client, Tap, connected, nodes, settings
from benchmarks.reproduce.statements.policies import EVERYTHING, FLOODING
from examples.nodes import free_ports
from penstock.wire.packet import Publish

LINKS = (("n1", "n0"), ("n2", "n1"), ("n3", "n1"), ("n4", "n3"), ("n5", "n3"))
"""A tree of six nodes; who dials comes first."""
NODES = tuple(f"n{number}" for number in range(6))
SUBSCRIBERS = {"s0": "n0", "s1": "n2", "s2": "n5"}
"""The nodes where they are, and stay."""
PUBLISHERS = 4
MOVES = 12
SETTLED = 1.0
"""Seconds between two moves of all publishers."""
EACH = 3
"""Publications of a publisher between two moves."""
FILTER = "moving/#"
ADVERTISING, FLOODED = "advertisements flooded", "subscriptions flooded"


class Message(NamedTuple):
    """A control message from one node to another."""

    at: float
    kind: str
    bytes: int


class Run(NamedTuple):
    """One way to route, from the first subscription on; times are seconds since then."""

    way: str
    messages: list[Message]
    responses: list[tuple[float, float]]
    """The time of each publication, and the seconds until a subscriber had it."""
    missed: int
    """Notifications that never came."""

    @property
    def moving(self) -> list[Message]:
        """Return the messages after the first publishers had come: caused by their movement."""
        return [message for message in self.messages if message.at > SETTLED]

    def summary(self) -> dict[str, float]:
        counts = Counter(message.kind for message in self.moving)
        return {
            "control messages": float(len(self.moving)),
            "control bytes": float(sum(message.bytes for message in self.moving)),
            **{f"{kind}s": float(count) for kind, count in sorted(counts.items())},
            "median response, ms": median(seconds for _, seconds in self.responses) * 1000,
            "missed": float(self.missed),
        }


def measure(moves: int = MOVES) -> list[Run]:
    """Both ways to route."""
    return [asyncio.run(_run(way, moves)) for way in (ADVERTISING, FLOODED)]


async def _run(way: str, moves: int) -> Run:
    ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
    taps = {link: Tap() for link in LINKS}
    domain: dict[str, Any] = {
        "nodes": {name: settings(port) for name, port in ports.items()},
        "links": [
            {"between": list(link), "forward": "routed", "address": f"127.0.0.1:{tap.port}"}
            for link, tap in taps.items()
        ],
        "statements": {"grants": [EVERYTHING], "policies": {"flooding": FLOODING}},
    }
    if way == FLOODED:
        applied = {"policy": "flooding", "to": "advertisement", "at": list(NODES), "filter": FILTER}
        domain["statements"]["apply"] = [applied]
    async with contextlib.AsyncExitStack() as stack:
        for (_, parent), tap in taps.items():
            await stack.enter_async_context(tap.towards(ports[parent]))
        stack.enter_context(nodes(domain, ports))
        while not await _is_joined(ports):
            pass
        for tap in taps.values():
            tap.control.clear()
        began = time.perf_counter()
        readers = {name: await connected(ports[node], name) for name, node in SUBSCRIBERS.items()}
        for reader in readers.values():
            await reader.subscribe(FILTER)
        sent, count = await _play(ports, moves, FLOODING if way == FLOODED else "", began)
        for client in readers.values():
            client.close()
    messages = sorted(Message(at - began, kind, size) for tap in taps.values() for at, kind, size in tap.control)
    came = [
        (sent[packet.payload] - began, at - sent[packet.payload])
        for reader in readers.values()
        for at, packet in reader.got
        if packet.payload in sent
    ]
    return Run(way, messages, sorted(came), count * len(readers) - len(came))


async def _is_joined(ports: dict[str, int]) -> bool:
    """Return whether an event published at one end of the tree arrives at the other."""
    reader, publisher = await connected(ports["n5"], "reader"), await connected(ports["n0"], "publisher")
    await reader.subscribe("joined/#")
    await publisher.advertise("joined", "joined/#")
    for _ in range(20):
        await asyncio.sleep(0.2)
        publisher.send(Publish("joined/t", b"1"))
        await asyncio.sleep(0.1)
        if reader.got:
            break
    is_joined = bool(reader.got)
    await publisher.unadvertise("joined")
    for client in (reader, publisher):
        client.close()
    await asyncio.sleep(0.5)
    return is_joined


async def _play(ports: dict[str, int], moves: int, policy: str, began: float) -> tuple[dict[bytes, float], int]:
    """Let the publishers move and publish; when each payload was sent, and how many there were."""
    draw = random.Random("mobile")
    clients: list[Client | None] = [None] * PUBLISHERS
    places = list(range(PUBLISHERS))
    sent: dict[bytes, float] = {}
    for move in range(moves):
        for number, client in enumerate(clients):
            if client is not None:
                await client.unadvertise("moving")
                client.close()
            places[number] = (places[number] + draw.randrange(1, len(NODES))) % len(NODES)
            clients[number] = came = await connected(ports[NODES[places[number]]], f"p{number}")
            await came.advertise("moving", FILTER, policy)
        for sequence in range(EACH):
            await asyncio.sleep(SETTLED / (EACH + 1))
            for number, client in enumerate(clients):
                payload = f"{move} {number} {sequence}".encode()
                sent[payload] = time.perf_counter()
                assert client is not None
                client.send(Publish(f"moving/{number}", payload))
        await asyncio.sleep(SETTLED / (EACH + 1))
    for client in clients:
        if client is not None:
            client.close()
    await asyncio.sleep(SETTLED / 2)
    return sent, moves * PUBLISHERS * EACH
