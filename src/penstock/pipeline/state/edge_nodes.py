"""What is known of Sparkplug edge nodes, from row to row and, over a stream, from batch to batch."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from pyspark.sql import Column, DataFrame

from penstock.engine.node import Node
from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.state import CERTIFICATES
from penstock.model.event import Event
from penstock.model.sparkplug.topic import BIRTHS, NAMESPACE, SparkplugSource
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.buckets import Kept, StateVariable, Steps, in_order
from penstock.pipeline.state.rows import Fields
from penstock.pipeline.state.ways import is_first
from penstock.pipeline.tables.executor import F
from penstock.policy.sparkplug.edge_nodes import Numbered, Plant, PlantReader
from penstock.policy.sparkplug.views import BirthRecord, WithheldMetrics

EDGES = StateVariable("edges", "edges", 2)
_EDGE = "edge"


def is_sparkplug() -> Column:
    """Return whether a row is a Sparkplug message, or a birth certificate that a node keeps."""
    topic = F.col("topic")
    return topic.startswith(f"{NAMESPACE}/") | (topic == NAMESPACE) | topic.startswith(f"{CERTIFICATES}{NAMESPACE}/")


def is_birth() -> Column:
    """Return whether a row is a birth."""
    return F.get(F.split("topic", "/"), F.lit(2)).isin(*BIRTHS)


def edge() -> Column:
    """Return what the messages of one edge node have in common."""
    levels = F.split(F.regexp_replace("topic", f"^\\Q{CERTIFICATES}\\E", ""), "/")
    return F.concat_ws("/", F.get(levels, F.lit(1)), F.get(levels, F.lit(3)))


def by_edge_node(messages: DataFrame, make: Callable[[Kept | None], Steps], is_stream: bool) -> DataFrame:
    """Return what becomes of Sparkplug messages that go through steps in the order of each edge node at a node."""
    return in_order(messages.withColumn(_EDGE, edge()), ("node", _EDGE), make, (EDGES,), is_stream).drop(_EDGE)


@dataclass
class EdgeNode:
    """What is known of an edge node at a node, and what subjects have had of it."""

    plant: Plant = field(default_factory=Plant)
    readers: dict[str, PlantReader] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    """Which of its messages came lately, and by which arrival, where they may come by several ways."""


class _KeptEdge(msgspec.Struct):
    """An edge node at a node, as Spark keeps it."""

    node: str
    edge: str
    known: list[tuple[SparkplugSource, BirthRecord]]
    numbered: list[tuple[SparkplugSource, Numbered]]
    standings: list[tuple[str, SparkplugSource, WithheldMetrics]]
    numbers: list[tuple[str, SparkplugSource, int, int]]
    seen: dict[str, int]


class EdgeNodes:
    """Nodes by policy, for one edge node after the other: what is known of it goes from policy to policy."""

    def __init__(self, policies: Policies, askers: tuple[Asker, ...], kept: Kept | None) -> None:
        self._edges: dict[tuple[str, str], EdgeNode] | None = None
        if kept is not None:
            stored = msgspec.json.decode(kept.get(EDGES.name, b"[]"), type=list[_KeptEdge])
            self._edges = {(edge.node, edge.edge): _edge(edge) for edge in stored}
        self.actors = Actors(policies, askers)
        self._at: tuple[str, str] | None = None
        self.edge = EdgeNode()

    def enter(self, row: Fields) -> tuple[CompiledDomain, Node]:
        """Return what a row is judged by, and the node that it came to."""
        at = row["node"], row[_EDGE]
        if at != self._at:
            self._at, self.edge = at, EdgeNode() if self._edges is None else self._edges.setdefault(at, EdgeNode())
        policy = self.actors.policy(row)
        node = self.actors.node(policy, row["node"])
        if node.sparkplug is not None:
            node.sparkplug.plant = self.edge.plant
        return policy, node

    def learn(self, node: Node, row: Fields, event: Event) -> None:
        """Learn from a message, by the first of the ways that it came: an old birth must not count again."""
        if node.sparkplug is not None and is_first(self.edge.seen, row, event.payload):
            births.take_in(node, event)

    def keep(self) -> Kept:
        """Return what is known of all edge nodes."""
        stored = [_kept_edge(*ends, edge) for ends, edge in (self._edges or {}).items()]
        return {EDGES.name: msgspec.json.encode(stored)}


def _edge(kept: _KeptEdge) -> EdgeNode:
    made = EdgeNode(Plant(dict(kept.known), dict(kept.numbered)), seen=kept.seen)
    for subject, source, standing in kept.standings:
        made.readers.setdefault(subject, PlantReader()).standings[source] = standing
    for subject, source, seq, lost in kept.numbers:
        made.readers.setdefault(subject, PlantReader()).numbers[source] = seq, lost
    return made


def _kept_edge(node: str, name: str, edge: EdgeNode) -> _KeptEdge:
    known, numbered = edge.plant.memory()
    readers = edge.readers.items()
    return _KeptEdge(
        node,
        name,
        list(known.items()),
        list(numbered.items()),
        [(subject, source, standing) for subject, reader in readers for source, standing in reader.standings.items()],
        [(subject, source, *number) for subject, reader in readers for source, number in reader.numbers.items()],
        edge.seen,
    )
