"""Events out of many: by who sent them, on what, when, and what became of them."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.topic import matches


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for; None: anything."""

    topic: str | None = None
    """A topic filter."""
    client: str | None = None
    """A client id, or the name of an entity: who sent the event, or got it."""
    since: datetime | None = None
    until: datetime | None = None
    effect: str | None = None

    @property
    def days(self) -> tuple[date, date] | None:
        """The days that it can be of; rows may be with those of the next day."""
        if self.since is None and self.until is None:
            return None
        first = self.since.astimezone(UTC).date() if self.since else date.min
        return first, self.until.astimezone(UTC).date() + timedelta(days=1) if self.until else date.max


def select(events: pa.Table, wanted: Wanted) -> pa.Table:
    """The events that are wanted."""
    if wanted.since is not None:
        events = events.filter(pc.greater_equal(events["time"], pa.scalar(wanted.since, events["time"].type)))
    if wanted.until is not None:
        events = events.filter(pc.less(events["time"], pa.scalar(wanted.until, events["time"].type)))
    if wanted.effect is not None:
        events = events.filter(pc.equal(events["effect"], wanted.effect))
    if wanted.topic is not None:
        names = [name for name in events["topic"].unique().to_pylist() if matches(wanted.topic, name)]
        events = events.filter(pc.is_in(events["topic"], pa.array(names, pa.string())))
    if wanted.client is not None:
        events = events.filter(pc.or_(_sent_by(events, wanted.client), _reached(events, wanted.client)))
    return events


def _is(names: pa.Array, ids: pa.Array, client: str) -> pa.Array:
    return pc.or_(pc.equal(names, client), pc.equal(ids, client))


def _sent_by(events: pa.Table, client: str) -> pa.Array:
    return _is(events["entity"], events["client_id"], client)


def _reached(events: pa.Table, client: str) -> pa.Array:
    reached = events["reached"].combine_chunks()
    rows = pc.list_parent_indices(reached)
    each = pc.list_flatten(reached)
    found = rows.filter(_is(pc.struct_field(each, "entity"), pc.struct_field(each, "client_id"), client))
    return pc.is_in(pa.array(range(events.num_rows), rows.type), found)
