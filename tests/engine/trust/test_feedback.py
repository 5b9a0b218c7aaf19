"""Whom feedback is about: the neighbour that a message was accepted from, and of several the first."""

import hashlib
import json

import pytest

from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.engine.trust.test_trust import begin, denied, play

SQUARE = [("b1", "b2"), ("b1", "b3"), ("b2", "b4"), ("b3", "b4")]


def rate(rehearsal: Rehearsal, payload: bytes, good: bool) -> None:
    told = {"topic": "home/door", "good": good, "payload": hashlib.sha256(payload).hexdigest()}
    rehearsal.publish("bob", "$penstock/feedback", json.dumps(told).encode(), 1)
    rehearsal.run()


def square(distrusted: str) -> Rehearsal:
    """By two ways from b1 to b4, one of which b4 does not accept."""
    trust = {"sign": 0.5, "feedback": {"least": 1, "from": "bob"}, "begin": [begin(distrusted, "b4", 0.3)]}
    rehearsal = play(SQUARE, trust)
    for client, node in (("ann", "b1"), ("bob", "b4")):
        rehearsal.connect(client, node)
    rehearsal.subscribe("bob", "home/#")
    return rehearsal


@pytest.mark.parametrize(("distrusted", "trusted"), [("b2", "b3"), ("b3", "b2")])
def test_of_several_ways_the_one_that_was_accepted_is_rated(distrusted: str, trusted: str) -> None:
    rehearsal = square(distrusted)
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("bob")] == [b"1"]
    rate(rehearsal, b"1", good=False)
    assert denied(rehearsal, "feedback denied") == []
    assert rehearsal.rating(trusted, "b4") < 0.5
    assert rehearsal.rating(distrusted, "b4") == pytest.approx(0.3)


def test_of_two_that_are_accepted_one_is_rated() -> None:
    rehearsal = play(SQUARE, {"sign": 0.3, "feedback": {"least": 1, "from": "bob"}})
    for client, node in (("ann", "b1"), ("bob", "b4")):
        rehearsal.connect(client, node)
    rehearsal.subscribe("bob", "home/#")
    rehearsal.assembly.choose = lambda wires: max(wires, key=lambda wire: (wire.source == "b3", -wire.first))
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    rate(rehearsal, b"1", good=False)
    assert rehearsal.rating("b2", "b4") == 0.5
    assert rehearsal.rating("b3", "b4") == pytest.approx(0.2)


def test_nobody_can_praise_what_was_refused() -> None:
    trust = {"sign": 0.5, "feedback": {"least": 1, "from": "bob"}, "begin": [begin("b1", "b2", 0.4)]}
    rehearsal = play([("b1", "b2")], trust)
    for client, node in (("ann", "b1"), ("bob", "b2")):
        rehearsal.connect(client, node)
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    rate(rehearsal, b"1", good=True)
    assert rehearsal.rating("b1", "b2") == pytest.approx(0.4)
    assert denied(rehearsal, "feedback denied") == ["no such message on `home/door` has come from a neighbour lately"]
