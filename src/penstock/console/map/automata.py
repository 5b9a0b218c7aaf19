"""A monitor of the domain file as a state diagram: what is drawn of it. Nothing of a monitor is run."""

from collections.abc import Iterator

import msgspec

from penstock.domain.schema.policies import ANY, START, EdgeSettings, MonitorSettings

MOST_STATES = 30
MOST_EDGES = 12
"""Of a state. Those that lead to another state come first when some must be left out."""
ELSE = "all else"


class DrawnEdge(msgspec.Struct, frozen=True):
    """What comes in and what goes out, and the number of the state after it; None: it stays."""

    given: str
    gives: str
    does: str
    """`pass`, `suppress` or `replace`."""
    next: int | None = None

    @property
    def text(self) -> str:
        """As automata are written: what comes in, and after a stroke what goes out."""
        return f"{self.given} / {self.gives}"


class DrawnState(msgspec.Struct, frozen=True):
    name: str
    edges: tuple[DrawnEdge, ...]
    more: int
    """Edges that are left out."""


class Drawn(msgspec.Struct, frozen=True):
    """States, the one that it begins in first."""

    states: tuple[DrawnState, ...]


def drawn(monitor: MonitorSettings) -> Drawn | None:
    """None if the monitor is a program, or an automaton too large to be read."""
    if monitor.filter is not None:
        edges = [DrawnEdge(one, "pass", "pass") for one in monitor.filter]
        return Drawn((_state(START, [*edges, DrawnEdge(ELSE, "suppress", "suppress")]),))
    if monitor.mapper is not None:
        edges = [DrawnEdge(one, to, "replace") for one, to in monitor.mapper.items()]
        return Drawn((_state(START, [*edges, DrawnEdge(ELSE, "pass", "pass")]),))
    if monitor.states is None or len(monitor.states) > MOST_STATES:
        return None
    names = sorted(monitor.states, key=lambda name: name != START)
    numbers = {name: at for at, name in enumerate(names)}
    return Drawn(tuple(_state(name, list(_edges(name, monitor.states[name], numbers))) for name in names))


def _edges(name: str, edges: dict[str, tuple[EdgeSettings, ...]], numbers: dict[str, int]) -> Iterator[DrawnEdge]:
    for filter, several in edges.items():
        for edge in several:
            after = numbers.get(edge.next) if edge.next not in (None, name) else None
            yield DrawnEdge(*_label(filter, edge), after)
    if ANY not in edges:
        yield DrawnEdge(ELSE, "suppress", "suppress")


def _label(filter: str, edge: EdgeSettings) -> tuple[str, str, str]:
    """What comes in, what goes out, and of which kind that is."""
    when = f" if {edge.when.canonical}" if edge.when is not None else ""
    given = f"{ELSE if filter == ANY else filter}{when}"
    if edge.rename is not None:
        return given, edge.rename, "replace"
    if edge.emit is not None:
        return given, ", ".join(one.topic for one in edge.emit), "replace"
    does = "pass" if edge.pass_ else "suppress"
    return given, does, does


def _state(name: str, edges: list[DrawnEdge]) -> DrawnState:
    if len(edges) <= MOST_EDGES:
        return DrawnState(name, tuple(edges), 0)
    chosen = sorted(range(len(edges)), key=lambda at: (edges[at].next is None, at))[:MOST_EDGES]
    return DrawnState(name, tuple(edges[at] for at in sorted(chosen)), len(edges) - MOST_EDGES)
