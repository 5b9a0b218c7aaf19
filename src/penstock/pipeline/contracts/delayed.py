"""What contracts hold back, over a stream: events that go out later, and means, kept by Spark from batch to batch.

What is due goes out before the first event that came to its node after that, as in a node: then all is known that had
come by then. So batches of any size give the same.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.engine.contracts.delayed import read_window, write_window
from penstock.engine.contracts.held import WindowKey
from penstock.pipeline.contracts.means import MeanCollector, OpenWindow
from penstock.pipeline.contracts.release_decision import ReleaseSteps
from penstock.pipeline.state.buckets import StateVariable
from penstock.pipeline.state.rows import Fields

WAITING = StateVariable("waiting", "waiting", 2)
_IS_SIGNAL = "is_signal"


class Delayed:
    """What is held back at some nodes."""

    def __init__(self, steps: ReleaseSteps, kept: bytes | None) -> None:
        self._steps = steps
        self._collector = MeanCollector(steps)
        self._held: dict[str, list[tuple[float, int, Fields]]] = {}
        self._count = 0
        self._since: dict[str, float] = {}
        if kept is not None:
            self._read(kept)

    def due(self, row: Fields) -> Iterator[Fields]:
        """Yield the rows that go out before this one."""
        node, now = row["node"], row["time"]
        self._since.setdefault(node, now)
        if self._collector.windows:
            for at, waiting in self._collector.over(node, now, self._since[node]):
                self._hold(at, waiting)
        self._collector.came(node, "", row["policy"], now)
        held = self._held.get(node)
        while held and held[0][0] <= now:
            at, _, waiting = heappop(held)
            changes = self._steps.recheck(waiting, at)
            if changes is not None:
                yield {**waiting, **changes}

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in a row, if it is given at once."""
        made = self._steps.decide(row)
        if made.collected is not None:
            self._collector.absorb(row, *made.collected)
        elif made.waits is not None:
            self._hold(*made.waits)
        elif made.changes is not None:
            yield made.changes

    def _hold(self, at: float, row: Fields) -> None:
        self._count += 1
        heappush(self._held.setdefault(row["node"], []), (at, self._count, row))

    def _read(self, kept: bytes) -> None:
        self._since, held, windows, since = msgspec.msgpack.decode(kept)
        self._collector.since = {(node, subject): (policy, at) for node, subject, policy, at in since}
        for at, number, row in held:
            self._held.setdefault(row["node"], []).append((at, number, row))
            self._count = max(self._count, number)
        for several in self._held.values():
            heapify(several)
        for about, window, row in windows:
            key = row["node"], row["subject"], msgspec.json.decode(about, type=WindowKey)
            self._collector.windows[key] = OpenWindow(row, read_window(window, row["time"]))

    def write(self) -> bytes:
        """Return all of it, to be kept."""
        held = [waiting for several in self._held.values() for waiting in several]
        windows = [
            (msgspec.json.encode(about), write_window(opened.window), opened.row)
            for (_, _, about), opened in self._collector.windows.items()
        ]
        since = [(*ends, *known) for ends, known in self._collector.since.items()]
        return msgspec.msgpack.encode((self._since, held, windows, since))


def clocks(rows: DataFrame, is_signal: Column) -> DataFrame:
    """Return the rows that are signals; of others only when they came, and the first and last of many."""
    bare = {
        name: F.when(F.col(_IS_SIGNAL), F.col(name)).alias(name)
        for name in rows.columns
        if name not in ("policy", "revision", "node", "arrival", "place", "time")
    }
    marked = rows.withColumn(_IS_SIGNAL, is_signal)
    marked = marked.select(_IS_SIGNAL, *(bare.get(name, F.col(name)) for name in rows.columns))

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ends = dict[Any, list[int]]()
            nodes, policies = batch["node"].to_pylist(), batch["revision"].to_pylist()
            order = pc.sort_indices(batch, [("node", "ascending"), ("arrival", "ascending")]).to_pylist()
            for at in order:
                ends.setdefault((nodes[at], policies[at]), [at, at])[1] = at
            signals = pc.indices_nonzero(batch[_IS_SIGNAL]).to_pylist()
            kept = sorted({*signals, *(at for pair in ends.values() for at in pair)})
            yield batch.take(pa.array(kept, pa.int64()))

    return marked.mapInArrow(work, marked.schema).drop(_IS_SIGNAL)
