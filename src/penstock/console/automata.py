"""A monitor of the domain file as a state diagram, in Mermaid's words. Nothing of a monitor is run."""

import re

from penstock.domain.policies import ANY, START, Edge, MonitorSettings

MOST_STATES = 30
MOST_LABELS = 4
LONGEST = 48
_PLAIN = re.compile(r"[^A-Za-z0-9_ ./-]")


def diagram(monitor: MonitorSettings, state: str) -> str | None:
    """The diagram with a state lit; None if the monitor is not an automaton, or one too large to be read."""
    states = _states(monitor)
    if states is None or len(states) > MOST_STATES:
        return None
    names = {name: f"s{at}" for at, name in enumerate(states)}
    start = START if START in states else next(iter(states))
    lines = ["stateDiagram-v2", "direction TB"]
    lines += [f'state "{_safe(name)}" as {names[name]}' for name in states]
    lines.append(f"[*] --> {names[start]}")
    for name, edges in states.items():
        for after, labels in edges.items():
            shown = [_safe(one) for one in labels[:MOST_LABELS]]
            shown += [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
            lines.append(f"{names[name]} --> {names.get(after, names[name])}: {'<br/>'.join(shown)}")
    if state in names:
        lines.append(f"class {names[state]} lit")
    return "\n".join(lines)


def _states(monitor: MonitorSettings) -> dict[str, dict[str, list[str]]] | None:
    """For each state, by the state after, what the edges there say."""
    if monitor.filter is not None:
        passed = [f"{one} / pass" for one in monitor.filter]
        return {START: {START: [*passed, "all else / suppress"]}}
    if monitor.mapper is not None:
        return {START: {START: [*(f"{one} / {to}" for one, to in monitor.mapper.items()), "all else / pass"]}}
    if monitor.states is None:
        return None
    found: dict[str, dict[str, list[str]]] = {}
    for name, edges in monitor.states.items():
        after = found.setdefault(name, {})
        for filter, several in edges.items():
            for edge in several:
                after.setdefault(edge.next or name, []).append(_label(filter, edge))
        if ANY not in edges:
            after.setdefault(name, []).append("all else / suppress")
    return found


def _label(filter: str, edge: Edge) -> str:
    """As automata are drawn: what comes in, and after a stroke what goes out."""
    when = f" if {edge.when.canonical}" if edge.when is not None else ""
    if edge.rename is not None:
        does = edge.rename
    elif edge.emit is not None:
        does = ", ".join(one.topic for one in edge.emit)
    else:
        does = "pass" if edge.pass_ else "suppress"
    return f"{'all else' if filter == ANY else filter}{when} / {does}"


def _safe(text: str) -> str:
    """As text that means nothing to Mermaid, and nothing to a browser."""
    cut = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return _PLAIN.sub(lambda found: f"#{ord(found[0])};", cut)
