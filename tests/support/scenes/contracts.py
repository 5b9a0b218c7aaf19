"""Contracts, recorded: scenes on nodes without sockets, and what each client got, with its user properties."""

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.events import user_properties
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.engine.contracts.test_paris import LOCATION
from tests.support.memory.recording import Written, record

Said = tuple[str, str, dict[str, Any]]
"""Who says what on which topic."""
Message = tuple[str, bytes, int, tuple[tuple[str, str], ...]]
"""Topic, payload, QoS, user properties."""
Gets = dict[tuple[str, str], list[Message]]
"""By subject and node."""

Left = dict[tuple[str, str, bytes], list[int | None]]
"""By subject, topic and payload, for how many seconds messages were still good."""


class ContractsPlayed(NamedTuple):
    """What was played: its journal, and what clients got."""

    journal: Path
    got: Gets
    left: Left


def played(
    domain: Domain,
    folder: Path,
    story: Iterable[Said | float],
    subjects: Sequence[str],
    start: float | None = None,
    every: int = 1_000,
    ticks: float = math.inf,
    expiry: Callable[[int], int | None] = lambda number: None,
    retain: Callable[[int], bool] = lambda number: False,
) -> ContractsPlayed:
    """Play what clients say, one after the other; a number is a pause in seconds. After `every` so many of them, the
    journal has new files. Nodes look at the time each so many seconds, `ticks`; `expiry` says for how many the message
    of a number is good, and `retain` whether it is to be retained.
    """
    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.assembly.now = start or rehearsal.now
    record(rehearsal)
    for client in domain.clients:
        rehearsal.connect(client)
    for client in subjects:
        rehearsal.subscribe(client, "#", no_local=False)
    journal = Written(folder / "journal")
    revision = journal.keep(domain)
    for number, one in enumerate(story):
        if number % every == 0:
            journal.add_all(rehearsal.nodes.values(), revision)
        if isinstance(one, float):
            _wait(rehearsal, one, ticks)
            continue
        who, topic, content = one
        said = json.dumps(content).encode()
        rehearsal.publish(who, topic, said, qos=1, retain=retain(number), expiry=expiry(number))
        rehearsal.run()
        _wait(rehearsal, 1.500_001, ticks)
    rehearsal.wait(1.0)
    journal.add_all(rehearsal.nodes.values(), revision)
    got: Gets = {}
    left: Left = {}
    for subject in subjects:
        for message in rehearsal.deliveries(subject):
            told = (message.topic, message.payload, message.qos, message.properties)
            got.setdefault((subject, message.node), []).append(told)
            left.setdefault((subject, message.topic, message.payload), []).append(message.expiry)
    return ContractsPlayed(journal.folder, got, left)


def _wait(rehearsal: Rehearsal, seconds: float, ticks: float) -> None:
    while seconds > 0:
        rehearsal.wait(min(seconds, ticks))
        seconds -= ticks


def given(view: DataFrame) -> Gets:
    """What a view gives subjects, in the order in which nodes would have sent it."""
    found: Gets = {}
    for row in view.orderBy("subject", "node", "seq", "place", "part").collect():
        told = user_properties.carried(bytes(row.properties)).user_properties if row.properties else ()
        message = (row.topic, bytes(row.payload), row.qos, tuple(told))
        found.setdefault((row.subject, row.node), []).append(message)
    return found


def wrong(found: Gets, expected: Gets) -> list[str]:
    """What is not the same, in words."""
    return [
        f"{ends}: the view has\n{found.get(ends)}\nlive it was\n{expected.get(ends)}"
        for ends in sorted(found.keys() | expected.keys())
        if found.get(ends, []) != expected.get(ends, [])
    ]


def wanting(domain: Domain, **more: Any) -> Domain:
    """The domain with other settings."""
    return Domain.model_validate({**domain.model_dump(mode="json", exclude_defaults=True), **more})


# --- Paris


def location(lat: float, q: int) -> Said:
    return "bob-phone", "paris/bob/location", {"lat": lat, "lon": 2.275432, "q": q}


def health(danger: bool, who: str = "bob-health-capsule") -> Said:
    return who, "paris/bob/health", {"danger": danger, "q": 90}


def vitals(pulse: int) -> Said:
    return "bob-wrist", "paris/bob/vitals", {"pulse": pulse, "q": 90}


def pollution(q: int) -> Said:
    return "paris-sensors", "paris/pollution/45", {"pm": 12, "q": q}


STORY: tuple[Said | float, ...] = (
    ("bob-phone", "paris/bob/location", LOCATION),
    pollution(91),
    pollution(12),
    vitals(71),
    health(True, "curious"),
    location(48.87, 95),
    health(True),
    location(48.88, 95),
    location(48.89, 60),
    vitals(171),
    health(True),
    health(False),
    location(48.90, 95),
    vitals(72),
    health(True),
    location(48.91, 95),
    4000.0,
    location(48.92, 95),
)
"""An ordinary walk, a false alarm, danger, its end; and danger again, of which nobody tells that it is over."""


# --- at random

_TOPICS = tuple(f"r/{name}" for name in "abcdef")
_PURPOSES = ("health", "science", "ads")
_NODES = ("b1", "b2", "b3")
_SITUATIONS, _SOURCES = ("alarm", "fire"), ("s0", "s1")
_AGE = {"indicator": "up-to-dateness", "measured": "at"}


def random_scene(seed: int, binds: int) -> tuple[Domain, list[Said], tuple[str, ...]]:
    """A domain with contracts that bind so many of four producers each, what is said, and who listens."""
    pick = random.Random(seed)
    makers, takers = [f"p{n}" for n in range(4)], [f"c{n}" for n in range(6)]
    everybody = (*makers, *takers, *_SOURCES)
    clients = {name: {"node": pick.choice(_NODES), "groups": pick.choice(["x", "y"])} for name in everybody}
    producers = {
        f"of-{topic[2:]}": {
            "producer": pick.sample(makers, binds),
            "filter": topic if pick.random() < 0.8 else "r/+",
            "scope": pick.choice(["global", "local"]),
            "guarantees": pick.choice([[], ["precision >= 20"]]),
            "rules": {f"r{n}": _rule(pick) for n in range(pick.randint(0, 3))},
        }
        for topic in _TOPICS
    }
    consumers = {
        f"for-{n}": {
            "consumer": pick.choice(takers),
            "purpose": pick.sample(_PURPOSES, pick.randint(1, 2)),
            "situation": pick.choice([[], ["alarm"], ["alarm", "fire"]]),
            **pick.choice([{}, {"retention": "1h"}, {"retention": "3d"}]),
            "wants": _wants(pick),
        }
        for n in range(8)
    }
    situations = {
        name: {
            "sources": [source],
            "opens": {"filter": f"s/{name}", "where": "on == true"},
            "closes": {"filter": f"s/{name}", "where": "on == false"},
            "lasts": pick.choice(["5s", "1h"]),
        }
        for name, source in zip(_SITUATIONS, _SOURCES, strict=True)
    }
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in _NODES},
            "links": [{"between": ["b1", "b2"]}, {"between": ["b2", "b3"]}],
            "clients": clients,
            "quality": {
                "collectors": [
                    {"topics": "r/+", "collect": [{"indicator": "precision", "formula": "value", "value": "q"}]},
                    {"topics": "r/a", "sensor": {"lifetime": "10s"}, "collect": [_AGE]},
                ]
            },
            "contracts": {"producers": producers, "consumers": consumers, "situations": situations},
        }
    )
    story = [_said(pick, makers) for _ in range(70)]
    return domain, story, tuple(takers)


def _rule(pick: random.Random) -> dict[str, Any]:
    return {
        "purpose": pick.sample(_PURPOSES, pick.randint(1, 3)),
        **pick.choice([{}, {"visible_to": {"group": ["x"]}}]),
        **pick.choice([{}, {"retention": "1d"}]),
        **pick.choice([{}, {"situation": "alarm"}, {"situation": {"not": "fire"}}]),
        **pick.choice(
            [
                {},
                {"degrade": [{"step": {"attribute": "v", "size": 10.0, "span": 100.0}}]},
                {"degrade": [{"keep": ["v", "q"]}]},
            ]
        ),
        "guarantees": pick.choice([[], ["precision >= 50"]]),
    }


def _wants(pick: random.Random) -> dict[str, Any]:
    return {
        f"w{n}": {
            "filter": pick.choice([*_TOPICS, "r/+"]),
            "needs": pick.choice([[], ["precision >= 40"], ["precision >= 70"]]),
            "scope": pick.choice(["global", "local"]),
        }
        for n in range(pick.randint(0, 2))
    }


def _said(pick: random.Random, makers: list[str]) -> Said:
    if pick.random() < 0.2:
        name = pick.choice(_SITUATIONS)
        who = _SOURCES[_SITUATIONS.index(name)] if pick.random() < 0.8 else pick.choice(_SOURCES)
        return who, f"s/{name}", {"on": pick.random() < 0.6}
    content = {"v": pick.randint(0, 99), "w": 1, "q": pick.randint(0, 100), "at": 1_000_000 + pick.randint(0, 60)}
    return pick.choice(makers), pick.choice(_TOPICS), content
