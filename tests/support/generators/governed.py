"""Random domains with some of every kind of policy, and random traffic in them."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from penstock.domain import Domain, ensemble
from penstock.engine import governing
from penstock.engine.federation import overlay
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle
from tests.support.memory.recording import record
from tests.support.memory.sparkplug import encode

PUBLISHERS = ("ann", "abe")
"""Contracts, statements and monitors are those of the first."""
READERS = ("bob", "eve", "dan")
FILTERS = ("#", "p/#", "s/#", "c/#", "m/#", "spBv1.0/#", "$share/g/p/#", "$share/g/#", "$penstock/meta/#")
EDGE = "spBv1.0/G/{}/E"
POLICY = "PolicyStatement {{ On({} Publication) {{ If {{x > 6}} Then {{{}}} Elseif {{x > 3}} Then {{{}}} }} }}"
ACTIONS = (
    "BlockMessage()",
    'RemoveAttributes("y")',
    'KeepOnlyAttributes("x")',
    "ToXML()",
    "AppendPrevHop()",
    "AugmentBrokerHostInfo()",
    'AugmentBrokerHostInfo("Attributes")',
    'Publish("[class,Alarm],[by,$Sender]")',
    'Publish("[class,Alarm]", "m/made")',
)
HELD_BACK = 2
"""Seconds after which nothing is held back any more."""
DEGRADED: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"step": {"attribute": "x", "size": 2}}],
    [{"keep": ["y"]}],
    [{"delay": HELD_BACK - 1}],
    [{"aggregate": {"seconds": HELD_BACK, "attributes": ["x"], "least": 1}}],
)
EDGES: tuple[dict[str, Any], ...] = (
    {"p/stop": {"suppress": True, "next": "q1"}, "*": "pass"},
    {"p/+": {"rename": "m/{1}"}, "*": "pass"},
    {"p/x": {"emit": ["{topic}", "{topic}", {"topic": "m/x", "payload": "<{payload}>"}]}, "*": "pass"},
    {"p/x": {"emit": [{"topic": "p/x", "qos": 0}]}, "*": "pass"},
    {"c/+": {"emit": ["s/{1}"]}, "s/+": {"emit": []}, "*": "pass"},
)


def random_domain(random: Random, odds: float, nodes: str) -> dict[str, Any]:
    """A domain with two publishers and three readers; each kind of policy is in it with the same odds."""
    said: dict[str, Any] = {
        "nodes": {name: {} for name in nodes},
        "links": [{"between": ["n", "m"], "type": "default"}] if nodes == "nm" else [],
        "clients": {
            **{name: {"node": "n", "type": "home"} for name in PUBLISHERS},
            "bob": {"node": "n", "type": random.choice(["home", "cloud"])},
            "eve": {"node": random.choice(nodes), "type": random.choice(["home", "cloud"])},
            "dan": {"node": nodes[-1], "type": "home"},
        },
        "brokering": {"types": ["home", "cloud", "default"], "deny": []},
    }
    if random.random() < 0.3:
        said["brokering"]["deny"] = [{"from": "home", "to": "cloud"}]
    if random.random() < odds:
        said["statements"] = _statements(random)
    if random.random() < odds:
        said["contracts"] = _contracts(random)
    if random.random() < odds:
        said["access"] = [
            *({"subject": name, "topics": "spBv1.0/#", "may": ["read", "write"]} for name in PUBLISHERS),
            {"subject": "bob", "topics": "spBv1.0/#", "may": "read", "except": random.choice(["a", "b"])},
            {"subject": "eve", "topics": "spBv1.0/#", "may": "read", "when": "a.value > 5"},
            {"subject": "dan", "topics": "spBv1.0/+/NDATA/#", "may": "read"},
        ]
    if random.random() < odds:
        states = {"q0": random.choice(EDGES), "q1": {"p/go": {"pass": True, "next": "q0"}}}
        links = ["n -> bob", "ann -> n", f"{nodes[-1]} -> dan", *(["n -> m"] if nodes == "nm" else [])]
        said["monitors"] = {"edits": {"link": random.choice(links), "states": states}}
    return said


def _statements(random: Random) -> dict[str, Any]:
    forms = [POLICY.format("Forward,", *random.sample(ACTIONS, 2)) for _ in range(2)]
    own = {"to": "publication", "of": "ann", "filter": random.choice(["s/#", "#"])}
    its = {"to": "subscription", "of": random.choice(READERS), "filter": "s/#"}
    apply = random.choice([[own], [its], [own, its]])
    used = [{"policy": f"p{number}", **where} for number, where in enumerate(apply)]
    return {"policies": {f"p{number}": form for number, form in enumerate(forms)}, "apply": used}


def _contracts(random: Random) -> dict[str, Any]:
    less, retention = random.choice(DEGRADED), random.choice([{}, {"retention": random.choice([8, 100])}])
    rule = {"purpose": "health", **({"degrade": less} if less else {}), **retention}
    about = {"filter": random.choice(["#", "#", "c/#"])}
    producer = {"producer": "ann", **about, "rules": {"all": rule}}
    consumers = {
        name: {"consumer": name, "purpose": purpose, "wants": {"all": about}, **retention}
        for name, purpose in (("bob", "health"), ("eve", random.choice(["health", "sales"])))
    }
    return {"producers": {"ann": producer}, "consumers": consumers}


def random_messages(random: Random) -> Iterator[tuple[str, bytes]]:
    """Topics with payloads. Births give metrics their aliases, which reports then use."""
    kind = random.randrange(4)
    if kind == 0:
        yield random.choice(["p/x", "p/stop", "p/go"]), b"1"
    elif kind == 3:
        aliases = dict(zip("ab", random.sample(range(4), 2), strict=True))
        for seq, message in enumerate(("NBIRTH", "NDATA", "NDATA")[: random.randint(1, 3)]):
            values = {
                name: random.randrange(10) for name in random.sample("ab", 2 if seq == 0 else random.randint(1, 2))
            }
            metrics = [
                {"alias": aliases[name], "datatype": 3, "int_value": value, **({} if seq else {"name": name})}
                for name, value in values.items()
            ]
            yield EDGE.format(message), encode({"timestamp": 1, "metrics": metrics, "seq": seq})
    else:
        content = {"x": random.randrange(10), "y": random.randrange(10)}
        yield random.choice(["s/x", "c/x"]), json.dumps(content).encode()


def _play(rehearsal: Rehearsal, random: Random, later: Domain) -> None:
    """Let clients come and go, subscribe and publish, time pass and policies change; at the end, everybody is there for
    what waited.
    """
    for name in (*PUBLISHERS, *READERS):
        rehearsal.connect(name)
    away: set[str] = set()
    for turn in range(16):
        for name in READERS:
            if name not in away and (turn == 0 or random.random() < 0.1):
                for filter in random.sample(FILTERS, random.randint(1, 3)):
                    rehearsal.subscribe(name, filter, qos=random.randrange(3), no_local=False)
        if random.random() < 0.25:
            name = random.choice(READERS)
            (rehearsal.connect if name in away else rehearsal.disconnect)(name)
            away ^= {name}
        if random.random() < 0.2:
            rehearsal.wait(random.choice([1, 2, 6]))
        publisher, properties = random.choice(PUBLISHERS), random.choice([(), (("unit", "C"),)])
        for topic, payload in random_messages(random):
            retain = random.random() < 0.2
            qos, expiry = random.randrange(3), random.choice([None, None, 5, 100])
            rehearsal.publish(publisher, topic, payload, qos, retain, properties=properties, expiry=expiry)
            rehearsal.run()
    if random.random() < 0.4:
        _reload(rehearsal, later)
    if away and random.random() < 0.3:
        _end(rehearsal, away.pop())
    for name in away:
        rehearsal.connect(name)
    rehearsal.wait(2)
    rehearsal.wait(2)


def _reload(rehearsal: Rehearsal, later: Domain) -> None:
    rehearsal.ensemble = ensemble(later)
    for name, node in rehearsal.nodes.items():
        governing.govern(node, later.nodes[name].limits, None, None, rehearsal.ensemble, rehearsal.now)
        overlay.prepare(node)
    rehearsal.wait(1)


def _end(rehearsal: Rehearsal, name: str) -> None:
    """End the session of a client that is away."""
    for node in rehearsal.nodes.values():
        for session in [session for session in node.sessions.values() if session.place.entity == name]:
            lifecycle.end(node, session, rehearsal.now)


def played(random: Random) -> tuple[Domain, Rehearsal]:
    """A random domain of one or two nodes that record, after some traffic."""
    nodes = random.choice(["n", "nm"])
    settings, later = random_domain(random, 0.5, nodes), random_domain(random, 0.5, nodes)
    same = {"nodes": {name: {"listen": "127.0.0.1:0"} for name in nodes}, "clients": settings["clients"]}
    domain = Domain.model_validate(settings | same)
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    _play(rehearsal, random, Domain.model_validate(later | same))
    return domain, rehearsal
