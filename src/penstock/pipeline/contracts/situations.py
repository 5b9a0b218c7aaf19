"""Situations over tables of events: which were open when, by the engine's own steps over what their sources published.

By the policies that were in force, a node's situations are those that its own clients opened there, and those that
other nodes announced to it. By others, nobody has announced anything: then what sources published anywhere counts
everywhere, in the order of time. Over a stream, Spark keeps from batch to batch which situations are open.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.contracts import situations
from penstock.engine.contracts.state import SITUATION
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import CompiledDomain, Policies
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.buckets import StateVariable
from penstock.pipeline.state.rows import Fields, event_of, rows_of
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.filters import is_on
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituation, OpenSituations

SITUATIONS = StateVariable("situations", "nodes", 1)
EVERYWHERE = ""
"""In place of a node's name."""
Place = tuple[float, int, int]
"""When something happens, and where in the order of its scope: by time, arrival and place; at a node without time."""

_PLACE = pa.struct([("time", pa.float64()), ("arrival", pa.int64()), ("place", pa.int32())])
_TEXT, _SECONDS = pa.string(), pa.float64()
_ARROW = pa.schema({"scope": _TEXT, "situation": _TEXT, "begins": _PLACE, "ends": _PLACE, "until": _SECONDS})
COLUMNS = (
    *("policy", "revision", "node", "arrival", "place", "time"),
    *("client_id", "user", "entity", "neighbour"),
    *("topic", "payload", "qos", "retain", "properties", "expiry", "path", "id"),
)
"""What is asked of events that may say something of situations."""
_NEVER = (math.inf, math.inf, math.inf)


class SituationSpan(NamedTuple):
    """From which event on a situation was open, up to which, and no longer than until when."""

    begins: Place
    ends: Place | None
    until: float


@dataclass(frozen=True)
class Timeline:
    """All situations that were ever open, by scope and name, in order."""

    spans: dict[tuple[str, str], list[SituationSpan]] = field(default_factory=dict)

    def open_at(self, scope: str, place: Place, now: float) -> OpenSituations:
        """Return the situations that were open for an event at this place."""
        opened = {}
        for (where, name), spans in self.spans.items():
            if where == scope:
                begins = 0 if scope == EVERYWHERE else 1
                at = bisect_right(spans, place[begins:], key=lambda span: span.begins[begins:])
                if at and now < spans[at - 1].until and place[begins:] < (spans[at - 1].ends or _NEVER)[begins:]:
                    opened[name] = OpenSituation(now, spans[at - 1].until, "")
        return opened

    def open_later(self, scope: str, now: float) -> OpenSituations:
        """Return the situations that were open at a time at which no event came."""
        return {
            name: OpenSituation(now, span.until, "")
            for (where, name), spans in self.spans.items()
            for span in spans
            if where == scope and span.begins[0] <= now < min(span.until, (span.ends or _NEVER)[0])
        }


NOTHING_OPEN = Timeline()


def place_of(row: Fields) -> Place:
    """Return the place of a row."""
    return row["time"], row["arrival"], row["place"]


def scope_of(row: Fields, policies: Policies, at_rest: bool) -> str:
    """Return the scope of the situations that count for a row: its node, or everywhere."""
    is_then = policies.are_recorded and not at_rest and row["policy"] == row["revision"]
    return str(row["node"]) if is_then else EVERYWHERE


def is_signal(policies: Sequence[CompiledDomain]) -> Column:
    """Return whether an event may open or close a situation of one of these policies."""
    signals = F.col("topic").startswith(SITUATION)
    for filter in dict.fromkeys(_filters(policies)):
        signals |= is_on(filter, F.col("topic"))
    return signals


def _filters(policies: Sequence[CompiledDomain]) -> Iterator[str]:
    for policy in policies:
        contracts = policy.ensemble.contracts
        for situation in contracts.situations if contracts is not None else ():
            yield from (signal.filter for signal in (situation.opens, situation.closes) if signal is not None)


def timeline(learnt: DataFrame, policies: Policies, at_rest: bool) -> Timeline:
    """Return when situations were open, by all events that went through the nodes. It is worked out at once."""
    signals = learnt.filter(is_signal(list(policies.judging))).select(*COLUMNS)
    then = F.lit(not at_rest and policies.are_recorded) & (F.col("policy") == F.col("revision"))
    scoped = signals.withColumn("scope", F.when(then, F.col("node")).otherwise(EVERYWHERE))
    # What nodes told each other was about what the policies of then said.
    scoped = scoped.filter((F.col("scope") != EVERYWHERE) | F.col("neighbour").isNull())
    order = F.when(F.col("scope") == EVERYWHERE, F.col("time"))
    ordered = scoped.withColumn("order", order).repartition("scope")
    ordered = ordered.sortWithinPartitions("scope", "order", "arrival", "place", "node").drop("order")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        openings = Openings(policies)
        for batch in batches:
            for row in rows_of(batch):
                openings.step(row, row["scope"])
        rows = [
            (scope, name, _plain(span.begins), _plain(span.ends), span.until)
            for (scope, name), spans in openings.spans.items()
            for span in spans
        ]
        yield pa.RecordBatch.from_pylist([dict(zip(_ARROW.names, row, strict=True)) for row in rows], _ARROW)

    spans_by_name: dict[tuple[str, str], list[SituationSpan]] = {}
    for row in ordered.mapInArrow(work, from_arrow_schema(_ARROW)).collect():
        span = SituationSpan(tuple(row.begins), None if row.ends is None else tuple(row.ends), row.until)
        spans_by_name.setdefault((row.scope, row.situation), []).append(span)
    return Timeline(spans_by_name)


def _plain(place: Place | None) -> dict[str, float] | None:
    return None if place is None else dict(zip(("time", "arrival", "place"), place, strict=True))


class Openings:
    """Situations as they open and close, of one scope after the other or of several."""

    def __init__(self, policies: Policies) -> None:
        self._actors = Actors(policies)
        self.open: dict[str, OpenSituations] = {}
        """By scope."""
        self.spans: dict[tuple[str, str], list[SituationSpan]] = {}
        """By scope and name."""

    def step(self, row: Fields, scope: str) -> None:
        """Look at an event."""
        policy = self._actors.policy(row)
        node = self._actors.node(policy, row["node"])
        state = node.contracts
        if state is None or not state.concerns(row["topic"]):
            return
        before = state.open = self.open.get(scope, NONE_OPEN)
        event = event_of(row, "")
        situations.look(node, event, self._actors.publisher(policy, node, row), row["time"])
        node.notices.clear()
        self.open[scope] = state.open
        self._note(scope, before, state.open, row)

    def _note(self, scope: str, before: OpenSituations, after: OpenSituations, row: Fields) -> None:
        place, now = place_of(row), row["time"]
        for name in before.keys() - after.keys():
            spans = self.spans.get((scope, name))  # none, on a stream, if a batch before this one has opened it
            if spans and spans[-1].until > now:  # else it was over, and is only noticed now
                spans[-1] = spans[-1]._replace(ends=place)
        for name, opened in after.items():
            spans = self.spans.setdefault((scope, name), [])
            if name in before and spans and spans[-1].until > now:
                spans[-1] = spans[-1]._replace(until=opened.until)
            else:
                spans.append(SituationSpan(place, None, opened.until))


class _KeptSituation(msgspec.Struct, array_like=True):
    """A situation that is open at a node, as Spark keeps it."""

    node: str
    situation: str
    since: float
    until: float
    by: str


def read_open(data: bytes) -> dict[str, dict[str, OpenSituation]]:
    """Return the situations that are open, by node."""
    nodes: dict[str, dict[str, OpenSituation]] = {}
    for kept in msgspec.json.decode(data, type=list[_KeptSituation]):
        nodes.setdefault(kept.node, {})[kept.situation] = OpenSituation(kept.since, kept.until, kept.by)
    return nodes


def write_open(openings: Openings) -> bytes:
    """Return the situations that are open, to be kept."""
    nodes = openings.open.items()
    kept = [_KeptSituation(node, name, *opened) for node, named in nodes for name, opened in named.items()]
    return msgspec.json.encode(kept)


class SituationCheck:
    """Checks that nodes announced the situations that the domain has now.

    A stream has each node's events in their order, but not those of all nodes together. So its situations are those
    that nodes announced to each other.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._good: set[tuple[str, str]] = set()

    def check(self, row: Fields) -> None:
        """Raise `PipelineError` if a row's node announced others."""
        ends = row["policy"], row["revision"]
        if row["policy"] == row["revision"] or ends in self._good:
            return
        now = self._policies.by_digest[row["policy"]].compiled()
        if now.has_links and _situations(now) != _situations(self._policies.known(row["revision"])):
            raise PipelineError(
                "the domain has other situations than were in force when this was recorded, and a stream cannot say"
                " when they were open at other nodes: use `penstock pipeline govern`"
            )
        self._good.add(ends)


def _situations(policy: CompiledDomain | None) -> object:
    contracts = None if policy is None else policy.ensemble.contracts
    return None if contracts is None else contracts.situations
