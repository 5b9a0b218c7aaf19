"""Sparkplug messages over a stream: what is known of edge nodes is kept by Spark from batch to batch.

The steps are those of `plants.py`. As in `state.py`, edge nodes are put into buckets, for Spark's cost is by key.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import StructType

from penstock.model.sparkplug.topic import SparkplugSource
from penstock.pipeline.spark.policies import Asker, Policies
from penstock.pipeline.stages.project import Edge, Enter, Project, Prune, Steps, beside, edge, is_governed
from penstock.pipeline.state.monitors import BUCKETS, unpacked
from penstock.policy.sparkplug.edge_nodes import Numbered, Plant, PlantReader
from penstock.policy.sparkplug.views import BirthRecord, WithheldMetrics

VERSION = 1
_STATE = "version int, edges binary"
_BUCKET = "bucket"
_MICROSECONDS = 1_000_000


class _Kept(msgspec.Struct):
    """An edge node at a node, as Spark keeps it."""

    node: str
    edge: str
    known: list[tuple[SparkplugSource, BirthRecord]]
    numbered: list[tuple[SparkplugSource, Numbered]]
    standings: list[tuple[str, SparkplugSource, WithheldMetrics]]
    numbers: list[tuple[str, SparkplugSource, int, int]]


@dataclass
class Memory:
    """What is known of the edge nodes of a bucket, by node and edge node."""

    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)

    @classmethod
    def of(cls, value: tuple[Any, ...] | None) -> "Memory":
        """From the state of a bucket; raises `PipelineError` if it is one of another version."""
        stored = msgspec.json.decode(unpacked(value, VERSION), type=list[_Kept])
        return cls({(one.node, one.edge): _edge(one) for one in stored})

    def enter(self, node: str, edge: str) -> Edge:
        """What is known of one of them."""
        return self.edges.setdefault((node, edge), Edge())

    def value(self) -> tuple[int, bytes]:
        """The state of the bucket."""
        return VERSION, msgspec.json.encode([_kept(*ends, edge) for ends, edge in self.edges.items()])


def _edge(kept: _Kept) -> Edge:
    made = Edge(Plant(dict(kept.known), dict(kept.numbered)))
    for subject, source, standing in kept.standings:
        made.readers.setdefault(subject, PlantReader()).standings[source] = standing
    for subject, source, seq, lost in kept.numbers:
        made.readers.setdefault(subject, PlantReader()).numbers[source] = seq, lost
    return made


def _kept(node: str, name: str, edge: Edge) -> _Kept:
    known, numbered = edge.plant.memory()
    readers = edge.readers.items()
    return _Kept(
        node,
        name,
        list(known.items()),
        list(numbered.items()),
        [(subject, source, one) for subject, reader in readers for source, one in reader.standings.items()],
        [(subject, source, *one) for subject, reader in readers for source, one in reader.numbers.items()],
    )


class _Planted(StatefulProcessor):
    """The rows of a bucket, in the order of each edge node."""

    def __init__(self, make: Callable[[Enter], Steps], columns: list[str]) -> None:
        self._make = make
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("edges", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        memory = Memory.of(self._state.get() if self._state.exists() else None)
        steps = self._make(memory.enter)
        for row in sorted((row.asDict() for row in rows), key=_place):
            made = steps.step({**row, "time": row["time"] / _MICROSECONDS})
            if made is not None:
                said = {**row, **made}
                yield Row(**{name: said[name] for name in self._columns})
        self._state.update(memory.value())


def _place(row: dict[str, Any]) -> tuple[object, ...]:
    return row["node"], row["edge"], row["arrival"], row["place"], row.get("part", 0), row.get("subject") or ""


def pruned(rows: DataFrame, policies: Policies) -> DataFrame:
    """As `plants.pruned`, on a stream."""
    asked = F.col("passes") & is_governed()
    made = _through(rows.filter(asked).withColumn("edge", edge()), lambda enter: Prune(policies, enter))
    return rows.filter(~asked).unionByName(made.drop("edge"))


def projected(views: DataFrame, learnt: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """As `plants.projected`, on a stream."""
    made = _through(beside(views, learnt), lambda enter: Project(policies, askers, enter))
    return views.filter(~is_governed()).unionByName(made.drop("edge"))


def _through(rows: DataFrame, make: Callable[[Enter], Steps]) -> DataFrame:
    numbered = rows.withColumn("time", F.unix_micros("time"))
    columns = numbered.columns
    types = StructType(list(numbered.schema.fields))
    keyed = numbered.withColumn(_BUCKET, F.pmod(F.hash("node", "edge"), F.lit(BUCKETS)))
    made = keyed.groupBy(_BUCKET).transformWithState(_Planted(make, columns), types, "Append", "None")
    return made.withColumn("time", F.timestamp_micros("time"))
