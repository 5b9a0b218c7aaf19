"""Selecting events by sender, receiver, topic, time and effect."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.topic import matches


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A query for events; None: any."""

    topic: str | None = None
    """A topic filter."""
    client: str | None = None
    """A client id, or the name of an entity: the sender, a receiver, or one it was withheld from."""
    since: datetime | None = None
    until: datetime | None = None
    effect: str | None = None

    @property
    def days(self) -> tuple[date, date] | None:
        """Return the days the rows can be stored under; a row may be stored under the next day."""
        if self.since is None and self.until is None:
            return None
        first = self.since.astimezone(UTC).date() if self.since else date.min
        return first, self.until.astimezone(UTC).date() + timedelta(days=1) if self.until else date.max


def select(events: pa.Table, query: EventQuery) -> pa.Table:
    """Return the events that match a query."""
    if query.since is not None:
        events = events.filter(pc.greater_equal(events["time"], pa.scalar(query.since, events["time"].type)))
    if query.until is not None:
        events = events.filter(pc.less(events["time"], pa.scalar(query.until, events["time"].type)))
    if query.effect is not None:
        events = events.filter(pc.equal(events["effect"], query.effect))
    if query.topic is not None:
        names = [name for name in events["topic"].unique().to_pylist() if matches(query.topic, name)]
        events = events.filter(pc.is_in(events["topic"], pa.array(names, pa.string())))
    if query.client is not None:
        is_sender = _is(events["entity"], events["client_id"], query.client)
        is_receiver = pc.or_(_reached(events, query.client), _withheld(events, query.client))
        events = events.filter(pc.or_(is_sender, is_receiver))
    return events


def _is(names: pa.Array, ids: pa.Array, client: str) -> pa.Array:
    return pc.or_(pc.equal(names, client), pc.equal(ids, client))


def _withheld(events: pa.Table, client: str) -> pa.Array:
    """Return whether the event, or some of it, was withheld from this client."""
    names = ({name for kept in row or () for name in kept["receivers"]} for row in events["withheld"].to_pylist())
    return pa.array([client in of_row for of_row in names], pa.bool_())


def _reached(events: pa.Table, client: str) -> pa.Array:
    reached = events["reached"].combine_chunks()
    rows = pc.list_parent_indices(reached)
    receivers = pc.list_flatten(reached)
    matching = rows.filter(_is(pc.struct_field(receivers, "entity"), pc.struct_field(receivers, "client_id"), client))
    return pc.is_in(pa.array(range(events.num_rows), rows.type), matching)
