"""Automata written as the domain file writes them, and what they make of sequences of topics."""

from collections.abc import Iterable, Mapping

from penstock.model.event import Event
from penstock.policy.action import parse_action
from penstock.policy.automaton import Automaton
from penstock.policy.monitor import Monitor

Written = Mapping[str, Mapping[str, object]]

M1: Written = {"q0": {"DL_unlock": "suppress", "*": "pass"}}
"""Brokering Fig. 3."""

M2: Written = {
    "q0": {"AC_request": {"pass": True, "next": "asked"}, "DL_unlock": "suppress", "*": "pass"},
    "asked": {
        "AC_grant": {"pass": True, "next": "granted"},
        "AC_deny": {"pass": True, "next": "q0"},
        "DL_unlock": "suppress",
        "*": "pass",
    },
    "granted": {"DL_unlock": {"pass": True, "next": "q0"}, "*": "pass"},
}
"""Brokering Fig. 4."""


def automaton(states: Written, name: str = "m") -> Automaton:
    return Automaton.of_states(
        name,
        {state: {edge: parse_action(edge, does) for edge, does in edges.items()} for state, edges in states.items()},
    )


def run(monitor: Monitor, events: Iterable[Event | str]) -> list[Event]:
    """What comes out when these go in; a text is an event of that topic."""
    state = monitor.start()
    out: list[Event] = []
    for event in events:
        state, made = monitor.step(state, Event(event, b"x") if isinstance(event, str) else event, 0.0)
        out += made
    return out


def topics(monitor: Monitor, words: str) -> str:
    """The topics that come out when these go in, all parted by spaces."""
    return " ".join(event.topic for event in run(monitor, words.split()))
