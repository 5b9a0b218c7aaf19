"""Monitors over a stream: what a link's monitors remember is kept by Spark from batch to batch.

Links are put into buckets, for Spark's cost is by key: a bucket has one value, with the states of all its links, as
JSON under a version. The steps are the engine's, as in `monitors.py`.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import StructType

from penstock.engine.events.dedup import MOST_REMEMBERED
from penstock.engine.node import Node
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, Policies, Policy
from penstock.pipeline.stages.edit import Edit, Emit, Made, left

VERSION = 1
BUCKETS = 32
_STATE = "version int, links binary"
_BUCKET = "bucket"
_DIGEST = 12
_MICROSECONDS = 1_000_000


class Link(msgspec.Struct):
    """What is remembered of a link."""

    states: list[tuple[str, str, str, Any]] = msgspec.field(default_factory=list)
    """Of its monitors: source, target and name, with the state."""
    seen: dict[str, int] = msgspec.field(default_factory=dict)
    """What came lately and by which arrival, where it may come by several ways."""


def unpacked(value: tuple[Any, ...] | None, expected: int) -> bytes:
    """What the state of a bucket holds, an empty list if there is none; raises `PipelineError` for another version."""
    version, data = (expected, b"[]") if value is None else value
    if version != expected:
        raise PipelineError(f"the checkpoint has states of version {version}, not {expected}: begin a new stream")
    return bytes(data)


@dataclass
class Memory:
    """What is remembered of the links of a bucket, by node and other end."""

    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    _open: dict[tuple[str, str], Node] = field(default_factory=dict)

    @classmethod
    def of(cls, value: tuple[Any, ...] | None) -> "Memory":
        """From the state of a bucket; raises `PipelineError` if it is one of another version."""
        stored = msgspec.json.decode(unpacked(value, VERSION), type=list[tuple[str, str, Link]])
        return cls({(node, end): link for node, end, link in stored})

    def link(self, node: str, end: str) -> Link:
        return self.links.setdefault((node, end), Link())

    def enter(self, policy: Policy, node: str, end: str) -> Node:
        """A node whose monitors go on in the states of a link."""
        made = policy.new_node(node)
        made.stored_states = {
            (source, target, name): state for source, target, name, state in self.link(node, end).states
        }
        self._leave()
        self._open = {(node, end): made}
        return made

    def _leave(self) -> None:
        for ends, node in self._open.items():
            self.link(*ends).states = [
                (watch.link.source, watch.link.target, monitor.name, state)
                for watch in node.watches.values()
                for monitor, state in zip(watch.monitors, watch.states, strict=True)
            ]

    def value(self) -> tuple[int, bytes]:
        """The state of the bucket."""
        self._leave()
        kept = [(*ends, link) for ends, link in self.links.items() if link.states or link.seen]
        return VERSION, msgspec.json.encode(kept)


def is_first(link: Link, row: dict[str, Any]) -> bool:
    """Whether an event has not come to the link by an earlier arrival."""
    if row["id"] is None:
        return True
    said = msgspec.json.encode((row["id"], row["topic"], bytes(row["said"])))
    digest = hashlib.blake2b(said, digest_size=_DIGEST).hexdigest()
    if digest not in link.seen and len(link.seen) >= MOST_REMEMBERED:
        del link.seen[next(iter(link.seen))]
    arrival: int = row["arrival"]
    return link.seen.setdefault(digest, arrival) == arrival


class _Monitored(StatefulProcessor):
    """The rows of a bucket through the monitors of its links."""

    def __init__(self, end: str, make: Callable[[Memory], Edit | Emit], once: bool, columns: list[str]) -> None:
        self._end = end
        self._make = make
        self._once = once
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("links", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        memory = Memory.of(self._state.get() if self._state.exists() else None)
        monitors = self._make(memory)
        ordered = sorted((row.asDict() for row in rows), key=self._place)
        for at, row in enumerate(ordered):
            if self._once and not is_first(memory.link(row["node"], row[self._end]), row):
                continue
            if row.get("blocked"):
                continue
            row["time"] /= _MICROSECONDS
            for made in monitors.step(at, row):
                yield self._row(row, made, monitors.numbered)
        self._state.update(memory.value())

    def _place(self, row: dict[str, Any]) -> tuple[str, str, int, int]:
        return row["node"], row[self._end], row["arrival"], row["place"]

    def _row(self, row: dict[str, Any], made: Made, numbered: str) -> Row:
        _, number, event = made
        said = {
            **row,
            numbered: number,
            "time": round(row["time"] * _MICROSECONDS),
            "topic": event.topic,
            "payload": event.payload,
            "qos": event.qos,
            "retain": event.retain,
            "properties": event.properties,
            "content_type": event.content_type or None,
            "expiry": left(event, row["time"]),
            "id": event.id or None,
        }
        return Row(**{name: said[name] for name in self._columns})


def edited(rows: DataFrame, policies: Policies) -> DataFrame:
    """What the monitors on the links into nodes make of arrivals, with `place`."""
    return _through(rows, "source", lambda memory: Edit(policies, memory.enter), False)


def emitted(rows: DataFrame, policies: Policies, askers: tuple[Asker, ...], once: bool) -> DataFrame:
    """What goes out to subjects by their links, with `part`: through monitors; and `once`, if it came several times.

    A row that is not `wanted` is only seen by the monitors. `said` and `blocked` are those of `judged.with_ways`.
    """
    return _through(rows, "subject", lambda memory: Emit(policies, askers, memory.enter), once)


def _through(rows: DataFrame, end: str, make: Callable[[Memory], Edit | Emit], once: bool) -> DataFrame:
    # Times as numbers: Python's own are slow to make, and of another zone.
    numbered = rows.withColumn("time", F.unix_micros("time"))
    columns = numbered.columns
    types = StructType(list(numbered.schema.fields))
    keyed = numbered.withColumn(_BUCKET, F.pmod(F.hash("node", end), F.lit(BUCKETS)))
    processor = _Monitored(end, make, once, columns)
    made = keyed.groupBy(_BUCKET).transformWithState(processor, types, "Append", "None")
    return made.withColumn("time", F.timestamp_micros("time"))
