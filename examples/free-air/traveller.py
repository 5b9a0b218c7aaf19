"""The nodes of the example in one process, everybody who produces and consumes context, and who saw what."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from app import FreeAir
from on_spark import SPARK_PATIENCE, SparkCapsule

from examples.narration import PATIENCE, wait_for
from examples.nodes import NodeProcess
from penstock.client import Client, Event, Subscription
from penstock.language.evaluators.times import timestamp_from_string
from penstock.model.content.content import Format
from penstock.policy.quality.observation import ContextObservation, write_observation

NODES = ("phone", "mobile", "city", "rescue")
PORTS = {node: 1883 + place for place, node in enumerate(NODES)}
ADMIN = {node: 8080 + place for place, node in enumerate(NODES)}
"""Ports of the domain file."""
PLACES = {
    "bob-phone": "phone",
    "bob-wrist": "phone",
    "ads": "mobile",
    "paris-sensors": "city",
    "free-air": "city",
    "city-emergency": "rescue",
}
READS = {
    "free-air": ("#",),
    "city-emergency": ("#",),
    "ads": ("#",),
    "bob-phone": ("free-air/bob/alert", "bell"),
}
"""Who subscribes to what. Three to everything, so that nothing stands between them and Bob but contracts."""
PASSWORDS = {"bob-health-capsule": "bob-health-capsule-demo"}
LOCATION, VITALS, HEALTH, ALERT = "paris/bob/location", "paris/bob/vitals", "paris/bob/health", "free-air/bob/alert"
TEMPERATURE, BODY_TEMPERATURE, BOB = "paris/bob/temperature", "#body-temperature", "paris://bob/"
OPENED, CLOSED = "`life-hazard` opened by", "`life-hazard` closed by"
"""What the nodes' log says of the situation."""

Point = tuple[float, float]
Vitals = tuple[float, float, float]
"""Pulse, temperature, and how much of the ECG's beats is irregular."""
ROUTE: tuple[Point, ...] = (
    (48.8632, 2.2703),  # La Muette, then avenue Henri-Martin
    (48.8642, 2.2790),
    (48.8629, 2.2873),  # Trocadéro
    (48.8584, 2.2945),  # Tour Eiffel
    (48.8525, 2.3035),  # École militaire
    (48.8566, 2.3125),  # Invalides
    (48.8637, 2.3136),  # pont Alexandre III
    (48.8656, 2.3212),  # Concorde
)
SENSORS: dict[str, tuple[str, Point, float]] = {
    "45": ("avenue Henri-Martin", (48.8640, 2.2762), 72.0),
    "12": ("Trocadéro", (48.8622, 2.2885), 38.0),
    "27": ("quai Branly", (48.8597, 2.2950), 64.0),
    "31": ("Champ-de-Mars", (48.8556, 2.2986), 17.0),
    "8": ("Invalides", (48.8566, 2.3125), 29.0),
    "3": ("Concorde", (48.8650, 2.3205), 58.0),
}


async def until(happened: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether it happens in time."""
    return await asyncio.to_thread(wait_for, happened, patience)


def walk(count: int) -> list[Point]:
    """So many places of the route, one as far from the next as the other."""
    lengths = [((c - a) ** 2 + ((d - b) * 0.658) ** 2) ** 0.5 for (a, b), (c, d) in pairwise(ROUTE)]
    places = []
    for place in range(count):
        left = sum(lengths) * place / (count - 1)
        leg = 0
        while leg < len(lengths) - 1 and left > lengths[leg]:
            left -= lengths[leg]
            leg += 1
        (a, b), (c, d), share = ROUTE[leg], ROUTE[leg + 1], left / lengths[leg]
        places.append((round(a + (c - a) * share, 6), round(b + (d - b) * share, 6)))
    return places


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def temperature(celsius: float, noise: float) -> bytes:
    """What the wrist device says of Bob's temperature: an observation, in XML."""
    at = timestamp_from_string(now())
    said = write_observation(ContextObservation(BODY_TEMPERATURE, BOB, at, str(celsius)), Format.XML)
    return said.replace(b"</observation>", f"<noise>{noise}</noise></observation>".encode())


class Stop(NamedTuple):
    """One place of the walk, and where each consumer saw Bob then."""

    at: Point
    is_hazard: bool
    seen: dict[str, Point]


class Reader:
    """Somebody who notes down what comes, and the bells that are heard."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self.read: list[Event] = []
        self.bells: set[int] = set()
        self._tasks = [asyncio.create_task(self._take(one)) for one in subscriptions]

    async def _take(self, subscription: Subscription) -> None:
        async for event in subscription:
            if event.topic == "bell":
                self.bells.add(int(event.payload))
            else:
                self.read.append(event)


class City:
    """The nodes, the clients, and who saw what."""

    def __init__(self, folder: Path, nodes: dict[str, NodeProcess], stack: AsyncExitStack) -> None:
        self.folder = folder
        (self.process,) = nodes.values()
        self.process.command = ("run", "domain.yaml")  # all nodes
        self.stack = stack
        self.clients: dict[str, Client] = {}
        self.bells: dict[str, Client] = {}
        self.readers: dict[str, Reader] = {}
        self.capsule: SparkCapsule | None = None
        self.is_danger = False
        self.app = FreeAir()
        self.walk = walk(24)
        self.stops: list[Stop] = []
        self._bell = 0

    async def opens(self) -> None:
        """Everybody connects and subscribes; then the way from each node to each is there."""
        for name, node in PLACES.items():
            self.clients[name] = await self._connect(name, node)
        for node in NODES:
            self.bells[node] = await self._connect("clock", node)
        for name, filters in READS.items():
            self.readers[name] = Reader([await self.clients[name].subscribe(one) for one in filters])
        for node in NODES:
            while not await self._ring(node, patience=0.2):
                pass  # nodes are still telling each other who wants it

    async def _connect(self, name: str, node: str) -> Client:
        user = name if name in PASSWORDS else None
        port = self.process.port(PORTS[node])
        client = Client("127.0.0.1", port, client_id=name, username=user, password=PASSWORDS.get(name))
        return await self.stack.enter_async_context(client)

    async def _ring(self, node: str, patience: float) -> bool:
        """Whether everybody hears a bell at a node, and with it all that was published there before."""
        self._bell += 1
        bell = self._bell
        await self.bells[node].publish("bell", str(bell))
        return await asyncio.to_thread(
            wait_for, lambda: all(bell in reader.bells for reader in self.readers.values()), patience
        )

    async def says(self, name: str, topic: str, content: Any) -> dict[str, Event]:
        """Publish; who got what of it. Raises `Refused` if the node does not take it."""
        before = {reader: len(one.read) for reader, one in self.readers.items()}
        await self.clients[name].publish(topic, content)
        if not await self._ring(PLACES[name], patience=PATIENCE):
            raise SystemExit(f"not everybody heard what came after `{topic}` of {name}")
        came = {reader: one.read[before[reader] :] for reader, one in self.readers.items()}
        return {reader: event for reader, events in came.items() for event in events if event.topic == topic}

    async def measures(self, sensor: str, spread: float = 4.0) -> dict[str, Event]:
        """A pollution sensor says what it measures, with its spread."""
        street, (lat, lon), pm25 = SENSORS[sensor]
        said = {"street": street, "lat": lat, "lon": lon, "pm25": pm25, "spread": spread, "at": now()}
        got = await self.says("paris-sensors", f"paris/pollution/{sensor}", said)
        if "free-air" in got:
            self.app.measures(got["free-air"])
        return got

    async def goes_on(self, radius: float = 8.0) -> dict[str, Event]:
        """Bob walks on, and his phone says where he is, within a radius in metres; FreeAir may have some advice."""
        lat, lon = self.walk[len(self.stops)]
        said = {"lat": lat, "lon": lon, "radius": radius, "at": now()}
        got = await self.says("bob-phone", LOCATION, said)
        told = {name: json.loads(one.payload) for name, one in got.items()}
        seen = {name: (float(one["lat"]), float(one["lon"])) for name, one in told.items()}
        self.stops.append(Stop((lat, lon), self.is_danger, seen))
        return got

    async def feels(self, pulse: float, celsius: float, irregular: float, noise: float = 5.0) -> dict[str, Event]:
        """Bob's wrist device measures; who got what of it."""
        warm = await self.says("bob-wrist", TEMPERATURE, temperature(celsius, noise / 20))
        said = {"pulse": pulse, "irregular": irregular, "noise": noise, "at": now()}
        got = await self.says("bob-wrist", VITALS, said)
        if self.capsule is not None:  # it takes its time, and that in a node takes none
            await asyncio.sleep(0.2)
        return {**warm, **got}

    async def feels_until(self, is_danger: bool, vitals: Vitals) -> None:
        """The same, again and again, until the capsule has told the nodes that there is danger, or none."""
        word = OPENED if is_danger else CLOSED
        before = self.audited(word)
        end = time.monotonic() + (3 * PATIENCE if self.capsule is None else SPARK_PATIENCE)
        while self.audited(word) == before:
            if time.monotonic() > end:
                raise SystemExit(f"the log does not come to say {word}\n{self.capsule.log if self.capsule else ''}")
            await self.feels(*vitals)
        self.is_danger = is_danger

    def audited(self, *words: str) -> str:
        """The last line of the nodes' log about a situation that has these words."""
        return self.process.logged("situation", *words)
