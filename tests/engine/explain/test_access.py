"""Explanations of what access policies do: they say what happens then, and change nothing."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain, ensemble
from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.sparkplug.plain import read_plain, write_plain
from penstock.model.verdict import Effect, Verdict
from tests.support.generators.examples import some

DOMAIN = """
nodes: {a: {listen: "127.0.0.1:0"}, b: {listen: "127.0.0.1:0"}}
links: [{between: [a, b], forward: all}]
clients:
  e1: {node: a, edge: G1/E1}
  near: {node: a}
  far: {node: b}
  app: {node: b}
access:
  - {id: edge, subject: G1/E1, topics: "spBv1.0/G1/+/E1/#", may: [read, write]}
  - {id: births, subject: [near, far], topics: "spBv1.0/G1/NBIRTH/E1", may: read, except: "x/*"}
  - {id: data, subject: [near, far], topics: "spBv1.0/G1/NDATA/E1", may: read, when: "!has(gone)"}
  - {id: hidden, subject: [near, far], topics: "spBv1.0/G1/NDATA/E1", may: read, except: [s, x/*], when: m.value > 5}
  - {id: orders, subject: app, topics: "spBv1.0/G1/NCMD/+", may: write, except: [stop, "x/*"]}
  - {id: small, subject: app, topics: "spBv1.0/G1/NCMD/+", may: write, except: m, when: "m.value < 3"}
"""
ROUND = DOMAIN.replace("b: {listen", "c: {listen: '127.0.0.1:0'}, b: {listen").replace(
    "links: [", "links: [{between: [a, c], forward: all}, {between: [c, b], forward: all}, "
)
"""With two ways from one node to the other."""
NBIRTH, NDATA, NCMD, NDEATH = (f"spBv1.0/G1/{kind}/E1" for kind in ("NBIRTH", "NDATA", "NCMD", "NDEATH"))
READERS = ("e1", "near", "far", "app")


class Played:
    """The domain in play: each event is explained before it is published."""

    def __init__(self, text: str = DOMAIN) -> None:
        domain = Domain.model_validate(yaml.safe_load(text))
        self.play = Rehearsal(domain, ensemble(domain))
        for name in READERS:
            self.play.connect(name)
            self.play.subscribe(name, "#")

    def explain(self, who: str, topic: str, payload: bytes) -> tuple[Decision, ...]:
        nodes = self.play.nodes
        start = arrival(nodes[self.play.where(who)], who, Event(topic, payload))
        return explain(nodes, start, self.play.now, READERS)

    def publish(self, who: str, topic: str, payload: bytes) -> dict[str, list[bytes]]:
        """What each reader got of it."""
        before = {name: len(self.play.deliveries(name)) for name in READERS}
        self.play.publish(who, topic, payload)
        self.play.run()
        return {name: [one.payload for one in self.play.deliveries(name)[before[name] :]] for name in READERS}


def told(decisions: tuple[Decision, ...]) -> dict[str, list[bytes]]:
    """What each reader is said to get."""
    return {
        name: [
            output.payload
            for one in decisions
            if one.goes_by is not None and one.goes_by.target == name
            for output in one.outputs
        ]
        for name in READERS
    }


def verdict(decisions: tuple[Decision, ...], stage: str, to: str | None = None) -> Verdict:
    found = [
        verdict
        for one in decisions
        if to is None or (one.goes_by is not None and one.goes_by.target == to)
        for verdict in one.verdicts
        if verdict.stage == stage
    ]
    return found[0]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([("e1", NBIRTH), ("e1", NDATA), ("e1", NDATA), ("app", NCMD), ("near", NDATA), ("e1", NDEATH)]),
        st.dictionaries(st.sampled_from(["m", "s", "x/1", "gone", "stop"]), st.integers(0, 9), max_size=4),
        st.integers(0, 3),
    ),
    max_size=12,
)


@pytest.mark.parametrize("text", [DOMAIN, ROUND])
@given(steps=STEPS)
@settings(deadline=None, max_examples=some(25))
def test_what_is_told_is_what_happens_and_asking_changes_nothing(
    text: str, steps: list[tuple[tuple[str, str], dict[str, int], int]]
) -> None:
    played = Played(text)
    for (who, topic), metrics, seq in steps:
        payload = write_plain(metrics, None if topic == NCMD else seq)
        decisions = played.explain(who, topic, payload)
        assert played.explain(who, topic, payload) == decisions
        assert told(decisions) == played.publish(who, topic, payload)


def has(played: Played, who: str, topic: str, **metrics: Any) -> tuple[Decision, ...]:
    payload = write_plain({name.replace("__", "/"): value for name, value in metrics.items()}, 0)
    decisions = played.explain(who, topic, payload)
    played.publish(who, topic, payload)
    return decisions


def test_who_reads_what_by_which_policy() -> None:
    played = Played()
    decisions = has(played, "e1", NBIRTH, m=0, s=0, x__1=0)
    assert verdict(decisions, "prune") == Verdict("prune", verdict(decisions, "prune").effect, "edge", "")
    for reader in ("near", "far"):
        assert verdict(decisions, "project", reader)[1:] == (
            "replace",
            "births",
            "without `x/1` (excepted by `births`)",
        )
    assert verdict(decisions, "project", "app").reason == f"`app` may not read `{NBIRTH}`: no policy is about it"


def test_what_is_taken_out_and_what_is_given_back() -> None:
    played = Played()
    has(played, "e1", NBIRTH, m=0, s=0)
    hidden = has(played, "e1", NDATA, m=9, s=1)
    assert verdict(hidden, "project", "far")[1:] == ("replace", "data, hidden", "without `s` (excepted by `hidden`)")
    back = has(played, "e1", NDATA, m=1)
    assert read_plain(told(back)["far"][0]) == {"m": 1, "s": 1}
    reason = "`s` given back, withheld before; `hidden` does not apply: `m.value > 5` is false"
    assert verdict(back, "project", "far")[1:] == ("replace", "data", reason)


@pytest.mark.parametrize(
    ("metrics", "effect", "rule", "reason"),
    [
        ({"m": 5}, "pass", "orders", "`small` does not apply: `m.value < 3` is false"),
        ({"m": 1}, "replace", "orders, small", "without `m` (excepted by `small`)"),
        (
            {"stop": 1},
            "replace",
            "orders",
            "without `stop` (excepted by `orders`); `small` does not apply: `m.value < 3` fails: there is no `m`",
        ),
    ],
)
def test_who_writes_what_by_which_policy(metrics: dict[str, int], effect: str, rule: str, reason: str) -> None:
    assert verdict(has(Played(), "app", NCMD, **metrics), "prune")[1:] == (effect, rule, reason)


def test_a_condition_that_fails_is_told_with_its_reason() -> None:
    decisions = has(Played(), "e1", NDATA, s=1, gone=1)
    reason = verdict(decisions, "project", "near").reason
    assert "`data` does not apply: `!has(gone)` is false" in reason
    assert "`hidden` does not apply: `m.value > 5` fails: there is no `m`" in reason


def test_one_who_is_not_connected_is_asked_about_as_the_domain_knows_it() -> None:
    played = Played()
    played.play.disconnect("app")
    node = played.play.nodes["b"]
    start = arrival(node, "app", Event(NCMD, write_plain({"stop": 1, "m": 9})))
    decisions = explain(played.play.nodes, start, played.play.now, READERS)
    assert read_plain(told(decisions)["e1"][0]) == {"m": 9}


def test_what_stays_before_a_link_is_said_where_it_stays() -> None:
    """Nobody at b may ever read `x/1` of the edge node, or anything of its device."""
    played = Played(DOMAIN.replace('may: read, when: "!has(gone)"', 'may: read, except: "x/*"'))
    birth = played.explain("e1", NBIRTH, write_plain({"m": 1, "x/1": 2}, 0))
    (said,) = (verdict for verdict in towards(birth, "b").verdicts if verdict.stage == "project")
    assert (said.effect, said.reason) == (Effect.REPLACE, "without `x/1`: nobody beyond the link may ever read them")
    device = played.explain("e1", "spBv1.0/G1/DBIRTH/E1/d1", write_plain({"m": 1}, 1))
    assert towards(device, "b").verdicts[-1].reason == "nobody beyond the link may ever read any of this"
    assert not [decision for decision in device if decision.node == "b"]


def towards(decisions: tuple[Decision, ...], target: str) -> Decision:
    (decision,) = (each for each in decisions if each.goes_by is not None and each.goes_by.target == target)
    return decision
