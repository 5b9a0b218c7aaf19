"""Graphs of ratings, the exhaustive search over their paths, and nodes that exchange vectors over unreliable links."""

import random
from collections.abc import Iterator, Mapping

from hypothesis import strategies as st

from penstock.policy.trust.rating import UNIT, Average, in_millionths
from penstock.policy.trust.vectors import TrustTable, Update

Edge = tuple[str, str]
"""From the node that is rated to the one that rates it: the way of messages."""
Graph = dict[Edge, float]

FIGURE_4: Graph = {
    ("b1", "b2"): 0.6,
    ("b1", "b3"): 0.7,
    ("b2", "b4"): 0.5,
    ("b3", "b4"): 0.4,
    ("b4", "b6"): 0.4,
    ("b3", "b5"): 0.7,
    ("b5", "b6"): 0.8,
}
"""The ratings that the averages in §II-D imply; those of b5, which it says nothing of, are chosen."""

ratings = st.integers(0, UNIT).map(lambda millionths: millionths / UNIT) | st.sampled_from([0.0, 0.5, 1.0])


@st.composite
def acyclic(draw: st.DrawFn, most: int = 7) -> Graph:
    """Edges only from lower to higher numbers."""
    names = [f"n{at}" for at in range(draw(st.integers(2, most)))]
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=14, unique=True))
    return {pair: draw(ratings) for pair in chosen}


@st.composite
def linked(draw: st.DrawFn, extra: int = 3, most: int = 7) -> Graph:
    """A tree and at most so many links more, each in both directions with ratings of their own."""
    names = [f"n{at}" for at in range(draw(st.integers(2, most)))]
    links = {(names[draw(st.integers(0, at - 1))], names[at]) for at in range(1, len(names))}
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    links |= set(draw(st.lists(st.sampled_from(pairs), max_size=extra))) if extra else set()
    return {edge: draw(ratings) for one, other in sorted(links) for edge in ((one, other), (other, one))}


def nodes_of(graph: Mapping[Edge, float]) -> list[str]:
    return sorted({node for edge in graph for node in edge})


def exhaustive(graph: Mapping[Edge, float], target: str) -> dict[str, Average]:
    """The least average over all paths without repetition to a node, by walking every one of them."""
    found: dict[str, Average] = {}
    for origin, total, edges in _paths_back(graph, target, (target,), 0):
        average = Average(total, edges)
        found[origin] = min(found.get(origin, average), average)
    return found


def _paths_back(
    graph: Mapping[Edge, float], at: str, path: tuple[str, ...], total: int
) -> Iterator[tuple[str, int, int]]:
    for (before, after), rating in graph.items():
        if after == at and before not in path:
            longer = total + in_millionths(rating)
            yield before, longer, len(path)
            yield from _paths_back(graph, before, (*path, before), longer)


class Network:
    """Nodes with a table each. What they send waits until it is delivered, in an order that `draw` makes up."""

    def __init__(self, graph: Mapping[Edge, float], draw: random.Random, longest: int | None = None) -> None:
        self.graph: Graph = {}
        self.draw = draw
        self.longest = longest
        self.size = len(nodes_of(graph))
        self.tables = {node: self._table(node) for node in nodes_of(graph)}
        self.waiting: list[tuple[Edge, Update]] = []
        self.sent = 0
        for edge, rating in graph.items():
            self.rate(edge, rating)

    def _table(self, node: str) -> TrustTable:
        return TrustTable(node, self.size, self.longest)

    def rate(self, edge: Edge, rating: float) -> None:
        """A link comes, or its rating changes."""
        self.graph[edge] = rating
        self.tables[edge[1]].set_rating(edge[0], rating)
        self._send(edge[1], edge)

    def cut(self, edge: Edge) -> None:
        """A link goes, with what is under way on it."""
        del self.graph[edge]
        self.waiting = [(other, update) for other, update in self.waiting if other != edge]
        self.tables[edge[1]].forget(edge[0])
        if (edge[1], edge[0]) not in self.graph:
            self.tables[edge[0]].forget(edge[1])
        else:
            self.tables[edge[0]].resend_whole(edge[1])
        self._send(edge[1])

    def restart(self, node: str) -> None:
        """A node forgets everything; its links go and come again."""
        mine = {edge: rating for edge, rating in self.graph.items() if node in edge}
        for edge in mine:
            self.cut(edge)
        self.tables[node] = self._table(node)
        for edge, rating in mine.items():
            self.rate(edge, rating)

    def deliver(self, most: int | None = None, loss: float = 0.0) -> None:
        """Deliver what waits, in any order; some of it twice, some of it never, which the next one then shows."""
        while self.waiting and (most is None or most > 0):
            most = None if most is None else most - 1
            at = self.draw.randrange(len(self.waiting))
            edge, update = self.waiting[at]
            if self.draw.random() >= 0.1:
                del self.waiting[at]
            if self.draw.random() < loss or not self.tables[edge[1]].receive(edge[0], update):
                self.tables[edge[0]].resend_whole(edge[1])
            self._send(edge[1], edge)

    def _send(self, node: str, *edges: Edge) -> None:
        """What a node has to tell; and on these edges also what their first node has."""
        for edge in (*edges, *(edge for edge in self.graph if edge[0] == node)):
            update = self.tables[edge[0]].update_for(edge[1])
            if update is not None:
                self.waiting.append((edge, update))
                self.sent += 1
