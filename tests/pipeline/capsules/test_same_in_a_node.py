"""The same events give the same results by a capsule in a node and by the capsule on Spark, in a batch and in a stream.

Events, capsules and pauses are drawn at random; the node is one of a rehearsal, whose clock is set to when events come.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.quality import NO_QUALITY
from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.jobs.capsules import Running, close, given, process, start
from penstock.pipeline.spark.policies import following
from penstock.pipeline.tables import tables
from penstock.policy.quality.carriage import CLAIMED, write_properties
from tests.support.scenes.air_capsules import NOON, City, Reading, quality, table

pytestmark = pytest.mark.recorded
Result = tuple[str, str, str]
"""Topic, payload, and quality to some digits."""

INPUTS = {
    "warm": {"topics": "+/temperature", "where": "celsius > 0.0", "silence": {"after": "7s", "set": {"alarm": 1}}},
    "beat": {"topics": ["+/ecg", "+/pulse"], "silence": {"after": "12s"}},
}
BY = {"by": {"person": 1}}
CAPSULES: dict[str, dict[str, Any]] = {
    "joined-windows": {
        "inputs": INPUTS,
        "window": {"length": "10s", "slide": "5s", "time": "at", "lateness": "3s", "late": "quarantine"},
        "operations": [
            {"keep": "precision >= 20"},
            {
                "aggregate": {
                    **BY,
                    "values": {"celsius": "mean(warm.celsius)", "peak": "max(beat.pulse)", "n": "count()"},
                }
            },
            {"infer": [{"when": "peak > 120.0", "set": {"danger": True}}, {"set": {"danger": False}}]},
        ],
    },
    "last-values": {
        "inputs": INPUTS,
        "operations": [
            {"set": {"trustworthiness": 90}},
            {"latest": {**BY, "values": {"celsius": "warm.celsius", "pulse": "beat.pulse"}, "within": "9s"}},
            {"infer": [{"when": "pulse > 120.0", "set": {"danger": True}}, {"set": {"danger": False}}]},
        ],
    },
    "of-everybody": {
        "inputs": INPUTS,
        "operations": [{"latest": {"values": {"celsius": "warm.celsius", "pulse": "beat.pulse"}}}],
    },
    "all-of-both": {"inputs": INPUTS, "operations": [{"latest": {**BY, "within": "20s"}}]},
    "filter": {
        "input": {"topics": "+/ecg", "silence": {"after": "9s", "set": {"alarm": "x"}}},
        "operations": [{"latest": BY}, {"where": "pulse > 90.0"}, {"keep": "precision"}],
    },
    "fused": {
        "input": {"topics": "+/ecg"},
        "window": {"length": "10s"},
        "operations": [{"fuse": {**BY, "values": {"pulse": "pulse"}, "weight": "precision", "source": "device"}}],
    },
    "sums": {
        "input": {"topics": "+/ecg", "silence": {"after": "4s", "set": {"alarm": "y"}}},
        "window": {"length": "8s", "expected": 5},
        "operations": [{"aggregate": {"values": {"pulse": "sum(pulse)", "low": "min(pulse)", "n": "count()"}}}],
    },
}


def capsules() -> dict[str, dict[str, Any]]:
    """Those above, each with its client and its topic."""
    made = {}
    for name, capsule in CAPSULES.items():
        has_person = any(
            "by" in (one.get("latest") or one.get("fuse") or one.get("aggregate") or {})
            for one in capsule["operations"]
        )
        topic = f"{{person}}/{name}" if has_person else f"all/{name}"
        made[name] = {"client": name, **capsule, "output": {"topic": topic}}
    return made


def events(seed: int, count: int) -> list[Reading]:
    """Temperatures and pulses of two people; with pauses, late, wrong, and without quality now and then."""
    chance, found, came = random.Random(seed), list[Reading](), float(NOON)
    for _ in range(count):
        came += chance.choice((0.25, 0.5, 1.0, 1.0, 2.5, 6.0 if chance.random() < 0.4 else 0.125, 0.0))
        kind = chance.choice(("temperature", "ecg", "ecg", "pulse"))
        said: dict[str, Any] = {"at": came - chance.choice((0.0, 0.5, 4.0, 20.0 if chance.random() < 0.3 else 0.0))}
        if kind == "temperature":
            said["celsius"] = chance.choice((36.5, 37.25, 39, -1))
        else:
            said |= {"pulse": chance.choice((60, 95.5, 130.25, 150)), "device": chance.randrange(3)}
        if chance.random() < 0.04:
            said["pulse" if kind != "temperature" else "celsius"] = chance.choice(("much", None))
        of = quality(came, precision=chance.choice((10, 40, 80)), freshness=chance.choice((0, 2)))
        has = chance.random() < 0.9
        found.append(Reading(came, f"{chance.choice(('ann', 'bob'))}/{kind}", said, of if has else NO_QUALITY))
    return found


def result(topic: str, payload: bytes, pairs: list[tuple[str, str]]) -> Result:
    said = (json.loads(text) for name, text in pairs if name == CLAIMED)
    about = sorted((one["indicator"], round(one["value"], 6), one["created"]) for one in said)
    return topic, json.dumps(json.loads(payload), sort_keys=True), json.dumps(about)


def by_a_node(name: str, some: list[Reading], until: float) -> list[Result]:
    said = {**capsules()[name], "runs": "node"}
    clients = {one: {"node": "main"} for one in ("sensor", "reader", name)}
    whole = {"nodes": {"main": {"listen": "127.0.0.1:0"}}, "clients": clients, "capsules": {name: said}}
    domain = Domain.model_validate(whole)
    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.assembly.now = NOON - 1.0
    for client in ("sensor", "reader"):
        rehearsal.connect(client)
    rehearsal.subscribe("reader", f"+/{name}")
    for one in some:
        rehearsal.assembly.now = one.came
        pairs = write_properties(one.quality, CLAIMED)
        rehearsal.publish("sensor", one.topic, json.dumps(one.said).encode(), 0, properties=pairs)
        rehearsal.run()
    rehearsal.assembly.now = until
    rehearsal.wait(0.0)
    return sorted(result(got.topic, got.payload, list(got.properties)) for got in rehearsal.deliveries("reader"))


def by_rows(rows: list[dict[str, Any]]) -> list[Result]:
    made = [row for row in rows if row["problem"] is None]
    return sorted(
        result(row["topic"], row["payload"], [(CLAIMED, json.dumps(one)) for one in json.loads(row["quality"])])
        for row in made
    )


@pytest.mark.parametrize(("seed", "name"), [*enumerate(CAPSULES)])
def test_the_same_by_a_node_and_by_spark(interpreted: SparkSession, tmp_path: Path, name: str, seed: int) -> None:
    some = events(seed, 90)
    until = some[-1].came + random.Random(seed).choice((0.0, 5.0, 60.0))
    city = City(tmp_path, {name: capsules()[name]})
    city.record_all(some, 2)
    wanted = by_a_node(name, some, until)
    assert len(wanted) > 3
    policies = following(city.domain, city.journal)
    reference = CapsuleReference(policies, name)
    rows = given(tables.events(interpreted, city.journal), policies, city.capsule(name))
    batch = process(rows, reference, int(until * 1_000_000)).collect()
    assert by_rows([row.asDict() for row in batch]) == wanted
    running = Running(reference, city.journal, tmp_path / "tables", 1, 1)
    start(interpreted, running, once=True).awaitTermination()
    close(interpreted, running, until)
    close(interpreted, running, until)  # there is nothing left to close
    assert by_rows(table(running.folder)) == wanted
