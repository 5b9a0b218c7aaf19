"""Means over a time in place of events, as contracts give them: in the order of each node, by the engine's own steps.

A mean is given only if all events of its time are known: something came to the node before it, and something after
it, and one policy was in force. Otherwise two of them could be made of almost the same events, and tell what one of
these said.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engine.contracts import release_recheck
from penstock.engine.contracts.delayed import MOST_WINDOWS, Collecting
from penstock.engine.contracts.delayed import Collected as OfSession
from penstock.model.content.content import Content
from penstock.model.errors import ContentError
from penstock.model.quality import Quality
from penstock.pipeline.stages.edit import event_of, rows_of
from penstock.pipeline.stages.release import Releases, Stage, stage_of, waiting
from penstock.policy.contracts.aggregate import MeanWindow, absorb, begin_of, due

Row = dict[str, Any]
_MICROSECONDS = 1_000_000
_AT_ONCE = 5_000
"""Rows of a batch that is made."""


class Known(NamedTuple):
    """From when on, and up to when, all is known that came to a node."""

    since: float = math.inf
    until: float = -math.inf


class Collected(NamedTuple):
    """What has come of a mean: the last row, and all that counts."""

    row: Row
    window: MeanWindow


@dataclass
class Collector:
    """The means that are being collected, by node, subject and rule."""

    stage: Stage
    windows: dict[tuple[str, str, Collecting], Collected] = field(default_factory=dict)
    since: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """By node and subject, or for all: the policy that is in force, and since when something may be missing."""
    _next: dict[str, float] = field(default_factory=dict)
    """By node, up to when nothing is over, as far as that is known."""

    def came(self, node: str, subject: str, policy: str, now: float) -> None:
        """Something came; if it is judged by another policy than before, what is collected is not of whole times."""
        before = self.since.get((node, subject))
        if before is None or before[0] != policy:
            self.since[node, subject] = policy, -math.inf if before is None else now
            if before is not None:
                for key in [key for key in self.windows if key[0] == node and subject in ("", key[1])]:
                    del self.windows[key]

    def absorb(self, row: Row, about: Collecting, content: Content, quality: Quality) -> None:
        """An event goes into a mean; what is over by then has been taken."""
        ends = row["node"], row["subject"]
        known = self.windows.get((*ends, about))
        if known is None:
            begin = begin_of(about.aggregate, row["time"])
            if any(begin <= self.since[one][1] for one in (ends, (row["node"], "")) if one in self.since):
                return
            if sum(key[:2] == ends for key in self.windows) >= MOST_WINDOWS:
                self.since[ends] = row["policy"], row["time"]
                return
        node, _ = self.stage.ends(row)
        assert node.contracts is not None
        catalogue, window = node.contracts.contracts.catalogue, known and known.window
        expires = event_of(row, row["link_type_now"]).expires
        try:
            made = absorb(about.aggregate, window, content, quality, catalogue, row["time"], expires)
        except ContentError:
            return  # nothing of it can be released
        self.windows[(*ends, about)] = Collected(row, made.window)
        if row["node"] in self._next:
            self._next[row["node"]] = min(self._next[row["node"]], _end(about, made.window))

    def over(self, name: str, now: float, since: float) -> Iterator[tuple[float, Row]]:
        """The means of a node whose time is over: from when on they may go out, and as what row they wait. Of those
        that began before `since`, nothing is given.
        """
        if now < self._next.get(name, now):
            return
        soonest = math.inf
        for key, one in [each for each in self.windows.items() if each[0][0] == name]:
            about = key[2]
            node, session = self.stage.ends(one.row)
            assert node.contracts is not None
            left, mean = due(about.aggregate, one.window, node.contracts.contracts.catalogue, now)
            if left is not None:
                soonest = min(soonest, _end(about, left))
                continue
            del self.windows[key]
            if mean is None or one.window.number * about.aggregate.seconds <= since:
                continue
            event = event_of(one.row, one.row["link_type_now"])
            made = release_recheck.of_mean(node, OfSession(session, about, event, one.window), mean, mean.at)
            if made is not None:
                yield made[0], waiting(one.row, made[1])
        self._next[name] = soonest


def _end(about: Collecting, window: MeanWindow) -> float:
    return (window.number + 1) * about.aggregate.seconds


def known(learnt: DataFrame) -> dict[str, Known]:
    """What is known of each node, by all that went through it. It is worked out at once."""
    found = learnt.groupBy("node").agg(F.unix_micros(F.min("time")), F.unix_micros(F.max("time"))).collect()
    return {node: Known(since / _MICROSECONDS, until / _MICROSECONDS) for node, since, until in found}


def released(views: DataFrame, releases: Releases, known: Mapping[str, Known]) -> DataFrame:
    """As `released.released`, with means: the rows of each subject at a node are brought together, in order."""
    order = ("node", "subject", "arrival", "place", "part")
    ordered = views.repartition("node", "subject").sortWithinPartitions(*order)
    types = to_arrow_schema(views.schema, timezone="UTC")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in rows_of(batch))
        made = _given(rows, stage_of(releases), known)
        while some := list(islice(made, _AT_ONCE)):
            yield _table(some, types)

    return ordered.mapInArrow(work, views.schema)


def _given(rows: Iterable[Row], stage: Stage, known: Mapping[str, Known]) -> Iterator[Row]:
    collector, ends = Collector(stage), ("", "")
    for row in rows:
        if ends != (row["node"], row["subject"]):
            yield from _means(collector, ends[0], known, math.inf)
            ends = row["node"], row["subject"]
        yield from _means(collector, row["node"], known, row["time"])
        collector.came(*ends, row["policy"], row["time"])
        made = stage.decide(row)
        if made.collected is not None:
            collector.absorb(row, *made.collected)
        changes = made.changes if made.waits is None else stage.go(made.waits[1], made.waits[0])
        if changes is not None:
            yield {**row, **changes}
    yield from _means(collector, ends[0], known, math.inf)


def _means(collector: Collector, node: str, known: Mapping[str, Known], now: float) -> Iterator[Row]:
    if not collector.windows:
        return
    since, until = known.get(node, Known())
    for at, row in collector.over(node, min(now, until), since):
        changes = collector.stage.go(row, at)
        if changes is not None:
            yield {**row, **changes}
    if now == math.inf:
        collector.windows.clear()  # what is not over yet is not given


def _table(rows: list[Row], types: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([round(row["time"] * _MICROSECONDS) for row in rows], pa.int64()).cast(one.type)
        if one.name == "time"
        else pa.array([row[one.name] for row in rows], one.type)
        for one in types
    ]
    return pa.RecordBatch.from_arrays(columns, schema=types)
