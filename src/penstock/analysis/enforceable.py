"""Enforceability of monitors on their links under an ordering (future work 2 of the brokering paper).

A monitor protects whoever is at the end of its link if all that can arrive there is something that the monitor lets
out. Links that keep their order deliver what it lets out, as it lets it out. Where events may overtake each other
behind the monitor, every rearrangement of that must be something that it lets out too.

An assertion that is proved holds whatever the order: it is proved for each state of each monitor.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.analysis.flows import check_assertions
from penstock.domain import Ensemble
from penstock.engine.rehearsal.orders import LinkOrdering
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.monitors.protocol_machine import kinds_of

OTHER = "*"
"""Events on topics that the automaton does not name."""

Passes = Mapping[str, Mapping[str, str]]
"""By state and kind of event that may come out there, the next state; in each state, some events have come out."""


class Enforceability(NamedTuple):
    """The answer for one monitor on one link, or for one assertion."""

    what: str
    link: tuple[str, str] | None
    """None: an assertion is about all links."""
    holds: bool | None
    """None: not decided."""
    reason: str

    def __str__(self) -> str:
        answer = {True: "enforceable", False: "not enforceable", None: "not decided"}[self.holds]
        where = f" on {self.link[0]} -> {self.link[1]}" if self.link else ""
        return f"{self.what}{where}: {answer}: {self.reason}"


def enforceable(whole: Ensemble, ordering: LinkOrdering) -> Iterator[Enforceability]:
    """Yield the answer for every monitor on each of its links, and for every assertion."""
    for ends, link in whole.links.items():
        for monitor in whole.monitors(link):
            yield Enforceability(monitor.name, ends, *_answer(monitor, ordering))
    failed = {failure.index: failure.reason for failure in check_assertions(whole)}
    for at, assertion in enumerate(whole.assertions):
        reason = failed.get(at, "it is proved for each state of each monitor, whatever the order")
        yield Enforceability(str(assertion), None, at not in failed, reason)


def _answer(monitor: Monitor, ordering: LinkOrdering) -> tuple[bool | None, str]:
    if ordering is not LinkOrdering.UNORDERED:
        return True, "what it lets out arrives in that order"
    if not isinstance(monitor, Automaton):
        return None, "only the Python class knows what it lets out"
    edges = [edge for state in monitor.states for edge in state.edges]
    if monitor.is_stateless:
        if any(len(edge.action.outputs) > 1 for edge in edges):
            return False, "what it makes of one event may arrive in another order"
        return True, "it has one state: it judges each event by itself"
    if any(edge.action.when is not None for edge in edges):
        return None, "it has states, and asks for the content of events"
    passes = passes_of(monitor)
    if passes is None:
        return None, "it has states, and makes topics or payloads of parts of events"
    word = overtaken(passes)
    if word is None:
        return True, "whatever it lets out, it lets out in every order"
    shown = ", ".join("another event" if kind == OTHER else kind for kind in word)
    return False, f"behind it events may overtake each other, and arrive as {shown}, which it does not let out"


def passes_of(automaton: Automaton) -> Passes | None:
    """Return what an automaton without conditions lets out, by kinds of topics that its edges and outputs tell apart;
    None if it makes topics or payloads of parts of events.
    """
    edges = [edge for state in automaton.states for edge in state.edges]
    made = [output for edge in edges for output in edge.action.outputs if output.topic not in _SAME]
    if any(output.payload is not None for edge in edges for output in edge.action.outputs):
        return None
    if any("{" in str(output.topic) for output in made):
        return None
    filters = dict.fromkeys(
        [edge.filter for edge in edges if edge.filter != "*"] + [str(output.topic) for output in made]
    )
    kinds = {kind.filter: kind.events for kind in kinds_of(filters)} | {OTHER: frozenset()}
    letter_of = {topic: next(kind for kind, events in kinds.items() if topic in events) for topic in filters}
    steps: dict[_Place, set[tuple[str | None, _Place]]] = {}
    for state in automaton.states:
        for kind, matching in kinds.items():
            edge = next((edge for edge in state.edges if edge.filter in (*matching, "*")), None)
            if edge is None:
                continue
            letters = tuple(
                kind if output.topic in _SAME else letter_of[str(output.topic)] for output in edge.action.outputs
            )
            # Of several events that come of one, each is a step of its own.
            end = edge.action.next or state.name
            steps.setdefault((state.name, ()), set()).add((None, (end, letters)))
            for at, letter in enumerate(letters):
                steps.setdefault((end, letters[at:]), set()).add((letter, (end, letters[at + 1 :])))
    return _determined(steps, (automaton.states[0].name, ()))


_SAME = (None, "{topic}")
"""The topics of an output that is the event itself."""
_Place = tuple[str, tuple[str, ...]]
"""A state, and what is still to come out before it."""


def _determined(steps: Mapping[_Place, set[tuple[str | None, _Place]]], start: _Place) -> Passes:
    """Return the subset construction, the first state first."""

    def silently(places: Iterable[_Place]) -> frozenset[_Place]:
        seen = set(places)
        waiting = list(seen)
        while waiting:
            for letter, place in steps.get(waiting.pop(), ()):
                if letter is None and place not in seen:
                    seen.add(place)
                    waiting.append(place)
        return frozenset(seen)

    numbers = {silently({start}): 0}
    rows: dict[str, dict[str, str]] = {}
    waiting = list(numbers)
    for places in waiting:  # grows as it goes
        onward: dict[str, set[_Place]] = {}
        for place in sorted(places):
            for letter, following in sorted(steps.get(place, ()), key=str):
                if letter is not None:
                    onward.setdefault(letter, set()).add(following)
        row = rows[str(numbers[places])] = {}
        for letter, places_after in onward.items():
            after = silently(places_after)
            if after not in numbers:
                numbers[after] = len(numbers)
                waiting.append(after)
            row[letter] = str(numbers[after])
    return rows


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
