"""Sparkplug messages over tables of events: what publishers may write, and what subjects see.

The steps are the engine's own (`engine/stages/prune.py`, `engine/stages/project.py`), in order for each edge node at a
node. What is known of an edge node comes from all of its messages there, not only from those that a subject gets: so a
table of these is beside the table of views, to be learnt from.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.messages import CERTIFICATES, actor_of
from penstock.engine.stages import project, prune
from penstock.model.event import Event
from penstock.model.sparkplug.topic import NAMESPACE
from penstock.model.verdict import Effect
from penstock.pipeline.spark.policies import Asker, Policies, Policy
from penstock.pipeline.stages.edit import event_of, rows_of
from penstock.pipeline.tables.executor import F
from penstock.policy.sparkplug.edge_nodes import Plant, Reader


def is_governed() -> Column:
    """Whether a row is a Sparkplug message, or a birth certificate that a node keeps."""
    topic = F.col("topic")
    return topic.startswith(f"{NAMESPACE}/") | (topic == NAMESPACE) | topic.startswith(f"{CERTIFICATES}{NAMESPACE}/")


def edge() -> Column:
    """What messages of one edge node have in common."""
    levels = F.split(F.regexp_replace("topic", f"^\\Q{CERTIFICATES}\\E", ""), "/")
    return F.concat_ws("/", F.get(levels, F.lit(1)), F.get(levels, F.lit(3)))


def pruned(rows: DataFrame, policies: Policies) -> DataFrame:
    """Arrivals as their publishers may write them; `passes` is false of what they may not at all."""
    asked = F.col("passes") & is_governed()
    ordered = rows.filter(asked).withColumn("edge", edge()).repartition("node", "edge")
    ordered = ordered.sortWithinPartitions("node", "edge", "arrival", "place")
    made = ordered.mapInArrow(_over(lambda: Prune(policies)), ordered.schema).drop("edge")
    return rows.filter(~asked).unionByName(made)


def projected(views: DataFrame, learnt: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """Views of subjects, without what they may not see; `learnt` are all messages that went through the nodes."""
    ordered = beside(views, learnt).repartition("node", "edge").sortWithinPartitions(*ORDER)
    made = ordered.mapInArrow(_over(lambda: Project(policies, askers)), ordered.schema).drop("edge")
    return views.filter(~is_governed()).unionByName(made)


ORDER = ("node", "edge", "arrival", "place", "part", "subject")


def beside(views: DataFrame, learnt: DataFrame) -> DataFrame:
    """Messages that go to subjects, and all messages without a subject; with the `edge` that they are of."""
    columns = ("policy", "node", "topic", "payload", "properties", "time", "arrival", "place")
    others = learnt.filter(is_governed()).select(*columns).withColumn("part", F.lit(-1))
    together = views.filter(is_governed()).unionByName(others, allowMissingColumns=True)
    return together.withColumn("edge", edge())


class Steps(Protocol):
    """What is done row by row."""

    def step(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """What becomes of a row: what is other in it, or None if it is left out."""


def _over(make: Callable[[], Steps]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        steps = make()
        for batch in batches:
            made = [(at, steps.step(row)) for at, row in enumerate(rows_of(batch))]
            kept = [(at, other) for at, other in made if other is not None]
            rows = batch.take(pa.array([at for at, _ in kept], pa.int64()))
            columns = []
            for name, column in zip(rows.schema.names, rows.columns, strict=True):
                if any(name in other for _, other in kept):
                    now = [other.get(name, was) for (_, other), was in zip(kept, column.to_pylist(), strict=True)]
                    column = pa.array(now, column.type)
                columns.append(column)
            yield pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    return work


@dataclass
class Edge:
    """What is known of an edge node at a node, and what subjects have had of it."""

    plant: Plant = field(default_factory=Plant)
    readers: dict[str, Reader] = field(default_factory=dict)


Enter = Callable[[str, str], Edge]
"""What is known of an edge node, given the names of node and edge node: a stream has something to go on with."""


def _anew(node: str, edge: str) -> Edge:
    return Edge()


class _Plants:
    """Nodes by policy, for one edge node after the other: what is known of it goes from policy to policy."""

    def __init__(self, policies: Policies, enter: Enter) -> None:
        self._policies = policies
        self._enter = enter
        self._nodes: dict[tuple[str, str], Node] = {}
        self._at: tuple[str, str] | None = None
        self.edge = Edge()

    def node(self, row: dict[str, Any]) -> tuple[Policy, Node]:
        """What a row is judged by, and the node that it came to."""
        at = row["node"], row["edge"]
        if at != self._at:
            self._at, self.edge = at, self._enter(*at)
        policy = self._policies.by_digest[row["policy"]].compiled()
        key = policy.digest, row["node"]
        if key not in self._nodes:
            self._nodes[key] = policy.new_node(row["node"])
        node = self._nodes[key]
        if node.sparkplug is not None:
            node.sparkplug.plant = self.edge.plant
        return policy, node


class Prune(_Plants):
    """What publishers may write."""

    def __init__(self, policies: Policies, enter: Enter = _anew) -> None:
        super().__init__(policies, enter)

    def step(self, row: dict[str, Any]) -> dict[str, Any]:
        policy, node = self.node(row)
        if node.sparkplug is None:
            return {}
        publisher = policy.publishing(node, row["client_id"], row["user"], row["entity"], row["neighbour"])
        if publisher is None:
            return {"passes": False}
        event, verdict = prune.judge(node, actor_of(node, publisher), event_of(row, row["link_type"]), row["time"])
        if verdict.effect is Effect.SUPPRESS:
            return {"passes": False}
        births.take_in(node, event)
        return {"payload": event.payload}


class Project(_Plants):
    """What subjects see; a row without a subject is to be learnt from."""

    def __init__(self, policies: Policies, askers: tuple[Asker, ...], enter: Enter = _anew) -> None:
        super().__init__(policies, enter)
        self._askers = {asker.label: asker for asker in askers}
        self._sessions: dict[tuple[str, str, str], Session | None] = {}
        self._event = Event("", b"")

    def step(self, row: dict[str, Any]) -> dict[str, Any] | None:
        policy, node = self.node(row)
        if row["subject"] is None:
            self._event = Event(row["topic"], row["payload"], properties=row["properties"] or b"")
            if node.sparkplug is not None:
                births.take_in(node, self._event)
            return None
        session = self._session(policy, node, row["subject"])
        if session is None:
            return None
        if (row["topic"], row["payload"]) != (self._event.topic, self._event.payload):
            self._event = Event(row["topic"], row["payload"])
        forms = project.show(node, session, Forms(self._event, row["time"]))
        return None if forms is None else {"payload": forms.event.payload}

    def _session(self, policy: Policy, node: Node, subject: str) -> Session | None:
        at = policy.digest, node.name, subject
        if at not in self._sessions:
            self._sessions[at] = policy.session(node, self._askers[subject])
        session = self._sessions[at]
        actor = actor_of(node, session) if session is not None and node.sparkplug is not None else None
        if actor is not None:
            actor.reader = self.edge.readers.setdefault(subject, Reader())
        return session
