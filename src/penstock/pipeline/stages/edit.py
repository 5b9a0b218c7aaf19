"""Monitors over tables of events: in order for each link, by the engine's own step functions.

The rows of a link are brought together and sorted by Spark; a monitor's state goes on from batch to batch.
"""

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.engine.events import dedup, user_properties
from penstock.engine.events.plan import Target
from penstock.engine.node import Node
from penstock.engine.sessions import placement
from penstock.engine.sessions.session import Session
from penstock.engine.stages import edit, shape
from penstock.model.event import Event
from penstock.pipeline.spark.policies import Asker, Policies, Policy, by_name, link_into

Made = tuple[int, int, Event]
"""The row that it is made of, its place among what is made of that row, and the event."""
Steps = Callable[[pa.RecordBatch], list[Made]]
Enter = Callable[[Policy, str, str], Node]
"""Makes the node for a link, given the names of node and other end: a stream has states to go on with."""

_ORDER = ("arrival", "place")


def edited(rows: DataFrame, policies: Policies) -> DataFrame:
    """What the monitors on the links into nodes make of arrivals: rows as before, with `place`."""
    ordered = rows.repartition("node", "source").sortWithinPartitions("node", "source", *_ORDER)
    return ordered.mapInArrow(_over(lambda: Edit(policies)), rows.schema)


def emitted(rows: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """What the monitors on the links to subjects let out: rows as before, with `part`.

    A row that is not `wanted` is only seen by the monitors.
    """
    ordered = rows.repartition("node", "subject").sortWithinPartitions("node", "subject", *_ORDER)
    return ordered.mapInArrow(_over(lambda: Emit(policies, askers)), rows.schema)


def _over(make: Callable[[], "Edit | Emit"]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        monitors = make()
        for batch in batches:
            made = [one for at, row in enumerate(rows_of(batch)) for one in monitors.step(at, row)]
            yield _with_events(batch, made, monitors.numbered)

    return work


def _anew(policy: Policy, node: str, end: str) -> Node:
    return policy.new_node(node)


class Edit:
    """The monitors on links into nodes."""

    numbered = "place"

    def __init__(self, policies: Policies, enter: Enter = _anew) -> None:
        self._policies = policies
        self._enter = enter
        self._at: tuple[str, str] | None = None
        self._policy: Policy | None = None
        self._node: Node | None = None

    def step(self, at: int, row: dict[str, Any]) -> Iterator[Made]:
        policy = self._policies.by_digest[row["policy"]].compiled()
        if (row["node"], row["source"]) != self._at:
            self._at, self._policy = (row["node"], row["source"]), policy
            self._node = self._enter(policy, *self._at)
        elif policy is not self._policy:
            assert self._node is not None
            self._policy = policy
            self._node.govern(self._node.limits, None, policy.acls.get(row["node"]), policy.ensemble)
        node = self._node
        assert node is not None
        publisher = policy.publisher(node, row["client_id"], row["user"], row["entity"], row["neighbour"])
        assert publisher is not None  # it was admitted
        watch = placement.watch(node, link_into(node, publisher))
        event = event_of(row, publisher.link.link_type)
        made = (event,) if watch is None else edit.run_monitors(node, watch, event, row["time"])
        node.notices.clear()
        for number, output in enumerate(dedup.told_apart(made)):
            yield at, number, output


class Emit:
    """The monitors on links to subjects."""

    numbered = "part"

    def __init__(self, policies: Policies, askers: tuple[Asker, ...], enter: Enter = _anew) -> None:
        self._policies = policies
        self._enter = enter
        self._askers = {asker.label: asker for asker in askers}
        self._at: tuple[str, str] | None = None
        self._policy: Policy | None = None
        self._node: Node | None = None
        self._session: Session | None = None

    def step(self, at: int, row: dict[str, Any]) -> Iterator[Made]:
        node, session = self._place(row)
        watch = session.watch_out
        event = event_of(row, row["link_type_now"])
        shown = user_properties.for_clients if node.contracts is None else _as_it_is
        if watch is None:
            yield at, 0, shown(event)
            return
        targets = (Target([by_name(node, session, event.topic)]),) if row["wanted"] else ()
        number = 0
        for output in edit.run_monitors(node, watch, event, row["time"]):
            session.subscriptions = {output.topic: by_name(node, session, output.topic)}
            for _ in shape.receivers(node, watch, targets, output):
                yield at, number, shown(output)
                number += 1
            session.subscriptions = {}
        node.notices.clear()

    def _place(self, row: dict[str, Any]) -> tuple[Node, Session]:
        """The subject at the node, which goes on in its state when other policies come into force."""
        policy = self._policies.by_digest[row["policy"]].compiled()
        ends = row["node"], row["subject"]
        if ends != self._at:
            self._at, self._policy = ends, policy
            self._node = self._enter(policy, *self._at)
            self._session = policy.session(self._node, self._askers[row["subject"]])
        elif policy is not self._policy:
            assert self._node is not None
            self._policy = policy
            self._node.govern(self._node.limits, None, policy.acls.get(row["node"]), policy.ensemble)
        assert self._node is not None
        assert self._session is not None
        return self._node, self._session


def _as_it_is(event: Event) -> Event:
    """Contracts, which are asked later, need what is attached to it."""
    return event


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows, with the time in seconds."""
    times = batch.column("time").cast(pa.int64()).to_pylist()
    rows: list[dict[str, Any]] = batch.drop_columns(["time"]).to_pylist()
    for row, time in zip(rows, times, strict=True):
        row["time"] = time / 1_000_000
    return rows


def event_of(row: dict[str, Any], link_type: str) -> Event:
    """The event that a row says; its time is in seconds."""
    expires = None if row["expiry"] is None else row["time"] + row["expiry"]
    return Event(
        row["topic"],
        row["payload"],
        row["qos"],
        row["retain"],
        row["properties"],
        expires,
        row["client_id"],
        row["user"],
        link_type,
        tuple(row["path"] or ()),
        row["id"] or "",
    )


def _with_events(batch: pa.RecordBatch, made: list[Made], numbered: str) -> pa.RecordBatch:
    """Rows for what was made: as those that they are made of, with what the events say."""
    rows = batch.take(pa.array([at for at, _, _ in made], pa.int64()))
    times = [time.as_py() / 1_000_000 for time in rows.column("time").cast(pa.int64())]
    events = [event for _, _, event in made]
    said = {
        numbered: [number for _, number, _ in made],
        "topic": [event.topic for event in events],
        "payload": [event.payload for event in events],
        "qos": [event.qos for event in events],
        "retain": [event.retain for event in events],
        "properties": [event.properties for event in events],
        "content_type": [event.content_type or None for event in events],
        "expiry": [left(event, now) for event, now in zip(events, times, strict=True)],
        "id": [event.id or None for event in events],
    }
    columns = [
        pa.array(said[field.name], field.type) if field.name in said else rows.column(field.name)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def left(event: Event, now: float) -> int | None:
    """For how many seconds the event is still worth delivering."""
    return None if event.expires is None else max(0, ceil(event.expires - now))
