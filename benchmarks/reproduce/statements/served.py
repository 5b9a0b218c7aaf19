"""Fig. 23 on sockets: the processor time of a whole node for a publication, reading and writing included."""

from __future__ import annotations

import asyncio
import contextlib
from statistics import median
from typing import NamedTuple

from benchmarks.reproduce.statements.live import Client, connected, nodes, settings
from benchmarks.reproduce.statements.policies import EVERYTHING, TRACING
from benchmarks.reproduce.statements.tracing import SUBSCRIBERS, SUBSCRIPTIONS, TOPIC, WORKLOAD, has_policy
from examples.nodes import free_ports
from penstock.wire.packet import Publish

SHARES = (0, 100)
BURST = 20
"""Publications that are sent at once; then all that they cause is waited for."""
PUBLICATIONS = 1_000


class Served(NamedTuple):
    """Processor time of one publication, in seconds."""

    share: int
    seconds: float
    added: float
    """The additional time compared with no policies, actions included."""


def measure(rounds: int, publications: int = PUBLICATIONS, subscriptions: int = SUBSCRIPTIONS) -> list[Served]:
    """A node without policies and one where every subscription has one, in turn."""
    return asyncio.run(_measure(rounds, publications, subscriptions))


async def _measure(rounds: int, publications: int, subscriptions: int) -> list[Served]:
    payloads = WORKLOAD.publications(publications)
    texts = [" && ".join(map(str, column)) for column in WORKLOAD.subscriptions(max(subscriptions, 500))][
        :subscriptions
    ]
    with contextlib.ExitStack() as stack:
        works = []
        for share in SHARES:
            port = free_ports(1)[0]
            domain = {"nodes": {"main": settings(port)}, "statements": {"grants": [EVERYTHING]}}
            process = stack.enter_context(nodes(domain, {"main": port}))["main"]
            readers = [await connected(port, f"reader{number}") for number in range(SUBSCRIBERS)]
            for number, where in enumerate(texts):
                policy = TRACING if has_policy(number, share) else ""
                await readers[number % SUBSCRIBERS].subscribe(TOPIC, where, str(number), policy)
            works.append((process, await connected(port, "publisher"), readers))
        times: list[list[float]] = [[] for _ in SHARES]
        for _ in range(rounds + 1):
            for (process, publisher, readers), seconds in zip(works, times, strict=True):
                before = process.own_cpu_seconds()
                await _publish(publisher, payloads)
                seconds.append((process.own_cpu_seconds() - before) / len(payloads))
                for reader in readers:
                    reader.got.clear()
    medians = [median(column[1:]) for column in times]
    more = [
        median(with_seconds - other for with_seconds, other in zip(column[1:], times[0][1:], strict=True))
        for column in times
    ]
    return [Served(*column) for column in zip(SHARES, medians, more, strict=True)]


async def _publish(publisher: Client, payloads: list[bytes]) -> None:
    for start in range(0, len(payloads), BURST):
        burst = payloads[start : start + BURST]
        for payload in burst[:-1]:
            publisher.send(Publish(TOPIC, payload))
        await publisher.ask(Publish(TOPIC, burst[-1], 1, packet_id=1))  # its answer says that all are through
