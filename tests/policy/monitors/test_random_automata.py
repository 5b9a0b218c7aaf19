"""Random automata beside an interpreter of Convention 1 that is as short and as slow as can be."""

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import MonitorError
from tests.support.models.automata import Written, automaton, edges_for, reference

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

CONTENTS = (b'{"x": 1}', b'{"x": 2}', b"{}", b"x")
PAYLOADS = st.sampled_from(CONTENTS)


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
            first = next(edges_for(written[state], topic), ("*", {}))
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
