"""Situations over tables of events: which were open when, by the engine's own steps over what their sources said.

By the policies that were in force, a node's situations are those that its own clients opened there, and those that
other nodes told it of. By others, nobody has told anything: then what sources said anywhere counts everywhere, in the
order of time.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.contracts import situations
from penstock.engine.contracts.registry import SITUATION
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.pipeline.spark.policies import Policies, Policy
from penstock.pipeline.stages.conform import is_as_recorded
from penstock.pipeline.stages.edit import event_of, rows_of
from penstock.pipeline.tables.executor import F
from penstock.pipeline.tables.filters import is_on
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituation, OpenSituations

EVERYWHERE = ""
"""In place of a node's name."""
Place = tuple[float, int, int]
"""When something happens, and where in the order of its scope: by time, arrival and place; at a node without time."""

_PLACE = pa.struct([("time", pa.float64()), ("arrival", pa.int64()), ("place", pa.int32())])
_ARROW = pa.schema(
    [
        ("scope", pa.string()),
        ("situation", pa.string()),
        ("begins", _PLACE),
        ("ends", _PLACE),
        ("until", pa.float64()),
    ]
)
COLUMNS = (
    "policy",
    "revision",
    "node",
    "arrival",
    "place",
    "time",
    "client_id",
    "user",
    "entity",
    "neighbour",
    "topic",
    "payload",
    "qos",
    "retain",
    "properties",
    "expiry",
    "path",
    "id",
)
"""What is asked of events that may say something of situations."""
_NEVER = (math.inf, math.inf, math.inf)


class Span(NamedTuple):
    """From which event on a situation was open, up to which, and no longer than until when."""

    begins: Place
    ends: Place | None
    until: float


@dataclass(frozen=True)
class Timeline:
    """All situations that were ever open, by scope and name, in order."""

    spans: dict[tuple[str, str], list[Span]] = field(default_factory=dict)

    def open_at(self, scope: str, place: Place, now: float) -> OpenSituations:
        """What was open for an event at this place."""
        found = {}
        for (where, name), spans in self.spans.items():
            if where == scope:
                begins = 0 if scope == EVERYWHERE else 1
                at = bisect_right(spans, place[begins:], key=lambda one: one.begins[begins:])
                if at and now < spans[at - 1].until and place[begins:] < (spans[at - 1].ends or _NEVER)[begins:]:
                    found[name] = OpenSituation(now, spans[at - 1].until, "")
        return found

    def open_later(self, scope: str, now: float) -> OpenSituations:
        """What was open at a time at which no event came."""
        return {
            name: OpenSituation(now, one.until, "")
            for (where, name), spans in self.spans.items()
            for one in spans
            if where == scope and one.begins[0] <= now < min(one.until, (one.ends or _NEVER)[0])
        }


NOTHING_OPEN = Timeline()


def place_of(row: dict[str, Any]) -> Place:
    """A row's place."""
    return row["time"], row["arrival"], row["place"]


def scope_of(row: dict[str, Any], policies: Policies, at_rest: bool) -> str:
    """Whether what was open is that of the row's node, or of all."""
    is_then = policies.are_recorded and not at_rest and row["policy"] == row["revision"]
    return str(row["node"]) if is_then else EVERYWHERE


def is_signal(policies: Sequence[Policy]) -> Column:
    """Whether an event may say something of a situation of one of these policies."""
    found = F.col("topic").startswith(SITUATION)
    for filter in dict.fromkeys(_filters(policies)):
        found |= is_on(filter, F.col("topic"))
    return found


def _filters(policies: Sequence[Policy]) -> Iterator[str]:
    for policy in policies:
        said = policy.ensemble.contracts
        for one in said.situations if said is not None else ():
            yield from (signal.filter for signal in (one.opens, one.closes) if signal is not None)


def timeline(learnt: DataFrame, policies: Policies, at_rest: bool) -> Timeline:
    """What was open when, by all that went through the nodes. It is worked out at once."""
    signals = learnt.filter(is_signal(list(policies.judging))).select(*COLUMNS)
    then = F.lit(not at_rest) & is_as_recorded(policies)
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
            (scope, name, _plain(one.begins), _plain(one.ends), one.until)
            for (scope, name), spans in openings.spans.items()
            for one in spans
        ]
        yield pa.RecordBatch.from_pylist([dict(zip(_ARROW.names, row, strict=True)) for row in rows], _ARROW)

    found: dict[tuple[str, str], list[Span]] = {}
    for row in ordered.mapInArrow(work, from_arrow_schema(_ARROW)).collect():
        span = Span(tuple(row.begins), None if row.ends is None else tuple(row.ends), row.until)
        found.setdefault((row.scope, row.situation), []).append(span)
    return Timeline(found)


def _plain(place: Place | None) -> dict[str, float] | None:
    return None if place is None else dict(zip(("time", "arrival", "place"), place, strict=True))


class Openings:
    """Situations as they open and close, of one scope after the other or of several."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._nodes: dict[tuple[str, str], Node] = {}
        self._senders: dict[tuple[str | None, ...], Session | None] = {}
        self.open: dict[str, OpenSituations] = {}
        """By scope."""
        self.spans: dict[tuple[str, str], list[Span]] = {}
        """By scope and name."""

    def step(self, row: dict[str, Any], scope: str) -> None:
        """Look at an event."""
        policy = self._policies.by_digest[row["policy"]].compiled()
        node = self._node(policy, row["node"])
        state = node.contracts
        if state is None or not state.concerns(row["topic"]):
            return
        before = state.open = self.open.get(scope, NONE_OPEN)
        event = event_of(row, "")
        situations.look(node, event, self._sender(policy, node, row), row["time"])
        node.notices.clear()
        self.open[scope] = state.open
        self._note(scope, before, state.open, row)

    def _note(self, scope: str, before: OpenSituations, after: OpenSituations, row: dict[str, Any]) -> None:
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
                spans.append(Span(place, None, opened.until))

    def _node(self, policy: Policy, name: str) -> Node:
        at = (policy.digest, name)
        if at not in self._nodes:
            self._nodes[at] = policy.new_node(name)
        return self._nodes[at]

    def _sender(self, policy: Policy, node: Node, row: dict[str, Any]) -> Session | None:
        who = (row["client_id"], row["user"], row["entity"], row["neighbour"])
        at = (policy.digest, node.name, *who)
        if at not in self._senders:
            self._senders[at] = policy.publishing(node, *who)
        return self._senders[at]
