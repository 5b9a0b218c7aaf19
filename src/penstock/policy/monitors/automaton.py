"""Edit automata as data: states with edges, Convention 1 of brokering §4.2.

An edge is named by a topic filter, and may have a condition on content. The first edge that matches, in the order of
the file, is taken; `*` concerns only what no other edge of its state takes; without a `*` edge the rest is suppressed
and the state stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.language.errors import Failure, Outcome
from penstock.model.content.content import ContentReader
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.topic import covers, is_wild, matches, overlaps
from penstock.policy.access.covering import is_covered, widest
from penstock.policy.monitors.action import PASS, SUPPRESS, Action, MonitorOutput
from penstock.policy.monitors.monitor import MonitorError, State
from penstock.policy.monitors.template import check_edge
from penstock.policy.monitors.transitions import AutomatonEdge, GuardedMove, StateTable

INITIAL = "q0"
"""The one state of a filter or a mapper."""

Edges = Mapping[str, Action | tuple[Action, ...]]
"""The edges of a state by their filters, in order; several of one filter differ in `when`."""


@dataclass(frozen=True, slots=True)
class AutomatonState:
    """One state with its edges, in the order in which they are tried; those of `*` are the last."""

    name: str
    edges: tuple[AutomatonEdge, ...]


@dataclass(frozen=True, slots=True)
class Automaton:
    """An edit automaton; a `Monitor`. Made by `of_states`, `of_filter` or `of_mapper`. It starts in its first state."""

    name: str
    states: tuple[AutomatonState, ...]
    reader: ContentReader = field(default_factory=ContentReader, repr=False, compare=False)
    """Finds the content that conditions are about."""
    warnings: tuple[str, ...] = field(init=False, compare=False)
    """Harmless oddities: states that cannot be reached."""
    is_selector: bool = field(init=False, repr=False, compare=False)
    is_stateless: bool = field(init=False, repr=False, compare=False)
    _tables: dict[object, StateTable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_states(self.states)
        object.__setattr__(self, "warnings", _unreachable(self.states))
        first = self.states[0]
        stays = all(edge.action.next in (None, first.name) for edge in first.edges)
        object.__setattr__(self, "is_stateless", stays)
        selects = all(_selects(edge.action, state.name) for state in self.states for edge in state.edges)
        object.__setattr__(self, "is_selector", selects)
        object.__setattr__(self, "_tables", {state.name: StateTable(state.name, state.edges) for state in self.states})

    def goes_by_topic(self, filters: Sequence[str]) -> bool:
        """Return whether it only passes or suppresses events on topics of these filters, whatever they say and whatever
        came before.
        """
        return all(
            edge.action.when is None and _is_idle(edge.action, state.name)
            for state in self.states
            for edge in state.edges
            if edge.filter == "*" or any(overlaps(edge.filter, filter) for filter in filters)
        )

    @classmethod
    def of_states(cls, name: str, states: Mapping[str, Edges], reader: ContentReader | None = None) -> "Automaton":
        """Make an automaton from states, the initial one first, each with its edges in order; raises `PolicyError`."""
        nodes = tuple(AutomatonState(state, _ordered(state, edges)) for state, edges in states.items())
        return cls(name, nodes, reader or ContentReader())

    @classmethod
    def of_filter(cls, name: str, filters: Iterable[str]) -> "Automaton":
        """Make an automaton that passes what matches one of the filters, and nothing else (§6.2.1)."""
        edges = sorted({check_edge(edge) for edge in filters}, key=lambda edge: (not is_wild(edge), edge))
        if "*" in edges:
            return cls.of_states(name, {INITIAL: {"*": PASS}})
        wide: list[str] = []
        kept: list[str] = []
        for edge in edges:  # the wild ones first
            if not is_covered(edge, wide):
                kept.append(edge)
                if is_wild(edge):
                    wide.append(edge)
        return cls.of_states(name, {INITIAL: dict.fromkeys(kept, PASS)})

    @classmethod
    def of_mapper(cls, name: str, pairs: Mapping[str, str]) -> "Automaton":
        """Make an automaton that renames what matches a filter by its topic template, and passes the rest (§6.2.2)."""
        edges = {edge: Action((MonitorOutput(None if topic == "{topic}" else topic),)) for edge, topic in pairs.items()}
        return cls.of_states(name, {INITIAL: {"*": PASS, **edges}})

    def start(self) -> str:
        return self.states[0].name

    def resume(self, stored: State) -> State:
        """Return the stored state if it still is one of the automaton's, else the initial one."""
        return stored if isinstance(stored, str) and stored in self._tables else self.start()

    def step(self, state: State, event: Event, now: float) -> tuple[State, tuple[Event, ...]]:
        move = self._table(state).move(event.topic)
        if move.steady is not None:
            return state, (event,) if move.steady else ()
        if move.guards:
            move = move.chosen(self.reader.read(event))
        if move.error:
            raise MonitorError(f"monitor `{self.name}`: on `{event.topic}` in state `{state}`: {move.error}")
        if move.is_pass:
            return move.next, (event,)
        return move.next, tuple([output.event(event) for output in move.outputs])

    def edge(self, state: State, event: Event) -> str:
        """Return the label of the edge that an event takes; `*` also where there is none."""
        move = self._table(state).move(event.topic)
        return move.chosen(self.reader.read(event)).edge if move.guards else move.edge

    def steady(self, state: State, topic: str) -> bool | None:
        return self._table(state).move(topic).steady

    def always(self, topic: str) -> bool | None:
        answers = {table.move(topic).steady for table in self._tables.values()}
        return answers.pop() if len(answers) == 1 else None

    def may_make(self, topic: str) -> bool:
        return any(matches(made, topic) for table in self._tables.values() for made in table.made())

    def may_pass(self, event: Event) -> bool:
        """Return False if the event passes unchanged in no state; one that a condition fails on passes in none."""
        for state in self.states:
            try:
                if any(output is event for output in self.step(state.name, event, 0.0)[1]):
                    return True
            except MonitorError:
                continue
        return False

    def alphabet(self) -> tuple[str, ...]:
        """Return the filters of edges that do more than pass or suppress: they can change the state or the event."""
        needed = {
            "#" if edge.filter == "*" else edge.filter
            for state in self.states
            for edge in state.edges
            if not _is_idle(edge.action, state.name)
        }
        return widest(needed)

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        return widest(output for table in self._tables.values() for output in table.outputs(topic_filter))

    def why(self, state: State, events: tuple[Event, ...]) -> str:
        reasons: list[str] = []
        for event in events:
            move = self._table(state).move(event.topic)
            if move.guards:
                reasons += [_outcome_text(guard, outcome) for guard, outcome in move.tried(self.reader.read(event))]
            try:
                state, _ = self.step(state, event, 0.0)
            except MonitorError:
                break
        return ", ".join(reasons)

    def close(self, state: State) -> None:
        """Do nothing: an automaton holds nothing for a link."""

    def _table(self, state: State) -> StateTable:
        try:
            return self._tables[state]
        except (KeyError, TypeError):
            raise MonitorError(f"monitor `{self.name}` has no state `{state!r:.80}`") from None


def _outcome_text(guard: GuardedMove, outcome: Outcome) -> str:
    """Return the outcome of a condition, in words."""
    if isinstance(outcome, Failure):
        return f"`{guard.when.text}` fails: {outcome.reason}"
    return f"`{guard.when.text}` {'holds' if outcome else 'is false'}"


def _ordered(state: str, edges: Edges) -> tuple[AutomatonEdge, ...]:
    """Check the edges, and return them with those of `*` last."""
    sure: list[str] = []  # earlier filters without a condition
    wild: list[str] = []
    ordered: list[AutomatonEdge] = []
    last: list[AutomatonEdge] = []
    for filter, value in edges.items():
        actions = value if isinstance(value, tuple) else (value,)
        try:
            check_edge(filter)
            _check_guards(actions)
        except PolicyError as error:
            raise PolicyError(f"state `{state}`, edge `{filter}`: {error}") from None
        if filter == "*":
            last = [AutomatonEdge(filter, action) for action in actions]
            continue
        if is_covered(filter, sure if is_wild(filter) else wild):
            by = next((f"`{covering}`" for covering in sure if covers(covering, filter)), "what stands before it")
            raise PolicyError(f"state `{state}`, edge `{filter}` is never taken: {by} matches all that it matches")
        ordered += [AutomatonEdge(filter, action) for action in actions]
        if actions[-1].when is None:
            sure.append(filter)
            wild += [filter] if is_wild(filter) else []
    return (*ordered, *last)


def _check_guards(actions: tuple[Action, ...]) -> None:
    """Refuse an edge that is never taken because of those before it on the same filter."""
    if not actions:
        raise PolicyError("expected what it does, found nothing")
    for at, action in enumerate(actions):
        for earlier in actions[:at]:
            if earlier.when is None:
                raise PolicyError(f"the {_nth(at)} of several is never taken: one before it has no `when`")
            # Of two with one condition, the second is for content that it fails on if only the second suppresses.
            if earlier.when == action.when and (action.outputs or not earlier.outputs):
                raise PolicyError(f"the {_nth(at)} of several is never taken: one before it has the same `when`")


def _nth(at: int) -> str:
    return ("first", "second", "third")[at] if at < 3 else f"{at + 1}th"


def _check_states(states: tuple[AutomatonState, ...]) -> None:
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


def _unreachable(states: tuple[AutomatonState, ...]) -> tuple[str, ...]:
    edges = {state.name: [edge.action.next for edge in state.edges] for state in states}
    reached: set[str] = set()
    waiting = [states[0].name]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [following for following in edges[name] if following is not None]
    return tuple(f"state `{name}` cannot be reached" for name in edges if name not in reached)


def _selects(action: Action, state: str) -> bool:
    """Return whether it passes the event on, or suppresses it and keeps its state."""
    return action.outputs == PASS.outputs or (not action.outputs and action.next in (None, state))


def _is_idle(action: Action, state: str) -> bool:
    """Return whether it does no more than pass the event on or suppress it."""
    return action.next in (None, state) and action.outputs in (PASS.outputs, SUPPRESS.outputs)
