"""Fig. 5: the traffic that is saved where attributes are removed that a subscriber does not want."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

from benchmarks.reproduce.statements.live import connected, nodes, settings
from benchmarks.reproduce.statements.policies import EVERYTHING, removing
from examples.nodes import free_ports
from penstock.wire.packet import Publish

STREAMS = (10, 20, 30)
"""Attributes of a publication."""
PUBLICATIONS = 100


class Traffic(NamedTuple):
    """Bytes of one publication on its way to a subscriber, on average."""

    attributes: int
    removed: int
    full: float
    trimmed: float


def measure(step: int = 2, publications: int = PUBLICATIONS) -> list[Traffic]:
    """Each stream, with more and more attributes removed."""
    return asyncio.run(_measure(step, publications))


async def _measure(step: int, publications: int) -> list[Traffic]:
    port = free_ports(1)[0]
    domain = {"nodes": {"main": settings(port)}, "statements": {"grants": [EVERYTHING]}}
    traffic = []
    with nodes(domain, {"main": port}):
        publisher = await connected(port, "publisher")
        for count in STREAMS:
            names = [f"a{number}" for number in range(1, count + 1)]
            for removed in range(0, count + 1, step):
                full = await connected(port, "full")
                trimmed = await connected(port, "trimmed")
                await full.subscribe("stream")
                await trimmed.subscribe("stream", policy=removing(names[count - removed :]))
                before = full.bytes, trimmed.bytes
                for number in range(publications):
                    values = {name: number * 1_000 + place for place, name in enumerate(names)}
                    payload = json.dumps({"class": "event", **values}, separators=(",", ":")).encode()
                    publisher.send(Publish("stream", payload))
                for client in (full, trimmed):
                    await client.wait_for(publications)
                    client.close()
                sizes = [client.bytes - size for client, size in zip((full, trimmed), before, strict=True)]
                traffic.append(Traffic(count, removed, sizes[0] / publications, sizes[1] / publications))
        publisher.close()
    return traffic
