"""The runner: every entrance goes through the stages in the tuple's order; nothing else puts them in a sequence."""

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock.engine
from penstock.domain import ensemble
from penstock.engine.events import own_events
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.policy_test import try_out
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages import runner
from penstock.engine.stages.draft import Draft
from penstock.model.sparkplug.plain import write_plain
from penstock.model.verdict import Effect, Verdict
from penstock.wire.packet import WillMessage
from tests.support.memory.node import MemoryNode
from tests.support.memory.rehearsed import domain, stage

PLACES = len(runner.STAGES)
ENGINE = Path(penstock.engine.__file__ or "").parent


class Probe(ModuleType):
    """A stage at a place of the tuple that takes note of what it is asked, and lets everything pass."""

    def __init__(self, place: int, events: dict[int, list[int]], deliveries: dict[int, list[int]]) -> None:
        super().__init__(f"tests.probe_{place}")
        self.place = place
        self._events = events
        self._deliveries = deliveries
        self.kept: list[object] = []
        """Whatever was asked about, so that no identity comes twice."""

    def plan(self, draft: Draft) -> None:
        draft.for_each_event(self._event)
        draft.for_each_delivery(self._delivery)

    def _event(self, passage: Passage) -> None:
        self.kept.append(passage)
        self._events.setdefault(id(passage), []).append(self.place)

    def _delivery(self, delivery: Delivery) -> None:
        self.kept.append(delivery.passage)
        self._deliveries.setdefault(id(delivery.passage), []).append(self.place)


class Probes:
    """A probe before each stage."""

    def __init__(self) -> None:
        self.events: dict[int, list[int]] = {}
        """By passage, the places that were asked about the event."""
        self.deliveries: dict[int, list[int]] = {}
        """By passage, the places that were asked about its deliveries."""
        self.probes = [Probe(place, self.events, self.deliveries) for place in range(PLACES)]

    def tuple(self) -> tuple[Any, ...]:
        return tuple(each for place, one in enumerate(runner.STAGES) for each in (self.probes[place], one))

    def forget(self) -> None:
        self.events.clear()
        self.deliveries.clear()

    def delivered(self) -> bool:
        """Whether some delivery has been through all places, and each through the first ones of them, in order."""
        rounds = [one for places in self.deliveries.values() for one in _rounds(places)]
        return list(range(PLACES)) in rounds and all(one == list(range(len(one))) for one in rounds)

    def came(self) -> bool:
        """The same of events."""
        return list(range(PLACES)) in self.events.values() and all(
            places == sorted(places) for places in self.events.values()
        )


def _rounds(places: list[int]) -> list[list[int]]:
    """The places by delivery: each begins at the first."""
    starts = [at for at, place in enumerate(places) if place == 0]
    return [places[start:end] for start, end in zip(starts, [*starts[1:], len(places)], strict=True)]


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Probes:
    made = Probes()
    monkeypatch.setattr(runner, "STAGES", made.tuple())
    return made


ONE = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
clients:
  ann: {node: n}
  bob: {node: n}
"""
HOME = """
nodes: {a: {listen: ["127.0.0.1:0"]}, b: {listen: ["127.0.0.1:0"]}}
links: [{between: [a, b]}]
clients:
  ann: {node: a}
  bob: {node: b}
"""
ROAMING = """
nodes: {a: {listen: ["127.0.0.1:0"]}, b: {listen: ["127.0.0.1:0"]}}
links: [{between: [a, b]}]
clients:
  ann: {node: a}
  bob: {node: [a, b], roams: true}
"""
MONITORED = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
clients:
  ann: {node: n}
  bob: {node: n}
monitors:
  rename: {link: ann -> n, states: {q0: {a: {emit: [b]}, "*": pass}}}
"""
STATED = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
clients:
  ann: {node: n}
  bob: {node: n}
statements:
  policies:
    tell: |
      PolicyStatement {
        On(Forward, Publication) {
          If {} Then {Publish("[class,Seen]")}
        }
      }
  apply:
    - {policy: tell, to: publication, of: ann, filter: a}
"""
DELAYED = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
clients:
  ann: {node: n}
  bob: {node: n}
contracts:
  producers: {ann: {producer: ann, filter: a, rules: {late: {purpose: health, degrade: [{delay: 60}]}}}}
  consumers: {bob: {consumer: bob, purpose: health, wants: {all: {filter: a}}}}
"""


CAPSULE = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
clients:
  ann: {node: n}
  bob: {node: n}
  cap: {node: n}
capsules:
  it:
    client: cap
    runs: node
    input: {topics: a, silence: {after: 10s}}
    operations: [{where: "false"}]
    output: {topic: made}
"""


TIMED = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
clients:
  ann: {node: n}
  bob: {node: n}
access:
  - {subject: ann, topics: "spBv1.0/#", may: write}
  - {subject: bob, topics: "spBv1.0/#", may: read, valid: {from: "14:00", until: "15:00"}}  # it begins at 13:46
"""


def _published(probes: Probes) -> None:
    rehearsal = stage(ONE)
    probes.forget()
    rehearsal.publish("ann", "a", b"1")
    rehearsal.run()


def _bridged(probes: Probes) -> None:
    rehearsal = stage(HOME)
    rehearsal.run()
    probes.forget()
    rehearsal.publish("ann", "a", b"1")
    rehearsal.run()
    assert len(probes.deliveries) == 2, "one passage at each node"


def _will(probes: Probes) -> None:
    joined = MemoryNode()
    joined.connect("bob").subscribe("#")
    ann = joined.connect("ann", will=WillMessage("gone", b"1"))
    probes.forget()
    ann.lose()


def _capsule(probes: Probes) -> None:
    rehearsal = stage(CAPSULE)
    rehearsal.publish("ann", "a", b"{}")
    rehearsal.run()
    probes.forget()
    rehearsal.wait(11)
    assert [one.topic for one in rehearsal.deliveries("bob")] == ["a", "made"]


def _monitor(probes: Probes) -> None:
    rehearsal = stage(MONITORED)
    probes.forget()
    rehearsal.publish("ann", "a", b"1")
    rehearsal.run()
    arrived, made = probes.events.values()
    assert arrived == [0, 1, 2, 3], "up to edit"
    assert made == list(range(PLACES))


def _own(probes: Probes) -> None:
    joined = MemoryNode()
    joined.connect("bob").subscribe("$SYS/#")
    probes.forget()
    own_events.publish(joined.node, "$SYS/x", b"1", joined.now)


def _retained(probes: Probes) -> None:
    joined = MemoryNode()
    joined.connect("ann").publish("a", b"1", retain=True)
    probes.forget()
    joined.connect("bob").subscribe("a")


def _queued(probes: Probes) -> None:
    joined = MemoryNode()
    bob = joined.connect("bob", clean_start=False, session_expiry=100)
    bob.subscribe("a", qos=1)
    bob.lose()
    joined.connect("ann").publish("a", b"1", qos=1)
    joined.govern(None)
    probes.forget()
    joined.connect("bob", clean_start=False, session_expiry=100)


def _resent(probes: Probes) -> None:
    joined = MemoryNode()
    bob = joined.connect("bob", clean_start=False, session_expiry=100)
    bob.subscribe("a", qos=1)
    joined.connect("ann").publish("a", b"1", qos=1)
    bob.lose()
    joined.govern(None)
    probes.forget()
    joined.connect("bob", clean_start=False, session_expiry=100)


def _policy(probes: Probes) -> None:
    rehearsal = stage(STATED)
    rehearsal.subscribe("bob", "$penstock/meta/#")
    probes.forget()
    rehearsal.publish("ann", "a", b"1")
    rehearsal.run()
    assert [one.topic for one in rehearsal.deliveries("bob")] == ["a", "$penstock/meta/Seen"]


def _delayed(probes: Probes) -> None:
    rehearsal = stage(DELAYED)
    rehearsal.publish("ann", "a", b"{}")
    rehearsal.run()
    assert not rehearsal.deliveries("bob")
    probes.forget()
    rehearsal.wait(61)
    assert [one.topic for one in rehearsal.deliveries("bob")] == ["a"]


def _opened(probes: Probes) -> None:
    rehearsal = stage(TIMED)
    rehearsal.publish("ann", "spBv1.0/G/NBIRTH/E", write_plain({"x": 1}, 0))
    rehearsal.run()
    assert not rehearsal.deliveries("bob")
    probes.forget()
    rehearsal.wait(3600)
    assert [one.topic for one in rehearsal.deliveries("bob")] == ["spBv1.0/G/NBIRTH/E"]


def _moved(probes: Probes) -> None:
    rehearsal = stage(ROAMING)
    rehearsal.disconnect("bob", "a")
    rehearsal.publish("ann", "t", b"1", qos=1)
    rehearsal.run()
    probes.forget()
    rehearsal.connect("bob", "b")
    assert [(one.node, one.topic) for one in rehearsal.deliveries("bob")] == [("b", "t")]
    assert len(probes.deliveries) == 2, "one passage at each node"


PLAYED: dict[str, Callable[[Probes], None]] = {
    "published": _published,
    "bridged": _bridged,
    "will": _will,
    "capsule": _capsule,
    "monitor": _monitor,
    "policy": _policy,
    "own": _own,
    "retained": _retained,
    "delayed": _delayed,
    "opened": _opened,
    "moved": _moved,
    "queued": _queued,
    "resent": _resent,
}
_LIVE = ("published", "bridged", "will", "capsule", "monitor", "policy", "own")


def test_every_entrance_is_played_here() -> None:
    assert PLAYED.keys() == runner.ENTRANCES.keys()


@pytest.mark.parametrize("entrance", runner.ENTRANCES)
def test_every_stage_is_asked_in_order(entrance: str, probes: Probes) -> None:
    PLAYED[entrance](probes)
    assert probes.delivered(), probes.deliveries
    if entrance in _LIVE:
        assert probes.came(), probes.events


def test_an_entrance_begins_at_a_stage_of_the_tuple() -> None:
    assert {entrance.stage for entrance in runner.ENTRANCES.values()} <= set(runner.names())


def test_explanations_ask_every_stage_in_order(probes: Probes) -> None:
    rehearsal = stage(ONE, subscribe=None)
    rehearsal.subscribe("bob", "#")
    node = rehearsal.nodes["n"]
    probes.forget()
    decisions = explain(rehearsal.nodes, arrival(node, "ann", hypothetical("a", b"1")), rehearsal.now)
    assert {decision.goes_by.target for decision in decisions if decision.goes_by} == {"bob"}
    assert probes.delivered()
    assert probes.came()


def test_a_stage_that_refuses_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(ModuleType):
        def plan(self, draft: Draft) -> None:
            draft.for_each_delivery(lambda _: Verdict("refuses", Effect.SUPPRESS, "rule", "why"))

    place = runner.names().index("release")
    stages = (*runner.STAGES[:place], Refuses("tests.refuses"), *runner.STAGES[place:])
    monkeypatch.setattr(runner, "STAGES", stages)
    rehearsal = stage(ONE, subscribe=None)
    rehearsal.subscribe("bob", "#")
    rehearsal.publish("ann", "a", b"1")
    rehearsal.run()
    assert not rehearsal.deliveries("bob")
    found = explain(rehearsal.nodes, arrival(rehearsal.nodes["n"], "ann", hypothetical("a", b"1")), rehearsal.now)
    assert {str(decision.verdicts[-1]) for decision in found} == {"refuses: suppress by rule: why"}


def test_policy_tests_ask_every_stage_in_order(probes: Probes) -> None:
    text = f"""{ONE}
tests:
  it arrives:
    subscribe: {{bob: "#"}}
    steps: [{{publish: {{ann: a}}, expect: {{bob: a}}}}]
"""
    written = domain(text)
    ((title, test),) = written.tests.items()
    result = try_out(title, test, Rehearsal(written, ensemble(written)))
    assert result.passed, result
    assert probes.delivered(), probes.deliveries
    assert probes.came()


def test_only_the_runner_goes_through_the_tuple() -> None:
    """No other module of the engine reads `STAGES`, or calls the steps of two stages one after the other."""
    names = set(runner.names())
    for path in ENGINE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name != "runner.py":
            assert not any(isinstance(one, ast.Attribute) and one.attr == "STAGES" for one in ast.walk(tree)), path
        for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
            called = {
                one.func.value.id
                for one in ast.walk(function)
                if isinstance(one, ast.Call)
                and isinstance(one.func, ast.Attribute)
                and one.func.attr in ("run", "begin", "bind", "plan", "ask_again", "ask_queued")
                and isinstance(one.func.value, ast.Name)
            }
            assert len(called & names) < 2, f"{path}: {function.name}"
