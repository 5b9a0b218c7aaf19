"""Rows of Arrow batches, as the engine's stages take them and change them, one after the other."""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from math import ceil
from typing import Any

import pyarrow as pa

from penstock.engine.events import publishers
from penstock.model.event import Event

Fields = dict[str, Any]
"""The values of a row by column. The time is in seconds."""
Step = Callable[[Fields], Iterable[Fields]]
"""Takes a row and returns the rows that it becomes: of each, the columns that change."""
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for `mapInArrow`."""

MICROSECONDS = 1_000_000
_SAME: tuple[Fields] = ({},)


def stepping(make: Callable[[], Step], only: str | None = None) -> Work:
    """Return a function that puts rows through a step, which is made where the work is done.

    `only` is the column that says which rows are concerned. Other rows stay as they are.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = make()
        for batch in batches:
            yield _stepped(batch, step, only)

    return work


def _stepped(batch: pa.RecordBatch, step: Step, only: str | None) -> pa.RecordBatch:
    concerned: Iterable[bool] = repeat(True, batch.num_rows)
    rows = batch
    if only is not None:
        mask = batch.column(only)
        if not mask.true_count:
            return batch
        concerned, rows = mask.to_pylist(), batch.filter(mask)
    following = iter(rows_of(rows))
    made = [
        (at, changes)
        for at, is_concerned in enumerate(concerned)
        for changes in (step(next(following)) if is_concerned else _SAME)
    ]
    taken = batch.take(pa.array([at for at, _ in made], pa.int64()))
    every = [changes for _, changes in made]
    changed = {name for changes in every for name in changes}
    columns = [
        _changed(column, field.name, every) if field.name in changed else column
        for field, column in zip(batch.schema, taken.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _changed(column: pa.Array, name: str, every: list[Fields]) -> pa.Array:
    if name == "time":
        times = zip(every, column.cast(pa.int64()).to_pylist(), strict=True)
        numbers = [round(changes[name] * MICROSECONDS) if name in changes else old for changes, old in times]
        return pa.array(numbers, pa.int64()).cast(column.type)
    if all(name in changes for changes in every):
        return pa.array([changes[name] for changes in every], column.type)
    before = column.to_pylist()
    return pa.array([changes.get(name, old) for changes, old in zip(every, before, strict=True)], column.type)


def rows_of(batch: pa.RecordBatch) -> list[Fields]:
    """Return the rows of a batch."""
    times = batch.column("time").cast(pa.int64()).to_pylist()
    rows: list[Fields] = batch.drop_columns(["time"]).to_pylist()
    for row, time in zip(rows, times, strict=True):
        row["time"] = time / MICROSECONDS
    return rows


def batch_of(rows: list[Fields], types: pa.Schema) -> pa.RecordBatch:
    """Return rows as a batch."""
    columns = [
        pa.array([round(row["time"] * MICROSECONDS) for row in rows], pa.int64()).cast(field.type)
        if field.name == "time"
        else pa.array([row[field.name] for row in rows], field.type)
        for field in types
    ]
    return pa.RecordBatch.from_arrays(columns, schema=types)


def event_of(row: Fields, link_type: str) -> Event:
    """Return the event that a row describes."""
    expires = None if row["expiry"] is None else row["time"] + row["expiry"]
    content = row["topic"], row["payload"], row["qos"], row["retain"], row["properties"]
    return Event(*content, expires, row["client_id"], row["user"], link_type, tuple(row["path"] or ()), row["id"] or "")


def with_publisher(row: Fields, event: Event) -> Event:
    """Return a row's event with its publisher, if another node told of that."""
    if row["publisher"] is None or row["publisher_node"] == row["node"]:
        return event
    who = (row["publisher_node"], row["publisher"], row["publisher_user"])
    return publishers.published(event, publishers.Publisher(*who, "", ""))


def content_fields(event: Event) -> Fields:
    """Return the columns of what an event contains."""
    return {"payload": event.payload, "properties": event.properties, "content_type": event.content_type or None}


def event_fields(event: Event, now: float) -> Fields:
    """Return the columns of all that a monitor can change in an event."""
    return {
        **content_fields(event),
        "topic": event.topic,
        "qos": event.qos,
        "retain": event.retain,
        "expiry": expiry(event, now),
        "id": event.id or None,
    }


def expiry(event: Event, now: float) -> int | None:
    """Return for how many seconds the event is still worth delivering; None: for ever."""
    return None if event.expires is None else max(0, ceil(event.expires - now))
