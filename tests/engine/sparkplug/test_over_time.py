"""Random plays with Sparkplug over time: births that give aliases other meanings, some of them refused, reports by
alias, readers that come and go, reloads, kills and cut links. At the moment a message leaves, it has no metric that the
present policies withhold from its reader.

Each value begins with the name of its metric, so that the oracle need not know what an alias means.
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.generators.examples import some
from tests.support.memory.rehearsed import reload
from tests.support.memory.sparkplug import encode

CHUNK = 20
RUNS = some(100)
METRICS = ("alpha", "beta", "gamma")
EDGE, READERS = "G/E", ("r1", "r2")


class Play:
    """An edge node at one node, readers at others; `withheld` has by reader the metrics that it may not see."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.nodes = "abc"[: random.randint(1, 3)]
        self.links = list(zip(self.nodes, self.nodes[1:], strict=False))
        self.places = {name: random.choice(self.nodes) for name in ("e", *READERS)}
        self.withheld: dict[str, set[str]] = {reader: {random.choice(METRICS)} for reader in READERS}
        self.unread: set[str] = set()
        self.unwritten: set[str] = set()
        self.aliases: dict[str, int] = {}
        self.number = 0
        self.cut: set[tuple[str, str]] = set()
        self.seen = dict.fromkeys(READERS, 0)
        self.log = [f"{self.places}"]
        stores = {name: Store(Path(":memory:"), "normal") for name in self.nodes}
        domain = Domain.model_validate(self.domain())
        self.rehearsal = Rehearsal(domain, ensemble(domain), {}, stores)
        for name in ("e", *READERS):
            self.rehearsal.connect(name)
        for reader in READERS:
            self.rehearsal.subscribe(reader, "spBv1.0/#", random.randint(0, 1))
        self.birth()

    def domain(self) -> dict[str, Any]:
        clients: dict[str, Any] = {name: {"node": node} for name, node in self.places.items()}
        clients["e"]["edge"] = EDGE
        write: dict[str, Any] = {"subject": EDGE, "topics": "spBv1.0/#", "may": ["read", "write"]}
        access = [write | ({"except": sorted(self.unwritten)} if self.unwritten else {})]
        for reader in READERS:
            if reader not in self.unread:
                names = sorted(self.withheld[reader])
                read: dict[str, Any] = {"subject": reader, "topics": "spBv1.0/#", "may": "read"}
                access.append(read | ({"except": names} if names else {}))
        nodes = {name: {"listen": "127.0.0.1:0"} for name in self.nodes}
        links = [{"between": list(link)} for link in self.links]
        return {"domain": "plant", "nodes": nodes, "links": links, "clients": clients, "access": access}

    def step(self) -> None:
        acts = (self.report, self.report, self.birth, self.come_or_go, self.change, self.restart, self.link)
        self.random.choice(acts)()
        self.rehearsal.run()
        self.check()

    def publish(self, kind: str, metrics: list[dict[str, Any]], seq: int, payload: bytes | None = None) -> None:
        if self.rehearsal.is_connected("e"):
            content = encode({"timestamp": self.number, "seq": seq, "metrics": metrics}) if payload is None else payload
            qos = self.random.randint(0, 1)
            self.log.append(f"{kind} qos={qos} {metrics if payload is None else payload!r}")
            self.rehearsal.publish("e", f"spBv1.0/G/{kind}/E", content, qos)

    def value(self, name: str) -> str:
        self.number += 1
        return f"{name}!{self.number}"

    def birth(self) -> None:
        """Give aliases other meanings. A birth may be damaged: nodes refuse it, and the edge node goes on as it is."""
        random = self.random
        numbers = random.sample(range(1, 5), len(METRICS))
        self.aliases = dict(zip(METRICS, numbers, strict=True))
        if random.random() < 0.3:
            self.publish("NBIRTH", [], 0, b"\xff\xffdamaged")
            return
        metrics = [
            {"name": name, "alias": alias, "datatype": 12, "string_value": self.value(name)}
            for name, alias in self.aliases.items()
        ]
        self.publish("NBIRTH", metrics, 0)

    def report(self) -> None:
        names = self.random.sample(METRICS, self.random.randint(1, len(METRICS)))
        metrics = [{"alias": self.aliases[name], "string_value": self.value(name)} for name in names]
        self.publish("NDATA", metrics, 1)

    def come_or_go(self) -> None:
        reader = self.random.choice(READERS)
        is_here = self.rehearsal.is_connected(reader)
        self.log.append(f"{reader} {'goes' if is_here else 'comes'}")
        (self.rehearsal.disconnect if is_here else self.rehearsal.connect)(reader)

    def change(self) -> None:
        reader, name = self.random.choice(READERS), self.random.choice(METRICS)
        match self.random.randrange(3):
            case 0:
                self.unread ^= {reader}
            case 1:
                self.unwritten ^= {name}
            case _:
                self.withheld[reader] ^= {name}
        self.log.append(f"withheld {self.withheld}, not read by {self.unread}, not written {self.unwritten}")
        reload(self.rehearsal, self.domain(), {})

    def restart(self) -> None:
        name = self.random.choice(self.nodes)
        self.log.append(f"{name} is killed and starts again")
        self.rehearsal.restart(name)

    def link(self) -> None:
        if self.links:
            link = self.random.choice(self.links)
            self.log.append(f"{link} is {'restored' if link in self.cut else 'cut'}")
            (self.rehearsal.restore if link in self.cut else self.rehearsal.cut)(*link)
            self.cut ^= {link}

    def check(self) -> None:
        for reader in READERS:
            got = self.rehearsal.deliveries(reader)
            for delivered in got[self.seen[reader] :]:
                leaked = [name for name in self.withheld[reader] if f"{name}!".encode() in delivered.payload]
                log = "\n".join((*self.log, f"{reader} gets {delivered.topic} {delivered.payload!r}"))
                assert not leaked, log
                assert reader not in self.unread, log
            self.seen[reader] = len(got)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_no_metric_leaves_that_the_present_policies_withhold(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play = Play(seed)
        for _ in range(25):
            play.step()
