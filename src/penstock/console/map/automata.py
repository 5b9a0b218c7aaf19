"""A monitor of the domain file as a state diagram. Nothing of a monitor is run."""

from collections.abc import Iterator

import msgspec

from penstock.domain.schema.policies import ANY, START, EdgeSettings, MonitorSettings

MAX_STATES = 30
MAX_EDGES = 12
"""Edges of a state. Those that lead to another state come first when some must be left out."""
ELSE = "all else"


class DrawnEdge(msgspec.Struct, frozen=True):
    """The input and the output of an edge, and the number of the next state; None: the same."""

    given: str
    gives: str
    does: str
    """`pass`, `suppress` or `replace`."""
    next: int | None = None

    @property
    def text(self) -> str:
        """Return the edge as automata are written: the input, and after a slash the output."""
        return f"{self.given} / {self.gives}"


class DrawnState(msgspec.Struct, frozen=True):
    name: str
    edges: tuple[DrawnEdge, ...]
    more: int
    """Edges that are left out."""


class DrawnAutomaton(msgspec.Struct, frozen=True):
    """States, the initial one first."""

    states: tuple[DrawnState, ...]


def drawn(monitor: MonitorSettings) -> DrawnAutomaton | None:
    """Return the diagram; None if the monitor is a program, or an automaton too large to be read."""
    if monitor.filter is not None:
        edges = [DrawnEdge(filter, "pass", "pass") for filter in monitor.filter]
        return DrawnAutomaton((_state(START, [*edges, DrawnEdge(ELSE, "suppress", "suppress")]),))
    if monitor.mapper is not None:
        edges = [DrawnEdge(filter, to, "replace") for filter, to in monitor.mapper.items()]
        return DrawnAutomaton((_state(START, [*edges, DrawnEdge(ELSE, "pass", "pass")]),))
    if monitor.states is None or len(monitor.states) > MAX_STATES:
        return None
    names = sorted(monitor.states, key=lambda name: name != START)
    numbers = {name: at for at, name in enumerate(names)}
    return DrawnAutomaton(tuple(_state(name, list(_edges(name, monitor.states[name], numbers))) for name in names))


def _edges(name: str, edges: dict[str, tuple[EdgeSettings, ...]], numbers: dict[str, int]) -> Iterator[DrawnEdge]:
    for filter, alternatives in edges.items():
        for edge in alternatives:
            after = numbers.get(edge.next) if edge.next not in (None, name) else None
            yield DrawnEdge(*_label(filter, edge), after)
    if ANY not in edges:
        yield DrawnEdge(ELSE, "suppress", "suppress")


def _label(filter: str, edge: EdgeSettings) -> tuple[str, str, str]:
    """Return the input, the output, and the kind of effect."""
    when = f" if {edge.when.canonical}" if edge.when is not None else ""
    input_ = f"{ELSE if filter == ANY else filter}{when}"
    if edge.rename is not None:
        return input_, edge.rename, "replace"
    if edge.emit is not None:
        return input_, ", ".join(output.topic for output in edge.emit), "replace"
    does = "pass" if edge.pass_ else "suppress"
    return input_, does, does


def _state(name: str, edges: list[DrawnEdge]) -> DrawnState:
    if len(edges) <= MAX_EDGES:
        return DrawnState(name, tuple(edges), 0)
    chosen = sorted(range(len(edges)), key=lambda at: (edges[at].next is None, at))[:MAX_EDGES]
    return DrawnState(name, tuple(edges[at] for at in sorted(chosen)), len(edges) - MAX_EDGES)
