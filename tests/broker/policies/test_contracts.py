"""Section 3 of the contracts paper on live nodes: Table 1, every rule, both operational modes; and contracts that
programs bring.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, Refused, Subscription
from tests.engine.contracts.test_paris import CLIENTS, LOCATION, paris_domain
from tests.support.clients.library import all_until, client, take
from tests.support.processes.federation import Nodes

PRODUCERS = ("paris-sensors", "bob-phone", "bob-wrist", "bob-health-capsule")
CONSUMERS = tuple(name for name in CLIENTS if name not in PRODUCERS)
MARK = "paris/pollution/mark"
HAZARD = "paris/bob/health"


class Paris:
    """All clients of section 3, connected."""

    def __init__(self, clients: dict[str, Client], subscriptions: dict[str, Subscription]) -> None:
        self.clients = clients
        self.wanted = subscriptions
        self.count = 0

    async def says(self, client: str, topic: str, content: dict[str, Any]) -> dict[str, Any]:
        """Publish; who gets what of it. What comes after it on the same way tells that nothing more comes."""
        self.count += 1
        await self.settle()
        await self.clients[client].publish(topic, content)
        return await self.settle()

    async def says_until(self, client: str, topic: str, content: dict[str, Any], expected: set[str]) -> dict[str, Any]:
        """The same again, until these and no others get it: nodes hear of a situation each in its own time."""
        async with asyncio.timeout(30):
            while set(got := await self.says(client, topic, content)) != expected:
                pass
        return got

    async def settle(self) -> dict[str, Any]:
        self.count += 1
        mark = json.dumps({"pm": self.count, "q": 99}, separators=(",", ":")).encode()
        await self.clients["paris-sensors"].publish(MARK, mark)
        received = {name: await all_until(self.wanted[name], mark) for name in CONSUMERS}
        return {name: json.loads(payloads[-1]) for name, payloads in received.items() if payloads}


@pytest.fixture(params=["subscribed", "advertised"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    domain = paris_domain(mode=request.param)
    nodes = Nodes(tmp_path, {**domain, "nodes": {name: {"store": "memory"} for name in domain["nodes"]}})
    nodes.start_together()
    yield nodes
    nodes.stop()
    assert "Traceback" not in nodes.log("together")


async def test_table_1_on_live_nodes(nodes: Nodes) -> None:
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(client(nodes.ports[node], name)) for name, node in CLIENTS.items()
        }
        subscriptions = {name: await clients[name].subscribe("paris/#") for name in CONSUMERS}
        paris = Paris(clients, subscriptions)
        async with asyncio.timeout(30):  # until subscriptions and advertisements are everywhere
            while not all(subscription.waiting for subscription in subscriptions.values()):
                await clients["paris-sensors"].publish(MARK, {"pm": 0, "q": 99})
                await asyncio.sleep(0.05)
        # Pollution: no privacy requirement, QoC >= high
        assert set(await paris.says("paris-sensors", "paris/pollution/45", {"pm": 7, "q": 85})) == set(CONSUMERS)
        with pytest.raises(Refused, match="not as its producer guarantees"):
            await paris.says("paris-sensors", "paris/pollution/45", {"pm": 7, "q": 60})
        # Bob's location, rule 1: health, no hazard, QoC >= medium
        got = await paris.says("bob-phone", "paris/bob/location", LOCATION)
        assert set(got) == {"free-air"}
        assert got["free-air"]["lat"] == pytest.approx(48.865882, abs=1e-6)
        assert await paris.says("bob-phone", "paris/bob/location", {**LOCATION, "q": 30}) == {}
        # vital sensors: nothing but in a life hazard
        assert await paris.says("bob-wrist", "paris/bob/vitals", {"pulse": 71, "q": 90}) == {}
        # nobody else opens the glass
        await paris.says("curious", HAZARD, {"danger": True})
        assert set(await paris.says("bob-phone", "paris/bob/location", LOCATION)) == {"free-air"}
        # rule 2: health and life hazard, QoC >= high
        await paris.says("bob-health-capsule", HAZARD, {"danger": True, "q": 90})
        got = await paris.says_until("bob-phone", "paris/bob/location", LOCATION, {"city-emergency"})
        assert got == {"city-emergency": LOCATION}
        assert await paris.says("bob-phone", "paris/bob/location", {**LOCATION, "q": 60}) == {}
        vitals = {"pulse": 171, "q": 90}
        assert await paris.says("bob-wrist", "paris/bob/vitals", vitals) == {"city-emergency": vitals}
        # and closes again
        await paris.says("bob-health-capsule", HAZARD, {"danger": False, "q": 90})
        await paris.says_until("bob-phone", "paris/bob/location", LOCATION, {"free-air"})
        nodes.until_logged("together", "`life-hazard` opened by `bob-health-capsule`")
        nodes.until_logged("together", "`life-hazard` closed by `bob-health-capsule`")
        nodes.until_logged("together", "`curious` may not say that it is opened")


TWO: dict[str, Any] = {
    "nodes": {"a": {"store": "a.db"}, "b": {"store": "b.db"}},
    "links": [{"between": ["a", "b"]}],
    "clients": {name: {"node": node} for name, node in {"bob": "a", "doctor": "b", "spy": "b"}.items()},
    "contracts": {"bring": ["bob", "doctor"]},
}
RULES = {
    "coarse": {
        "purpose": "health",
        "retention": "1d",
        "degrade": [{"step": {"attribute": "lat", "size": 10, "span": 100}}],
        "guarantees": ["precision >= medium"],
    }
}
CLAIM = {"indicator": "precision", "criterion": "precision", "definition": "precision", "value": 90}


async def test_programs_bring_contracts(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, TWO)
    nodes.start("a", "b")
    with closing(_Stop(nodes)):
        async with (
            client(nodes.ports["a"], "bob") as bob,
            client(nodes.ports["b"], "doctor") as doctor,
            client(nodes.ports["b"], "spy") as spy,
        ):
            await bob.bring("mine", produces={"filter": "bob/location", "rules": RULES})
            contract = {"purpose": "health", "retention": "1h", "needs": ["precision >= medium"]}
            released = await doctor.subscribe("bob/#", contract=contract)
            with pytest.raises(Refused, match="does not let `spy` bring contracts"):
                await spy.subscribe("bob/#", contract=contract)
            with pytest.raises(Refused, match="unknown key `purposes`"):
                await doctor.subscribe("bob/x", contract={"purposes": "health"})
            seen = await spy.subscribe("bob/#")
            async with asyncio.timeout(30):  # until the producer's node knows of the consumer
                while not released.waiting:
                    await bob.publish("bob/location", {"lat": 48.9, "qoc": [CLAIM]})
                    await asyncio.sleep(0.05)
            (event,) = await take(released)
            assert event.attributes["lat"] == 45.0
            assert event.retain_until is not None
            (precision,) = event.quality
            assert 50 <= precision["value"] < 90
            assert seen.waiting == 0
            await bob.take_back("mine")
            async with asyncio.timeout(30):
                while not seen.waiting:
                    await bob.publish("bob/elsewhere", b"1")
                    await asyncio.sleep(0.05)


async def test_what_is_held_back_survives_kill_9(tmp_path: Path) -> None:
    rules = {"late": {"purpose": "health", "situation": "hazard", "degrade": [{"delay": "2s"}]}}
    wants = {"all": {"filter": "bob/#"}}
    hazard = {"sources": ["bob"], "opens": "danger", "lasts": "1h"}
    domain = {
        "nodes": {"a": {"store": "a.db"}},
        "clients": {"bob": {"node": "a"}, "doctor": {"node": "a"}},
        "contracts": {
            "producers": {"bob": {"producer": "bob", "filter": "#", "rules": rules}},
            "consumers": {"doctor": {"consumer": "doctor", "purpose": "health", "situation": "hazard", "wants": wants}},
            "situations": {"hazard": hazard},
        },
    }
    nodes = Nodes(tmp_path, domain)
    nodes.start("a")
    with closing(_Stop(nodes)):
        async with client(nodes.ports["a"], "bob") as bob, client(nodes.ports["a"], "doctor") as doctor:
            late = await doctor.subscribe("bob/#")
            await bob.publish("danger", {})
            await bob.publish("bob/location", {"lat": 48.9})  # acknowledged, so it is kept
            nodes.kill("a")
            assert late.waiting == 0
            nodes.start("a")
            assert [event.attributes["lat"] for event in await take(late)] == [48.9]


class _Stop:
    def __init__(self, nodes: Nodes) -> None:
        self.close = nodes.stop
