"""The stage route: may an event go on by this link?

Here: what the brokering table keeps from who asks for it is counted on the link.
"""

from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.cases.playing import case_tests

test_cases = case_tests("route")

HOME: dict[str, Any] = {
    "nodes": {"gateway": {"listen": "127.0.0.1:0"}, "cloud": {"listen": "127.0.0.1:0"}},
    "links": [{"between": ["gateway", "cloud"], "type": "internet"}],
    "clients": {
        "phone": {"node": "cloud", "type": "internet"},
        "radio": {"node": "gateway", "type": "internet"},
        "panel": {"node": "gateway", "type": "sensitive"},
        "motion": {"node": "gateway", "type": "sensitive"},
    },
    "brokering": {"types": ["internet", "sensitive"], "deny": [{"from": "sensitive", "to": "internet"}]},
}


@pytest.fixture
def home() -> Rehearsal:
    domain = Domain.model_validate(HOME)
    play = Rehearsal(domain, ensemble(domain))
    for name in HOME["clients"]:
        play.connect(name)
    return play


def denied(play: Rehearsal) -> dict[str, int]:
    """By the other end of each link of the gateway."""
    sessions = play.nodes["gateway"].sessions.values()
    return {one.neighbour or one.place.entity: one.denied for one in sessions if one.denied}


@pytest.mark.parametrize("qos", [0, 1])
def test_each_event_counts_on_each_link_that_is_closed_to_it(home: Rehearsal, qos: int) -> None:
    for name in ("phone", "radio", "panel"):
        home.subscribe(name, "m/#")
    home.subscribe("radio", "m/1")
    for _ in range(3):
        home.publish("motion", "m/1", b"x", qos)
        home.run()
    assert denied(home) == {"cloud": 3, "radio": 3}, "once, however many subscriptions there are"
    assert len(home.deliveries("panel")) == 3
    assert not home.deliveries("phone")


def test_nothing_is_denied_to_who_does_not_ask(home: Rehearsal) -> None:
    home.subscribe("radio", "other/#")
    home.publish("motion", "m/1", b"x")
    home.run()
    assert denied(home) == {}


def test_who_asks_no_more_is_denied_no_more(home: Rehearsal) -> None:
    home.subscribe("radio", "m/#")
    home.publish("motion", "m/1", b"x")
    home.run()
    home.unsubscribe("radio", "m/#")
    home.publish("motion", "m/1", b"x")
    home.run()
    assert denied(home) == {"radio": 1}


def test_who_asks_for_content_is_not_counted(home: Rehearsal) -> None:
    """The count would tell who has set the condition what the content is."""
    home.subscribe("radio", "m/#", where="value > 1")
    home.subscribe("panel", "m/#")
    for value in (b"1", b"2"):
        home.publish("motion", "m/1", b'{"value": %s}' % value)
        home.run()
    assert denied(home) == {}
