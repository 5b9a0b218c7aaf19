"""Edit automata as data: states with edges, Convention 1 of brokering §4.2.

An edge is named by a topic filter. The first edge that matches, in the order of the file, is taken; `*` concerns only
what no other edge of its state names; without a `*` edge what is not named is suppressed and the state stays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.model.errors import PolicyError, TopicError
from penstock.model.event import Event
from penstock.model.topic import covers, intersection, is_wild, matches
from penstock.policy.action import PASS, SUPPRESS, Action, Output
from penstock.policy.monitor import MonitorError, State
from penstock.policy.template import Template, captures_of, check_edge, payload_template, topic_template

INITIAL = "q0"
"""The one state of a filter or a mapper."""

CACHED_TOPICS = 2048
"""Topics that are remembered for each state, with the edge that they take."""

_ANY = "\0"
"""A level that no filter names: no topic has it, and just the wildcards match it."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge, named by a topic filter, or `*` for all that the state's other edges do not name."""

    filter: str
    action: Action


@dataclass(frozen=True, slots=True)
class Node:
    """One state with its edges, in the order in which they are tried; `*`, if there is one, is the last."""

    name: str
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Automaton:
    """An edit automaton; a `Monitor`. Made by `of_states`, `of_filter` or `of_mapper`. It starts in its first state."""

    name: str
    states: tuple[Node, ...]
    warnings: tuple[str, ...] = field(init=False, compare=False)
    """What is odd but does no harm: states that cannot be reached."""
    _tables: dict[object, "_Table"] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_states(self.states)
        object.__setattr__(self, "warnings", _unreachable(self.states))
        object.__setattr__(self, "_tables", {state.name: _Table(state) for state in self.states})

    @classmethod
    def of_states(cls, name: str, states: Mapping[str, Mapping[str, Action]]) -> "Automaton":
        """From states, the initial one first, each with its edges in order; raises `PolicyError`."""
        return cls(name, tuple(Node(state, _ordered(state, edges)) for state, edges in states.items()))

    @classmethod
    def of_filter(cls, name: str, filters: Iterable[str]) -> "Automaton":
        """What matches one of the filters passes, nothing else does (§6.2.1)."""
        given = sorted({check_edge(one) for one in filters}, key=lambda one: (not is_wild(one), one))
        if "*" in given:
            return cls.of_states(name, {INITIAL: {"*": PASS}})
        wide: list[str] = []
        kept: list[str] = []
        for one in given:  # the wild ones first
            if not is_covered(one, wide):
                kept.append(one)
                if is_wild(one):
                    wide.append(one)
        return cls.of_states(name, {INITIAL: dict.fromkeys(kept, PASS)})

    @classmethod
    def of_mapper(cls, name: str, pairs: Mapping[str, str]) -> "Automaton":
        """What matches a filter is renamed by its topic template; all else passes (§6.2.2)."""
        edges = {edge: Action((Output(None if topic == "{topic}" else topic),)) for edge, topic in pairs.items()}
        return cls.of_states(name, {INITIAL: {"*": PASS, **edges}})

    def start(self) -> str:
        return self.states[0].name

    def resume(self, stored: State) -> State:
        """The stored state if it still is one of the automaton's, else the initial one."""
        return stored if isinstance(stored, str) and stored in self._tables else self.start()

    def step(self, state: State, event: Event, now: float) -> tuple[State, tuple[Event, ...]]:
        move = self._table(state).move(event.topic)
        if move.steady is not None:
            return state, (event,) if move.steady else ()
        if move.error:
            raise MonitorError(f"monitor `{self.name}`: on `{event.topic}` in state `{state}`: {move.error}")
        if move.is_pass:
            return move.next, (event,)
        return move.next, tuple([output.event(event) for output in move.outputs])

    def steady(self, state: State, topic: str) -> bool | None:
        return self._table(state).move(topic).steady

    def alphabet(self) -> tuple[str, ...]:
        """The edges that do more than pass or suppress: what can change the state, or comes out as something else."""
        needed = {
            "#" if edge.filter == "*" else edge.filter
            for state in self.states
            for edge in state.edges
            if not _is_idle(edge.action, state.name)
        }
        return widest(needed)

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        return widest(made for table in self._tables.values() for made in table.outputs(topic_filter))

    def close(self, state: State) -> None:
        """Nothing to do: an automaton holds nothing for a link."""

    def _table(self, state: State) -> "_Table":
        try:
            return self._tables[state]
        except (KeyError, TypeError):
            raise MonitorError(f"monitor `{self.name}` has no state `{state!r:.80}`") from None


class _Made(NamedTuple):
    """An output for one topic: its own topic is known, only the payload is still to be made."""

    topic: str
    payload: Template | None
    qos: int | None
    retain: bool | None
    captures: tuple[str | None, ...]

    def is_same(self, topic: str) -> bool:
        return self.topic == topic and self.payload is None and self.qos is None and self.retain is None

    def event(self, cause: Event) -> Event:
        if self.is_same(cause.topic):
            return cause
        template = self.payload
        return cause._replace(
            topic=self.topic,
            payload=cause.payload if template is None else template.payload(cause.topic, cause.payload, self.captures),
            properties=cause.properties if template is None else b"",  # they speak of the payload that it had
            qos=cause.qos if self.qos is None else self.qos,
            retain=cause.retain if self.retain is None else self.retain,
        )


class _Move(NamedTuple):
    """What happens in one state on one topic."""

    next: str
    outputs: tuple[_Made, ...]
    steady: bool | None
    is_pass: bool = False
    error: str = ""


class _Compiled(NamedTuple):
    """An edge with its templates."""

    filter: str
    next: str
    outputs: tuple[tuple[Template | None, Template | None, Output], ...]

    def move(self, state: str, topic: str) -> _Move:
        captures = captures_of(self.filter, topic)
        try:
            made = tuple(
                _Made(topic if name is None else name.topic(topic, captures), payload, out.qos, out.retain, captures)
                for name, payload, out in self.outputs
            )
        except TopicError as error:
            return _Move(self.next, (), None, error=str(error))
        is_pass = len(made) == 1 and made[0].is_same(topic)
        is_idle = self.next == state and (is_pass or not made)
        return _Move(self.next, made, is_pass if is_idle else None, is_pass)


class _Table:
    """One state: exact topics in a dictionary, the rest by its wildcards, remembered within a bound.

    An exact topic that an earlier wildcard matches would be an edge that is never taken, which is refused; so the
    dictionary can be asked first.
    """

    __slots__ = ("_edges", "_known", "_moves", "_name", "_rest", "_wild")

    def __init__(self, state: Node) -> None:
        self._name = state.name
        edges = [_compiled(state.name, edge) for edge in state.edges]
        if not edges or edges[-1].filter != "*":
            edges.append(_compiled(state.name, Edge("*", SUPPRESS)))  # Convention 1, rule 6
        self._edges = edges
        self._wild = [edge for edge in edges if edge.filter == "*" or is_wild(edge.filter)]
        exact = [edge for edge in edges if edge.filter != "*" and not is_wild(edge.filter)]
        self._known = {edge.filter: edge.move(state.name, edge.filter) for edge in exact}
        self._moves = dict(self._known)
        self._rest = self._same_for_all()

    def move(self, topic: str) -> _Move:
        found = self._moves.get(topic)
        if found is not None:
            return found
        return self._rest or self._remember(topic)

    def outputs(self, topic_filter: str) -> list[str]:
        """Filters of what may come out of this state."""
        found: list[str] = []
        earlier: list[str] = []
        for edge in self._edges:
            taken = (topic_filter,) if edge.filter == "*" else intersection(edge.filter, topic_filter)
            for one in taken:
                if one == edge.filter or not is_covered(one, earlier):
                    captures = captures_of(edge.filter, one)
                    made = [one if name is None else name.covering(one, captures) for name, _, _ in edge.outputs]
                    found += [output for output in made if output is not None]
            earlier.append(edge.filter)
        return found

    def _remember(self, topic: str) -> _Move:
        edge = next(edge for edge in self._wild if edge.filter == "*" or matches(edge.filter, topic))
        if len(self._moves) >= len(self._known) + CACHED_TOPICS:
            self._moves = dict(self._known)
        move = self._moves[topic] = edge.move(self._name, topic)
        return move

    def _same_for_all(self) -> _Move | None:
        """The move on every topic that is not named, if that is plainly one: then no topic need be remembered."""
        if len(self._wild) > 1 or self._wild[0].outputs not in ((), ((None, None, PASS.outputs[0]),)):
            return None
        edge = self._wild[0]
        if edge.next == self._name:
            return edge.move(self._name, "")
        return None if edge.outputs else edge.move(self._name, "")


def _compiled(state: str, edge: Edge) -> _Compiled:
    try:
        outputs = tuple(
            (
                None if output.topic is None else topic_template(output.topic, edge.filter),
                None if output.payload is None else payload_template(output.payload, edge.filter),
                output,
            )
            for output in edge.action.outputs
        )
    except PolicyError as error:
        raise PolicyError(f"state `{state}`, edge `{edge.filter}`: {error}") from None
    return _Compiled(edge.filter, edge.action.next or state, outputs)


def _ordered(state: str, edges: Mapping[str, Action]) -> tuple[Edge, ...]:
    """The edges, checked, with `*` last."""
    named: list[str] = []
    wild: list[str] = []
    for filter in edges:
        try:
            check_edge(filter)
        except PolicyError as error:
            raise PolicyError(f"state `{state}`, edge `{filter}`: {error}") from None
        if filter == "*":
            continue
        if is_covered(filter, named if is_wild(filter) else wild):
            by = next((f"`{one}`" for one in named if covers(one, filter)), "what stands before it")
            raise PolicyError(f"state `{state}`, edge `{filter}` is never taken: {by} matches all that it matches")
        named.append(filter)
        if is_wild(filter):
            wild.append(filter)
    last = ["*"] if "*" in edges else []
    return tuple(Edge(filter, edges[filter]) for filter in named + last)


def _check_states(states: tuple[Node, ...]) -> None:
    if not states:
        raise PolicyError("no states: the first one is the initial state")
    names = [state.name for state in states]
    for state in states:
        if not state.edges:
            raise PolicyError(f"state `{state.name}` has no edges: everything would be suppressed; write `*: suppress`")
        for edge in state.edges:
            if edge.action.next is not None and edge.action.next not in names:
                known = ", ".join(f"`{name}`" for name in names)
                where = f"state `{state.name}`, edge `{edge.filter}`"
                raise PolicyError(f"{where}: there is no state `{edge.action.next}` (states: {known})")


def _unreachable(states: tuple[Node, ...]) -> tuple[str, ...]:
    edges = {state.name: [edge.action.next for edge in state.edges] for state in states}
    reached: set[str] = set()
    waiting = [states[0].name]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [following for following in edges[name] if following is not None]
    return tuple(f"state `{name}` cannot be reached" for name in edges if name not in reached)


def _is_idle(action: Action, state: str) -> bool:
    """Whether it does no more than pass the event on or suppress it."""
    return action.next in (None, state) and action.outputs in (PASS.outputs, SUPPRESS.outputs)


def widest(filters: Iterable[str]) -> tuple[str, ...]:
    """Those of the filters that no other one covers, sorted."""
    distinct = sorted(set(filters))
    wild: list[str] = []
    for one in filter(is_wild, distinct):
        if not any(covers(other, one) for other in wild):
            wild = [other for other in wild if not covers(one, other)] + [one]
    exact = [one for one in distinct if not is_wild(one) and not any(matches(other, one) for other in wild)]
    return tuple(sorted(exact + wild))


def is_covered(filter: str, others: list[str]) -> bool:
    """Whether every topic that the filter matches is matched by one of the others.

    A topic with names that nobody mentions in place of the filter's wildcards is matched only by what matches there
    whatever stands; so one such topic of each length says it for all, up to the length after which nothing changes.
    """
    levels = filter.split("/")
    if levels[-1] != "#":
        return _matched([_ANY if level == "+" else level for level in levels], others)
    stem = [_ANY if level == "+" else level for level in levels[:-1]]
    shortest = len(stem) + 1 if stem in ([], [""]) else len(stem)
    longest = max([shortest, *(other.count("/") + 2 for other in others)])
    return all(_matched(stem + [_ANY] * (length - len(stem)), others) for length in range(shortest, longest + 1))


def _matched(levels: list[str], filters: list[str]) -> bool:
    topic = "/".join(levels)
    return any(matches(filter, topic) for filter in filters)
