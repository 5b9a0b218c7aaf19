"""Automata written as the domain file writes them, and what they make of sequences of topics."""

from collections.abc import Iterable, Mapping

from penstock.language.condition import make_condition
from penstock.model.event import Event
from penstock.policy.monitors.action import Action, parse_action
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor

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
        name, {state: {edge: _actions(edge, does) for edge, does in edges.items()} for state, edges in states.items()}
    )


def _actions(edge: str, does: object) -> tuple[Action, ...]:
    return tuple(_action(edge, one) for one in (does if isinstance(does, list) else [does]))


def _action(edge: str, does: object) -> Action:
    if not isinstance(does, Mapping) or "when" not in does:
        return parse_action(edge, does)
    return parse_action(edge, {key: does[key] for key in does if key != "when"}, make_condition(does["when"]))


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
