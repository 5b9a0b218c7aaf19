"""The journal says of each event whom it was sent to and in which form: byte for byte what their connections got."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle
from penstock.wire.packet import (
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from tests.support.clients.peer import Peer
from tests.support.generators.examples import some
from tests.support.memory.recording import Written, differing, record, seen_by, sent, sockets
from tests.support.memory.sparkplug import encode
from tests.support.processes.commands import PATIENCE
from tests.support.processes.federation import together
from tests.support.processes.mosquitto import HOST

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
DEGRADED: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"step": {"attribute": "x", "size": 2}}],
    [{"keep": ["y"]}],
    [{"delay": 1}],
    [{"aggregate": {"seconds": 2, "attributes": ["x"], "least": 1}}],
)
EDGES: tuple[dict[str, Any], ...] = (
    {"p/stop": {"suppress": True, "next": "q1"}, "*": "pass"},
    {"p/+": {"rename": "m/{1}"}, "*": "pass"},
    {"p/x": {"emit": ["{topic}", "{topic}", {"topic": "m/x", "payload": "<{payload}>"}]}, "*": "pass"},
    {"p/x": {"emit": [{"topic": "p/x", "qos": 0}]}, "*": "pass"},
    {"c/+": {"emit": ["s/{1}"]}, "s/+": {"emit": []}, "*": "pass"},
)


def random_domain(random: Random, odds: float, nodes: str) -> dict[str, Any]:
    """A domain with one publisher and three readers; each kind of policy is in it with the same odds."""
    said: dict[str, Any] = {
        "nodes": {name: {} for name in nodes},
        "links": [{"between": ["n", "m"], "type": "default"}] if nodes == "nm" else [],
        "clients": {
            "ann": {"node": "n", "type": "home"},
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
            {"subject": "ann", "topics": "spBv1.0/#", "may": ["read", "write"]},
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


def play(rehearsal: Rehearsal, random: Random) -> None:
    """Let clients come and go, subscribe and publish, and time pass; at the end, everybody is there for what waited."""
    for name in ("ann", *READERS):
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
        properties = random.choice([(), (("unit", "C"),)])
        for topic, payload in random_messages(random):
            retain = random.random() < 0.2
            qos, expiry = random.randrange(3), random.choice([None, None, 5, 100])
            rehearsal.publish("ann", topic, payload, qos, retain, properties=properties, expiry=expiry)
            rehearsal.run()
    if away and random.random() < 0.3:
        _end(rehearsal, away.pop())
    for name in away:
        rehearsal.connect(name)
    rehearsal.wait(2)
    rehearsal.wait(2)


def _end(rehearsal: Rehearsal, name: str) -> None:
    """End the session of a client that is away."""
    for node in rehearsal.nodes.values():
        for session in [session for session in node.sessions.values() if session.place.entity == name]:
            lifecycle.end(node, session, rehearsal.now)


@pytest.mark.fuzz
def test_what_is_recorded_as_sent_is_what_sockets_got(tmp_path: Path) -> None:
    for seed in range(some(60)):
        assert _played(Random(seed), tmp_path / str(seed)) == (), f"seed {seed}"


def _played(random: Random, folder: Path) -> tuple[str, ...]:
    """What a journal of random traffic in a random domain says, and sockets do not; and the other way round."""
    settings = random_domain(random, 0.5, random.choice(["n", "nm"]))
    settings["nodes"] = {name: {"listen": "127.0.0.1:0"} for name in settings["nodes"]}
    domain = Domain.model_validate(settings)
    with sockets() as got:
        rehearsal = Rehearsal(domain, ensemble(domain))
        record(rehearsal)
        play(rehearsal, random)
    journal = Written(folder)
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    return differing(sent(folder), got)


# --- with live nodes

VERSIONS = {"bob": 5, "eve": 4, "dan": 5}


class Reader:
    """A client of a live node whose session outlives its connections; it acknowledges all that it gets."""

    def __init__(self, name: str, port: int, got: Counter[bytes]) -> None:
        self.name = name
        self.version = VERSIONS[name]
        self._port = port
        self._got = got
        self._seen: dict[int, bytes] = {}
        self._peer: Peer | None = None
        self._reading: asyncio.Task[None] | None = None

    async def come(self) -> None:
        self._peer = await Peer.open(HOST, self._port, self.version)
        lasting = Properties(session_expiry=1000) if self.version == 5 else NO_PROPERTIES
        await self._peer.connect(self.name, clean_start=False, properties=lasting)
        self._reading = asyncio.create_task(self._read(self._peer))

    async def go(self) -> None:
        assert self._peer is not None
        assert self._reading is not None
        await self._peer.send(Disconnect())
        await self._reading  # all that is still under way
        await self._peer.close()
        self._peer = None

    async def subscribe(self, filter: str, qos: int) -> None:
        if self._peer is not None:
            await self._peer.send(Subscribe(self._peer.new_id(), (SubscriptionRequest(filter, qos),)))

    async def toggle(self) -> None:
        await (self.come() if self._peer is None else self.go())

    async def stay(self) -> None:
        if self._peer is None:
            await self.come()

    async def _read(self, peer: Peer) -> None:
        while (packet := await peer.next(10 * PATIENCE)) is not None:
            if isinstance(packet, Pubrel):
                await peer.send(Pubcomp(packet.packet_id))
            elif isinstance(packet, Publish):
                seen = seen_by(self.name, packet, has_properties=self.version == 5)
                if not packet.dup or self._seen.get(packet.packet_id) != seen:
                    self._got[seen] += 1
                self._seen[packet.packet_id] = seen
                if packet.qos:
                    await peer.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))


@pytest.mark.parametrize("seed", range(some(2)))
async def test_live_nodes_record_what_sockets_got(seed: int) -> None:
    random, got = Random(seed), Counter[bytes]()
    settings = random_domain(random, 1, "nm") | {"journal": {"folder": "journal", "flush": 0.05}}
    settings["nodes"] = {name: {"store": "memory"} for name in settings["nodes"]}
    with together(settings, links=1) as nodes:
        readers = [Reader(name, nodes.ports[settings["clients"][name]["node"]], got) for name in READERS]
        for reader in readers:
            await reader.come()
        ann = await Peer.open(HOST, nodes.ports["n"])
        await ann.connect("ann")
        for turn in range(60):
            for reader in readers:
                for filter in random.sample(FILTERS, 3) if not turn else ():
                    await reader.subscribe(filter, random.randrange(3))
            if random.random() < 0.2:
                reader = random.choice(readers)
                await reader.toggle()
                await reader.subscribe(random.choice(FILTERS), random.randrange(3))
            for topic, payload in random_messages(random):
                pairs = Properties(user_properties=random.choice([(), (("unit", "C"),)]))
                await ann.publish(topic, payload, random.randrange(3), random.random() < 0.2, pairs)
        for reader in readers:
            await reader.stay()
        without = {name for name, version in VERSIONS.items() if version == 4}
        for _ in range(int(5 * PATIENCE)):  # until what is held back has come and is written
            wrong = differing(sent(nodes.folder / "journal", without), got)
            if not wrong:
                break
            await asyncio.sleep(0.2)
        for reader in readers:
            await reader.go()
        assert wrong == ()
        assert got
