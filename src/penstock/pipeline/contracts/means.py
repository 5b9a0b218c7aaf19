"""Means over a time in place of events, as contracts give them: in the order of each node, by the engine's own steps.

A mean is given only if all events of its time are known: something came to the node before it, and something after
it, and one policy was in force. Otherwise two means could be made of almost the same events, and their difference would
reveal a single event.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engine.contracts import release_recheck
from penstock.engine.contracts.delayed import MAX_WINDOWS
from penstock.engine.contracts.held import CollectedWindow, WindowKey
from penstock.engine.events import publishers
from penstock.model.content.content import Content
from penstock.model.errors import ContentError
from penstock.model.quality import Quality
from penstock.pipeline.contracts.release_decision import ReleaseSteps, waiting
from penstock.pipeline.state.rows import MICROSECONDS, Fields, batch_of, event_of, rows_of, with_publisher
from penstock.policy.contracts.aggregate import MeanWindow, absorb, begin_of, due

_BATCH_ROWS = 5_000
"""Rows of a batch that is made."""


class Coverage(NamedTuple):
    """From when on, and up to when, all is known that came to a node."""

    since: float = math.inf
    until: float = -math.inf


class OpenWindow(NamedTuple):
    """A mean that is being collected: the last row, and all that counts."""

    row: Fields
    window: MeanWindow


@dataclass
class MeanCollector:
    """The means that are being collected, by node, subject and rule."""

    steps: ReleaseSteps
    windows: dict[tuple[str, str, WindowKey], OpenWindow] = field(default_factory=dict)
    since: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """By node and subject, or for all: the policy that is in force, and since when something may be missing."""
    _next: dict[str, float] = field(default_factory=dict)
    """By node, up to when nothing is over, as far as that is known."""

    def came(self, node: str, subject: str, policy: str, now: float) -> None:
        """Note that something came; if another policy judges it than before, windows are not whole and are dropped."""
        before = self.since.get((node, subject))
        if before is None or before[0] != policy:
            self.since[node, subject] = policy, -math.inf if before is None else now
            if before is not None:
                for key in [key for key in self.windows if key[0] == node and subject in ("", key[1])]:
                    del self.windows[key]

    def absorb(self, row: Fields, about: WindowKey, content: Content, quality: Quality) -> None:
        """Put an event into a mean; what is over by then has been taken."""
        ends = row["node"], row["subject"]
        known = self.windows.get((*ends, about))
        if known is None:
            begin = begin_of(about.aggregate, row["time"])
            if any(begin <= self.since[where][1] for where in (ends, (row["node"], "")) if where in self.since):
                return
            if sum(key[:2] == ends for key in self.windows) >= MAX_WINDOWS:
                self.since[ends] = row["policy"], row["time"]
                return
        node, session = self.steps.ends(row)
        assert node.contracts is not None
        catalogue, window = node.contracts.contracts.catalogue, known and known.window
        event = with_publisher(row, event_of(row, row["link_type_now"]))
        counts = event.expires, publishers.counted(node, session, event)
        try:
            following, _ = absorb(about.aggregate, window, content, quality, catalogue, row["time"], *counts)
        except ContentError:
            return  # nothing of it can be released
        self.windows[(*ends, about)] = OpenWindow(row, following)
        if row["node"] in self._next:
            self._next[row["node"]] = min(self._next[row["node"]], _end(about, following))

    def over(self, name: str, now: float, since: float) -> Iterator[tuple[float, Fields]]:
        """Yield the means of a node whose time is over: from when on they may go out, and as what row they wait.

        Those that began before `since` are thrown away.
        """
        if now < self._next.get(name, now):
            return
        soonest = math.inf
        for key, opened in [window for window in self.windows.items() if window[0][0] == name]:
            about = key[2]
            node, session = self.steps.ends(opened.row)
            assert node.contracts is not None
            left, mean = due(about.aggregate, opened.window, node.contracts.contracts.catalogue, now)
            if left is not None:
                soonest = min(soonest, _end(about, left))
                continue
            del self.windows[key]
            if mean is None or opened.window.number * about.aggregate.seconds <= since:
                continue
            event = event_of(opened.row, opened.row["link_type_now"])
            made = release_recheck.of_mean(node, CollectedWindow(session, about, event, opened.window), mean, mean.at)
            if made is not None:
                yield made[0], waiting(opened.row, made[1])
        self._next[name] = soonest


def _end(about: WindowKey, window: MeanWindow) -> float:
    return (window.number + 1) * about.aggregate.seconds


def coverage(learnt: DataFrame) -> dict[str, Coverage]:
    """Return for each node when all is known that came to it, by all that went through it. It is worked out at once."""
    rows = learnt.groupBy("node").agg(F.unix_micros(F.min("time")), F.unix_micros(F.max("time"))).collect()
    return {node: Coverage(since / MICROSECONDS, until / MICROSECONDS) for node, since, until in rows}


def released(views: DataFrame, make: Callable[[], ReleaseSteps], coverage: Mapping[str, Coverage]) -> DataFrame:
    """Return what is released, with means: the rows of each subject at a node are brought together, in order."""
    order = ("node", "subject", "arrival", "place", "part")
    ordered = views.repartition("node", "subject").sortWithinPartitions(*order)
    types = to_arrow_schema(views.schema, timezone="UTC")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in rows_of(batch))
        made = _given(rows, make(), coverage)
        while some := list(islice(made, _BATCH_ROWS)):
            yield batch_of(some, types)

    return ordered.mapInArrow(work, views.schema)


def _given(rows: Iterable[Fields], steps: ReleaseSteps, coverage: Mapping[str, Coverage]) -> Iterator[Fields]:
    collector, ends = MeanCollector(steps), ("", "")
    for row in rows:
        if ends != (row["node"], row["subject"]):
            yield from _means(collector, ends[0], coverage, math.inf)
            ends = row["node"], row["subject"]
        yield from _means(collector, row["node"], coverage, row["time"])
        collector.came(*ends, row["policy"], row["time"])
        made = steps.decide(row)
        if made.collected is not None:
            collector.absorb(row, *made.collected)
        changes = made.changes if made.waits is None else steps.recheck(made.waits[1], made.waits[0])
        if changes is not None:
            yield {**row, **changes}
    yield from _means(collector, ends[0], coverage, math.inf)


def _means(collector: MeanCollector, node: str, coverage: Mapping[str, Coverage], now: float) -> Iterator[Fields]:
    if not collector.windows:
        return
    since, until = coverage.get(node, Coverage())
    for at, row in collector.over(node, min(now, until), since):
        changes = collector.steps.recheck(row, at)
        if changes is not None:
            yield {**row, **changes}
    if now == math.inf:
        collector.windows.clear()  # what is not over yet is not given
