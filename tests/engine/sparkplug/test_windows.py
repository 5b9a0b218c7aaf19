"""Policies that are valid at times: what is due comes when its time has come, and nothing comes at another time.

The oracle knows the policies, the present values and the time, and nothing of views: at any moment a reader has the
present value of every metric that it may see, has got nothing that it may not, and counts `seq` without a gap.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.generators.examples import some
from tests.support.memory.sparkplug import PAYLOAD, encode

CHUNK = 20
RUNS = some(100)
METRICS = ("alpha", "beta", "gamma")
READERS = ("r1", "r2")
HOUR = 3600


@dataclass
class Rule:
    """A policy of a reader: hours, days and exceptions."""

    hours: tuple[int, int] | None
    days: frozenset[int]
    exceptions: frozenset[str]
    by_condition: bool = False

    def holds(self, now: float) -> bool:
        """Whether it is valid: hours past midnight belong to the day on which they began."""
        at = datetime.fromtimestamp(now, UTC)
        if self.hours is None:
            return at.weekday() in self.days
        begin, end = self.hours
        length = (end - begin) % 24
        since = (at.hour - begin) % 24  # whole hours since it last began
        began = datetime.fromtimestamp(now - since * HOUR, UTC)
        return since < length and began.weekday() in self.days

    def written(self, reader: str) -> dict[str, Any]:
        policy: dict[str, Any] = {"subject": reader, "topics": "spBv1.0/#", "may": "read"}
        if self.exceptions:
            policy["except"] = sorted(self.exceptions)
        if self.by_condition:
            assert self.hours is not None
            begin, end = self.hours
            joined = "&&" if begin < end else "||"
            return policy | {"when": f"now.getHours() >= {begin} {joined} now.getHours() < {end}"}
        valid: dict[str, Any] = {"on": [("mon", "tue", "wed", "thu", "fri", "sat", "sun")[day] for day in self.days]}
        if self.hours is not None:
            valid |= {"from": f"{self.hours[0]:02}:00", "until": f"{self.hours[1]:02}:00"}
        return policy | {"valid": valid}


@dataclass
class Host:
    """What a reader makes of what it gets, as the norm says."""

    values: dict[str, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    seq: int | None = None
    alive: bool | None = None

    def takes(self, topic: str, payload: bytes) -> list[str]:
        """Take a message; the names of the metrics in it."""
        kind = topic.split("/")[2]
        read: Any = PAYLOAD.FromString(payload)
        if kind == "NDEATH":
            self.alive = False
            return []
        if kind == "NBIRTH":
            self.values, self.alive = {}, True
            self.names = {metric.alias: metric.name for metric in read.metrics}
        elif self.seq is not None:
            assert read.seq == (self.seq + 1) % 256, f"{self.seq} then {read.seq}"
        self.seq = read.seq
        told = {metric.name or self.names[metric.alias]: metric.string_value for metric in read.metrics}
        self.values |= told
        return list(told)


class Play:
    """An edge node at one node, readers at others."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.nodes = "abc"[: random.randint(1, 3)]
        self.places = {name: random.choice(self.nodes) for name in ("e", *READERS)}
        self.rules = {reader: self.some_rules() for reader in READERS}
        self.hosts = {reader: Host() for reader in READERS}
        self.seen = dict.fromkeys(READERS, 0)
        self.values: dict[str, str] = {}
        self.number = self.seq = 0
        self.is_alive = False
        self.log = [f"{self.places} {self.rules}"]
        domain = Domain.model_validate(self.domain())
        stores = {name: Store(Path(":memory:"), "normal") for name in self.nodes}
        start = 1_000_000.0 + random.randrange(7 * 24) * HOUR
        self.rehearsal = Rehearsal(domain, ensemble(domain), {}, stores, now=start)
        for name in ("e", *READERS):
            self.rehearsal.connect(name)
        for reader in READERS:
            self.rehearsal.subscribe(reader, "spBv1.0/#", 1)
        self.rehearsal.wait(1)
        self.birth()
        self.check(is_by_time=False)

    def some_rules(self) -> list[Rule]:
        random = self.random
        return [self.some_rule() for _ in range(random.randint(1, 3))]

    def some_rule(self) -> Rule:
        random = self.random
        begin, end = random.sample(range(24), 2)
        days = frozenset(random.sample(range(7), random.randint(1, 7)))
        exceptions = frozenset(random.sample(METRICS, random.randint(0, 2)))
        match random.randrange(4):
            case 0:
                return Rule(None, days, exceptions)
            case 1:
                return Rule((begin, end), frozenset(range(7)), exceptions, by_condition=True)
            case _:
                return Rule((begin, end), days, exceptions)

    def domain(self) -> dict[str, Any]:
        clients: dict[str, Any] = {name: {"node": node} for name, node in self.places.items()}
        clients["e"]["edge"] = "G/E"
        access = [{"subject": "G/E", "topics": "spBv1.0/#", "may": ["read", "write"]}]
        access += [rule.written(reader) for reader, rules in self.rules.items() for rule in rules]
        nodes = {name: {"listen": "127.0.0.1:0"} for name in self.nodes}
        links = [{"between": list(link)} for link in zip(self.nodes, self.nodes[1:], strict=False)]
        return {"domain": "plant", "nodes": nodes, "links": links, "clients": clients, "access": access}

    def visible(self, reader: str) -> set[str] | None:
        """The metrics that a reader may see now; None: no message at all."""
        valid = [rule for rule in self.rules[reader] if rule.holds(self.rehearsal.now)]
        return set(METRICS).difference(*(rule.exceptions for rule in valid)) if valid else None

    def step(self) -> None:
        acts = (self.report, self.report, self.report, self.wait, self.wait, self.wait, self.life, self.come_or_go)
        act = self.random.choice(acts)
        act()
        self.rehearsal.run()
        self.check(is_by_time=act == self.wait)

    def says(self, kind: str, metrics: list[dict[str, Any]], seq: int | None) -> None:
        content = {"timestamp": int(self.rehearsal.now * 1000), "metrics": metrics}
        self.rehearsal.publish(
            "e", f"spBv1.0/G/{kind}/E", encode(content if seq is None else {**content, "seq": seq}), 1
        )
        self.log.append(f"{self.rehearsal.now}: {kind} {metrics}")
        self.rehearsal.run()

    def value(self, name: str) -> str:
        self.number += 1
        self.values[name] = f"{name}!{self.number}"
        return self.values[name]

    def birth(self) -> None:
        self.seq, self.is_alive = 0, True
        aliases = dict(zip(METRICS, self.random.sample(range(1, 9), len(METRICS)), strict=True))
        self.aliases = aliases
        metrics = [
            {"name": name, "alias": aliases[name], "datatype": 12, "string_value": self.value(name)} for name in METRICS
        ]
        self.says("NBIRTH", metrics, 0)

    def life(self) -> None:
        if self.is_alive and self.random.random() < 0.5:
            self.is_alive = False
            self.says("NDEATH", [], None)
        else:
            self.birth()

    def report(self) -> None:
        if self.is_alive:
            self.seq = (self.seq + 1) % 256
            names = self.random.sample(METRICS, self.random.randint(1, 3))
            self.says("NDATA", [{"alias": self.aliases[n], "string_value": self.value(n)} for n in names], self.seq)

    def wait(self) -> None:
        hours = self.random.choice((1, 1, 2, 5, 11, 24))
        self.rehearsal.wait(hours * HOUR)
        self.log.append(f"{hours} hours pass: {datetime.fromtimestamp(self.rehearsal.now, UTC)}")

    def come_or_go(self) -> None:
        reader = self.random.choice(READERS)
        is_here = self.rehearsal.is_connected(reader)
        self.log.append(f"{reader} {'goes' if is_here else 'comes'}")
        (self.rehearsal.disconnect if is_here else self.rehearsal.connect)(reader)
        self.rehearsal.wait(1)

    def check(self, is_by_time: bool) -> None:
        for reader, host in self.hosts.items():
            got = self.rehearsal.deliveries(reader)
            visible = self.visible(reader)
            for delivered in got[self.seen[reader] :]:
                log = "\n".join((*self.log, f"{reader} gets {delivered.topic} {delivered.payload!r}"))
                assert visible is not None, log
                try:
                    told = host.takes(delivered.topic, delivered.payload)
                except (AssertionError, KeyError) as error:
                    raise AssertionError(f"{log}\n{error!r}") from error
                assert set(told) <= visible, log
                assert not [name for name in set(METRICS) - visible if f"{name}!".encode() in delivered.payload], log
                assert told or not (is_by_time and "NDATA" in delivered.topic), (
                    f"time alone makes an empty report\n{log}"
                )
            self.seen[reader] = len(got)
            if visible is not None and self.rehearsal.is_connected(reader):
                log = "\n".join((*self.log, f"{reader} has {host}, may see {visible}, now {self.values}"))
                assert host.alive is self.is_alive or (host.alive is None and not self.is_alive), log
                if self.is_alive:
                    assert {name: host.values.get(name) for name in visible} == {
                        name: self.values[name] for name in visible
                    }, log


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_a_reader_has_what_it_may_see_when_it_may_see_it(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play = Play(seed)
        for _ in range(30):
            play.step()
