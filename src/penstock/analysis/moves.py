"""The steps that flow paths are made of, on the links of a graph, without enumerating pairs of links.

A flow path (brokering §6.1.1) is a walk on links: from (x, y) to (y, z). At a node the step depends only on the types
of the two links, but for one thing, z != x. So the links that leave a node are grouped by type, and each group is a
chain that can be entered anywhere, in both directions: an arrival enters the groups that the table allows at their
beginning, and the group that holds the link back to x on both sides of that link. The number of steps is that of links
times at most that of types, where pairs of links would be quadratic at a busy node.

A vertex is an event that has come through a link, with a filter that covers the topics it may then have, or a point on
its way from there into the next link.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from penstock.model.link import Link

from .graph import EntityKind, FlowError, FlowGraph

ANY_TOPIC = "#"
MAX_FILTERS = 200
"""After so many distinct filters in one analysis a new one is taken for any topic, so that renaming always ends."""


class Past(NamedTuple):
    """Through link number `link`, with a topic that the filter covers; None: topics are not looked at."""

    link: int
    topics: str | None


class _Along(NamedTuple):
    """At place `at` of the chain of the links of one type that leave a node; goes on in direction `step`."""

    node: str
    type: str
    at: int
    step: int
    topics: str | None


class _Groups(NamedTuple):
    """Arrived at a node by a link of type `arrived`: about to enter all groups of links but that of type `but`."""

    node: str
    arrived: str
    but: str | None
    topics: str | None


class _Relay(NamedTuple):
    """Known to an entity that may send it on anywhere."""

    entity: str


Vertex = Past | _Along | _Groups | _Relay  # of four lengths, so that none equals one of another kind


class Closure(NamedTuple):
    """The obstacle of a flow: an entry of a table, a monitor, or a device in the middle of a route."""

    at: str
    """The entity or link of the obstacle."""
    what: str

    def __str__(self) -> str:
        return f"{self.what} at `{self.at}`"


class Moves:
    """The steps of the flow paths of a graph, or with `routes` of its flow routes: no device in the middle.

    With a topic filter, events set out with topics that match it, and monitors do what they do; what a device passes on
    may have any topic. Without one, monitors are not asked.
    """

    def __init__(self, graph: FlowGraph, on: str | None = None, routes: bool = False) -> None:
        self.graph = graph
        self._on = on if graph.monitors else None
        self._routes = routes
        self._index = {ends: at for at, ends in enumerate(graph.by_ends)}
        self._leaving: dict[str, dict[str, list[int]]] = defaultdict(dict)
        self._place: dict[int, int] = {}
        for at, link in enumerate(graph.links):
            group = self._leaving[link.source].setdefault(link.type, [])
            self._place[at] = len(group)
            group.append(at)
        self._outputs: dict[Past, tuple[str, ...]] = {}
        self._filters: set[str] = set()

    def index(self, link: Link) -> int:
        """Return the number of a link, by its two ends."""
        try:
            return self._index[link.source, link.target]
        except KeyError:
            raise FlowError(f"there is no link `{link}`") from None

    def first(self, source: str | Link) -> list[int]:
        """Return the links on which what an entity sends sets out; or just the link."""
        if isinstance(source, Link):
            return [self.index(source)]
        if source not in self.graph.kinds:
            raise FlowError(f"there is no entity `{source}`")
        return [at for group in self._leaving.get(source, {}).values() for at in group]

    def starts(self, source: str | Link) -> Iterator[Past]:
        """Return the vertices after the first link."""
        return (past for at in self.first(source) for past in self._through(at, self._on))

    def closed_starts(self, source: str | Link) -> Iterator[tuple[Past, Closure]]:
        """Return the first links that a monitor closes."""
        return (step for at in self.first(source) for step in self._stopped(at, self._on))

    def open(self, vertex: Vertex) -> Iterator[Vertex]:
        """Yield the steps from a vertex."""
        match vertex:
            case Past(at, topics):
                yield from self._arrive(self.graph.links[at], topics)
            case _Along(node, type, at, step, topics):
                group = self._leaving[node][type]
                yield from self._through(group[at], topics)
                if 0 <= at + step < len(group):
                    yield vertex._replace(at=at + step)
            case _Groups(node, arrived, but, topics):
                for type in self._leaving[node]:
                    if type != but and self.graph.allows(node, arrived, type):
                        yield _Along(node, type, 0, 1, topics)
            case _Relay(entity):
                for at in self.first(entity):
                    yield from self._through(at, None if self._on is None else ANY_TOPIC)

    def closed(self, vertex: Vertex) -> Iterator[tuple[Vertex, Closure]]:
        """Yield the steps from a vertex that something stops, each with what stops it."""
        match vertex:
            case Past(at, topics):
                yield from self._refused(self.graph.links[at], topics)
            case _Along(node, type, at, _, topics):
                yield from self._stopped(self._leaving[node][type][at], topics)
            case _Groups(node, arrived, but, topics):
                for type in self._leaving[node]:
                    if type != but and not self.graph.allows(node, arrived, type):
                        yield _Along(node, type, 0, 1, topics), self._denied(node, arrived, type)
            case _Relay(entity):
                for at in self.first(entity):
                    yield from self._stopped(at, None if self._on is None else ANY_TOPIC)

    def _arrive(self, link: Link, topics: str | None) -> Iterator[Vertex]:
        kind = self.graph.kinds[link.target]
        if kind is not EntityKind.NODE:
            if kind is EntityKind.FOREIGN or not self._routes:
                yield _Relay(link.target)
            return
        back = self._back(link)
        yield _Groups(link.target, link.type, back and back.type, topics)
        if back is not None and self.graph.allows(link.target, link.type, back.type):
            yield from self._beside(back, topics)

    def _refused(self, link: Link, topics: str | None) -> Iterator[tuple[Vertex, Closure]]:
        node, back = link.target, self._back(link)
        if self.graph.kinds[node] is EntityKind.DEVICE and self._routes:
            yield _Relay(node), Closure(node, "a route has no device in the middle")
        elif (
            self.graph.kinds[node] is EntityKind.NODE
            and back is not None
            and not self.graph.allows(node, link.type, back.type)
        ):
            for beside in self._beside(back, topics):
                yield beside, self._denied(node, link.type, back.type)

    def _beside(self, back: Link, topics: str | None) -> Iterator[_Along]:
        """Yield the group of a link without it: not back to where the event came from."""
        group, place = self._leaving[back.source][back.type], self._place[self.index(back)]
        if place > 0:
            yield _Along(back.source, back.type, place - 1, -1, topics)
        if place + 1 < len(group):
            yield _Along(back.source, back.type, place + 1, 1, topics)

    def _back(self, link: Link) -> Link | None:
        return self.graph.by_ends.get((link.target, link.source))

    def _denied(self, node: str, source_type: str, target_type: str) -> Closure:
        return Closure(node, self.graph.tables[node].why(source_type, target_type))

    def _through(self, at: int, topics: str | None) -> Iterator[Past]:
        """Yield the vertices after a link with its monitors."""
        if topics is None or self.graph.links[at][:2] not in self.graph.monitors:
            yield Past(at, topics)
        else:
            yield from (Past(at, output) for output in self._outputs_of(at, topics))

    def _stopped(self, at: int, topics: str | None) -> Iterator[tuple[Past, Closure]]:
        """Yield the vertex after a link whose monitors suppress such events."""
        link = self.graph.links[at]
        if topics is not None and link[:2] in self.graph.monitors and not self._outputs_of(at, topics):
            monitor = self.graph.suppressor(link, topics)
            yield Past(at, topics), Closure(str(link), f"`{monitor}` suppresses `{topics}`")

    def _outputs_of(self, at: int, topics: str) -> tuple[str, ...]:
        key = Past(at, topics)
        if key not in self._outputs:
            outputs = self.graph.outputs(self.graph.links[at], topics)
            self._outputs[key] = tuple(dict.fromkeys(self._bounded(output) for output in outputs))
        return self._outputs[key]

    def _bounded(self, topics: str) -> str:
        # `#` does not cover topics that begin with `$`; these keep their first level, which no monitor can make.
        if topics not in self._filters and len(self._filters) >= MAX_FILTERS:
            first, _, _ = topics.partition("/")
            topics = f"{first}/#" if first.startswith("$") else ANY_TOPIC
        self._filters.add(topics)
        return topics
