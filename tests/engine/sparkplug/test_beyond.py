"""What nobody beyond a link may ever read does not cross it, and those beyond get all that they get without the link.

The oracle knows the policies and nothing of views: it tries all that times and conditions can be. Each reader beyond
has a twin at the edge node's own node, with the same policies: both must be told the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.governing import govern
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.model.topic import matches
from tests.support.generators.examples import some
from tests.support.memory.sparkplug import encode

CHUNK = 10
RUNS = some(60)
METRICS = ("alpha", "beta", "gamma")
SOURCES = {"N": "E1", "D": "E1/d1", "V": "E1/d2"}
"""By a letter that stands in their values: an edge node and two devices."""
TOPICS = ("spBv1.0/#", "spBv1.0/G1/+/E1", "spBv1.0/G1/+/E1/#", "spBv1.0/+/+/E1/d1", "spBv1.0/G1/NDATA/+")
CONDITIONS = ("", "", "", "has(alpha)", "!has(beta)", "gamma.value == 'no'")
WINDOWS = (None, None, ("06:00", "12:00"), ("12:00", "18:00"))
JOINED = {"line": ["ab", "bc"], "ring": ["ab", "bc", "ac"], "star": ["ab", "ac"]}


Told = tuple[str, int | None, dict[Any, Any]]


@dataclass(frozen=True)
class Rule:
    """A policy of a reader and its twin."""

    topics: str
    exceptions: frozenset[str]
    condition: str
    window: tuple[str, str] | None

    @classmethod
    def draw(cls, random: Random) -> "Rule":
        exceptions = frozenset(name for name in METRICS if random.random() < 0.5)
        return cls(random.choice(TOPICS), exceptions, random.choice(CONDITIONS), random.choice(WINDOWS))

    def written(self, *subjects: str) -> dict[str, Any]:
        policy: dict[str, Any] = {"subject": list(subjects), "topics": self.topics, "may": "read"}
        if self.exceptions:
            policy["except"] = sorted(self.exceptions)
        if self.condition:
            policy["when"] = self.condition
        if self.window is not None:
            policy["valid"] = {"from": self.window[0], "until": self.window[1]}
        return policy


def topics_of(letter: str) -> list[str]:
    kinds = [f"{letter if letter == 'N' else 'D'}{kind}" for kind in ("BIRTH", "DATA", "DEATH", "CMD")]
    return [f"spBv1.0/G1/{kind}/{SOURCES[letter]}" for kind in kinds]


def may_cross(readers: list[list[Rule]], letter: str, name: str) -> bool:
    """Whether a reader may read a metric under some truth of conditions, at some time, or a condition asks for it."""
    for topic in topics_of(letter):
        for rules in readers:
            about = [rule for rule in rules if matches(rule.topics, topic)]
            if any(name in rule.condition for rule in about):
                return True
            unknown = sorted({rule.condition for rule in about} - {""})
            times = sorted({rule.window for rule in about if rule.window is not None})
            for truths, now in product(product((False, True), repeat=len(unknown)), [None, *times]):
                holds = {"": True, **dict(zip(unknown, truths, strict=True))}
                applying = [rule for rule in about if holds[rule.condition] and rule.window in (None, now)]
                if applying and not any(name in rule.exceptions for rule in applying):
                    return True
    return False


@dataclass
class Play:
    """Nodes, an edge node at the first, and pairs of readers, one of them at the first and one at another."""

    random: Random
    joined: list[str]
    has_conditions: bool = True
    seq: int = 0
    said: int = 0
    aliases: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = self.random
        self.rules = [[self.draw() for _ in range(random.choice((1, 1, 2)))] for _ in range(2)]
        self.published: dict[int, set[str]] = {}
        self.lost = random.choice((0.0, 0.1))
        self.places = [random.choice("bc") for _ in self.rules]
        self.rehearsal = self.begun()

    def draw(self) -> Rule:
        rule = Rule.draw(self.random)
        return rule if self.has_conditions else replace(rule, condition="")

    def domain(self) -> Domain:
        clients: dict[str, Any] = {"e1": {"node": "a", "edge": "G1/E1"}}
        access = [{"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": ["read", "write"]}]
        for number, rules in enumerate(self.rules):
            clients |= {f"here{number}": {"node": "a"}, f"there{number}": {"node": self.places[number]}}
            access += [rule.written(f"here{number}", f"there{number}") for rule in rules]
        nodes = {name: {"listen": f"127.0.0.1:{port}", "store": "memory"} for port, name in enumerate("abc", 1)}
        links = [{"between": list(pair)} for pair in self.joined]
        return Domain.model_validate({"nodes": nodes, "links": links, "clients": clients, "access": access})

    def begun(self) -> Rehearsal:
        domain = self.domain()
        rehearsal = Rehearsal(domain, ensemble(domain))
        rehearsal.connect("e1")
        for name in self.readers():
            rehearsal.connect(name)
            rehearsal.subscribe(name, "spBv1.0/#")
        rehearsal.run()
        rehearsal.wait(1)
        return rehearsal

    def readers(self) -> Iterator[str]:
        yield from (f"{place}{number}" for place in ("here", "there") for number in range(len(self.rules)))

    def metric(self, letter: str, name: str, is_birth: bool) -> dict[str, Any]:
        self.said += 1
        value = f"{letter}.{name}|{self.said}|"
        value = self.random.choice(("no", value)) if self.has_conditions else value
        made: dict[str, Any] = {"string_value": value, "datatype": 12}
        alias = self.aliases[letter].get(name)
        if is_birth or alias is None or self.random.random() < 0.2:
            made["name"] = name
        return made if alias is None else made | {"alias": alias}

    def publish(self, letter: str, kind: str, names: list[str]) -> None:
        topic = next(topic for topic in topics_of(letter) if kind in topic)
        metrics = [self.metric(letter, name, kind == "BIRTH") for name in names]
        numbered = {} if (letter, kind) == ("N", "DEATH") else {"seq": self.seq % 256}
        self.seq += 1 + (self.random.random() < self.lost)  # some are lost on their way
        self.said += 1
        self.published[self.said] = {metric["string_value"] for metric in metrics}
        payload = encode({"timestamp": self.said, "metrics": metrics, **numbered})
        self.rehearsal.publish("e1", topic, payload, qos=1)
        self.rehearsal.run()

    def step(self) -> None:
        random = self.random
        letter = random.choice(list(SOURCES)) if "N" in self.aliases else "N"
        if letter not in self.aliases or random.random() < 0.08:
            if letter == "N":
                self.seq, self.aliases = 0, {}
            self.aliases[letter] = {name: number for number, name in enumerate(METRICS, 1) if random.random() < 0.7}
            self.publish(letter, "BIRTH", list(METRICS))
        elif random.random() < 0.05:
            self.publish(letter, "DEATH", [])
            for gone in [letter] if letter != "N" else list(self.aliases):
                del self.aliases[gone]
        elif random.random() < 0.1:
            self.rehearsal.wait(random.choice((1800, 3600, 4 * 3600)))
        else:
            self.publish(letter, "DATA", random.sample(METRICS, random.randint(1, 3)))

    def change(self) -> None:
        """Other policies hold from now on, everywhere."""
        whole = ensemble(self.domain())
        for name in reversed("abc"):
            node = self.rehearsal.nodes[name]
            govern(node, node.limits, None, None, whole, self.rehearsal.now)
        self.rehearsal.run()
        self.rehearsal.wait(1)

    def told(self, name: str) -> list[Told]:
        """What a reader was told: topic, how far its `seq` went on, metrics."""
        told, last = list[Told](), None
        for message in self.rehearsal.deliveries(name):
            read = read_sparkplug(message.payload)
            seq, is_birth = read.get("seq"), "NBIRTH" in message.topic
            step = None if last is None or seq is None or is_birth else (seq - last) % 256
            last = last if seq is None else seq
            told.append((message.topic, step, {**read["metrics"], **read["aliases"]}))
        return told

    def reported(self, name: str) -> list[tuple[int, set[str]]]:
        """What a reader was told of what was published, by the time in each message; not what it was given back."""
        read = [read_sparkplug(message.payload) for message in self.rehearsal.deliveries(name)]
        told = [(int(said["timestamp"].nanos // 1_000_000), {**said["metrics"], **said["aliases"]}) for said in read]
        own = [(time, self.published.get(time), set(metrics.values())) for time, metrics in told]
        return [(time, published & metrics) for time, published, metrics in own if published is not None]


def crossed(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], bytearray]:
    """What goes over each wire from now on."""
    bytes_of: dict[tuple[str, str], bytearray] = {}
    write = Wire.write

    def recorded(wire: Wire, data: bytes) -> None:
        bytes_of.setdefault((wire.source, wire.target), bytearray()).extend(data)
        write(wire, data)

    monkeypatch.setattr(Wire, "write", recorded)
    return bytes_of


@pytest.mark.fuzz
@pytest.mark.parametrize("joined", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_twins_are_told_the_same_and_nothing_else_crosses(
    first: int, joined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, first + CHUNK):
        wires = crossed(monkeypatch)
        play = Play(Random(seed), joined)
        for _ in range(40):
            play.step()
        for number in range(len(play.rules)):
            here, there = (play.told(f"{place}{number}") for place in ("here", "there"))
            if play.lost:  # a gap is seen there when the next message comes
                missed_here, missed_there = (sum((step or 1) - 1 for _, step, _ in told) for told in (here, there))
                assert 0 <= missed_there <= missed_here, (seed, number)
            messages = [[(topic, said) for topic, _, said in told] for told in (here, there)]
            assert messages[0] == messages[1], (seed, number)
            assert play.lost or there == here, (seed, number)
        for source, target in (pair for pair in [("a", "b"), ("b", "c")] if "ac" not in joined):
            beyond = "bc" if target == "b" else "c"
            readers = [rules for rules, place in zip(play.rules, play.places, strict=True) if place in beyond]
            for letter, name in product(SOURCES, METRICS):
                is_there = f"{letter}.{name}|".encode() in wires[source, target]
                assert may_cross(readers, letter, name) or not is_there, (seed, source, letter, name)


def test_the_oracle_lets_something_cross_and_keeps_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the plays there is what crosses, and what may not."""
    answers = set[bool]()
    for seed in range(10):
        play = Play(Random(seed), JOINED["line"])
        answers |= {may_cross(play.rules, letter, name) for letter, name in product(SOURCES, METRICS)}
    assert answers == {True, False}


@pytest.mark.fuzz
@pytest.mark.parametrize("joined", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_after_a_reload_twins_are_told_the_same_of_what_is_reported(first: int, joined: list[str]) -> None:
    """What may cross from now on is known there by its alias. What was withheld before comes with the next report."""
    for seed in range(first, first + CHUNK):
        play = Play(Random(seed), joined, has_conditions=False)
        for _ in range(3):
            for _ in range(15):
                play.step()
            play.rules = [[play.draw() for _ in rules] for rules in play.rules]
            play.change()
        for _ in range(15):
            play.step()
        for number in range(len(play.rules)):
            here, there = (play.reported(f"{place}{number}") for place in ("here", "there"))
            assert there == here, (seed, number)


def test_a_real_loss_is_a_gap_beyond_and_what_stays_is_none() -> None:
    play = Play(Random(1), JOINED["line"], has_conditions=False)
    play.rules = [[Rule("spBv1.0/G1/+/E1", frozenset({"alpha"}), "", None)]] * 2
    play.change()
    play.lost = 0
    play.aliases = {"N": {}, "D": {}}
    play.publish("N", "BIRTH", ["alpha"])
    for _ in range(3):
        play.publish("D", "DATA", ["beta"])
        play.publish("N", "DATA", ["alpha", "beta"])
    play.seq += 2
    play.publish("N", "DATA", ["beta"])
    for place in ("here", "there"):
        assert [step for _, step, _ in play.told(f"{place}0")] == [None, 1, 1, 1, 3]
