"""The company of the example: its nodes as processes, its people and programs as clients, and what is asked of both."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from examples.narration import PATIENCE, wait_for
from examples.nodes import NodeProcess
from penstock.client import Advertisement, Client, Subscription

PORTS = {"wages": 1883, "office": 1884, "dmz": 1885, "street": 1886}
ADMIN = {"wages": 8080, "office": 8081, "dmz": 8082, "street": 8083}
"""Ports of the domain file."""


async def until(happened: Callable[[], bool]) -> bool:
    """Whether it happens in time."""
    return await asyncio.to_thread(wait_for, happened)


class Reader:
    """Somebody who notes down what comes."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.read: list[dict[str, Any]] = []
        self._task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async for event in self.subscription:
            self.read.append(event.attributes)

    async def has(self, *contents: dict[str, Any]) -> bool:
        """Whether these come, in this order, and nothing else."""
        await until(lambda: len(self.read) >= len(contents))
        return self.read == list(contents)


class Company:
    """The nodes, the clients, and who reads what."""

    def __init__(self, folder: Path, nodes: dict[str, NodeProcess], stack: AsyncExitStack) -> None:
        self.folder = folder
        self.nodes = nodes
        self.stack = stack
        self.clients: dict[str, Client] = {}
        self.readers: dict[str, Reader] = {}
        self.slips: Advertisement | None = None
        self.filters: list[Subscription] = []
        """The firewall subscriptions that the guard has."""

    async def connect(self, name: str, node: str, *groups: str) -> Client:
        """Connect as a client that proves these groups."""
        known = {group: (self.folder / "secrets" / group).read_bytes() for group in groups}
        client = Client("127.0.0.1", self.nodes[node].port(PORTS[node]), client_id=name, groups=known)
        self.clients[f"{name}@{node}" if name in self.clients else name] = client
        return await self.stack.enter_async_context(client)

    async def read(self, name: str, filter: str, where: str | None = None) -> Reader:
        self.readers[name] = reader = Reader(await self.clients[name].subscribe(filter, where))
        return reader

    async def say(self, name: str, topic: str, content: dict[str, Any]) -> None:
        await self.clients[name].publish(topic, content)

    async def reaches(self, reader: Reader, name: str, topic: str, content: dict[str, Any]) -> bool:
        """Whether such content reaches a reader, once nodes have told each other that it is wanted; then all is
        forgotten that came of trying.
        """
        async with asyncio.timeout(PATIENCE):
            while not reader.read:
                await self.say(name, topic, content)
                await asyncio.sleep(0.05)
        await self.say(name, topic, {**content, "last": True})
        found = await until(lambda: "last" in reader.read[-1])
        reader.read.clear()
        return found

    def received(self, node: str) -> int:
        """How many publications a node has received, from clients and from other nodes."""
        page = self.nodes[node].page(ADMIN[node], "/metrics")
        count = re.search(r"^penstock_publications_received_total\{.*\} (\S+)$", page, re.M)
        return 0 if count is None else int(float(count[1]))

    def asked(self, content: dict[str, Any]) -> str:
        """What the inside asks for that an order of the shop satisfies."""
        said = [one for towards in self._towards("orders/0", content) for one in towards["verdicts"]]
        return " ".join(one["reason"] for one in said if one["stage"] == "match")

    def crosses(self, topic: str, content: dict[str, Any]) -> bool:
        """Whether the street would let this of the shop go on to the inside; nothing is published to find out."""
        return any(one["outputs"] for one in self._towards(topic, content))

    def _towards(self, topic: str, content: dict[str, Any]) -> list[dict[str, Any]]:
        """What the street decides about something of the shop towards the dmz."""
        asked = urlencode({"from": "shop", "topic": topic, "payload": json.dumps(content), "to": "dmz"})
        told = json.loads(self.nodes["street"].page(ADMIN["street"], f"/api/explain?{asked}"))
        return [one for one in told["decisions"] if one["goes_by"] and one["goes_by"]["target"] == "dmz"]

    def logged(self, node: str, *words: str) -> list[str]:
        """All lines of a node's log that have these words."""
        lines = self.nodes[node].log.read_text("utf-8").splitlines()
        return [line for line in lines if all(word in line for word in words)]
