"""A capsule is a consumer and a producer, and governed as both: it is given what a live consumer with its contract is
released, degraded and all, and what it makes goes out under its own contract.
"""

import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.domain import Domain, load
from penstock.domain.capsules_compiled import compiled
from penstock.domain.write import written
from penstock.model.quality import moment
from penstock.pipeline import tables
from penstock.pipeline.capsule_rows import Reference
from penstock.pipeline.capsules import TOLD_BY, Running, given, process, start
from penstock.pipeline.mqtt import Broker
from penstock.pipeline.policies import following
from penstock.pipeline.publish import Publisher
from penstock.policy.degrade import in_steps
from penstock.policy.quality_carry import read_properties
from tests.support.capsules import NOON, Reading, differences, expected, table
from tests.support.contracted import Gets, Message, Said, played
from tests.support.node import LiveNode
from tests.support.paho import Paho, value

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
            "links": [{"between": list(pair)} for pair in zip(nodes, nodes[1:], strict=False)],
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


def _policies(domain: Domain, folder: Path, journal: Path) -> Reference:
    (folder / "city.yaml").write_text(written(domain))
    return Reference(following(folder / "city.yaml", journal), "air")


def _given_by_contract(got: Gets) -> list[Message]:
    found = [one for one in got["air", "b2"] if one[0].startswith("city/")]
    streets = ["street" in json.loads(payload) for _, payload, *_ in found]
    assert 5 < sum(streets) < len(streets) - 5, "some of it is exact, as there was an alarm, and some is degraded"
    return found


def test_it_is_given_what_a_consumer_with_its_contract_is_released(interpreted: SparkSession, tmp_path: Path) -> None:
    domain = city()
    made = played(domain, tmp_path, day(1, 90, NOON), ("air",), start=float(NOON))
    reference = _policies(domain, tmp_path, made.journal)
    rows = given(tables.events(interpreted, made.journal), reference.policies, reference.capsule())
    wanted = expected(compiled(domain, "air"), readings(_given_by_contract(made.got)))
    assert len(wanted.results) > 6
    assert differences([row.asDict() for row in process(rows, reference).collect()], wanted) == []
