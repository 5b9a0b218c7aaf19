"""The journal says of each event whom it was sent to: just those whose connections got it."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.generators.examples import some
from tests.support.memory.journals import events
from tests.support.memory.recording import Written, record
from tests.support.memory.sparkplug import encode

READERS = ("bob", "eve", "dan")
FILTERS = ("#", "p/#", "s/#", "c/#", "spBv1.0/#", "$share/g/p/#", "$share/g/#")
EDGE = "spBv1.0/G/{}/E"
BLOCK = """PolicyStatement {
  On(Forward, Publication) {
    If {x > 6} Then {BlockMessage()}
    Elseif {x > 3} Then {RemoveAttributes("y")}
  }
}"""


def random_domain(random: Random) -> Domain:
    """Two nodes with one publisher, three readers, and some of every kind of policy."""
    said: dict[str, Any] = {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in "nm"},
        "links": [{"between": ["n", "m"]}],
        "clients": {
            "ann": {"node": "n", "type": "home"},
            "bob": {"node": "n", "type": random.choice(["home", "cloud"])},
            "eve": {"node": random.choice("nm"), "type": random.choice(["home", "cloud"])},
            "dan": {"node": "m", "type": "home"},
        },
        "brokering": {"types": ["home", "cloud", "default"], "deny": []},
    }
    if random.random() < 0.5:
        said["brokering"]["deny"] = [{"from": "home", "to": "cloud"}]
    if random.random() < 0.5:
        apply = {"policy": "block", "to": "publication", "of": "ann", "filter": random.choice(["s/#", "#"])}
        said["statements"] = {"policies": {"block": BLOCK}, "apply": [apply]}
    if random.random() < 0.5:
        less = random.choice([[], [{"step": {"attribute": "x", "size": 2}}], [{"delay": 5}]])
        rule = {"purpose": "health", **({"degrade": less} if less else {})}
        producer = {"producer": "ann", "filter": "c/#", "rules": {"all": rule}}
        consumers = {
            name: {"consumer": name, "purpose": purpose, "wants": {"all": {"filter": "c/#"}}}
            for name, purpose in (("bob", "health"), ("eve", random.choice(["health", "sales"])))
        }
        said["contracts"] = {"producers": {"ann": producer}, "consumers": consumers}
    if random.random() < 0.5:
        said["access"] = [
            {"subject": "ann", "topics": "spBv1.0/#", "may": ["read", "write"]},
            {"subject": "bob", "topics": "spBv1.0/#", "may": "read", "except": random.choice(["a", "b"])},
            {"subject": "eve", "topics": "spBv1.0/+/NDATA/#", "may": "read", "when": "a.value > 5"},
        ]
    if random.random() < 0.4:
        begun = {"p/stop": {"suppress": True, "next": "q1"}, "*": "pass"}
        states = {"q0": begun, "q1": {"p/go": {"pass": True, "next": "q0"}}}
        said["monitors"] = {"quiet": {"link": random.choice(["n -> bob", "ann -> n"]), "states": states}}
    return Domain.model_validate(said)


def random_payload(random: Random) -> Iterator[tuple[str, bytes]]:
    """Topics with payloads; births before reports."""
    kind = random.randrange(4)
    if kind == 0:
        yield random.choice(["p/x", "p/stop", "p/go"]), b"1"
    elif kind == 3:
        metrics = [{"name": name, "datatype": 3, "int_value": random.randrange(10)} for name in ("a", "b")]
        for seq, message in enumerate(("NBIRTH", "NDATA")):
            yield EDGE.format(message), encode({"timestamp": 1, "metrics": metrics, "seq": seq})
    else:
        content = {"x": random.randrange(10), "y": random.randrange(10)}
        yield random.choice(["s/x", "c/x"]), json.dumps(content).encode()


def play(rehearsal: Rehearsal, random: Random) -> None:
    """Let clients come and go, subscribe and publish; at the end, everybody is there for what waited."""
    for name in ("ann", *READERS):
        rehearsal.connect(name)
    for name in READERS:
        for filter in random.sample(FILTERS, random.randint(1, 3)):
            rehearsal.subscribe(name, filter, qos=random.randrange(3), no_local=False)
    away: set[str] = set()
    for _ in range(12):
        if random.random() < 0.25:
            name = random.choice(READERS)
            (rehearsal.connect if name in away else rehearsal.disconnect)(name)
            away ^= {name}
        for topic, payload in random_payload(random):
            rehearsal.publish("ann", topic, payload, qos=random.randrange(3), retain=random.random() < 0.1)
            rehearsal.run()
    for name in away:
        rehearsal.connect(name)
    rehearsal.wait(10)


@pytest.mark.fuzz
def test_who_is_recorded_as_reached_is_who_got_it(tmp_path: Path) -> None:
    for seed in range(some(60)):
        random = Random(seed)
        domain = random_domain(random)
        rehearsal = Rehearsal(domain, ensemble(domain))
        record(rehearsal)
        play(rehearsal, random)
        journal = Written(tmp_path / str(seed))
        journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
        said: dict[str, list[str]] = {name: [] for name in READERS}
        for event in events(journal.folder):
            for receiver in event["reached"]:  # type: ignore[attr-defined]
                if receiver["entity"] in said:
                    said[receiver["entity"]].append(str(event["topic"]))
        got = {name: [delivered.topic for delivered in rehearsal.deliveries(name)] for name in READERS}
        assert {name: sorted(topics) for name, topics in said.items()} == {
            name: sorted(topics) for name, topics in got.items()
        }, f"seed {seed}"
