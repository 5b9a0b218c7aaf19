"""Nodes that decide by tokens and trust, and record it: what was published, rated, refused and delivered."""

import json
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.memory.recording import Views, Written, delivered, record

TOPICS = ("home/door", "home/light", "garden/gate", "shed")
NODES = ("b1", "b2", "b3")
SUBJECTS = ("bob1", "bob2", "bob3", "eve3")
PUBLISHERS = ("ann1", "ann2", "ann3")
CONTROL = ("$penstock/feedback", "$penstock/evidence", "$penstock/trust")
GRANTS = (
    {"clients": [*PUBLISHERS], "publish": ["home/#", "garden/#"]},
    {"clients": ["bob1", "bob2", "bob3"], "subscribe": ["home/#", "garden/+", "$penstock/#"], "publish": "home/bob"},
    {"clients": "eve3", "subscribe": "home/door"},
)
NEIGHBOURS = ({"node": "b3", "at": "b2", "subscribe": ["home/#", "shed"]},)
TRUST = {
    "sign": 0.55,
    "penalty": 3,
    "begin": [{"of": of, "by": by, "good": 2} for pair in pairwise(NODES) for of, by in (pair, pair[::-1])],
    "feedback": {"least": 1, "from": "*", "most": 100},
    "operators": "op",
}


def trusted(**more: Any) -> Domain:
    """Three nodes in a line; publishers, subjects and an operator."""
    said = {
        "domain": "trusted",
        "nodes": {name: {"listen": "127.0.0.1:0", "signing_key": f"{name}.pem"} for name in NODES},
        "links": [{"between": pair} for pair in pairwise(NODES)],
        "clients": {name: {"node": f"b{name[-1]}"} for name in (*PUBLISHERS, *SUBJECTS)} | {"op": {"node": [*NODES]}},
        "tokens": {
            "keys": "keys.json",
            "grants": [*GRANTS, {"clients": "op", "publish": "#"}],
            "neighbours": NEIGHBOURS,
        },
        "trust": TRUST,
        **more,
    }
    return Domain.model_validate({key: value for key, value in said.items() if value is not None})


@dataclass(frozen=True)
class TrustPlayed:
    """What happened: its journal, what subjects got, and the nodes as they are now."""

    journal: Path
    delivered: Views
    rehearsal: Rehearsal


def play(folder: Path, random: Random, domain: Domain | None = None, steps: int = 80) -> TrustPlayed:
    """Random publications and ratings; subjects subscribe to every topic by its name."""
    domain = domain or trusted()
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    for name in domain.clients:
        rehearsal.connect(name)
    for name in SUBJECTS:
        for topic in (*TOPICS, *CONTROL):
            rehearsal.subscribe(name, topic, no_local=False)
    for number in range(steps):
        topic, payload = random.choice(TOPICS), b"%d" % number
        rehearsal.publish(random.choice(PUBLISHERS), topic, payload, random.choice((0, 1, 2)))
        rehearsal.run()
        if random.random() < 0.5:
            said = {"topic": topic, "good": random.random() < 0.3, "payload": sha256(payload).hexdigest()}
            rehearsal.publish(random.choice(SUBJECTS), "$penstock/feedback", json.dumps(said).encode(), 1)
        if random.random() < 0.1:
            node, neighbour = random.choice([ends for pair in pairwise(NODES) for ends in (pair, pair[::-1])])
            held = {"neighbour": neighbour, "good": random.choice([0, 9]), "bad": 1, "at": rehearsal.now}
            rehearsal.publish("op", "$penstock/evidence", json.dumps(held).encode(), 1, node=node)
        rehearsal.run()
    journal = Written(folder)
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    return TrustPlayed(folder, delivered(rehearsal, SUBJECTS), rehearsal)
