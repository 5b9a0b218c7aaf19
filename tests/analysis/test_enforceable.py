"""Enforceability of monitors: the smart home's, and random automata against all rearrangements of short words."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.enforceable import OTHER, overtaken, passes_of
from penstock.cli.main import main
from penstock.model.event import Event
from penstock.policy.monitors.action import SAME, SUPPRESS, Action, MonitorOutput
from penstock.policy.monitors.automaton import Automaton

HOME = "examples/smart-home/domain.yaml"
TOPICS = ("a", "b", "c")
STATES = ("q0", "q1", "q2")


OUTPUTS = [(), (SAME,), (SAME,), (MonitorOutput("b"),), (SAME, MonitorOutput("b")), (MonitorOutput("d"), SAME)]


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    """An automaton that passes, suppresses, renames, injects, and moves."""
    action = st.builds(lambda outputs, name: Action(outputs, name), st.sampled_from(OUTPUTS), st.sampled_from(STATES))
    edges = st.dictionaries(st.sampled_from(["a", "b", "*"]), action, min_size=1)
    return Automaton.of_states("m", {name: draw(edges) for name in STATES})


def let_out(automaton: Automaton, longest: int) -> set[tuple[str, ...]]:
    """All that may have come out, up to this length, while a step may still be under way."""
    found: set[tuple[object, tuple[str, ...]]] = {(automaton.start(), ())}
    words: set[tuple[str, ...]] = {()}
    waiting = list(found)
    while waiting:
        state, word = waiting.pop()
        for topic in TOPICS:
            following, events = automaton.step(state, Event(topic, b""), 0.0)
            longer = (*word, *(event.topic for event in events))
            words |= {longer[:size] for size in range(len(word), min(len(longer), longest) + 1)}
            if len(longer) <= longest and (following, longer) not in found:
                found.add((following, longer))
                waiting.append((following, longer))
    return words


@given(automata())
def test_every_rearrangement_is_let_out_or_one_that_is_not_is_told(automaton: Automaton) -> None:
    passes = passes_of(automaton)
    assert passes is not None
    word = overtaken(passes)
    if word is None:
        words = let_out(automaton, 4)
        assert all(other in words for each in words for other in permutations(each))
        return
    topics = tuple("c" if kind == OTHER else kind for kind in word)
    words = let_out(automaton, len(topics))
    assert topics not in words
    if len(topics) <= 5:  # what overtakes may be told of before what it overtakes has come
        longer = let_out(automaton, len(topics) + 1)
        more = [(), *((topic,) for topic in (*TOPICS, "d"))]
        assert any(other in longer for rest in more for other in permutations([*topics, *rest]))


def test_an_automaton_that_makes_topics_of_parts_of_events_is_not_decided() -> None:
    states = {"q0": {"a/+": Action((MonitorOutput("b/{1}"),), "q1")}, "q1": {"*": SUPPRESS}}
    assert passes_of(Automaton.of_states("m", states)) is None


@pytest.mark.parametrize(("ordering", "code"), [("fifo", 0), ("in-order", 0), ("unordered", 3)])
def test_the_smart_home(ordering: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", HOME, "--orders", ordering]) == code
    lines = capsys.readouterr().out.splitlines()
    if ordering == "unordered":
        assert (
            "unlock-after-grant on gateway -> locks: not enforceable: behind it events may overtake each other, and"
            " arrive as AC_grant, AC_request, DL_unlock, which it does not let out" in lines
        )
        assert (
            "no-remote-unlock on cloud -> gateway: enforceable: it has one state: it judges each event by itself"
            in lines
        )
        assert (
            "never: phone to lock on DL_unlock: enforceable: it is proved for each state of each monitor, whatever the"
            " order" in lines
        )
    else:
        assert "unlock-after-grant on gateway -> locks: enforceable: what it lets out arrives in that order" in lines
