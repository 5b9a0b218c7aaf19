"""What a capsule takes of events, as columns: read in Arrow batches, by the functions of `policy/capsules/steps.py`.

A row has the time, the group and the numbers of an event, and its quality with a column for each metric. What cannot be
taken, or comes late and is to be kept, has a `problem`, and the event beside it. A row for each Arrow batch has nothing
but an `arrival`: how far the capsule is, whatever it leaves out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.domain.compile.capsules import compiled
from penstock.domain.schema.contents import reader
from penstock.engine.capsules.reading import quality_of, until_of
from penstock.model.content.content import Attributes, Content, ContentReader, Format, Widen
from penstock.model.content.json_objects import read_objects
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, MetricValue, Quality
from penstock.pipeline.capsules.claims import Claims, read_claims
from penstock.pipeline.capsules.columns import columns_of
from penstock.pipeline.spark.policies import Policies, PolicyFiles
from penstock.pipeline.tables.view import UNTIL
from penstock.policy.capsules.capsule import Capsule, FuseReduction, Late, LatestReduction
from penstock.policy.capsules.machine import write_stored
from penstock.policy.capsules.steps import TakenEvent, take
from penstock.policy.capsules.windows import late_starts, why_late
from penstock.policy.contracts.release import RETAIN_UNTIL
from penstock.policy.quality.carriage import ATTACHED, CLAIMED, MEMBER
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
        (UNTIL, pa.int64()),
    ]
)
_PLACE = ("seq", "place", "part")
_NANOSECONDS = 1_000


@dataclass(frozen=True)
class CapsuleReference:
    """A capsule of a domain, where it is needed: it is compiled there, once."""

    policies: Policies
    name: str

    @property
    def standing(self) -> PolicyFiles:
        """Return the domain that the capsule is of."""
        assert self.policies.stands is not None
        return self.policies.by_digest[self.policies.stands]

    def capsule(self) -> Capsule:
        """Compile the capsule; raises `PolicyError`."""
        return _compiled(self.standing, self.name)[0]

    def reader(self) -> ContentReader:
        """Return the reader of the content of events."""
        return _compiled(self.standing, self.name)[1]


@lru_cache(maxsize=64)
def _compiled(standing: PolicyFiles, name: str) -> tuple[Capsule, ContentReader]:
    domain = standing.domain()
    return compiled(domain, name), reader(domain.content)


def row_types(capsule: Capsule) -> pa.Schema:
    """Return the types of the columns that are taken."""
    fields = [("at", pa.int64()), ("arrival", pa.int64()), ("problem", pa.string()), ("event", EVENT_TYPE)]
    fields += [(UNTIL, pa.int64()), ("input", pa.int32())]
    fields += [(f"k{at}", pa.string()) for at in range(len(capsule.reduction.by))]
    fields += [(f"n{at}", pa.float64()) for at in range(len(capsule.reduction.paths))]
    if isinstance(capsule.reduction, LatestReduction):
        fields += [("content", pa.string()), ("quality", pa.string())]
    else:
        for at in range(len(capsule.metrics)):
            fields += [(f"q{at}", pa.float64()), (f"c{at}", pa.int64()), (f"a{at}", pa.int64())]
    if isinstance(capsule.reduction, FuseReduction):
        fields.append(("source", pa.string()))
    if isinstance(capsule.reduction, FuseReduction) or needs_order(capsule):
        fields += [("seq", pa.int64()), ("place", pa.int32()), ("part", pa.int32())]
    return pa.schema(fields)


def needs_order(capsule: Capsule) -> bool:
    """Return True if results depend on the order of events: it has no windows, or notices that an input is silent."""
    return capsule.window is None or any(input.silence is not None for input in capsule.inputs)


def taken(rows: DataFrame, reference: CapsuleReference, closed: int | None) -> DataFrame:
    """Return the rows of a view that a capsule takes; windows that end before `closed` with their lateness are over."""
    types = row_types(reference.capsule())

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reading = _Reading(reference, closed)
        for batch in batches:
            if batch.num_rows:
                yield from reading.read(batch)

    read = rows.withColumn("arrival", F.unix_micros("time")).select(*_READ)
    return read.mapInArrow(work, from_arrow_schema(types))


class _Reading:
    """The events of a task."""

    def __init__(self, reference: CapsuleReference, closed: int | None) -> None:
        self._capsule = reference.capsule()
        self._types = row_types(self._capsule)
        self._reader = reference.reader()
        self._closed = closed
        self._kinds: dict[tuple[str, str | None], tuple[Event, bool, Widen | None]] = {}

    def read(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the rows that are taken of a batch; then those put aside, and how far the batch is."""
        capsule, closed = self._capsule, self._closed
        window = capsule.window
        arrival, topics = batch["arrival"].to_pylist(), batch["topic"].to_pylist()
        quick = self._by_columns(batch, arrival, topics)
        if quick is not None:
            yield quick
            yield pa.RecordBatch.from_pylist([{"arrival": max(arrival)}], schema=self._types)
            return
        kept, claimed, places, aside = list[TakenEvent](), list[Claims](), list[int](), list[dict[str, Any]]()
        carried = self._carried(batch)
        each = (
            (at, content, input)
            for at, content in enumerate(self._contents(topics, batch))
            for input in capsule.inputs_of(topics[at])
        )
        for at, content, input in each:
            came = arrival[at]
            try:
                claims = _claims(content, carried[at], came)
                asks = bool(capsule.before) or window is None
                quality = _made(claims) if asks else NO_QUALITY  # nobody else asks for it here
                taken = take(capsule, topics[at], content, quality, came, input)
            except PolicyError as error:
                aside.append(_put_aside(batch, at, str(error)))
                continue
            if taken is None:
                continue
            if window is not None and window.late is Late.QUARANTINE:
                late = late_starts(window, taken.at, came if closed is None else max(came, closed))
                if late:
                    aside.append(_put_aside(batch, at, why_late(late)))
            kept.append(taken)
            claimed.append(_unmade(taken.quality) if capsule.before else claims)
            places.append(at)
        if kept:
            made: dict[str, Any] = {
                name: [getattr(taken, name) for taken in kept] for name in ("at", "source", "input", "content")
            }
            if window is None:
                made["quality"] = [write_stored(taken.quality) for taken in kept]
            groups = zip(*(taken.group for taken in kept), strict=True)
            numbers = zip(*(taken.numbers for taken in kept), strict=True)
            made |= {f"k{at}": column for at, column in enumerate(groups)}
            made |= {f"n{at}": column for at, column in enumerate(numbers)}
            yield self._made(made, claimed, batch.take(pa.array(places)))
        aside.append({"arrival": max(arrival)})
        yield pa.RecordBatch.from_pylist(aside, schema=self._types)

    def _by_columns(self, batch: pa.RecordBatch, arrival: list[int], topics: list[str]) -> pa.RecordBatch | None:
        """Return the rows column by column, if there is nothing to ask of single events: each is a JSON object with the
        numbers and the group that it must have, and none is late. None: it is not so."""
        capsule, window = self._capsule, self._capsule.window
        if window is None or window.time is not None or capsule.before:
            return None
        if len(capsule.inputs) > 1 or capsule.inputs[0].where is not None:
            return None
        if self._closed is not None and min(arrival) + window.lateness < self._closed:
            return None
        kinds = [self._kind(*pair) for pair in zip(topics, batch["content_type"].to_pylist(), strict=True)]
        if any(not is_json or widen is not None for _, is_json, widen in kinds):
            return None
        objects = [
            members
            for members in read_objects(batch["payload"].to_pylist())
            if members is not None and MEMBER not in members
        ]
        claims = ({} if properties is None else read_claims(properties) for properties in self._carried(batch))
        claimed = [claim for claim in claims if claim is not None]
        if len(objects) < batch.num_rows or len(claimed) < batch.num_rows:
            return None
        made = columns_of(capsule, topics, objects)
        if made is None:
            return None
        return self._made({"at": batch["arrival"], "input": [0] * batch.num_rows, **made}, claimed, batch)

    def _made(self, made: dict[str, Any], claimed: list[Claims], rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of what is known already, the quality that events claim, and what their rows have."""
        made |= {name: rows[name] for name in ("arrival", *_PLACE)}
        if pc.any(pc.match_substring(rows["properties"], RETAIN_UNTIL)).as_py():
            made[UNTIL] = [until_of(properties) for properties in rows["properties"].to_pylist()]
        known = {key for claims in claimed for key in claims}
        for at, key in enumerate(self._capsule.metrics if self._capsule.window is not None else ()):
            if key in known:
                values = [claims.get(key) for claims in claimed]
                made[f"q{at}"] = [None if value is None else value[0] for value in values]
                made[f"c{at}"] = [None if value is None else value[1].nanos // _NANOSECONDS for value in values]
                made[f"a{at}"] = [
                    None if value is None else (value[2] or value[1]).nanos // _NANOSECONDS for value in values
                ]
        columns = [_array(made.get(field.name), field.type, rows.num_rows) for field in self._types]
        return pa.RecordBatch.from_arrays(columns, schema=self._types)

    def _contents(self, topics: list[str], batch: pa.RecordBatch) -> Iterator[Content]:
        """Return the content of events; JSON is read many at a time."""
        payloads = batch["payload"].to_pylist()
        kinds = [self._kind(*pair) for pair in zip(topics, batch["content_type"].to_pylist(), strict=True)]
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
            properties = encode_properties(Properties(content_type=type)) if type else b""
            event = Event(topic, b"", properties=properties)
            known = self._kinds[topic, type] = (event, *self._reader.takes_objects(event))
        return known

    @staticmethod
    def _carried(batch: pa.RecordBatch) -> list[bytes | None]:
        """Return the properties of events that may speak of quality."""
        properties = batch["properties"]
        speaks = pc.or_(pc.match_substring(properties, ATTACHED), pc.match_substring(properties, CLAIMED))
        carried: list[bytes | None] = pc.if_else(pc.fill_null(speaks, False), properties, None).to_pylist()
        return carried


def _claims(content: Content, properties: bytes | None, came: int) -> Claims:
    """Return the quality of an event, by metric."""
    quick = None if properties is None else read_claims(properties)
    return _unmade(quality_of(content, properties, came)) if quick is None else quick


def _made(claims: Claims) -> Quality:
    return Quality(MetricValue(key, *value) for key, value in claims.items())


def _unmade(quality: Quality) -> Claims:
    return {metric.key: (metric.value, metric.created, metric.modified) for metric in quality}


def _put_aside(batch: pa.RecordBatch, at: int, problem: str) -> dict[str, Any]:
    event = {name: batch[name][at].as_py() for name in EVENT}
    event[UNTIL] = until_of(batch["properties"][at].as_py())
    return {"arrival": event["arrival"], "problem": problem, "event": event}


def _array(column: Any, type: pa.DataType, length: int) -> pa.Array:
    if column is None:
        return pa.nulls(length, type)
    return column if isinstance(column, pa.Array) else pa.array(column, type)
