"""What a capsule takes of events, as columns: read in Arrow batches, by the functions of `policy/capsule_steps.py`.

A row has the time, the group and the numbers of an event, and its quality with a column for each metric. What cannot be
taken, or comes late and is to be kept, has a `problem`, and the event beside it. A row for each Arrow batch has nothing
but an `arrival`: how far the capsule is, whatever it leaves out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.domain.capsules_compiled import compiled
from penstock.engine import travel
from penstock.language.times import timestamp_to_string
from penstock.model.content import Attributes, Content, Format, Reader, Widen
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.json_objects import read_objects
from penstock.model.quality import NO_QUALITY, Quality
from penstock.model.values import Timestamp
from penstock.pipeline.policies import Policies
from penstock.policy.capsule import Capsule, Fuse, Late, Window
from penstock.policy.capsule_steps import Taken, take
from penstock.policy.quality_carry import ATTACHED, CLAIMED, MEMBER, read_properties, read_quality
from penstock.wire.properties import Properties, encode_properties

EVENT = ("node", "seq", "place", "part", "arrival", "topic", "payload")
"""What is kept of an event that is put aside."""
_READ = (*EVENT, "content_type", "properties")
EVENT_TYPE = pa.struct(
    [
        ("node", pa.string()),
        ("seq", pa.int64()),
        ("place", pa.int32()),
        ("part", pa.int32()),
        ("arrival", pa.int64()),
        ("topic", pa.string()),
        ("payload", pa.binary()),
    ]
)
_PLACE = ("seq", "place", "part")
_NANOSECONDS = 1_000


@dataclass(frozen=True)
class Reference:
    """A capsule of a domain, where it is needed: it is compiled there, once."""

    policies: Policies
    name: str

    def capsule(self) -> Capsule:
        """Raises `PolicyError`."""
        return self._compiled()[0]

    def reader(self) -> Reader:
        """What reads the content of events."""
        return self._compiled()[1]

    def _compiled(self) -> tuple[Capsule, Reader]:
        assert self.policies.stands is not None
        return _compiled(self.policies.by_digest[self.policies.stands], self.name)


@lru_cache(maxsize=64)
def _compiled(standing: Any, name: str) -> tuple[Capsule, Reader]:
    policy = standing.compiled()
    return compiled(policy.domain, name), policy.ensemble.reader


def row_types(capsule: Capsule) -> pa.Schema:
    """The columns of what is taken."""
    fields = [("at", pa.int64()), ("arrival", pa.int64()), ("problem", pa.string()), ("event", EVENT_TYPE)]
    fields += [(f"k{at}", pa.string()) for at in range(len(capsule.reduction.by))]
    fields += [(f"n{at}", pa.float64()) for at in range(len(capsule.reduction.paths))]
    for at in range(len(capsule.metrics)):
        fields += [(f"q{at}", pa.float64()), (f"c{at}", pa.int64()), (f"a{at}", pa.int64())]
    if isinstance(capsule.reduction, Fuse):
        fields += [("source", pa.string()), ("seq", pa.int64()), ("place", pa.int32()), ("part", pa.int32())]
    return pa.schema(fields)


def taken(rows: DataFrame, reference: Reference, closed: int | None) -> DataFrame:
    """What the capsule takes of rows of a view; windows that end before `closed`, with their lateness, are over."""
    types = row_types(reference.capsule())

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reading = _Reading(reference, closed)
        for batch in batches:
            if batch.num_rows:
                yield pa.RecordBatch.from_pydict(reading.columns(batch), schema=types)

    read = rows.withColumn("arrival", F.unix_micros("time")).select(*_READ)
    return read.mapInArrow(work, from_arrow_schema(types))


def late_starts(window: Window, at: int, now: int) -> list[int]:
    """The windows of a time that are closed by now."""
    if at + window.lateness > now:
        return []
    return [start for start in window.starts(at) if start + window.length + window.lateness <= now]


class _Reading:
    """The events of a task."""

    def __init__(self, reference: Reference, closed: int | None) -> None:
        self._capsule = reference.capsule()
        self._reader = reference.reader()
        self._closed = closed
        self._metrics = {key: at for at, key in enumerate(self._capsule.metrics)}
        self._kinds: dict[tuple[str, str | None], tuple[Event, bool, Widen | None]] = {}

    def columns(self, batch: pa.RecordBatch) -> dict[str, list[Any]]:
        """The columns of what is taken of a batch."""
        capsule = self._capsule
        made: dict[str, list[Any]] = {name: [] for name in row_types(capsule).names}
        arrival = batch["arrival"].to_pylist()
        topics, payloads = batch["topic"].to_pylist(), batch["payload"].to_pylist()
        carried, places = self._carried(batch), None
        if isinstance(capsule.reduction, Fuse):
            places = {name: batch[name].to_pylist() for name in _PLACE}
        contents = self._contents(topics, batch["content_type"].to_pylist(), payloads)
        for at, content in enumerate(contents):
            came = arrival[at]
            try:
                found = take(capsule, topics[at], content, self._quality(content, carried[at], came), came)
            except PolicyError as error:
                self._put_aside(made, batch, at, came, str(error))
                continue
            if found is None:
                continue
            now = came if self._closed is None else max(came, self._closed)
            late = late_starts(capsule.window, found.at, now)
            if late and capsule.window.late is Late.QUARANTINE:
                self._put_aside(made, batch, at, came, f"late for {_windows(capsule.window, late)}")
            self._add(made, found, came, None if places is None else {name: places[name][at] for name in _PLACE})
        for name, column in made.items():
            column.append(max(arrival) if name == "arrival" else None)
        return made

    def _add(self, made: dict[str, list[Any]], found: Taken, came: int, place: Mapping[str, int] | None) -> None:
        made["at"].append(found.at)
        made["arrival"].append(came)
        made["problem"].append(None)
        made["event"].append(None)
        for at, key in enumerate(found.group):
            made[f"k{at}"].append(key)
        for at, number in enumerate(found.numbers):
            made[f"n{at}"].append(number)
        values = {self._metrics[one.key]: one for one in found.quality if one.key in self._metrics}
        for at in range(len(self._metrics)):
            one = values.get(at)
            made[f"q{at}"].append(None if one is None else one.value)
            made[f"c{at}"].append(None if one is None else one.created.nanos // _NANOSECONDS)
            made[f"a{at}"].append(None if one is None else one.at.nanos // _NANOSECONDS)
        if place is not None:
            made["source"].append(found.source)
            for name in _PLACE:
                made[name].append(place[name])

    def _put_aside(self, made: dict[str, list[Any]], batch: pa.RecordBatch, at: int, came: int, problem: str) -> None:
        known = {"arrival": came, "problem": problem, "event": {name: batch[name][at].as_py() for name in EVENT}}
        for name, column in made.items():
            column.append(known.get(name))

    def _contents(self, topics: list[str], types: list[str | None], payloads: list[bytes]) -> Iterator[Content]:
        """The content of events; JSON is read many at a time."""
        kinds = [self._kind(topic, type) for topic, type in zip(topics, types, strict=True)]
        objects = read_objects([payload for payload, kind in zip(payloads, kinds, strict=True) if kind[1]])
        for payload, (event, is_json, widen) in zip(payloads, kinds, strict=True):
            members: Attributes | None = next(objects) if is_json else None
            if members is None:
                yield self._reader.read(event._replace(payload=payload))
            else:
                yield Content.known(payload, Format.JSON, members if widen is None else widen(members))

    def _kind(self, topic: str, type: str | None) -> tuple[Event, bool, Widen | None]:
        known = self._kinds.get((topic, type))
        if known is None:
            said = encode_properties(Properties(content_type=type)) if type else b""
            event = Event(topic, b"", properties=said)
            known = self._kinds[topic, type] = (event, *self._reader.takes_objects(event))
        return known

    @staticmethod
    def _carried(batch: pa.RecordBatch) -> list[bytes | None]:
        """The properties of events that may speak of quality."""
        said = batch["properties"]
        speaks = pc.or_(pc.match_substring(said, ATTACHED), pc.match_substring(said, CLAIMED))
        found: list[bytes | None] = pc.if_else(pc.fill_null(speaks, False), said, None).to_pylist()
        return found

    @staticmethod
    def _quality(content: Content, properties: bytes | None, came: int) -> Quality:
        """What nodes have attached, else what the event says of itself; none if that is not in order."""
        received = Timestamp(came * _NANOSECONDS)
        try:
            if properties is not None:
                pairs = travel.carried(properties).user_properties
                found = read_properties(pairs, received, ATTACHED) or read_properties(pairs, received, CLAIMED)
                if found:
                    return found
            attributes = content.attributes
            if content.format is Format.XML or (isinstance(attributes, dict) and MEMBER in attributes):
                return read_quality(content, received)
        except ContentError:
            return NO_QUALITY
        return NO_QUALITY


def _windows(window: Window, starts: list[int]) -> str:
    first = timestamp_to_string(Timestamp(starts[0] * _NANOSECONDS))
    more = f" and {len(starts) - 1} more" if len(starts) > 1 else ""
    return f"the window from {first}{more}"
