"""Monitors on a link between nodes: wherever they are asked, what arrives is what they make of it in turn, once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import Domain, ensemble
from penstock.engine.events import user_properties
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import placement
from penstock.engine.stages import edit
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.policy.monitors.placing import SureSuppression
from tests.support.generators.domains import PAYLOADS, TOPICS, automata

NODES = {"a": {"listen": "127.0.0.1:1"}, "b": {"listen": "127.0.0.1:2"}}
WORDS = st.lists(st.tuples(st.sampled_from(TOPICS), st.sampled_from(PAYLOADS)), min_size=1, max_size=6)
SIDES = st.sampled_from([None, None, None, "departure", "arrival"])


def joined(*monitors: dict[str, Any], dials: tuple[str, str] = ("a", "b")) -> Domain:
    """Two nodes with these monitors on the link from `a` to `b`."""
    placed = {f"m{at}": {"link": "a -> b", **monitor} for at, monitor in enumerate(monitors)}
    return Domain.model_validate({"nodes": NODES, "links": [{"between": list(dials)}], "monitors": placed})


def in_turn(domain: Domain, word: list[tuple[str, str]]) -> list[tuple[str, bytes]]:
    """What the link's monitors, one after the other, make of a sequence of events."""
    monitors = ensemble(domain).monitors(Link("a", "b"))
    states = [monitor.start() for monitor in monitors]
    told: list[tuple[str, bytes]] = []
    for topic, payload in word:
        events: list[Event] = [Event(topic, payload.encode())]
        for at, monitor in enumerate(monitors):
            made: list[Event] = []
            for event in events:
                states[at], outputs = monitor.step(states[at], event, 0.0)
                made += outputs
            events = made
        told += [(event.topic, event.payload) for event in events]
    return told


@given(
    st.lists(st.builds(lambda states, at: {"states": states, "at": at}, automata(2), SIDES), min_size=1, max_size=3),
    WORDS,
    st.sampled_from([0, 1, 2]),
    st.permutations(["a", "b"]),
)
def test_what_arrives_is_what_all_monitors_make_of_it_once(
    monitors: list[dict[str, Any]], word: list[tuple[str, str]], qos: int, dials: list[str]
) -> None:
    domain = joined(*monitors, dials=(dials[0], dials[1]))
    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.connect("reader", "b")
    rehearsal.subscribe("reader", "#")
    rehearsal.connect("writer", "a")
    rehearsal.run()
    for topic, payload in word:
        rehearsal.publish("writer", topic, payload.encode(), qos=qos)
    rehearsal.run()
    got = [(told.topic, told.payload) for told in rehearsal.deliveries("reader")]
    assert got == in_turn(domain, word)
    user = user_properties.RESERVED
    assert not any(name.startswith(user) for told in rehearsal.deliveries("reader") for name, _ in told.properties)


SELECTS = {"q0": {"x": {"pass": True, "next": "q1"}, "*": "pass"}, "q1": {"y": "suppress", "*": "pass"}}
MOVES = {"q0": {"x": {"suppress": True, "next": "q1"}, "*": "pass"}, "q1": {"y": "suppress", "*": "pass"}}
COUNTS = {"q0": {"x": {"rename": "first", "next": "q1"}, "*": "pass"}, "q1": {"*": "pass"}}


@pytest.mark.parametrize(
    ("monitors", "sending", "done"),
    [
        ([{"filter": "x"}], ["m0"], 0),
        ([{"mapper": {"x": "y"}}], ["m0"], 1),
        ([{"states": {"q0": {"*": "pass"}}}], [], 0),
        ([{"states": {"q0": {"x": {"pass": True, "next": "q1"}, "*": "pass"}, "q1": {"*": "pass"}}}], [], 0),
        ([{"states": {"q0": {"x": "pass"}}}], ["m0"], 0),
        ([{"states": SELECTS}], ["m0"], 0),
        ([{"states": MOVES}], ["(m0)"], 0),
        ([{"states": COUNTS}], ["(m0)"], 0),
        ([{"states": COUNTS, "at": "departure"}], ["m0"], 1),
        ([{"filter": "x", "at": "arrival"}], [], 0),
        ([{"filter": "x"}, {"mapper": {"x": "y"}}, {"filter": "y"}], ["m0", "m1", "m2"], 2),
        ([{"filter": "x"}, {"states": COUNTS}, {"filter": "y"}], ["m0", "(m1)"], 0),
    ],
)
def test_the_places(monitors: list[dict[str, Any]], sending: list[str], done: int) -> None:
    placing = ensemble(joined(*monitors)).placing(Link("a", "b"))
    assert placing is not None
    shown = [f"({one.name})" if isinstance(one, SureSuppression) else one.name for one in placing.sending]
    assert (shown, placing.done) == (sending, done)


def test_the_four_directions_name_the_node_that_asks() -> None:
    places = {}
    for direction in ("im_pub", "im_sub", "ex_pub", "ex_sub"):
        placed = {"m": {"on": {"node": "a", "direction": direction}, "states": COUNTS}}
        whole = ensemble(
            Domain.model_validate({"nodes": NODES, "links": [{"between": ["a", "b"]}], "monitors": placed})
        )
        placings = {ends: whole.placing(Link(*ends)) for ends in (("a", "b"), ("b", "a"))}
        places[direction] = {ends: placing.done for ends, placing in placings.items() if placing is not None}
    assert places == {"im_pub": {}, "im_sub": {}, "ex_pub": {("b", "a"): 0}, "ex_sub": {("a", "b"): 1}}


@given(automata(1), st.sampled_from(TOPICS), st.sampled_from(PAYLOADS))
def test_a_forged_mark_lets_nothing_in_that_cannot_have_come_out(
    states: dict[str, Any], topic: str, payload: str
) -> None:
    """A node that lies marks what it has asked no monitor about: what no event can have become is asked about."""
    domain = joined({"states": states}, {"mapper": {"other": "elsewhere"}})
    whole = ensemble(domain)
    node = Rehearsal(domain, whole).nodes["b"]
    watch = placement.watch(node, Link("a", "b"))
    assert watch is not None
    event = Event(topic, payload.encode())
    forged = user_properties.having(event, None, ((user_properties.SHAPED, watch.placing.mark),))
    first, stripped = edit.first_to_ask(watch, forged)
    assert stripped == event
    outputs = {made.topic for one in TOPICS for text in PAYLOADS for made in _made(whole, one, text)}
    if topic not in outputs:
        assert first == 0


def _made(whole: Any, topic: str, payload: str) -> tuple[Event, ...]:
    monitor = whole.monitors(Link("a", "b"))[0]
    outputs: tuple[Event, ...] = monitor.step(monitor.start(), Event(topic, payload.encode()), 0.0)[1]
    return outputs
