"""Random automata beside an interpreter of Convention 1 that is as short and as slow as can be."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import MonitorError
from tests.support.models.automata import Written, automaton

pytestmark = pytest.mark.fuzz

LEVELS = st.sampled_from(["", "a", "b", "$x"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=3).map("/".join).filter(bool)
STEMS = st.lists(st.sampled_from(["", "a", "b", "$x", "+"]), min_size=1, max_size=3)
FILTERS = st.one_of(
    TOPICS, STEMS.map("/".join).filter(bool), STEMS.map(lambda levels: "/".join([*levels, "#"])), st.just("#")
)
TEMPLATES = st.lists(
    st.sampled_from(["a", "b", "/", "/", "$x/", "{topic}", "{1}", "{2}", "{{", "c/{1}"]), min_size=1, max_size=4
).map("".join)
STATES = ("q0", "q1", "q2")
OUTPUTS = st.one_of(TEMPLATES, st.fixed_dictionaries({"topic": TEMPLATES, "payload": st.just("<{payload}>")}))
FORMS = st.one_of(
    st.just({"pass": True}),
    st.just({"suppress": True}),
    st.fixed_dictionaries({"rename": TEMPLATES}),
    st.fixed_dictionaries({"emit": st.lists(OUTPUTS, max_size=3)}),
)
ACTIONS = st.tuples(FORMS, st.sampled_from([None, *STATES])).map(
    lambda pair: pair[0] if pair[1] is None else {**pair[0], "next": pair[1]}
)
GUARDED = st.tuples(ACTIONS, st.sampled_from(["x == 1", "x > 0", "has(x)", "1 < 2"])).map(
    lambda pair: {**pair[0], "when": pair[1]}
)
SEVERAL = st.one_of(ACTIONS, GUARDED, st.lists(st.one_of(GUARDED, ACTIONS), min_size=1, max_size=3))
EDGES = st.lists(st.tuples(st.one_of(FILTERS, st.just("*")), SEVERAL), min_size=1, max_size=5).map(dict)

CONTENTS: dict[bytes, dict[str, Any]] = {b'{"x": 1}': {"x": 1}, b'{"x": 2}': {"x": 2}, b"{}": {}, b"x": {}}
"""Payloads, and what they say."""
PAYLOADS = st.sampled_from(sorted(CONTENTS))


@st.composite
def automata(draw: st.DrawFn) -> tuple[Written, Automaton]:
    """An automaton as it is written and as it is compiled; edges that are refused are left out."""
    written: dict[str, dict[str, object]] = {state: {} for state in STATES}
    for state in STATES:
        for edge, action in draw(EDGES).items():
            kept = {name: {"*": "pass"} for name in STATES} | {state: {**written[state], edge: action}}
            with contextlib.suppress(PolicyError):
                automaton(kept)
                written[state][edge] = action
        assume(written[state])
    return written, automaton(written)


def captured(filter: str, topic: str) -> list[str | None]:
    """The wildcards' part in a topic, by regular expression."""
    pattern = re.escape(filter).replace(r"\+", "([^/]*)").replace("/\\#", "(?:/(.*))?").replace(r"\#", "(.*)")
    found = re.fullmatch(pattern, topic)
    assert found is not None
    return list(found.groups())


def filled(template: str, edge: str, topic: str) -> str | None:
    """The topic of a template; None if it cannot be one."""
    text = template.replace("{{", "\1")
    for number, value in enumerate([] if edge == "*" else captured(edge, topic), 1):
        hole = "{" + str(number) + "}"
        while value is None and hole in text:
            at = text.index(hole)
            before, after = text[:at], text[at + len(hole) :]
            text = (before.removesuffix("/") if before else "") + (after if before else after.removeprefix("/"))
        text = text.replace(hole, value or "")
    text = text.replace("{topic}", topic).replace("\1", "{")
    begins = topic.split("/")[0] if template.startswith("{topic}") else template.split("/")[0]
    if not text or (text.startswith("$") and text.split("/")[0] != begins):
        return None
    return text


def tried(edges: Mapping[str, object], topic: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What may be taken on a topic, one after the other."""
    named = [edge for edge in edges if edge != "*" and matches(edge, topic)]
    for edge in [*named, *(["*"] if "*" in edges else [])]:  # (2), (5)
        several = edges[edge]
        for action in several if isinstance(several, list) else [several]:
            assert isinstance(action, Mapping)
            yield edge, action


def is_taken(action: Mapping[str, Any], payload: bytes) -> bool:
    if "when" not in action:
        return True
    outcome = decide(parse(action["when"]), CONTENTS[payload])
    return outcome is True or (outcome is not False and ("suppress" in action or action.get("emit") == []))


def reference(states: Written, state: str, event: Event) -> tuple[str, tuple[Event, ...]] | None:
    """Convention 1, rule by rule; None where a topic cannot be made."""
    taken = (one for one in tried(states[state], event.topic) if is_taken(one[1], event.payload))
    rest: tuple[str, Mapping[str, Any]] = ("*", {"suppress": True})  # (6)
    edge, action = next(taken, rest)
    following = str(action.get("next", state))
    if "pass" in action:  # (3)
        return following, (event,)
    if "suppress" in action:  # (4)
        return following, ()
    if "rename" in action:
        topic = filled(action["rename"], edge, event.topic)
        return None if topic is None else (following, (event._replace(topic=topic),))
    made = []
    for output in action["emit"]:
        template, payload = (
            (output["topic"], b"<" + event.payload + b">") if isinstance(output, dict) else (output, None)
        )
        topic = filled(template, edge, event.topic)
        if topic is None:
            return None
        new = event._replace(topic=topic, retain=event.retain and template in ("{topic}", edge))
        made.append(new if payload is None else new._replace(payload=payload, properties=b""))
    return following, tuple(made)


@given(made=automata(), word=st.lists(st.tuples(TOPICS, PAYLOADS), max_size=8), retain=st.booleans())
def test_it_does_what_convention_1_says(
    made: tuple[Written, Automaton], word: list[tuple[str, bytes]], retain: bool
) -> None:
    written, compiled = made
    state = "q0"
    for topic, payload in word:
        event = Event(topic, payload, 1, retain, b"p")
        expected = reference(written, state, event)
        if expected is None:
            with pytest.raises(MonitorError):
                compiled.step(state, event, 0.0)
            continue
        assert compiled.step(state, event, 0.0) == expected
        state = expected[0]


@given(made=automata(), topic=TOPICS)
def test_steady_is_exact(made: tuple[Written, Automaton], topic: str) -> None:
    """It says what becomes of every content; where no condition is asked, it says it whenever it can be said."""
    written, compiled = made
    for state in STATES:
        steady = compiled.steady(state, topic)
        for payload in CONTENTS:
            event = Event(topic, payload, 1, True, b"p")
            expected = reference(written, state, event)
            first = next(tried(written[state], topic), ("*", {}))
            if steady is not None or "when" not in first[1]:
                assert (steady is True) == (expected == (state, (event,)))
                assert (steady is False) == (expected == (state, ()))
            if steady:
                assert compiled.step(state, event, 0.0)[1][0] is event


@given(made=automata(), filter=FILTERS, topics=st.lists(TOPICS, min_size=1, max_size=12), payload=PAYLOADS)
def test_outputs_cover_every_output_in_every_state(
    made: tuple[Written, Automaton], filter: str, topics: list[str], payload: bytes
) -> None:
    written, compiled = made
    outputs = compiled.outputs(filter)
    for topic in topics:
        for state in STATES:
            expected = reference(written, state, Event(topic, payload)) if matches(filter, topic) else None
            for event in expected[1] if expected else ():
                assert any(matches(output, event.topic) for output in outputs), (topic, state, event.topic, outputs)


@given(made=automata(), topic=TOPICS, payload=PAYLOADS)
def test_what_is_not_in_the_alphabet_passes_or_is_suppressed(
    made: tuple[Written, Automaton], topic: str, payload: bytes
) -> None:
    _, compiled = made
    event = Event(topic, payload)
    if not topic.startswith("$") and not any(matches(one, topic) for one in compiled.alphabet()):
        for state in STATES:
            assert compiled.step(state, event, 0.0) in ((state, ()), (state, (event,)))
