"""A monitor of the domain file, compiled to one that runs."""

from __future__ import annotations

from pathlib import Path

from penstock.domain.policies import ANY, START, Edge, MonitorSettings
from penstock.policy.action import SUPPRESS, Action, parse_action
from penstock.policy.automaton import Automaton
from penstock.policy.monitor import Monitor, python_monitor


def compile_monitor(name: str, settings: MonitorSettings, folder: Path | None) -> Monitor:
    """The monitor that the settings describe; raises `PolicyError`.

    A Python class is looked for in `folder`, and then as Python imports it.
    """
    if settings.python is not None:
        return python_monitor(name, settings.python, settings.with_, folder)
    return compile_automaton(name, settings)


def compile_automaton(name: str, settings: MonitorSettings) -> Automaton:
    """The automaton of a monitor that is not a Python class; raises `PolicyError`."""
    if settings.filter == ():
        return Automaton.of_states(name, {START: {ANY: SUPPRESS}})  # filter(E) of §6.2.1 with nothing in E
    if settings.filter is not None:
        return Automaton.of_filter(name, settings.filter)
    if settings.mapper is not None:
        return Automaton.of_mapper(name, settings.mapper)
    assert settings.states is not None
    names = sorted(settings.states, key=lambda state: state != START)
    return Automaton.of_states(name, {state: _edges(settings.states[state]) for state in names})


def _edges(edges: dict[str, Edge]) -> dict[str, Action]:
    return {
        filter: parse_action(filter, edge.model_dump(by_alias=True, exclude_none=True))
        for filter, edge in edges.items()
    }
