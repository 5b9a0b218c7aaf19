"""Flow paths and flow routes (brokering §6.1.1): between which entities information can go, and by which path.

A flow path goes from link to link, at a node only as the brokering table allows and never straight back; a device on it
reads something and publishes something because of it. A flow route is a flow path with brokers only in the middle.

The analysis errs on one side. Whatever a live ensemble does with an event is on a path that is found here, so what is
not found cannot happen. What is found can happen as far as the brokering tables and the monitors' `outputs` tell: these
say what a monitor may put out in some state, not whether it comes to that state.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count

from penstock.domain.compile.ensemble import Assertion, Ensemble
from penstock.domain.schema.policies import ANY
from penstock.model.link import Link
from penstock.policy.monitors.automaton import Automaton

from .components import closure_bits
from .graph import FlowGraph, flow_graph
from .moves import ANY_TOPIC, Closure, Moves, Past, Vertex

MAX_FILTERS_TRIED = 50
"""Filters that are tried one by one."""

End = str | Link
"""The beginning or the end of a flow: an entity, or one link."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A path from one end to the other."""

    links: tuple[Link, ...]
    topics: tuple[str | None, ...] = ()
    """For each link the filter that covers the topics that pass it; None: topics were not looked at."""

    @property
    def entities(self) -> tuple[str, ...]:
        return (self.links[0].source, *(link.target for link in self.links))

    def __str__(self) -> str:
        steps = (f" -[{link.type}]-> {link.target}" for link in self.links)
        return self.links[0].source + "".join(steps)


def reach(graph: FlowGraph, source: End, target: End, on: str | None = None, routes: bool = False) -> Witness | None:
    """Return a shortest flow path (with `routes`: flow route) of at least one link, or None if there is none.

    `on` is a filter of the topics that set out, `#` for any: monitors are asked, and what they surely suppress goes no
    further; what they rename goes on as what it may have become. Without `on` monitors are not asked: then the answer
    is that of the brokering tables alone.
    """
    moves = Moves(graph, on, routes)
    is_there = _arrived(moves, target)
    return next((_witness(graph, way) for vertex, way in _open_ways(moves, source) if is_there(vertex)), None)


def reach_all(graph: FlowGraph, source: End, on: str | None = None, routes: bool = False) -> dict[str, Witness]:
    """Return a witness for each entity that is reached, as `reach` returns it, ordered by length."""
    witnesses: dict[str, Witness] = {}
    for vertex, way in _open_ways(Moves(graph, on, routes), source):
        if isinstance(vertex, Past) and graph.links[vertex.link].target not in witnesses:
            witnesses[graph.links[vertex.link].target] = _witness(graph, way)
    return witnesses


def split_by_filter(
    graph: FlowGraph, witness: Witness, routes: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the topic filters that automata on a path name: those of which something can flow between its ends, by
    this path or another, and those of which nothing can.
    """
    monitors = (monitor for link in witness.links for monitor in graph.monitors.get((link.source, link.target), ()))
    states = (state for monitor in monitors if isinstance(monitor, Automaton) for state in monitor.states)
    named = dict.fromkeys(edge.filter for state in states for edge in state.edges if edge.filter != ANY)
    source, target = witness.entities[0], witness.entities[-1]
    can = {
        filter: reach(graph, source, target, filter, routes) is not None for filter in list(named)[:MAX_FILTERS_TRIED]
    }
    return tuple(filter for filter in can if can[filter]), tuple(filter for filter in can if not can[filter])


def nearest(
    graph: FlowGraph, source: End, target: End, on: str | None = None, routes: bool = False
) -> tuple[Witness, tuple[Closure, ...]] | None:
    """Return a path with as few closures as possible, and these; None if no links lead there, open or closed."""
    moves = Moves(graph, on, routes)

    def starts() -> Iterator[_Step]:
        yield from ((vertex, (0, 1), None) for vertex in moves.starts(source))
        yield from ((vertex, (1, 1), closure) for vertex, closure in moves.closed_starts(source))

    def steps(vertex: Vertex) -> Iterator[_Step]:
        yield from ((after, _cost(after), None) for after in moves.open(vertex))
        for after, closure in moves.closed(vertex):
            yield after, (1, _cost(after)[1]), closure

    is_there = _arrived(moves, target)
    for vertex, way in _cheapest(starts(), steps):
        if is_there(vertex):
            return _witness(graph, way), tuple(closure for _, closure in way() if closure is not None)
    return None


_Step = tuple[Vertex, tuple[int, int], Closure | None]
"""A vertex, the cost to reach it (closures, links), and the closure on the way."""
_Way = Callable[[], list[tuple[Vertex, Closure | None]]]
"""A function that returns the path to a vertex; it is called only for the vertices that matter."""


def _cost(vertex: Vertex) -> tuple[int, int]:
    return 0, int(isinstance(vertex, Past))


def _arrived(moves: Moves, target: End) -> Callable[[Vertex], bool]:
    if isinstance(target, Link):
        last = moves.index(target)
        return lambda vertex: isinstance(vertex, Past) and vertex.link == last
    moves.first(target)  # raises if there is no such entity
    links = moves.graph.links
    return lambda vertex: isinstance(vertex, Past) and links[vertex.link].target == target


def _open_ways(moves: Moves, source: End) -> Iterator[tuple[Vertex, _Way]]:
    return _cheapest(
        ((vertex, (0, 1), None) for vertex in moves.starts(source)),
        lambda vertex: ((after, _cost(after), None) for after in moves.open(vertex)),
    )


def _cheapest(starts: Iterable[_Step], steps: Callable[[Vertex], Iterable[_Step]]) -> Iterator[tuple[Vertex, _Way]]:
    """Yield every vertex that can be reached, the cheapest first, with the cheapest path to it (Dijkstra)."""
    number = count()
    pending: list[tuple[tuple[int, int], int, Vertex, Closure | None, Vertex | None]] = []
    pending += ((cost, next(number), vertex, closure, None) for vertex, cost, closure in starts)
    heapq.heapify(pending)
    came: dict[Vertex, tuple[Vertex | None, Closure | None]] = {}
    while pending:
        cost, _, vertex, closure, before = heapq.heappop(pending)
        if vertex in came:
            continue
        came[vertex] = before, closure
        yield vertex, partial(_way, came, vertex)
        for after, more, stop in steps(vertex):
            if after not in came:
                heapq.heappush(pending, ((cost[0] + more[0], cost[1] + more[1]), next(number), after, stop, vertex))


def _way(came: dict[Vertex, tuple[Vertex | None, Closure | None]], last: Vertex) -> list[tuple[Vertex, Closure | None]]:
    way, vertex = list[tuple[Vertex, Closure | None]](), last
    while True:
        before, closure = came[vertex]
        way.append((vertex, closure))
        if before is None:
            return way[::-1]
        vertex = before


def _witness(graph: FlowGraph, way: _Way) -> Witness:
    passed = [vertex for vertex, _ in way() if isinstance(vertex, Past)]
    return Witness(tuple(graph.links[vertex.link] for vertex in passed), tuple(vertex.topics for vertex in passed))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The links and entities that each link and each entity reaches; made by `all_pairs`."""

    graph: FlowGraph
    _reached: tuple[int, ...] = field(repr=False)
    """For each link a set of bits: one for each link that it reaches, then one for each entity."""

    @cached_property
    def _entities(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.graph.kinds)}

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], int]:
        return {ends: at for at, ends in enumerate(self.graph.by_ends)}

    @cached_property
    def _leaving(self) -> dict[str, int]:
        """The links and entities that the links from each entity reach together."""
        bits = dict.fromkeys(self.graph.kinds, 0)
        for at, link in enumerate(self.graph.links):
            bits[link.source] |= self._reached[at]
        return bits

    def _bits(self, source: End) -> int:
        return self._reached[self._numbers[source[:2]]] if isinstance(source, Link) else self._leaving[source]

    def can(self, source: End, target: End) -> bool:
        """Return whether there is a flow from one end to the other, of at least one link."""
        at = self._numbers[target[:2]] if isinstance(target, Link) else len(self._numbers) + self._entities[target]
        return bool(self._bits(source) >> at & 1)

    def entities(self, source: End) -> tuple[str, ...]:
        """Return the entities that are reached, in the graph's order."""
        bits = self._bits(source) >> len(self.graph.links)
        return tuple(name for name, bit in zip(self.graph.kinds, reversed(f"{bits:b}"), strict=False) if bit == "1")

    def links(self, source: End) -> tuple[Link, ...]:
        """Return the links that are reached, in the graph's order."""
        bits = f"{self._bits(source):b}"[::-1]
        return tuple(link for link, bit in zip(self.graph.links, bits, strict=False) if bit == "1")


def all_pairs(graph: FlowGraph, routes: bool = False, on: str | None = None) -> Pairs:
    """Return the flows between all pairs of links and entities; `on` and `routes` as in `reach`."""
    moves = Moves(graph, on, routes)
    numbers = {name: len(graph.links) + at for at, name in enumerate(graph.kinds)}

    def own(vertex: Vertex) -> int:
        if not isinstance(vertex, Past):
            return 0
        return 1 << vertex.link | 1 << numbers[graph.links[vertex.link].target]

    starts = [tuple[Vertex, ...](moves.starts(link)) for link in graph.links]
    bits = closure_bits((vertex for some in starts for vertex in some), moves.open, own)
    reached = []
    for some in starts:
        reached.append(0)
        for vertex in some:
            reached[-1] |= bits[vertex]
    return Pairs(graph, tuple(reached))


@dataclass(frozen=True, slots=True)
class AssertionFailure:
    """An assertion that does not hold, and the reason."""

    assertion: Assertion
    index: int
    """Its place among the domain's assertions."""
    witness: Witness | None
    """For `never` the flow that exists, for `can` the nearest path; None if no links lead there."""
    closures: tuple[Closure, ...] = ()
    """For `can`: the closures on that path."""

    def __str__(self) -> str:
        return f"`{self.assertion}` does not hold: {self.reason}"

    @property
    def reason(self) -> str:
        if self.witness is None:
            return f"no links lead from `{self.assertion.source}` to `{self.assertion.target}`"
        if not self.closures:
            return f"there is a way, {self.witness}"
        return f"the nearest way, {self.witness}, is closed: {'; '.join(map(str, self.closures))}"


def check_assertions(ensemble: Ensemble) -> tuple[AssertionFailure, ...]:
    """Return the assertions of a domain that do not hold, in the order in which it has them."""
    graph = flow_graph(ensemble)
    checked = (_check(graph, assertion, index) for index, assertion in enumerate(ensemble.assertions))
    return tuple(failure for failure in checked if failure is not None)


def _check(graph: FlowGraph, assertion: Assertion, index: int) -> AssertionFailure | None:
    source, target, routes = assertion.source, assertion.target, assertion.routes
    on = ANY_TOPIC if assertion.topics is None else assertion.topics
    if not {source, target} <= graph.kinds.keys():  # `?` where no node admits clients that are not listed
        return AssertionFailure(assertion, index, None) if assertion.kind == "can" else None
    witness = reach(graph, source, target, on, routes)
    if (witness is not None) is (assertion.kind == "can"):
        return None
    if witness is not None:
        return AssertionFailure(assertion, index, witness)
    near = nearest(graph, source, target, on, routes)
    return AssertionFailure(assertion, index, None) if near is None else AssertionFailure(assertion, index, *near)
