"""The transitions of one state of an automaton, computed once for each topic."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.language.condition import Condition
from penstock.language.errors import Outcome
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError, TopicError
from penstock.model.event import Event
from penstock.model.topic import intersection, is_wild, matches
from penstock.policy.access.covering import is_covered
from penstock.policy.monitors.action import PASS, SUPPRESS, Action, MonitorOutput
from penstock.policy.monitors.template import Template, captures_of, payload_template, topic_template

CACHED_TOPICS = 2048
"""Topics that are remembered for each state, with the edge that they take."""


@dataclass(frozen=True, slots=True)
class AutomatonEdge:
    """One edge, named by a topic filter, or `*` for all topics that no other edge of the state takes."""

    filter: str
    action: Action

    @property
    def label(self) -> str:
        """Its label, unique among the edges of its state."""
        return label_of(self.filter, self.action.when)


def label_of(filter: str, when: Condition | None) -> str:
    return filter if when is None else f"{filter} when {when.text}"


class TopicOutput(NamedTuple):
    """An output for one topic: its own topic is known, only the payload depends on the event."""

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
            properties=cause.properties if template is None else b"",  # they describe the old payload
            qos=cause.qos if self.qos is None else self.qos,
            retain=cause.retain if self.retain is None else self.retain,
        )


class Move(NamedTuple):
    """The move of one state on one topic."""

    next: str
    outputs: tuple[TopicOutput, ...]
    steady: bool | None
    is_pass: bool = False
    error: str = ""
    guards: "tuple[GuardedMove, ...]" = ()
    """Moves with conditions on content that are tried first."""
    edge: str = ""
    """The label of the edge."""

    def tried(self, content: Content) -> "Iterator[tuple[GuardedMove, Outcome]]":
        """Yield the guards with their outcomes, until one is taken."""
        for guard in self.guards:
            outcome = guard.when.holds(content)
            yield guard, outcome
            if guard.is_taken(outcome):
                return

    def chosen(self, content: Content) -> "Move":
        """Return the move of the guard that is taken, else this one."""
        for guard, outcome in self.tried(content):
            if guard.is_taken(outcome):
                return guard.move
        return self


class GuardedMove(NamedTuple):
    """A move with a condition on content."""

    when: Condition
    move: Move
    suppresses: bool

    def is_taken(self, outcome: Outcome) -> bool:
        """Return whether it is taken. If the condition fails, an edge that suppresses is taken, others are not."""
        return outcome is True or (outcome is not False and self.suppresses)


class _Compiled(NamedTuple):
    """An edge with its templates."""

    filter: str
    next: str
    outputs: tuple[tuple[Template | None, Template | None, MonitorOutput], ...]
    when: Condition | None

    @property
    def is_wild(self) -> bool:
        return self.filter == "*" or is_wild(self.filter)

    def matches(self, topic: str) -> bool:
        return self.filter == "*" or matches(self.filter, topic)

    def move(self, state: str, topic: str) -> Move:
        captures = captures_of(self.filter, topic)
        try:
            outputs = tuple(
                TopicOutput(
                    topic if name is None else name.topic(topic, captures), payload, out.qos, out.retain, captures
                )
                for name, payload, out in self.outputs
            )
        except TopicError as error:
            return Move(self.next, (), None, error=str(error), edge=label_of(self.filter, self.when))
        is_pass = len(outputs) == 1 and outputs[0].is_same(topic)
        is_idle = self.next == state and (is_pass or not outputs)
        return Move(self.next, outputs, is_pass if is_idle else None, is_pass, edge=label_of(self.filter, self.when))


class StateTable:
    """The moves of one state: exact topics in a dictionary, others by wildcards, cached within a bound."""

    __slots__ = ("_edges", "_known", "_moves", "_name", "_rest", "_wild")

    def __init__(self, name: str, edges_in_order: Iterable[AutomatonEdge]) -> None:
        """Compile the edges, given in the order in which they are tried, those of `*` last; raises `PolicyError`."""
        self._name = name
        edges = [_compiled(name, edge) for edge in edges_in_order]
        if not edges or edges[-1].filter != "*" or edges[-1].when is not None:
            edges.append(_compiled(name, AutomatonEdge("*", SUPPRESS)))  # Convention 1, rule 6
        self._edges = edges
        self._wild = [edge for edge in edges if edge.is_wild]
        self._known = self._exact()
        self._moves = dict(self._known)
        self._rest = self._same_for_all()

    def move(self, topic: str) -> Move:
        move = self._moves.get(topic)
        if move is not None:
            return move
        return self._rest or self._remember(topic)

    def outputs(self, topic_filter: str) -> list[str]:
        """Return filters of the possible outputs of this state. An edge with a condition may be taken, or not."""
        filters: list[str] = []
        earlier: list[str] = []
        for edge in self._edges:
            meets = (topic_filter,) if edge.filter == "*" else intersection(edge.filter, topic_filter)
            for meet in meets:
                if meet == edge.filter or not is_covered(meet, earlier):
                    captures = captures_of(edge.filter, meet)
                    outputs = [meet if name is None else name.covering(meet, captures) for name, _, _ in edge.outputs]
                    filters += [output for output in outputs if output is not None]
            if edge.when is None:
                earlier.append(edge.filter)
        return filters

    def made(self) -> Iterator[str]:
        """Yield filters of what this state makes of events on other topics, or of other content."""
        for edge in self._edges:
            whole = "#" if edge.filter == "*" else edge.filter
            for name, _, output in edge.outputs:
                if output != PASS.outputs[0]:
                    made = whole if name is None else name.covering(whole, captures_of(edge.filter, whole))
                    if made is not None:
                        yield made

    def _exact(self) -> dict[str, Move]:
        """Return the moves on topics that are named."""
        places: dict[str, list[int]] = {}
        for at, edge in enumerate(self._edges):
            if not edge.is_wild:
                places.setdefault(edge.filter, []).append(at)
        wild = [at for at, edge in enumerate(self._edges) if edge.is_wild]
        # A wildcard without a condition that stands before a topic does not match it: the edge would be refused.
        guarded = [at for at in wild if self._edges[at].when is not None]
        known: dict[str, Move] = {}
        for topic, own in places.items():
            others = guarded if self._edges[own[-1]].when is None else wild
            known[topic] = self._first(topic, [self._edges[at] for at in sorted([*own, *others])])
        return known

    def _first(self, topic: str, edges: list[_Compiled]) -> Move:
        """Return the move of the first edge that takes the topic; those with conditions before it are its guards."""
        guards: list[GuardedMove] = []
        for edge in edges:
            if edge.matches(topic):
                move = edge.move(self._name, topic)
                if edge.when is None:
                    return move._replace(steady=None, guards=tuple(guards)) if guards else move
                guards.append(GuardedMove(edge.when, move, not edge.outputs))
        raise AssertionError("the last edge takes every topic")

    def _remember(self, topic: str) -> Move:
        if len(self._moves) >= len(self._known) + CACHED_TOPICS:
            self._moves = dict(self._known)
        move = self._moves[topic] = self._first(topic, self._wild)
        return move

    def _same_for_all(self) -> Move | None:
        """Return the move on every topic that is not named, if it is the same for all; then no topic is cached."""
        if len(self._wild) > 1 or self._wild[0].outputs not in ((), ((None, None, PASS.outputs[0]),)):
            return None
        edge = self._wild[0]
        return None if edge.outputs and edge.next != self._name else edge.move(self._name, "")


def _compiled(state: str, edge: AutomatonEdge) -> _Compiled:
    action = edge.action
    try:
        outputs = tuple(
            (
                None if output.topic is None else topic_template(output.topic, edge.filter),
                None if output.payload is None else payload_template(output.payload, edge.filter),
                output,
            )
            for output in action.outputs
        )
    except PolicyError as error:
        raise PolicyError(f"state `{state}`, edge `{edge.filter}`: {error}") from None
    return _Compiled(edge.filter, action.next or state, outputs, action.when)
