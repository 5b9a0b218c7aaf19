"""A capsule is a consumer and a producer, and governed as both: it is given what a live consumer with its contract is
released, degraded and all, and what it makes goes out under its own contract.
"""

import json
import math
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.domain import Domain
from penstock.domain.compile.capsules import compiled
from penstock.domain.yaml.write import domain_text
from penstock.model.quality import moment
from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.jobs.capsules import RESULT_KEY, Running, given, process, start
from penstock.pipeline.jobs.forget import Forgotten, forget
from penstock.pipeline.jobs.stream import StreamBatch
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.mqtt.publish import ViewPublisher
from penstock.pipeline.spark.policies import following
from penstock.pipeline.tables import tables
from penstock.policy.contracts.degrade import in_steps
from penstock.policy.quality.carriage import read_properties
from tests.support.clients.paho import Paho, value
from tests.support.processes.commands import PATIENCE
from tests.support.processes.node import LiveNode
from tests.support.scenes.air_capsules import NOON, Reading, differences, expected, table
from tests.support.scenes.contracts import Message, Said, played

COARSE = {"step": {"attribute": "pm10", "size": 10.0, "span": 100.0}}
ROUNDED = {"step": {"attribute": "pm10", "size": 5.0, "span": 100.0}}
STREETS = {"filter": "city/+/air", "needs": ["precision >= 40"]}
CONTRACTS: dict[str, Any] = {
    "producers": {
        "streets": {
            "producer": ["s0", "s1"],
            "filter": "city/+/air",
            "guarantees": ["precision >= 10"],
            "rules": {
                "coarse": {
                    "purpose": "health",
                    "situation": {"not": "alarm"},
                    "degrade": [COARSE, {"keep": ["pm10", "at"]}],
                },
                "exact": {"purpose": "health", "situation": "alarm"},
            },
        },
        "zones": {
            "producer": "air",
            "filter": "zones/+/air",
            "rules": {"rounded": {"purpose": "health", "degrade": [ROUNDED]}},
        },
    },
    "consumers": {
        "air": {"consumer": ["air", "twin"], "purpose": "health", "wants": {"streets": STREETS}},
        "alarmed": {
            "consumer": ["air", "twin"],
            "purpose": "health",
            "situation": "alarm",
            "wants": {"streets": STREETS},
        },
        "app": {"consumer": "app", "purpose": "health", "wants": {"zones": {"filter": "zones/#"}}},
        "ads": {"consumer": "ads", "purpose": "ads", "wants": {"zones": {"filter": "zones/#"}}},
    },
    "situations": {
        "alarm": {
            "sources": ["guard"],
            "opens": {"filter": "alarm", "where": "on == true"},
            "closes": {"filter": "alarm", "where": "on == false"},
            "lasts": "1h",
        }
    },
}
CAPSULE: dict[str, Any] = {
    "client": "air",
    "input": {"topics": "city/+/air"},
    "window": {"length": "30s", "time": "at", "lateness": "5s"},
    "operations": [
        {
            "aggregate": {
                "by": {"zone": 2},
                "values": {"pm10": "mean(pm10)", "peak": "max(pm10)", "n": "count()"},
            }
        }
    ],
    "output": {"topic": "zones/{zone}/air"},
}


def city(nodes: tuple[str, ...] = ("b1", "b2"), **more: Any) -> Domain:
    """Sensors at the first node, the capsule at the last."""
    first, last = nodes[0], nodes[-1]
    places = dict.fromkeys(("s0", "s1", "guard", "app", "ads"), first) | dict.fromkeys(("air", "twin"), last)
    precision = {"indicator": "precision", "formula": "value", "value": "q"}
    return Domain.model_validate(
        {
            "domain": "city",
            "nodes": {name: {"listen": "127.0.0.1:0", "store": "memory"} for name in nodes},
            "links": [{"between": list(pair)} for pair in pairwise(nodes)],
            "clients": {name: {"node": node} for name, node in places.items()},
            "quality": {"collectors": [{"topics": "city/+/air", "collect": [precision]}]},
            "contracts": CONTRACTS,
            "capsules": {"air": CAPSULE},
            **more,
        }
    )


def day(seed: int, count: int, at: float) -> list[Said]:
    """What sensors say: some of it too bad for anybody, or for the capsule; and an alarm that begins and ends."""
    pick, said = random.Random(seed), list[Said]()
    for number in range(count):
        content = {"pm10": pick.uniform(0, 99), "q": pick.randint(0, 100), "at": at + 1.5 * number, "street": "secret"}
        said.append((pick.choice(("s0", "s1")), f"city/{pick.choice('abc')}/air", content))
    said.insert(count // 3, ("guard", "alarm", {"on": True}))
    said.insert(2 * count // 3, ("guard", "alarm", {"on": False}))
    return said


def readings(messages: Iterable[Message]) -> list[Reading]:
    """What a consumer got, as readings of a capsule; when they came is as good as when they happened."""
    found = []
    for topic, payload, _, properties in messages:
        said = json.loads(payload)
        found.append(Reading(said["at"], topic, said, read_properties(properties, moment(said["at"]))))
    return found


def _policies(domain: Domain, folder: Path, journal: Path) -> CapsuleReference:
    (folder / "city.yaml").write_text(domain_text(domain))
    return CapsuleReference(following(folder / "city.yaml", journal), "air")


def _given_by_contract(got: list[Message]) -> list[Message]:
    found = [one for one in got if one[0].startswith("city/")]
    streets = ["street" in json.loads(payload) for _, payload, *_ in found]
    assert 5 < sum(streets) < len(streets) - 5, "some of it is exact, as there was an alarm, and some is degraded"
    return found


@pytest.mark.recorded
def test_it_is_given_what_a_consumer_with_its_contract_is_released(interpreted: SparkSession, tmp_path: Path) -> None:
    domain = city()
    made = played(domain, tmp_path, day(1, 90, NOON), ("air",), start=float(NOON))
    reference = _policies(domain, tmp_path, made.journal)
    rows = given(tables.events(interpreted, made.journal), reference.policies, reference.capsule())
    wanted = expected(compiled(domain, "air"), readings(_given_by_contract(made.got["air", "b2"])))
    assert len(wanted.results) > 6
    assert differences([row.asDict() for row in process(rows, reference).collect()], wanted) == []


@pytest.mark.recorded
@pytest.mark.parametrize("nodes", [("b1", "b2"), ("b1",)], ids=["from another node", "at one node"])
def test_whatever_the_batches_are(interpreted: SparkSession, tmp_path: Path, nodes: tuple[str, ...]) -> None:
    domain = city(nodes)
    made = played(domain, tmp_path, day(2, 60, NOON), ("air",), start=float(NOON), every=20)
    reference = _policies(domain, tmp_path, made.journal)
    batches: list[StreamBatch] = []
    running = Running(reference, made.journal, tmp_path / "tables", max_bytes=1, partitions=1)
    start(interpreted, running, once=True, on_batch=batches.append).awaitTermination()
    assert len(batches) > 2
    wanted = expected(compiled(domain, "air"), readings(_given_by_contract(made.got[("air", nodes[-1])])))
    assert differences(table(running.folder), wanted) == []


@pytest.mark.recorded
@pytest.mark.parametrize("late", [60.0, 200.0], ids=["in time", "too late"])
def test_what_a_contract_gives_later_has_come_then(interpreted: SparkSession, tmp_path: Path, late: float) -> None:
    """A window waits for it no longer than for anything that comes late."""
    contracts = json.loads(json.dumps(CONTRACTS))
    contracts["producers"]["streets"]["rules"]["coarse"]["degrade"].append({"delay": f"{late:g}s"})
    window = {"length": "30s", "time": "at", "lateness": "100s"}
    domain = city(("b1",), contracts=contracts, capsules={"air": {**CAPSULE, "window": window}})
    story: list[Said | float] = [*day(4, 60, NOON), 300.0, ("s0", "city/a/air", {"pm10": 1.0, "q": 99, "at": NOON})]
    made = played(domain, tmp_path, (*story, 210.0, ("guard", "news", {})), ("air",), start=float(NOON), every=25)
    got = [one for one in made.got["air", "b1"] if one[0].startswith("city/")]
    came = [replace(one, came=one.said["at"] + (0.0 if "street" in one.said else late)) for one in readings(got[:-1])]
    assert len({"street" in one.said for one in came}) == 2, "in the alarm it came at once"
    running = Running(_policies(domain, tmp_path, made.journal), made.journal, tmp_path / "tables", 1, 1)
    start(interpreted, running, once=True).awaitTermination()
    wanted = expected(
        compiled(domain, "air"), [*sorted(came, key=lambda one: one.came), Reading(NOON + 900, "city/a/air", {})]
    )
    assert bool(wanted.aside[:-1]) == (late > 100)
    assert differences(table(running.folder), wanted) == []


@pytest.mark.recorded
def test_what_was_released_for_a_time_is_not_taken_when_that_is_over(interpreted: SparkSession, tmp_path: Path) -> None:
    """A live consumer has deleted by now what the capsule would read in the journal; what is put aside is forgotten."""
    contracts = json.loads(json.dumps(CONTRACTS))
    contracts["producers"]["streets"]["rules"]["coarse"] |= {"retention": "1d"}
    contracts["producers"]["streets"]["guarantees"] = []
    contracts["consumers"]["air"] |= {"retention": "1h"}
    domain, now = city(("b1",), contracts=contracts), time.time()
    told = [("s0", "city/a/air", {"pm10": 55.0, "q": 90, "at": at}) for at in (now - 4000, now - 60.0, "now")]
    story = (told[0], 3940.0, told[1], told[2], 60.0, ("s0", "city/a/air", {"pm10": 55.0, "q": 90, "at": now}))
    made = played(domain, tmp_path, story, ("air",), start=now - 4000)
    assert len(made.got["air", "b1"]) == 4, "the node gave it all"
    running = Running(_policies(domain, tmp_path, made.journal), made.journal, tmp_path / "tables" / "air")
    start(interpreted, running, once=True).awaitTermination()
    assert [row["inputs"] for row in table(running.folder)] == [1], "the first is to be deleted by now"
    (aside,) = table(running.folder, "quarantine")
    assert aside["problem"].startswith("`at` is not a time")
    kept_until = aside["retain_until"]
    assert 3590 < kept_until.timestamp() - aside["time"].timestamp() < 3610
    (result,) = table(running.folder)
    assert result["retain_until"] <= kept_until, "that of what it is made of"
    names = ("air/results", "air/quarantine")
    assert forget(interpreted, tmp_path / "tables") == tuple(Forgotten(name, {}, 1) for name in names)
    assert forget(interpreted, tmp_path / "tables", kept_until) == tuple(Forgotten(one, {"air": 1}, 0) for one in names)


LIVE = {**CAPSULE, "window": {"length": "1s"}}
BARE = {
    **LIVE,
    "client": "bare",
    "operations": [*CAPSULE["operations"], {"remove": "precision"}],
    "output": {"topic": "bare/{zone}"},
}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveNode]:
    """A node with two capsules: of what one of them makes, it says less than its contract guarantees."""
    contracts = json.loads(json.dumps(CONTRACTS))
    contracts["consumers"]["air"]["consumer"].append("bare")
    contracts["producers"]["bare"] = {"producer": "bare", "filter": "bare/+", "guarantees": ["precision >= 1"]}
    domain = city(
        ("b1",),
        contracts=contracts,
        clients={name: {"node": "b1"} for name in ("s0", "s1", "guard", "air", "bare", "twin", "app", "ads")},
        capsules={"air": LIVE, "bare": BARE},
        journal={"folder": "journal", "flush": 0.1, "segment_age": 1},
    )
    node = LiveNode(tmp_path)
    node.write("domain.yaml", domain_text(domain))
    node.start()
    yield node
    node.stop()


def _running(node: LiveNode, name: str) -> tuple[Running, ViewPublisher]:
    reference = CapsuleReference(following(node.folder / "domain.yaml", node.folder / "journal"), name)
    publisher = ViewPublisher(BrokerAddress.of_url(f"mqtt://127.0.0.1:{node.port}", name), "", by=RESULT_KEY)
    return Running(reference, node.folder / "journal", node.folder / "tables" / name, partitions=1), publisher


@pytest.mark.recorded
def test_beside_a_live_node(interpreted: SparkSession, live: LiveNode) -> None:
    """It reads the journal of a node, and publishes there: beside it a consumer with the same contract, behind it one
    that its own contract speaks of, and one that it does not.
    """
    running, publisher = _running(live, "air")
    clients = {name: Paho(name) for name in ("s0", "s1", "guard", "twin", "app", "ads")}
    try:
        for client in clients.values():
            client.connects(live.port)
        clients["twin"].subscribe("city/#", 1)
        for name in ("app", "ads"):
            clients[name].subscribe("zones/#", 1)
        for who, topic, content in day(3, 60, NOON):
            clients[who].publish(topic, json.dumps(content).encode(), 1)
        clients["s0"].publish("city/z/air", b'{"pm10": 1.0, "q": 99}', 1)
        got = dict[str, list[float]]()
        while (message := clients["twin"].receive()).topic != "city/z/air":
            got.setdefault(message.topic[5:6], []).append(json.loads(message.payload)["pm10"])
        assert len({one % 5 for several in got.values() for one in several}) > 1, "some of them are exact"
        query = start(interpreted, running, every=0.1, publish=publisher.publish)
        end = time.monotonic() + 2 * PATIENCE
        while not any(row["group"] == '{"zone":"z"}' for row in table(running.folder)):
            assert query.isActive, query.exception()
            assert time.monotonic() < end, "no results"
            clients["s1"].publish("city/y/air", b'{"pm10": 1, "q": 99}', 1)  # it tells how late it is
            time.sleep(0.2)
        told, last = list[tuple[str, float]](), ""
        while last != "zones/z/air":
            message = clients["app"].receive()
            assert any(name == "qoc" for name, _ in value(message.properties, "UserProperty"))
            last = message.topic
            told.append((last, json.loads(message.payload)["pm10"]))
        query.stop()
        made = {row["group"][9:10]: list[dict[str, Any]]() for row in table(running.folder)}
        for row in table(running.folder):
            made[row["group"][9:10]].append(json.loads(row["payload"]))
        for zone in "yz":
            made.pop(zone, None)
        for zone, several in got.items():
            assert sum(one["n"] for one in made[zone]) == len(several), "just what the consumer got"
            assert sum(one["n"] * one["pm10"] for one in made[zone]) == pytest.approx(math.fsum(several))
            assert max(one["peak"] for one in made[zone]) == pytest.approx(max(several))
        assert made.keys() == got.keys()
        told = [one for one in told if one[0][6:7] in got]
        rows = [row for row in table(running.folder) if row["group"][9:10] in got]
        wanted = [(row["topic"], in_steps(json.loads(row["payload"])["pm10"], 5.0)) for row in rows]
        assert sorted(told) == sorted(wanted), "its own contract rounds it"
        clients["ads"].nothing_arrives()
    finally:
        publisher.close()
        for client in clients.values():
            client.leaves()


@pytest.mark.recorded
def test_what_it_makes_is_held_to_what_it_guarantees(interpreted: SparkSession, live: LiveNode) -> None:
    running, _ = _running(live, "bare")
    with Paho("s0") as sensor:
        sensor.connects(live.port)
        sensor.publish("city/a/air", b'{"pm10": 1.0, "q": 99}', 1)
        time.sleep(1.1)  # in another window
        sensor.publish("city/a/air", b'{"pm10": 1.0, "q": 99}', 1)
    live.stop()  # all of its journal is sealed
    live.start()
    publisher = ViewPublisher(BrokerAddress.of_url(f"mqtt://127.0.0.1:{live.port}", "bare"), "", by=RESULT_KEY)
    try:
        query = start(interpreted, running, once=True, publish=publisher.publish)
        with pytest.raises(StreamingQueryException, match="refuses what is published to `bare/a`: not as"):
            query.awaitTermination()
        live.until_logged("bare/a", "not as its producer guarantees")
    finally:
        publisher.close()
