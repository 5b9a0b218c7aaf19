"""Monitors of the domain file, compiled."""

from collections.abc import Callable
from pathlib import Path

from penstock.domain.compile.graph import LinkGraph
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.policies import ANY, START, EdgeSettings, MonitorSettings
from penstock.domain.units import Pair
from penstock.language.types import ANYTHING, RecordType
from penstock.model.content.content import ContentReader
from penstock.policy.monitors.action import SUPPRESS, Action, parse_action
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor, python_monitor
from penstock.policy.monitors.placing import Side

Declared = Callable[[str], RecordType]
"""Returns the attributes of events that a topic filter matches."""


def link_monitors(
    domain: Domain, joined: LinkGraph, folder: Path | None, reader: ContentReader
) -> dict[Pair, list[tuple[Monitor, Side | None]]]:
    """Return the monitors of each link, and of the links of unlisted clients (`?`), with the ends that `on` names."""
    by_ends: dict[Pair, list[tuple[Monitor, Side | None]]] = {ends: [] for ends in (*joined.links, *joined.unlisted)}
    for name, settings in domain.monitors.items():
        monitor = compile_monitor(name, settings, folder, domain.declared, reader)
        for ends in dict.fromkeys(joined.monitored(settings)):
            by_ends[ends].append((monitor, side(settings, ends)))
    return by_ends


def side(settings: MonitorSettings, ends: Pair) -> Side | None:
    """Return the end of a link that `at` names, or where the node is that `on` names. (brokering §7.3.2)"""
    if settings.on is None or settings.at is not None:
        return settings.at
    return "arrival" if settings.on.node == ends[1] else "departure"


def compile_monitor(
    name: str, settings: MonitorSettings, folder: Path | None, declared: Declared, reader: ContentReader
) -> Monitor:
    """Compile a monitor; raise `PolicyError`, or `ConditionError` for a `when`.

    A Python class is imported from `folder`, and then from Python's path.
    """
    if settings.python is not None:
        return python_monitor(name, settings.python, settings.with_, folder)
    return compile_automaton(name, settings, declared, reader)


def compile_automaton(name: str, settings: MonitorSettings, declared: Declared, reader: ContentReader) -> Automaton:
    """Compile the automaton of a monitor that is not a Python class; raise as `compile_monitor` does."""
    if settings.filter == ():
        return Automaton.of_states(name, {START: {ANY: SUPPRESS}})  # filter(E) of §6.2.1 with nothing in E
    if settings.filter is not None:
        return Automaton.of_filter(name, settings.filter)
    if settings.mapper is not None:
        return Automaton.of_mapper(name, settings.mapper)
    assert settings.states is not None
    names = sorted(settings.states, key=lambda state: state != START)
    edges = {
        state: {filter: _actions(filter, edges, declared) for filter, edges in settings.states[state].items()}
        for state in names
    }
    return Automaton.of_states(name, edges, reader)


def attributes_at(filter: str, declared: Declared) -> RecordType:
    """Return the attributes of the events that an edge is about."""
    return ANYTHING if filter == ANY else declared(filter)


def _actions(filter: str, edges: tuple[EdgeSettings, ...], declared: Declared) -> tuple[Action, ...]:
    return tuple(_action(filter, edge, attributes_at(filter, declared)) for edge in edges)


def _action(filter: str, edge: EdgeSettings, attributes: RecordType) -> Action:
    written = edge.model_dump(by_alias=True, exclude_none=True, exclude={"when"})
    return parse_action(filter, written, None if edge.when is None else edge.when.compiled(attributes))
