"""Rules before matching: applied before conditions are asked, on every way and wherever an event waits."""

import json

import pytest

from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.model.event import Event
from tests.engine.statements.test_entrances import given, rule
from tests.engine.statements.test_paper import got, join, play, say

BLOCK = rule("@matching: Before If {has(stop)} Then {BlockMessage()}")
WITHOUT = rule("@matching: Before If {} Then {RemoveAttributes(x)}")


def test_the_policy_of_a_subscription_blocks_before_its_condition_is_asked() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", other="n0", officer="n0")
    rehearsal.subscribe("s", "t", where="x > 3", policy=BLOCK)
    rehearsal.subscribe("other", "t", where="x > 3")
    say(rehearsal, "p", {"x": 9, "stop": 1})
    say(rehearsal, "p", {"x": 1})
    say(rehearsal, "p", {"x": 4})
    assert got(rehearsal, "s") == [{"x": 4}]
    assert got(rehearsal, "other") == [{"x": 9, "stop": 1}, {"x": 4}]


@pytest.mark.parametrize("reader", ["n0", "n2"])
def test_the_condition_of_a_subscription_is_asked_of_what_its_rules_before_matching_leave(reader: str) -> None:
    rehearsal = play(3)
    join(rehearsal, p="n0", s=reader)
    rehearsal.subscribe("s", "t", where="!has(x)", name="none", policy=WITHOUT)
    rehearsal.subscribe("s", "u", where="x > 0", name="some", policy=WITHOUT)
    say(rehearsal, "p", {"x": 1, "y": 2})
    say(rehearsal, "p", {"x": 1, "y": 2}, "u")
    assert got(rehearsal, "s") == [{"y": 2}]


def test_what_publishers_take_out_cannot_be_asked_for_before_matching() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", policy=rule("@matching: Before If {has(secret) && secret > 5} Then {BlockMessage()}"))
    hidden = rule("If {} Then {RemoveAttributes(secret)}")
    for secret in (1, 9):
        say(rehearsal, "p", {"secret": secret, "open": 1}, policy=hidden)
    assert got(rehearsal, "s") == [{"open": 1}, {"open": 1}]


def test_what_is_retained_is_asked_before_matching() -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n1")
    for content, topic in (({"x": 9, "stop": 1}, "a"), ({"x": 1}, "b"), ({"x": 4}, "c")):
        say(rehearsal, "p", content, topic, retain=True)
    rehearsal.subscribe("s", "+", where="x > 3", policy=BLOCK)
    rehearsal.run()
    assert got(rehearsal, "s") == [{"x": 4}]


def test_what_is_retained_with_a_policy_is_matched_after_its_rules_before_matching() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    without = rule("@matching: Before @broker: Egress If {} Then {RemoveAttributes(x)}")
    say(rehearsal, "p", {"x": 9, "y": 1}, retain=True, policy=without)
    rehearsal.subscribe("s", "t", where="x > 3", name="asks")
    rehearsal.subscribe("s", "t", where="!has(x)", name="other")
    rehearsal.run()
    assert got(rehearsal, "s") == [{"y": 1}]


def test_members_of_a_group_are_asked_after_their_rules_before_matching() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", other="n0")
    rehearsal.subscribe("s", "$share/g/t", no_local=False, where="!has(x)", policy=WITHOUT)
    rehearsal.subscribe("other", "$share/g/t", no_local=False, where="x == 0")
    for _ in range(4):
        say(rehearsal, "p", {"x": 1, "y": 2})
    assert got(rehearsal, "s") == 4 * [{"y": 2}]
    assert got(rehearsal, "other") == []


def test_a_policy_that_is_set_later_is_asked_before_matching_from_then_on() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="!has(x)")
    say(rehearsal, "p", {"x": 1, "y": 1})
    rehearsal.set_policy("s", WITHOUT, subscription="t")
    say(rehearsal, "p", {"x": 1, "y": 2})
    rehearsal.set_policy("s", None, subscription="t")
    say(rehearsal, "p", {"x": 1, "y": 3})
    assert got(rehearsal, "s") == [{"y": 2}]


@pytest.mark.parametrize("matching", ["Before", "After"])
def test_flooding_goes_past_matching(matching: str) -> None:
    """At n0 the condition is not satisfied. The event goes to n1 all the same, where a rule makes it satisfy it."""
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n1")
    rehearsal.subscribe("s", "t", where="has(penstock_trace_host)")
    rehearsal.run()
    trace = "@matching: Before @broker: Egress If {} Then {AugmentBrokerHostInfo(Attributes)}"
    flood = f"@matching: {matching} @broker: Ingress If {{x > 1}} Then {{FloodMessage()}}"
    policy = f"PolicyStatement {{ On(Forward, Publication) {{ {flood} }} On(Forward, Publication) {{ {trace} }} }}"
    say(rehearsal, "p", {"x": 1}, policy=policy)
    say(rehearsal, "p", {"x": 2}, policy=policy)
    assert [one["x"] for one in got(rehearsal, "s")] == [2]


def test_what_the_domain_gives_a_subscription_is_asked_before_matching() -> None:
    rehearsal = play(statements=given(WITHOUT, filter="t"))
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="x > 0", name="asks")
    say(rehearsal, "p", {"x": 1, "y": 2})
    rehearsal.subscribe("s", "t", where="y > 0", name="other")
    say(rehearsal, "p", {"x": 1, "y": 2})
    assert got(rehearsal, "s") == [{"y": 2}]


def test_rules_before_matching_are_explained() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="x > 3", policy=BLOCK)
    said = {}
    for content in ({"x": 9, "stop": 1}, {"x": 1}, {"x": 4}):
        event = Event("t", json.dumps(content).encode())
        found = explain(rehearsal.nodes, arrival(rehearsal.nodes["n0"], "p", event), rehearsal.now, ("p", "s"))
        (decision,) = [one for one in found if one.goes_by is not None and one.goes_by.target == "s"]
        reasons = [(verdict.stage, verdict.reason) for verdict in decision.verdicts]
        assert ("match", "`x > 3` is asked after rules before matching") in reasons
        said[content["x"]] = [reason for stage, reason in reasons if stage == "judge"]
    unmatched = "its subscriptions are not satisfied by what rules before matching leave"
    assert said == {9: ["`has(stop)` holds: BlockMessage()"], 1: [unmatched], 4: []}
