"""Fig. 18 to 21: firewall subscriptions come and go between an external and an internal node.

A publisher at the external node is steady; an application at the internal one has subscribed to all of it. Then
somebody subscribes there with the policy of Fig. 22 to four fifths of it: by 100 subscriptions, or by one that is
merged of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from typing import NamedTuple

from benchmarks.brokers import Process
from benchmarks.reproduce.statements.live import Client, Tap, connected, nodes, settings
from benchmarks.reproduce.statements.policies import EVERYTHING, FIREWALL
from examples.nodes import free_ports
from penstock.wire.packet import Publish, Suback, Unsuback

EXTERNAL, INTERNAL = "external", "internal"
RANGES = 100
BLOCKED = 0.8
"""The part of all publications that is blocked."""
SCALE = 100_000
RATE = 200.0
"""Publications a second."""
BEFORE, DURING, AFTER = 4.0, 6.0, 4.0
"""Seconds without firewall, with it, and without it again."""
TICK = 0.5


class Interval(NamedTuple):
    """The events at both nodes from one tick to the next."""

    at: float
    """Seconds since the beginning, at its end."""
    published: float
    """Publications a second at the external node; and at the internal one."""
    arrived: float
    external: float
    """Seconds of processor time for each publication there; and at the internal node, if any arrived."""
    internal: float | None


class Run(NamedTuple):
    """One experiment."""

    title: str
    intervals: list[Interval]
    subscribing: list[tuple[float, float]]
    """The times when a firewall subscription was issued, and the seconds until it was acknowledged."""
    unsubscribing: list[tuple[float, float]]
    begins: float
    ends: float

    def mean_rates(self, start: float, end: float) -> tuple[float, float]:
        """Publications a second at both nodes in a time."""
        intervals = [interval for interval in self.intervals if start < interval.at - TICK and interval.at <= end]
        return (
            sum(interval.published for interval in intervals) / max(1, len(intervals)),
            sum(interval.arrived for interval in intervals) / max(1, len(intervals)),
        )


def conditions(is_merged: bool) -> list[str]:
    """Return the conditions that the firewall blocks."""
    last = int(SCALE * BLOCKED)
    if is_merged:
        return [f"class == 'C' && a >= 0 && a < {last}"]
    width = last // RANGES
    return [f"class == 'C' && a >= {low} && a < {low + width}" for low in range(0, last, width)]


def measure(shorter: float = 1.0) -> list[Run]:
    """With 100 subscriptions, and with one; `shorter` is the part of the time that is taken."""
    return [asyncio.run(_run(is_merged, shorter)) for is_merged in (False, True)]


async def _run(is_merged: bool, shorter: float) -> Run:
    external, internal = free_ports(2)
    tap = Tap()
    domain = {
        "nodes": {EXTERNAL: settings(external), INTERNAL: settings(internal)},
        "links": [{"between": [INTERNAL, EXTERNAL], "address": f"127.0.0.1:{tap.port}"}],
        "statements": {"grants": [EVERYTHING]},
    }
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(tap.towards(external))
        processes = stack.enter_context(nodes(domain, {EXTERNAL: external, INTERNAL: internal}))
        publisher = await connected(external, "publisher")
        application, guard = await connected(internal, "application"), await connected(internal, "guard")
        await application.subscribe("t", "class == 'C'")
        while not application.got:
            publisher.send(Publish("t", b'{"class": "C", "a": 0, "b": 0}'))
            await asyncio.sleep(0.1)
        begins, ends, end = (moment * shorter for moment in (BEFORE, BEFORE + DURING, BEFORE + DURING + AFTER))
        began = time.perf_counter()
        sent: list[float] = []
        watching = asyncio.create_task(_watch(processes, sent, tap, began, end))
        publishing = asyncio.create_task(_publish(publisher, sent, began + end + TICK))
        texts = conditions(is_merged)
        await asyncio.sleep(begins)
        came = [await _subscribe(guard, number, where, began) for number, where in enumerate(texts)]
        await asyncio.sleep(max(0.0, began + ends - time.perf_counter()))
        removed = [await _unsubscribe(guard, number, began) for number in range(len(texts))]
        await publishing
        intervals = await watching
        for client in (publisher, application, guard):
            client.close()
    title = "one merged firewall subscription" if is_merged else f"{len(texts)} firewall subscriptions"
    return Run(title, intervals, came, removed, begins, ends)


async def _subscribe(guard: Client, number: int, where: str, began: float) -> tuple[float, float]:
    at = time.perf_counter()
    answer = await guard.subscribe("t", where, str(number), FIREWALL)
    assert isinstance(answer, Suback), answer
    assert answer.reasons == (0,), answer
    return at - began, time.perf_counter() - at


async def _unsubscribe(guard: Client, number: int, began: float) -> tuple[float, float]:
    at = time.perf_counter()
    answer = await guard.unsubscribe("t", str(number))
    assert isinstance(answer, Unsuback), answer
    return at - began, time.perf_counter() - at


async def _publish(publisher: Client, sent: list[float], until: float) -> None:
    draw = random.Random("firewall")
    due = time.perf_counter()
    while due < until:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        publisher.send(Publish("t", json.dumps({"class": "C", "a": draw.randrange(SCALE)}).encode()))
        sent.append(time.perf_counter())
        due += 1 / RATE


async def _watch(
    processes: dict[str, Process], sent: list[float], tap: Tap, began: float, end: float
) -> list[Interval]:
    intervals = []
    tap.events.clear()

    def counted() -> tuple[float, int, int, float, float]:
        cpu = [processes[name].own_cpu_seconds() for name in (EXTERNAL, INTERNAL)]
        return time.perf_counter(), len(sent), len(tap.events), cpu[0], cpu[1]

    before = counted()
    while before[0] < began + end - TICK / 2:
        await asyncio.sleep(TICK)
        now = counted()
        seconds, published, arrived, external, internal = (new - old for new, old in zip(now, before, strict=True))
        intervals.append(
            Interval(
                now[0] - began,
                published / seconds,
                arrived / seconds,
                external / max(1, published),
                internal / arrived if arrived else None,
            )
        )
        before = now
    return intervals
