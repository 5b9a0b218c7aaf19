"""§5.2, system states."""

from collections.abc import Iterator
from typing import NamedTuple

from .schema import MonitorState, Pair, Schema
from .task import AnnotatedTask


class SystemState(NamedTuple):
    """gamma = <t, ST, WL>."""

    t: int
    st: frozenset[tuple[Pair, MonitorState]]
    """ST, as a set of pairs: the state of each link's monitor."""
    wl: frozenset[AnnotatedTask]


def initial(schema: Schema) -> SystemState:
    """Return gamma_init = <0, ST_init, {}>: every monitor in its start state, no task."""
    graph, events = schema.graph, schema.events
    links = {link for link in graph.link if graph.monitored(*link)} | events.monitors.keys()
    return SystemState(0, frozenset((link, events.monitor(*link).start) for link in links), frozenset())


def monitor_state(state: SystemState, x: str, y: str) -> MonitorState:
    """Return ST(x, y)."""
    return dict(state.st).get((x, y))


def with_monitor_state(state: SystemState, x: str, y: str, q: MonitorState) -> SystemState:
    """Return the same state but for ST(x, y) = q."""
    return state._replace(st=frozenset((link, q if link == (x, y) else old) for link, old in state.st))


def select(schema: Schema, wl: frozenset[AnnotatedTask]) -> Iterator[AnnotatedTask]:
    """Return each alpha for which select(alpha, WL) holds: the minimal elements of WL by the ordering."""
    return (alpha for alpha in wl if not any(schema.ordering.precedes(other, alpha) for other in wl))
