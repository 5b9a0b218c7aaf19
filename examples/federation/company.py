"""The federation of the example: six nodes in one process, a client at each, an operator, and what is asked of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from examples.narration import PATIENCE, wait_for
from examples.nodes import NodeProcess
from penstock.client import Client, Event, Subscription, request_token

NODES = ("b1", "b2", "b3", "b4", "b5", "b6")
PORTS = {node: 1883 + place for place, node in enumerate(NODES)}
ADMIN = {node: 8080 + place for place, node in enumerate(NODES)}
"""Ports of the domain file."""
CLIENTS = {f"c{node[1:]}": node for node in NODES}
EVIDENCE = "$penstock/evidence"


async def until(happened: Callable[[], bool]) -> bool:
    """Whether it happens in time."""
    return await asyncio.to_thread(wait_for, happened)


class Moment(NamedTuple):
    """One message of c2: whether it was true, whom it reached beyond b2, and how things stood then."""

    is_true: bool
    reached: int
    rating: float
    """Of b2, as b4 rates it."""
    other: float
    """Of b3, as b4 rates it."""


class Reader:
    """Somebody who notes down what comes from elsewhere."""

    def __init__(self, name: str, subscription: Subscription) -> None:
        self.read: list[Event] = []
        self._own = topic_of(name)
        self._subscription = subscription
        self._task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async for event in self._subscription:
            if event.topic != self._own:
                self.read.append(event)

    def numbers(self) -> list[Any]:
        return [event.attributes["number"] for event in list(self.read)]


def topic_of(client: str) -> str:
    return f"air/{CLIENTS[client]}/temperature"


class Company:
    """The nodes, the clients, and who reads what."""

    def __init__(self, folder: Path, nodes: dict[str, NodeProcess], stack: AsyncExitStack) -> None:
        self.folder = folder
        (self.process,) = nodes.values()
        self.process.command = ("run", "domain.yaml")  # all nodes
        self.stack = stack
        self.clients: dict[str, Client] = {}
        self.readers: dict[str, Reader] = {}
        self.moments: list[Moment] = []
        self._number = 0
        self._due: dict[str, list[int]] = {name: [] for name in CLIENTS}
        """By reader, the numbers of messages that explanations said it would get."""

    def admin(self, node: str) -> str:
        return f"http://127.0.0.1:{self.process.port(ADMIN[node])}"

    def token(self, name: str, node: str) -> str:
        """A token from the node's authorisation endpoint."""
        return request_token(self.admin(node), name, f"{name}-demo")

    def client(self, name: str, node: str, token: str) -> Client:
        return Client("127.0.0.1", self.process.port(PORTS[node]), client_id=name, username=name, token=token)

    async def connect(self, name: str, node: str) -> Client:
        token = await asyncio.to_thread(self.token, name, node)
        return await self.stack.enter_async_context(self.client(name, node, token))

    async def joins(self, name: str) -> None:
        """A client connects to its node, and reads what others say."""
        self.clients[name] = client = await self.connect(name, CLIENTS[name])
        self.readers[name] = Reader(name, await client.subscribe("air/#"))

    # --- what the nodes say

    def trust(self, node: str) -> dict[str, Any]:
        """What a node holds of its neighbours, and the paths that it knows."""
        found: dict[str, Any] = json.loads(self.process.page(ADMIN[node], "/api/trust"))["trust"]
        return found

    def rating(self, of: str, by: str) -> float:
        return round(float(self.trust(by)["neighbours"][of]["rating"]), 3)

    def paths(self, node: str) -> dict[str, float]:
        """By origin, the least trustworthy path to a node."""
        return {origin: round(float(path["rating"]), 3) for origin, path in self.trust(node)["paths"].items()}

    def explain(self, client: str, celsius: float = 21.5) -> dict[str, Any]:
        """What would become of a message; nothing is published to find out."""
        asked = [("from", client), ("topic", topic_of(client)), ("payload", json.dumps({"celsius": celsius}))]
        asked += [("to", name) for name in CLIENTS if name != client]
        told: dict[str, Any] = json.loads(self.process.page(ADMIN[CLIENTS[client]], f"/api/explain?{urlencode(asked)}"))
        return told

    def reaches(self, client: str, celsius: float = 21.5) -> list[str]:
        """Whom a message would reach."""
        receivers = self.explain(client, celsius)["receivers"]
        return [name for name, one in receivers.items() if one["gets"]]

    def admitted(self, client: str, node: str) -> list[str]:
        """What admission at a node says of a message, by each way that it comes there."""
        decided = [one for one in self.explain(client)["decisions"] if one["node"] == node]
        first = ((one["came_by"]["source"], one["verdicts"][0]) for one in decided)
        return list(dict.fromkeys(f"from {source}: {said['effect']}, {said['reason']}" for source, said in first))

    # --- what is done

    async def says(self, client: str, celsius: float) -> list[str]:
        """A client publishes; whom it has reached, which are those whom the explanation names."""
        expected = await asyncio.to_thread(self.reaches, client, celsius)
        self._number += 1
        number = self._number
        await self.clients[client].publish(topic_of(client), {"celsius": celsius, "number": number})
        for name in expected:
            self._due[name].append(number)
        if not await until(lambda: all(number in self.readers[name].numbers() for name in expected)):
            raise SystemExit(f"message {number} of {client} was to reach {expected}, and did not")
        return expected

    async def c2_says(self, celsius: float, is_true: bool = True) -> list[str]:
        """The same, with a note of how things stand after it."""
        reached = await self.says("c2", celsius)
        if not is_true and "c4" in reached:
            await self.clients["c4"].rate(self.readers["c4"].read[-1], good=False)
        held = (await asyncio.to_thread(self.trust, "b4"))["neighbours"]
        self.moments.append(Moment(is_true, len(reached), *(round(held[name]["rating"], 3) for name in ("b2", "b3"))))
        return reached

    def nothing_else_came(self) -> bool:
        """Whether everybody got what it was to get, and no more."""
        return all(sorted(reader.numbers()) == sorted(self._due[name]) for name, reader in self.readers.items())

    async def apply(self, node: str, neighbour: str, good: float, bad: float = 0.0) -> None:
        """The operator has a node hold this of a neighbour."""
        held = {"neighbour": neighbour, "good": good, "bad": bad, "at": time.time()}
        async with asyncio.timeout(PATIENCE):
            await self.clients[f"operator@{node}"].publish(EVIDENCE, held)
