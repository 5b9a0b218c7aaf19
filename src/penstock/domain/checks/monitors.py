"""Checks of monitors: their links and their actions."""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.domain.checks.contents import compiled
from penstock.domain.compile.graph import LinkGraph
from penstock.domain.compile.monitors import attributes_at, compile_monitor
from penstock.domain.problems import Entities, Loc, Mistake, Remark, WrongValue, join_names, known_names_hint
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.policies import ANY, MonitorSettings
from penstock.domain.units import Pair
from penstock.model.content.content import ContentReader
from penstock.model.errors import PolicyError
from penstock.policy.monitors.protocol import UNLISTED

# The place of a problem in the text of an automaton's own check.
_SPOT = re.compile(r"state `(?P<state>[^`]*)`, edge `(?P<edge>[^`]*)`:? ")


def check(domain: Domain, graph: LinkGraph, folder: Path | None) -> Iterator[Mistake]:
    """Find mistakes in monitors of a domain without patterns and protocols."""
    entities = Entities.of(domain)
    for name, settings in domain.monitors.items():
        loc: Loc = ("monitors", name)
        wrong: list[Mistake] = [*_place(domain, entities, graph, settings, loc), *_states(domain, settings, loc)]
        yield from wrong
        if not wrong:
            yield from _compile_problems(domain, name, folder, loc)


def _place(
    domain: Domain, entities: Entities, graph: LinkGraph, settings: MonitorSettings, loc: Loc
) -> Iterator[WrongValue]:
    if settings.on is not None:
        side = settings.on
        if side.node not in domain.nodes:
            yield WrongValue((*loc, "on", "node"), entities.not_a_node(side.node))
        elif side.direction in ("ex_pub", "ex_sub") and not graph.parents[side.node]:
            expected = f"`im_pub` or `im_sub`: `{side.node}` has no parent, as it dials nobody"
            yield WrongValue((*loc, "on", "direction"), expected)
        elif not any(True for _ in graph.monitored(settings)):
            expected = (
                "a direction in which there are links: it has no children, and clients that are not listed are refused"
            )
            yield WrongValue((*loc, "on", "direction"), expected)
        return
    has_several = len(settings.link or ()) > 1
    for index, pattern in enumerate(settings.link or ()):
        where: Loc = (*loc, "link", index) if has_several else (*loc, "link")
        yield from _link(domain, entities, graph, pattern, where)
        if pattern in (settings.link or ())[:index]:
            yield WrongValue(where, "every link once")


def _link(domain: Domain, entities: Entities, graph: LinkGraph, pattern: Pair, loc: Loc) -> Iterator[WrongValue]:
    for end in pattern:
        if end not in (ANY, UNLISTED) and end not in entities.all:
            yield WrongValue(loc, f"{entities.not_an_entity(end)}", f"`{end}`")
            return
    if not any(True for _ in graph.matching(pattern)):
        yield WrongValue(loc, f"a link that exists, {_nearby(graph, pattern)}")


def _nearby(graph: LinkGraph, pattern: Pair) -> str:
    source, target = pattern
    if source == target:
        return "and an entity has no link with itself"
    if UNLISTED in pattern:
        return "and clients that are not listed are refused there"
    if (target, source) in graph.links:
        return f"did you mean `{target} -> {source}`?"
    around = [f"{from_} -> {to}" for from_, to in graph.links if source in (from_, ANY) or target in (to, ANY)]
    return f"such as {join_names(around)}" if around else f"and there is none from `{source}` or to `{target}`"


def _states(domain: Domain, settings: MonitorSettings, loc: Loc) -> Iterator[Mistake]:
    states = settings.states or {}
    for state, edges in states.items():
        where: Loc = (*loc, "states", state)
        if not edges:
            yield WrongValue(where, 'what it does with events; to suppress all, write `"*": suppress`')
        for filter, alternatives in edges.items():
            for index, edge in enumerate(alternatives):
                at: Loc = (*where, filter, index)
                if edge.next is not None and edge.next not in states:
                    yield WrongValue((*at, "next"), f"a state, {known_names_hint(edge.next, tuple(states))}")
                condition = edge.when and compiled(edge.when, attributes_at(filter, domain.declared))
                if isinstance(condition, str):
                    yield Remark((*at, "when"), condition)


def _compile_problems(domain: Domain, name: str, folder: Path | None, loc: Loc) -> Iterator[Remark]:
    settings = domain.monitors[name]
    try:
        compile_monitor(name, settings, folder, domain.declared, ContentReader())
    except PolicyError as error:
        key = next(key for key in ("states", "python", "filter", "mapper") if getattr(settings, key) is not None)
        text = str(error).removeprefix(f"monitor `{name}`: ")
        spot = _SPOT.match(text)
        if spot is None:
            yield Remark((*loc, key), text)
        else:
            state = (spot["state"],) if key == "states" else ()
            yield Remark((*loc, key, *state, spot["edge"]), text[spot.end() :])
