"""What is known of Sparkplug edge nodes, from row to row and, over a stream, from batch to batch."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from pyspark.sql import Column, DataFrame

from penstock.engine.node import Node
from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.state import CERTIFICATES, Windows
from penstock.model.event import Event
from penstock.model.sparkplug.topic import BIRTHS, NAMESPACE, SparkplugSource, message_topic
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.buckets import Kept, StateVariable, Steps, in_order
from penstock.pipeline.state.rows import Fields
from penstock.pipeline.state.ways import is_first
from penstock.pipeline.tables.executor import F
from penstock.policy.sparkplug.edge_nodes import Numbered, Plant, PlantReader
from penstock.policy.sparkplug.views import BirthRecord, WithheldMetrics

EDGES = StateVariable("edges", "edges", 3)
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


class _KeptMessages(Windows[None]):
    """The last messages; when subjects are asked about is known to the steps."""

    def ask(self, at: float | None, number: int, reader: None, speaker: str) -> None:
        """Ask nobody: there is no clock."""


@dataclass
class EdgeNode:
    """What is known of an edge node at a node, and what subjects have had of it."""

    plant: Plant = field(default_factory=Plant)
    readers: dict[str, PlantReader] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    """Which of its messages came lately, and by which arrival, where they may come by several ways."""
    windows: Windows[None] = field(default_factory=_KeptMessages)
    due: dict[tuple[str, str], float] = field(default_factory=dict)
    """By subject and edge node or device, when the time may show it more."""
    withheld: dict[tuple[str, str], Fields] = field(default_factory=dict)
    """By subject and topic, the row of the last message that the time withheld from it, or some of it."""


class _KeptEdge(msgspec.Struct):
    """An edge node at a node, as Spark keeps it."""

    node: str
    edge: str
    known: list[tuple[SparkplugSource, BirthRecord]]
    numbered: list[tuple[SparkplugSource, Numbered]]
    standings: list[tuple[str, SparkplugSource, WithheldMetrics]]
    numbers: list[tuple[str, SparkplugSource, int, int]]
    seen: dict[str, int]
    late: list[tuple[str, list[str]]]
    lives: list[tuple[str, Event]]
    reports: list[tuple[str, Event]]
    due: list[tuple[str, str, float]]
    withheld: list[tuple[str, str, Fields]]


class EdgeNodes:
    """Nodes by policy, for one edge node after the other: what is known of it goes from policy to policy."""

    def __init__(self, policies: Policies, askers: tuple[Asker, ...], kept: Kept | None) -> None:
        self._edges: dict[tuple[str, str], EdgeNode] | None = None
        if kept is not None:
            stored = msgspec.msgpack.decode(kept.get(EDGES.name, _NO_EDGES), type=list[_KeptEdge])
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
            node.sparkplug.plant, node.sparkplug.windows = self.edge.plant, self.edge.windows
        return policy, node

    def learn(self, node: Node, row: Fields, event: Event) -> None:
        """Learn from a message, by the first of the ways that it came: an old birth must not count again."""
        if node.sparkplug is not None and is_first(self.edge.seen, row, event.payload):
            births.take_in(node, event)

    def keep(self) -> Kept:
        """Return what is known of all edge nodes."""
        stored = [_kept_edge(*ends, edge) for ends, edge in (self._edges or {}).items()]
        return {EDGES.name: msgspec.msgpack.encode(stored)}


_NO_EDGES = msgspec.msgpack.encode([])


def _edge(kept: _KeptEdge) -> EdgeNode:
    made = EdgeNode(Plant(dict(kept.known), dict(kept.numbered)), seen=kept.seen)
    for subject, source, standing in kept.standings:
        made.readers.setdefault(subject, PlantReader()).standings[source] = standing
    for subject, source, seq, lost in kept.numbers:
        made.readers.setdefault(subject, PlantReader()).numbers[source] = seq, lost
    for subject, late in kept.late:
        made.readers.setdefault(subject, PlantReader()).late.update(late)
    for _, event in (*kept.lives, *kept.reports):
        made.windows.note(message_topic(event.topic), event)
    made.due = {(subject, speaker): at for subject, speaker, at in kept.due}
    made.withheld = {(subject, topic): row for subject, topic, row in kept.withheld}
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
        [(subject, sorted(reader.late)) for subject, reader in readers if reader.late],
        sorted(edge.windows.lives.items()),
        sorted(edge.windows.reports.items()),
        [(*key, at) for key, at in edge.due.items()],
        [(*key, row) for key, row in edge.withheld.items()],
    )
