"""Random domains with policy statements, and what happens in them: many are joined into one domain, one journal."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.language.errors import StatementError
from penstock.language.statements.statement import Message
from penstock.model.errors import PolicyError
from penstock.policy.statements.statement import make_policy, policy_on
from tests.support.memory.recording import Written, record

Got = tuple[str, bytes, int, tuple[tuple[str, str], ...]]
"""Topic, payload, QoS and user properties of a message."""
Views = dict[tuple[str, str], list[Got]]
"""By subject and node, in order."""

TOPICS = ("a", "b/c")
FILTERS = ("#", "a", "b/#", "+")
WHERES = ("temp > 3", "has(secret)", "zone == 'a' && temp < 9")
CONDITIONS = (
    "",
    "temp > 5",
    "has(secret)",
    "secret == 1",
    "BrokerLoadIndex() > 0.5",
    "AuthenticateReceiver(G)",
    "AuthenticateSender(G)",
    "AuthenticateReceiver(H) || temp > 8",
    "MessageSizeIndex() > 0.0000002",
    "Receiver() == 's1'",
    "Sender() == 'n0' || Topic() == 'a'",
    "StrictMatch()",
)
ACTIONS = (
    "RemoveAttributes(secret)",
    "RemoveAttributes(where.floor, temp)",
    "KeepOnlyAttributes(temp, zone)",
    "TrimAttributes()",
    "ToXML()",
    "ToJSON()",
    "AppendPrevHop()",
    "AugmentBrokerHostInfo()",
    "AugmentBrokerLoadIndex(Attributes)",
    "AugmentProcessingTime()",
    "AugmentProcessingTime(Attributes)",
    "BlockMessage()",
    "Log(seen)",
    "Persist()",
    'Publish("[class,Seen],[message,$Message]")',
)
QUALIFIERS = (
    ("", "", "@broker: Egress ", "@broker: Ingress ", "@broker: Egress, Routing "),
    ("", "", "", "@matching: Before "),
    ("", "", "", "@attach: Always ", "@attach: IfYield ", "@attach: KeepExisting "),
    ("", "", "@yield_attach: True "),
)
PUBLISHERS = ("p0", "p1")
MONITORS = (
    {
        "q0": {"a": {"pass": True, "next": "q1"}, "*": "pass"},
        "q1": {"a": {"suppress": True, "next": "q0"}, "*": "pass"},
    },
    {"q0": {"a": {"rename": "b/c"}, "b/c": {"rename": "a"}}},
    {"q0": {"a when temp > 5": "suppress", "*": "pass"}},
)
PAYLOADS = (
    '{"temp": 7, "zone": "a", "secret": 1, "where": {"floor": 2, "room": "x"}}',
    '{"temp":2,"zone":"b"}',
    '{"temp": 9, "secret": 2}',
    "<event><temp>7</temp><secret>1</secret></event>",
    "not readable",
)


def policy(random: Random, carrier: Message) -> str:
    """The text of a policy that may be set on such messages."""
    for _ in range(20):
        text = f"PolicyStatement {{ {' '.join(_rule(random) for _ in range(random.choice((1, 1, 2))))} }}"
        try:
            policy_on(make_policy(text), carrier)
            return text
        except (PolicyError, StatementError):
            continue
    return "PolicyStatement { On(Forward, Publication) { If {temp > 5} Then {RemoveAttributes(secret)} } }"


def _rule(random: Random) -> str:
    qualifiers = "".join(random.choice(several) for several in QUALIFIERS)
    clauses = []
    for _ in range(random.choice((1, 2))):
        actions = ", ".join(random.sample(ACTIONS, random.choice((0, 1, 1, 2))))
        clauses.append(f"{{{random.choice(CONDITIONS)}}} Then {{{actions}}}")
    caught = random.choice(["", "", " OnException { If {} Then {KeepOnlyAttributes(zone)} }"])
    return f"On(Forward, Publication) {{ {qualifiers}If {' Elseif '.join(clauses)}{caught} }}"


@dataclass(frozen=True)
class StatementPlay:
    """A domain as the file writes it, and what is done, step by step."""

    plain: dict[str, Any]
    steps: list[dict[str, Any]]
    vouched: list[str]


def play(random: Random, watched: bool = False, cyclic: bool = False) -> StatementPlay:
    """One to three nodes in a line, or in a ring; publishers `p`, subjects `s`. There may be monitors."""
    nodes = [f"n{at}" for at in range(random.choice((1, 2, 2, 3)))]
    clients: dict[str, dict[str, Any]] = {name: {"node": random.choice(nodes)} for name in ("p0", "p1", "s0", "s1")}
    for name in ("s0", "s1"):
        if random.random() < 0.4:
            clients[name]["where"] = {random.choice(FILTERS): random.choice(WHERES)}
    statements: dict[str, Any] = {"policies": {}, "apply": []}
    for at in range(random.choice((0, 1, 1, 2))):
        to = random.choice(["publication", "subscription", "advertisement"])
        statements["policies"][f"m{at}"] = policy(random, Message(to.capitalize()))
        who = {"of": random.choice([["p0"], ["s0"], ["p0", "p1", "s1"]])}
        if to == "advertisement" and random.random() < 0.4:
            who = {"at": [random.choice(nodes)]}
        one = {"policy": f"m{at}", "to": to, **who, "filter": random.choice(FILTERS)}
        statements["apply"].append({**one, "where": random.choice([None, None, *WHERES])})
    plain: dict[str, Any] = {
        "nodes": {name: random.choice([{}, {}, {"overlay": "east"}]) for name in nodes},
        "links": [{"between": list(pair)} for pair in itertools.pairwise(nodes)],
        "clients": clients,
        "statements": statements,
        "monitors": {},
    }
    if cyclic and len(nodes) == 3:
        plain["links"].append({"between": ["n0", "n2"]})
    for at, name in enumerate(random.sample(list(clients), random.choice((0, 1, 2))) if watched else ()):
        ends = (name, clients[name]["node"]) if name in PUBLISHERS else (clients[name]["node"], name)
        plain["monitors"][f"m{at + 5}"] = {"link": " -> ".join(ends), "states": random.choice(MONITORS)}
    return StatementPlay(
        plain, list(_steps(random, nodes, list(clients))), random.sample(list(clients), random.choice((0, 1)))
    )


def _steps(random: Random, nodes: list[str], clients: list[str]) -> Iterator[dict[str, Any]]:
    if random.random() < 0.4:
        own = {"client": random.choice(PUBLISHERS), "where": random.choice(["", "", "temp > 3"])}
        yield {"do": "advertise", **own, "policy": policy(random, Message.ADVERTISEMENT)}
    for name in random.sample(clients, random.choice((0, 1, 2))):
        yield {"do": "prove", "client": name, "groups": random.choice([["G"], ["H"], ["G", "H"]])}
    for _ in range(5):
        yield {"do": "load", "node": random.choice(nodes), "value": random.choice([0.1, 0.7123456, 1.0])}
        said = {"topic": random.choice(TOPICS), "payload": random.choice(PAYLOADS), "qos": random.choice((0, 1, 2))}
        attached = policy(random, Message.PUBLICATION) if random.random() < 0.3 else ""
        yield {"do": "publish", "client": random.choice(PUBLISHERS), **said, "policy": attached}


class StatementPlays:
    """Plays joined into one domain, each by itself in it."""

    def __init__(self, count: int, random: Random, watched: bool = False, cyclic: bool = False) -> None:
        some = self._plays = [play(random, watched, cyclic) for _ in range(count)]
        self.steps: list[dict[str, Any]] = []
        joined: dict[str, Any] = {"nodes": {}, "links": [], "clients": {}, "monitors": {}}
        given: dict[str, Any] = {"policies": {}, "apply": [], "grants": [GRANT]}
        given["grants"] += [{**GRANT, "others": "#"}] if random.random() < 0.5 else []
        groups: dict[str, Any] = {
            name: {"secret": {"env": f"SECRET_{name}"}, "nodes": [], "clients": []} for name in ("G", "H")
        }
        for at, one in enumerate(some):
            plain, steps, vouched = _renamed(at, (one.plain, one.steps, one.vouched))
            self.steps += steps
            for name, node in plain["nodes"].items():
                joined["nodes"][name] = {"listen": "127.0.0.1:0", "store": "memory", **node}
                groups["G"]["nodes"].append(name)
                groups["H"]["nodes"].append(name)
            groups["G"]["clients"] += vouched
            joined["links"] += plain["links"]
            joined["clients"] |= plain["clients"]
            joined["monitors"] |= plain["monitors"]
            given["policies"] |= plain["statements"]["policies"]
            given["apply"] += plain["statements"]["apply"]
        self.plain = {**joined, "trust_groups": groups, "statements": given}
        self.domain = Domain.model_validate(self.plain)

    @property
    def subjects(self) -> list[str]:
        return [name for name in self.domain.clients if re.fullmatch(r"x\d+s\d", name)]

    def again(self) -> Domain:
        """The same, with other names for its monitors: what was recorded of these is of no use."""
        monitors = {f"{name}-again": one for name, one in self.plain["monitors"].items()}
        return Domain.model_validate({**self.plain, "monitors": monitors, "domain": "again"})

    def told(self, subject: str) -> str:
        """The play that a subject is in, for whoever has to find out what is wrong with it."""
        one = self._plays[int(subject[1:].partition("s")[0])]
        return yaml.safe_dump([one.plain, one.steps, one.vouched], width=200)

    def played(self, folder: Path) -> tuple[Written, Views]:
        """Play all of it, and record it: what subjects that subscribed to each topic by its name got."""
        rehearsal = Rehearsal(self.domain, ensemble(self.domain))
        record(rehearsal)
        ticks = itertools.count(1)
        for name, node in rehearsal.nodes.items():
            node.runtime.host, node.runtime.clock = f"host-of-{name}", lambda: rehearsal.now + next(ticks) / 8192
        for name in self.domain.clients:
            rehearsal.connect(name)
        for name in self.subjects:
            for topic in TOPICS:
                rehearsal.subscribe(name, topic, no_local=False)
        for step in self.steps:
            _do(rehearsal, **step)
        rehearsal.run()
        journal = Written(folder)
        journal.add_all(rehearsal.nodes.values(), journal.keep(self.domain))
        views: Views = {}
        for subject in self.subjects:
            for one in rehearsal.deliveries(subject):
                views.setdefault((subject, one.node), []).append((one.topic, one.payload, one.qos, one.properties))
        return journal, views


GRANT = {"to": "*", "set": ["publication", "advertisement"], "elements": "*"}


def _renamed(at: int, said: Any) -> Any:
    text = yaml.safe_dump(list(said), width=10_000)
    return yaml.safe_load(re.sub(r"\b[npsm]\d\b", lambda found: f"x{at}{found[0]}", text))


def _do(rehearsal: Rehearsal, do: str, **step: Any) -> None:
    match do:
        case "load":
            rehearsal.nodes[step["node"]].runtime.load = step["value"]
        case "prove":
            rehearsal.prove(step["client"], step["groups"])
        case "advertise":
            rehearsal.advertise(step["client"], "own", "#", step["where"], policy=step["policy"])
        case "publish":
            payload = step["payload"].encode()
            rehearsal.publish(step["client"], step["topic"], payload, step["qos"], policy=step["policy"])
            rehearsal.run()
