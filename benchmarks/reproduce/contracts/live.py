"""Two nodes as processes, the producer's and another, over sockets and from a domain file; and the processor time that
a publication takes at each."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.brokers import Process
from benchmarks.reproduce.statements.live import TIMEOUT, Client, connected, nodes, settings
from benchmarks.xacml import policy_set
from examples.nodes import free_ports
from penstock.policy.xacml import show_policy
from penstock.wire.packet import Publish

TOPIC = "paris/pollution/45"
URI = "paris://henri_martin_avenue./sensors/45/"
_AT_ONCE = 50
"""Publications that are sent before their arrival is waited for."""
_PROD, _OTHER = "prod", "other"


class Cost(NamedTuple):
    """Microseconds of a publication, at the producer's node and at the other."""

    prod: float
    other: float


class Extent(NamedTuple):
    """How much is measured: the least of the rounds counts, after some publications that do not."""

    rounds: int = 5
    publications: int = 1_000
    before: int = 500
    most: int = 10_000
    """The greatest value of what is varied."""
    lines: int = 10
    """The number of lines of a figure."""


def notification(metadata: int = 0, is_xml: bool = True) -> bytes:
    """A notification with so many quality metadata, as Listings 1 and 3 look for them."""
    if not is_xml:
        values = ",".join(
            f'{{"indicator":"{at}","criterion":"{at}.1","definition":"{at}.1","value":50}}' for at in range(metadata)
        )
        about = f'"observable":{{"uri":"#pollution","entity":{{"uri":"{URI}"}}}}'
        return f'{{"observation":{{{about},"value":12}},"qoc":[{values}]}}'.encode()
    quality = "".join(
        f'<qocindicator id="{at}"><qocriterion id="{at}.1"><qocmetricdefinition id="{at}.1"/></qocriterion>'
        f'<qocmetricvalue value="50"/></qocindicator>'
        for at in range(metadata)
    )
    return (
        f"<observation><observable><uri>#pollution</uri><entity><uri>{URI}</uri></entity></observable>"
        f"<value>12</value>{quality}</observation>"
    ).encode()


def listing_1(sensor: str = "45") -> str:
    """The condition of Listing 1, on one sensor."""
    uri = URI.replace("45", sensor)
    return f"""xpath("//observable[uri='#pollution' and entity[uri='{uri}']]") != []"""


def searching(sensor: str = "45") -> str:
    """The same in a form that no index helps with, as each part of it may stand anywhere."""
    return (
        f"""xpath("//observable[contains(uri, '#pollution') and contains(entity/uri, '/sensors/{sensor}/')]") != []"""
    )


@dataclass
class Setup:
    """A producer at one node, with an advertisement filter, and consumers at the other."""

    consumers: int
    wheres: Sequence[str] = ("",)
    """A subscription for each, of the consumers in turn."""
    payload: bytes = field(default_factory=notification)
    advertised: str = field(default_factory=listing_1)
    more: dict[str, Any] = field(default_factory=dict)
    policies: int = 0
    """XACML policies as in Listing 2, of which the last fits; with so many `purposes` each."""
    purposes: int = 1
    subscribers: int = 0
    """Of the consumers, how many subscribe; 0: all."""

    def domain(self, ports: dict[str, int], folder: Path) -> dict[str, Any]:
        names = [f"consumer{at}" for at in range(self.consumers)]
        given = {f"purpose-{at}": "health" for at in range(self.purposes if self.policies else 0)}
        consumer = {"node": _OTHER, "groups": ["INCOME"], **({"attributes": given} if given else {})}
        advertised = {"name": "air", "filter": "paris/#", "where": self.advertised, "scope": "local"}
        whole: dict[str, Any] = {
            "domain": "contracts",
            "nodes": {name: settings(port) for name, port in ports.items()},
            "links": [{"between": [_PROD, _OTHER]}],
            "clients": {
                "producer": {"node": _PROD, "advertises": [advertised]},
                **{name: dict(consumer) for name in names},
            },
            **self.more,
        }
        if self.policies:
            file = folder / "listing-2.xml"
            file.write_text(show_policy(policy_set(self.policies, self.purposes)), "utf-8")
            asked = {"resource.id": "resource-id", "action.id": "action-id"}
            private = {"name": "listing-2", "topics": "paris/#", "policies": [str(file)], "attributes": asked}
            whole["privacy"] = [{**private, "resource": {"id": f"resource-{self.policies - 1}"}}]
        return whole


def measure(setup: Setup, extent: Extent) -> Cost:
    """The least of the rounds, as other work on the machine only makes it longer; checks that all arrives."""
    ports = dict(zip((_PROD, _OTHER), free_ports(2), strict=True))
    with tempfile.TemporaryDirectory() as folder, nodes(setup.domain(ports, Path(folder)), ports) as processes:
        costs = asyncio.run(_measure(setup, extent, ports, processes))
    return Cost(min(cost.prod for cost in costs), min(cost.other for cost in costs))


async def _measure(setup: Setup, extent: Extent, ports: dict[str, int], processes: dict[str, Process]) -> list[Cost]:
    producer = await connected(ports[_PROD], "producer")
    names = [f"consumer{at}" for at in range(setup.subscribers or setup.consumers)]
    consumers = [await connected(ports[_OTHER], name) for name in names]
    for at, where in enumerate(setup.wheres):
        await consumers[at % len(consumers)].subscribe("paris/#", where=where, name=str(at))
    first = consumers[0]
    async with asyncio.timeout(TIMEOUT):
        while not first.got:  # the nodes are still telling each other who wants it
            producer.send(Publish(TOPIC, setup.payload))
            await asyncio.sleep(0.1)
    await asyncio.sleep(0.2)
    await _publish(producer, first, setup.payload, extent.before)
    costs = []
    for _ in range(extent.rounds):
        before = {name: process.own_cpu_seconds() for name, process in processes.items()}
        await _publish(producer, first, setup.payload, extent.publications)
        used = {name: process.own_cpu_seconds() - before[name] for name, process in processes.items()}
        costs.append(Cost(*(used[name] / extent.publications * 1e6 for name in (_PROD, _OTHER))))
    for client in (producer, *consumers):
        client.close()
    return costs


async def _publish(producer: Client, consumer: Client, payload: bytes, count: int) -> None:
    """Publish so many, and wait until all have come."""
    for start in range(0, count, _AT_ONCE):
        some = min(_AT_ONCE, count - start)
        due = len(consumer.got) + some
        for _ in range(some):
            producer.send(Publish(TOPIC, payload))
        await consumer.wait_for(due)
