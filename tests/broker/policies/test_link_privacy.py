"""The privacy filter and the quality requirements are part of routing (contracts §2.2, §2.3): a recording of the bytes
between two live nodes shows that what nobody beyond the link may have, or asks for, does not cross it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.support.clients.library import client, take
from tests.support.processes.cable import Cable
from tests.support.processes.federation import Nodes

TOPIC = "bob/location"
DOMAIN: dict[str, Any] = {
    "nodes": {"a": {"store": "memory"}, "b": {"store": "memory"}},
    "clients": {"bob": {"node": "a"}, "capsule": {"node": "a"}}
    | {name: {"node": "b"} for name in ("doctor", "rescue", "ads", "nobody")},
    "contracts": {
        "producers": {
            "bob": {
                "producer": "bob",
                "filter": "bob/#",
                "rules": {
                    "coarse": {
                        "purpose": "health",
                        "situation": {"not": "hazard"},
                        "degrade": [{"step": {"attribute": "lat", "size": 10}}],
                    },
                    "precise": {"purpose": "health", "situation": "hazard"},
                },
            }
        },
        "consumers": {
            "doctor": {"consumer": "doctor", "purpose": "health", "wants": {}},
            "rescue": {"consumer": "rescue", "purpose": "health", "situation": "hazard", "wants": {}},
            "ads": {"consumer": "ads", "purpose": "ads", "wants": {}},
        },
        "situations": {"hazard": {"sources": ["capsule"], "opens": "open", "closes": "close", "lasts": "1h"}},
    },
}


@asynccontextmanager
async def joined(folder: Path, domain: dict[str, Any]) -> AsyncIterator[tuple[Nodes, Cable]]:
    """Nodes a and b of a domain; b dials a through a cable that records."""
    nodes = Nodes(folder, domain)
    async with Cable(nodes.ports["a"]) as cable:
        links = [{"between": ["b", "a"], "address": f"127.0.0.1:{cable.port}", **domain.get("link", {})}]
        nodes.write({**{key: value for key, value in domain.items() if key != "link"}, "links": links})
        try:
            await asyncio.to_thread(nodes.start, "a", "b")
            await asyncio.to_thread(nodes.until_logged, "b", "linked")
            yield nodes, cable
        finally:
            await asyncio.to_thread(nodes.stop)


async def until_crossed(cable: Cable, say: Any, mark: bytes) -> None:
    """Publish until the mark has gone over the link."""
    async with asyncio.timeout(30):
        while mark not in cable.carried:
            await say()
            await asyncio.sleep(0.05)


async def test_no_byte_crosses_that_nobody_beyond_may_have(tmp_path: Path) -> None:
    async with (
        joined(tmp_path, DOMAIN) as (nodes, cable),
        client(nodes.ports["a"], "bob") as bob,
        client(nodes.ports["a"], "capsule") as capsule,
        client(nodes.ports["b"], "ads") as ads,
        client(nodes.ports["b"], "nobody") as nobody,
        client(nodes.ports["b"], "doctor") as doctor,
        client(nodes.ports["b"], "rescue") as rescue,
    ):
        seen = [await each.subscribe("#") for each in (ads, nobody)]
        await until_crossed(cable, lambda: capsule.publish("free", b"mark 0"), b"mark 0")
        await bob.publish(TOPIC, {"lat": 41.111})
        await bob.publish(TOPIC, {"lat": 42.222}, retain=True)
        await until_crossed(cable, lambda: capsule.publish("free", b"mark 1"), b"mark 1")
        assert b"41.111" not in cable.carried
        assert b"42.222" not in cable.carried
        # somebody comes who may have it, degraded: that much of it crosses, and of the retained one too
        shown = await doctor.subscribe("bob/#")
        (event,) = await take(shown)
        assert event.attributes == {"lat": 45.0}
        async with asyncio.timeout(30):
            await bob.publish(TOPIC, {"lat": 53.333})
            (event,) = await take(shown)
        assert event.attributes == {"lat": 55.0}
        assert b"42.222" not in cable.carried
        assert b"53.333" not in cable.carried
        # in a hazard, only for the rescue service and as it is
        precise = await rescue.subscribe("bob/#")
        await capsule.publish("open", b"")
        await until_crossed(cable, lambda: bob.publish(TOPIC, {"lat": 64.444}), b"64.444")
        async with asyncio.timeout(30):
            while (await take(precise))[0].attributes != {"lat": 64.444}:
                pass
        await doctor.unsubscribe(shown)
        await rescue.unsubscribe(precise)
        await capsule.publish("close", b"")
        async with asyncio.timeout(30):  # until node a has heard of it
            while True:
                before = len(cable.carried)
                await bob.publish(TOPIC, {"lat": 75.555})
                mark = b"mark %d" % before
                await until_crossed(cable, partial(capsule.publish, "free", mark), mark)
                if b"bob/location" not in cable.carried[before:]:
                    break
        before = len(cable.carried)
        await bob.publish(TOPIC, {"lat": 86.666})
        await until_crossed(cable, lambda: capsule.publish("free", b"mark 2"), b"mark 2")
        assert b"86.666" not in cable.carried
        for each in seen:
            assert {event.topic for event in await take(each, each.waiting)} <= {"free", "open", "close"}


async def test_what_policies_in_xacml_permit_to_nobody_beyond_does_not_cross(tmp_path: Path) -> None:
    """By who has published it, which the subscriber's node knows too."""
    rule = {"permit": {"resource.producer": "bob", "subject.id": "doctor"}}
    policy = {"policy": "p", "combine": "deny-unless-permit", "rules": [rule]}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    clients = {"bob": {"node": "a"}, "eve": {"node": "a"}, "doctor": {"node": "b"}, "ads": {"node": "b"}}
    privacy = [{"name": "location", "topics": TOPIC, "policies": "policy.yaml"}]
    domain = {"nodes": DOMAIN["nodes"], "clients": clients, "privacy": privacy}
    async with (
        joined(tmp_path, domain) as (nodes, cable),
        client(nodes.ports["a"], "bob") as bob,
        client(nodes.ports["a"], "eve") as eve,
        client(nodes.ports["b"], "doctor") as doctor,
        client(nodes.ports["b"], "ads") as ads,
    ):
        await ads.subscribe("#")
        await until_crossed(cable, lambda: eve.publish("free", b"mark 0"), b"mark 0")
        await bob.publish(TOPIC, {"lat": 41.111})
        await until_crossed(cable, lambda: eve.publish("free", b"mark 1"), b"mark 1")
        assert b"41.111" not in cable.carried
        shown = await doctor.subscribe(TOPIC)
        await until_crossed(cable, lambda: bob.publish(TOPIC, {"lat": 42.222}), b"42.222")
        (event,) = await take(shown)
        assert event.attributes == {"lat": 42.222}
        await eve.publish(TOPIC, {"lat": 43.333})
        await until_crossed(cable, lambda: eve.publish("free", b"mark 2"), b"mark 2")
        assert b"43.333" not in cable.carried


async def test_an_event_whose_quality_nobody_beyond_asks_for_stays_where_it_is(tmp_path: Path) -> None:
    """Measured by the producer's node, or the producer's own word; asked for in the domain, or by who subscribes."""
    collect = [{"indicator": "precision", "formula": "value", "value": "p"}]
    needing = {"air": {"filter": "air/measured", "needs": ["precision >= high"]}}
    domain = {
        "nodes": DOMAIN["nodes"],
        "clients": {"sensor": {"node": "a"}, "map": {"node": "b"}, "app": {"node": "b"}, "log": {"node": "b"}},
        "quality": {"collectors": [{"topics": "air/measured", "collect": collect}]},
        "contracts": {"consumers": {"map": {"consumer": "map", "wants": needing}}, "bring": ["app"]},
    }

    def claiming(x: float, precision: float) -> dict[str, Any]:
        ids = dict.fromkeys(("indicator", "criterion", "definition"), "precision")
        return {"x": x, "qoc": [{**ids, "value": precision}]}

    async with (
        joined(tmp_path, domain) as (nodes, cable),
        client(nodes.ports["a"], "sensor") as sensor,
        client(nodes.ports["b"], "map") as city_map,
        client(nodes.ports["b"], "app") as app,
        client(nodes.ports["b"], "log") as log,
    ):
        shown = await city_map.subscribe("air/measured")
        claimed = await app.subscribe("air/claimed", contract={"needs": ["precision >= 50"]})
        marks = await log.subscribe("free")
        await until_crossed(cable, lambda: sensor.publish("free", b"mark 0"), b"mark 0")
        await sensor.publish("air/measured", {"x": 41.111, "p": 60})
        await sensor.publish("air/claimed", claiming(42.222, 20))
        await sensor.publish("air/claimed", {"x": 43.333})
        await until_crossed(cable, lambda: sensor.publish("free", b"mark 1"), b"mark 1")
        for secret in (b"41.111", b"42.222", b"43.333"):
            assert secret not in cable.carried
        await sensor.publish("air/measured", {"x": 51.111, "p": 90})
        await sensor.publish("air/claimed", claiming(52.222, 70))
        assert [event.attributes["x"] for event in await take(shown)] == [51.111]
        assert [event.attributes["x"] for event in await take(claimed)] == [52.222]
        everything = await log.subscribe("air/#")  # without a contract: whatever the quality
        async with asyncio.timeout(30):
            while not everything.waiting:
                await sensor.publish("air/measured", {"x": 61.111, "p": 10})
                await asyncio.sleep(0.05)
        assert (await take(everything))[0].attributes["x"] == 61.111
        await log.unsubscribe(everything)
        async with asyncio.timeout(30):  # until node a has heard of it
            while True:
                before = len(cable.carried)
                await sensor.publish("air/measured", {"x": 71.111, "p": 10})
                mark = b"mark %d" % before
                await until_crossed(cable, partial(sensor.publish, "free", mark), mark)
                if b"71.111" not in cable.carried[before:]:
                    break
        assert not shown.waiting
        assert not claimed.waiting
        assert marks.waiting


LISTING_2 = """<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="location" Version="1.0"
 RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/>
 <Rule RuleId="health" Effect="Permit"><Target><AnyOf><AllOf>
  <Match MatchId="urn:oasis:names:tc:xacml:1.0:function:string-equal">
   <AttributeValue DataType="http://www.w3.org/2001/XMLSchema#string">health</AttributeValue>
   <AttributeDesignator Category="urn:oasis:names:tc:xacml:1.0:subject-category:access-subject" AttributeId="purpose"
    DataType="http://www.w3.org/2001/XMLSchema#string" MustBePresent="false"/></Match>
  <Match MatchId="urn:oasis:names:tc:xacml:1.0:function:double-less-than-or-equal">
   <AttributeValue DataType="http://www.w3.org/2001/XMLSchema#double">50</AttributeValue>
   <AttributeDesignator Category="urn:oasis:names:tc:xacml:3.0:attribute-category:resource"
    AttributeId="quality:precision/precision/precision"
    DataType="http://www.w3.org/2001/XMLSchema#double" MustBePresent="false"/></Match>
 </AllOf></AnyOf></Target>
 <ObligationExpressions><ObligationExpression ObligationId="step" FulfillOn="Permit">
  <AttributeAssignmentExpression AttributeId="attribute">
   <AttributeValue DataType="http://www.w3.org/2001/XMLSchema#string">lat</AttributeValue></AttributeAssignmentExpression>
  <AttributeAssignmentExpression AttributeId="size">
   <AttributeValue DataType="http://www.w3.org/2001/XMLSchema#double">10</AttributeValue></AttributeAssignmentExpression>
 </ObligationExpression></ObligationExpressions></Rule></Policy>"""


async def test_a_producer_brings_xacml_and_its_node_decides_for_those_beyond(tmp_path: Path) -> None:
    """By purpose and by quality; the consumer's node goes by the ACE set, and gets what the obligation leaves."""
    about = {"wants": {"it": {"filter": "#"}}}
    domain = {
        "nodes": DOMAIN["nodes"],
        "clients": {"bob": {"node": "a"}, "eve": {"node": "a"}, "doctor": {"node": "b"}, "ads": {"node": "b"}},
        "contracts": {
            "consumers": {
                "doctor": {"consumer": "doctor", "purpose": "health", **about},
                "ads": {"consumer": "ads", "purpose": "ads", **about},
            },
            "bring": ["bob"],
        },
    }
    ids = dict.fromkeys(("indicator", "criterion", "definition"), "precision")
    good, bad = [{**ids, "value": 80}], [{**ids, "value": 20}]
    async with (
        joined(tmp_path, domain) as (nodes, cable),
        client(nodes.ports["a"], "bob") as bob,
        client(nodes.ports["a"], "eve") as eve,
        client(nodes.ports["b"], "doctor") as doctor,
        client(nodes.ports["b"], "ads") as ads,
    ):
        await bob.bring("mine", produces={"filter": "bob/#", "xacml": LISTING_2})
        seen = await ads.subscribe("#")
        await until_crossed(cable, lambda: eve.publish("free", b"mark 0"), b"mark 0")
        await bob.publish(TOPIC, {"lat": 41.111, "qoc": good})
        await until_crossed(cable, lambda: eve.publish("free", b"mark 1"), b"mark 1")
        assert b"41.111" not in cable.carried
        shown = await doctor.subscribe("bob/#")
        async with asyncio.timeout(30):
            while not shown.waiting:
                await bob.publish(TOPIC, {"lat": 42.222, "qoc": good})
                await asyncio.sleep(0.05)
        assert (await take(shown))[0].attributes["lat"] == 45.0
        assert b"42.222" not in cable.carried
        await bob.publish(TOPIC, {"lat": 53.333, "qoc": bad})
        await until_crossed(cable, lambda: eve.publish("free", b"mark 2"), b"mark 2")
        assert b"55.0" not in cable.carried
        assert b"53.333" not in cable.carried
        assert {event.topic for event in await take(seen, seen.waiting)} == {"free"}
