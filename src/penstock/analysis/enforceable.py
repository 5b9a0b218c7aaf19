"""Enforceability of monitors on their links under an ordering (future work 2 of the brokering paper).

A monitor protects whoever is at the end of its link if all that can arrive there is something that the monitor lets
pass. Links that keep their order deliver what it lets pass, as it lets it pass. Where events may overtake each other
behind the monitor, every rearrangement of that must be something that it lets pass too.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.domain import Ensemble
from penstock.engine.rehearsal.orders import LinkOrdering
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.monitors.protocol_machine import kinds_of

OTHER = "*"
"""Events on topics that the automaton does not name."""

Passes = Mapping[str, Mapping[str, str]]
"""By state and kind of event that passes there, the next state."""


class Enforceability(NamedTuple):
    """The answer for one monitor on one link."""

    monitor: str
    link: tuple[str, str]
    holds: bool | None
    """None: not decided."""
    reason: str

    def __str__(self) -> str:
        answer = {True: "enforceable", False: "not enforceable", None: "not decided"}[self.holds]
        return f"{self.monitor} on {self.link[0]} -> {self.link[1]}: {answer}: {self.reason}"


def enforceable(whole: Ensemble, ordering: LinkOrdering) -> Iterator[Enforceability]:
    """Yield the answer for every monitor on each of its links."""
    for ends, link in whole.links.items():
        for monitor in whole.monitors(link):
            yield Enforceability(monitor.name, ends, *_answer(monitor, ordering))


def _answer(monitor: Monitor, ordering: LinkOrdering) -> tuple[bool | None, str]:
    if ordering is not LinkOrdering.UNORDERED:
        return True, "what it lets pass arrives in that order"
    if not isinstance(monitor, Automaton):
        return None, "only the Python class knows what it lets pass"
    edges = [edge for state in monitor.states for edge in state.edges]
    if monitor.is_stateless:
        if any(len(edge.action.outputs) > 1 for edge in edges):
            return False, "what it makes of one event may arrive in another order"
        return True, "it has one state: it judges each event by itself"
    if not monitor.is_selector or any(edge.action.when is not None for edge in edges):
        return None, "it has states, and changes events or asks for their content"
    word = overtaken(passes_of(monitor))
    if word is None:
        return True, "whatever it lets pass, it lets pass in every order"
    shown = ", ".join("another event" if kind == OTHER else kind for kind in word)
    return False, f"behind it events may overtake each other, and arrive as {shown}, which it does not let pass"


def passes_of(automaton: Automaton) -> Passes:
    """Return what a selector without conditions lets pass, by kinds of topics that its edges tell apart."""
    filters = dict.fromkeys(edge.filter for state in automaton.states for edge in state.edges if edge.filter != "*")
    kinds = {kind.filter: kind.events for kind in kinds_of(filters)} | {OTHER: frozenset()}
    passes: dict[str, dict[str, str]] = {}
    for state in automaton.states:
        row = passes[state.name] = {}
        for kind, matching in kinds.items():
            edge = next((edge for edge in state.edges if edge.filter in (*matching, "*")), None)
            if edge is not None and edge.action.outputs:
                row[kind] = edge.action.next or state.name
    return passes


def overtaken(passes: Passes) -> tuple[str, ...] | None:
    """Return a rearrangement of events that pass which does not pass, with one event moved; None if all pass."""
    start = next(iter(passes))
    words: dict[str, tuple[str, ...]] = {start: ()}
    waiting = [start]
    for state in waiting:  # grows as it goes
        for first, middle in passes[state].items():
            if middle not in words:
                words[middle] = (*words[state], first)
                waiting.append(middle)
            for second, last in passes[middle].items():
                other = passes[state].get(second)
                if other is None:
                    return (*words[state], second)
                end = passes[other].get(first)
                if end is None:
                    return (*words[state], second, first)
                rest = _told_apart(passes, last, end)
                if rest is not None:
                    return (*words[state], second, first, *rest)
    return None


def _told_apart(passes: Passes, from_: str, other: str) -> tuple[str, ...] | None:
    """Return events that pass from one state and not from the other; None if there are none."""
    seen: dict[tuple[str, str], tuple[str, ...]] = {(from_, other): ()}
    waiting = [(from_, other)]
    for pair in waiting:  # grows as it goes
        for kind, following in passes[pair[0]].items():
            beside = passes[pair[1]].get(kind)
            word = (*seen[pair], kind)
            if beside is None:
                return word
            if (following, beside) not in seen:
                seen[following, beside] = word
                waiting.append((following, beside))
    return None
