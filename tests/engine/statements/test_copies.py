"""Copies of one event: those that policies make equal are one, and what comes of a policy comes for each receiver."""

from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.statements.event_judging import Judging
from penstock.model.event import Event
from tests.engine.statements.test_paper import got, join, play, policy, say

TRACING = "PolicyStatement { On(Forward, Publication) { If {} Then {AugmentBrokerLoadIndex(Attributes)} } }"
LOGGING = "PolicyStatement { On(Forward, Publication) { If {} Then {Log(seen)} } }"


def forms(rehearsal: Rehearsal, *who: str) -> list[object]:
    """The copies of one event that go to clients."""
    node = rehearsal.nodes["n0"]
    judging = Judging(node, Event("t", b'{"a": 2, "b": 1}'), node.sessions["p"], rehearsal.now)
    targets = [next(iter(node.sessions[name].subscriptions.values())) for name in who]
    return [judging.forms(one.session, (one,)) for one in targets]


def test_the_same_policy_makes_one_copy_whatever_the_subscriptions_ask_for() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", t="n0")
    rehearsal.subscribe("s", "t", where="a > 1", policy=TRACING)
    rehearsal.subscribe("t", "t", where="b > 0", policy=TRACING)
    first, second = forms(rehearsal, "s", "t")
    assert first is second


def test_a_policy_that_refers_to_its_filter_makes_a_copy_for_each_filter() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", t="n0")
    rehearsal.subscribe("s", "t", where="a > 1", policy=policy("Fig. 4"))
    rehearsal.subscribe("t", "t", where="b > 0", policy=policy("Fig. 4"))
    say(rehearsal, "p", {"a": 2, "b": 1})
    assert (got(rehearsal, "s"), got(rehearsal, "t")) == ([{"a": 2}], [{"b": 1}])


def test_what_a_policy_wants_done_besides_is_done_for_each_receiver() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", t="n0")
    for name in "st":
        rehearsal.subscribe(name, "t", policy=LOGGING)
    say(rehearsal, "p", {"a": 2})
    assert [one.kind for one in rehearsal.notices] == ["policy log"] * 2


def test_a_policy_that_fails_is_told_for_each_receiver() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", t="n0")
    for name in "st":
        rehearsal.subscribe(name, "t", policy=TRACING)
    rehearsal.publish("p", "t", b"\xff")
    rehearsal.run()
    assert [one.kind for one in rehearsal.notices] == ["policy failed"] * 2
    assert got(rehearsal, "s") == got(rehearsal, "t") == []


def test_who_has_no_policy_gets_the_bytes_as_they_came() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", t="n0")
    rehearsal.subscribe("s", "t", policy=TRACING)
    rehearsal.subscribe("t", "t")
    rehearsal.publish("p", "t", b'{ "a" : 1 }')
    rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("t")] == [b'{ "a" : 1 }']
    assert got(rehearsal, "s") == [{"a": 1, "penstock_trace_load": [{"broker": "n0", "value": 0.0}]}]
