"""Enforceability of monitors: the smart home's, and random automata against all rearrangements of short words."""

from collections.abc import Iterable
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.enforceable import OTHER, overtaken, passes_of
from penstock.cli.main import main
from penstock.model.event import Event
from penstock.policy.monitors.action import PASS, SUPPRESS, Action
from penstock.policy.monitors.automaton import Automaton

HOME = "examples/smart-home/domain.yaml"
TOPICS = ("a", "b", "c")
STATES = ("q0", "q1", "q2")


@st.composite
def selectors(draw: st.DrawFn) -> Automaton:
    """An automaton that passes and moves, or suppresses and stays."""
    action = st.one_of(
        st.just(SUPPRESS), st.builds(lambda name: Action(PASS.outputs, next=name), st.sampled_from(STATES))
    )
    edges = st.dictionaries(st.sampled_from(["a", "b", "*"]), action, min_size=1)
    return Automaton.of_states("m", {name: draw(edges) for name in STATES})


def passes(automaton: Automaton, word: Iterable[str]) -> bool:
    """Whether all of these events pass, one after the other."""
    state: object = automaton.start()
    for topic in word:
        state, events = automaton.step(state, Event(topic, b""), 0.0)
        if not events:
            return False
    return True


@given(selectors())
def test_every_rearrangement_passes_or_one_that_does_not_is_told(automaton: Automaton) -> None:
    short = [word for size in range(6) for word in product(TOPICS, repeat=size) if passes(automaton, word)]
    is_closed = all(passes(automaton, other) for word in short for other in permutations(word))
    word = overtaken(passes_of(automaton))
    if word is None:
        assert is_closed
        return
    topics = ["c" if kind == OTHER else kind for kind in word]
    assert not passes(automaton, topics)
    if len(topics) <= 6:  # what overtakes may be told of before what it overtakes has come
        more = [(), *((topic,) for topic in TOPICS)]
        assert any(passes(automaton, other) for rest in more for other in permutations([*topics, *rest]))


@pytest.mark.parametrize(("ordering", "code"), [("fifo", 0), ("in-order", 0), ("unordered", 3)])
def test_the_smart_home(ordering: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", HOME, "--orders", ordering]) == code
    lines = capsys.readouterr().out.splitlines()
    if ordering == "unordered":
        assert (
            "unlock-after-grant on gateway -> locks: not enforceable: behind it events may overtake each other, and"
            " arrive as AC_grant, AC_request, DL_unlock, which it does not let pass" in lines
        )
        assert (
            "no-remote-unlock on cloud -> gateway: enforceable: it has one state: it judges each event by itself"
            in lines
        )
    else:
        assert "unlock-after-grant on gateway -> locks: enforceable: what it lets pass arrives in that order" in lines
