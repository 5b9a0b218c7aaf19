"""Local and global is a property of each advertisement and each subscription (contracts §2.1), on one topic at once: at
live nodes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, Subscription
from tests.support.clients.library import client, take
from tests.support.processes.cable import Cable
from tests.support.processes.federation import Nodes

NODES = ("a", "b", "c")
MODES = {"b": "subscribed", "c": "advertised"}


@asynccontextmanager
async def joined(folder: Path) -> AsyncIterator[tuple[Nodes, dict[str, Cable]]]:
    """Nodes `b` and `c` dial `a`, one by subscriptions, one by advertisements; cables record what goes to each."""
    domain: dict[str, Any] = {"nodes": {name: {"store": "memory"} for name in NODES}}
    nodes = Nodes(folder, domain)
    async with Cable(nodes.ports["a"]) as first, Cable(nodes.ports["a"]) as second:
        cables = {"b": first, "c": second}
        links = [
            {"between": [name, "a"], "address": f"127.0.0.1:{cables[name].port}", "forward": mode}
            for name, mode in MODES.items()
        ]
        nodes.write({**domain, "links": links})
        try:
            await asyncio.to_thread(nodes.start, *NODES)
            for name in MODES:
                await asyncio.to_thread(nodes.until_logged, name, "linked")
            yield nodes, cables
        finally:
            await asyncio.to_thread(nodes.stop)


async def until_got(sensor: Client, subscription: Subscription, topic: str, payload: bytes) -> None:
    """Publish until it comes to a subscription, which takes as long as nodes tell each other."""
    async with asyncio.timeout(30):
        while not subscription.waiting:
            await sensor.publish(topic, payload)
            await asyncio.sleep(0.05)
    assert {event.payload for event in await take(subscription, subscription.waiting)} == {payload}


@pytest.mark.parametrize("there", ["b", "c"])
async def test_a_global_subscription_draws_events_over_each_link_and_a_local_one_over_none(
    tmp_path: Path, there: str
) -> None:
    async with (
        joined(tmp_path) as (nodes, cables),
        client(nodes.ports["a"], "sensor") as sensor,
        client(nodes.ports[there], "consumer") as consumer,
    ):
        local = await consumer.subscribe("t/1", scope="local")
        marks = await consumer.subscribe("mark", scope="global")
        await until_got(sensor, marks, "mark", b"0")
        await sensor.publish("t/1", b"nobody asks")
        await until_got(sensor, marks, "mark", b"1")
        assert b"nobody asks" not in cables[there].carried
        everywhere = await consumer.subscribe("t/1", scope="global", name="too")
        await until_got(sensor, everywhere, "t/1", b"asked for")
        assert local.waiting  # by the local one too, once it is here


async def test_a_global_advertisement_comes_to_local_subscriptions_and_a_local_one_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    async with (
        joined(tmp_path) as (nodes, cables),
        client(nodes.ports["a"], "sensor") as sensor,
        client(nodes.ports["a"], "other") as other,
        client(nodes.ports["b"], "here") as here,
        client(nodes.ports["c"], "there") as there,
    ):
        local = [await each.subscribe("t/1", scope="local") for each in (here, there)]
        marks = [await each.subscribe("mark", scope="global") for each in (here, there)]
        await sensor.advertise("t/#", name="all", scope="global")
        await other.advertise("t/#", name="mine", scope="local")
        await other.advertise("mark", name="mark", scope="local")
        for subscription in local:
            await until_got(sensor, subscription, "t/1", b"of a global advertisement")
        for subscription in marks:
            await until_got(other, subscription, "mark", b"0")
        await sensor.unadvertise("all")
        async with asyncio.timeout(30):
            while True:  # until it is withdrawn everywhere
                before = {name: len(cable.carried) for name, cable in cables.items()}
                await other.publish("t/1", b"of a local advertisement")
                for subscription in marks:
                    await until_got(other, subscription, "mark", b"1")
                carried = [bytes(cable.carried[before[name] :]) for name, cable in cables.items()]
                if not any(b"of a local advertisement" in each for each in carried):
                    break
        asking = await there.subscribe("t/1", scope="global", name="too")
        await until_got(other, asking, "t/1", b"asked for")
        assert b"asked for" not in cables["b"].carried
