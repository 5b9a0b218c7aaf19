"""Contracts over a stream: which situations are open at a node is kept by Spark from batch to batch.

The steps are those of `situations.py` and `released.py`. A stream has each node's events in their order, but not those
of all nodes together. So situations are those that a node's own clients opened, and those that other nodes told it of:
if the domain has others than were in force then, nodes have told of others, and the stream ends with an error.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import StructType

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Policies
from penstock.pipeline.stages.release import CONCERNED, Releases, Stage
from penstock.pipeline.stages.situations import COLUMNS, Openings, is_signal
from penstock.pipeline.state import delayed
from penstock.pipeline.state.delayed import Waiting
from penstock.pipeline.state.monitors import BUCKETS, unpacked
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituation

VERSION = 1
_STATE = "version int, nodes binary"
_BUCKET = "bucket"
_MICROSECONDS = 1_000_000


class _Kept(msgspec.Struct, array_like=True):
    """A situation that is open at a node, as Spark keeps it."""

    node: str
    situation: str
    since: float
    until: float
    by: str


def read_state(value: tuple[Any, ...] | None) -> dict[str, dict[str, OpenSituation]]:
    """What is open, by node; raises `PipelineError` for a state of another version."""
    found: dict[str, dict[str, OpenSituation]] = {}
    for one in msgspec.json.decode(unpacked(value, VERSION), type=list[_Kept]):
        found.setdefault(one.node, {})[one.situation] = OpenSituation(one.since, one.until, one.by)
    return found


def write_state(openings: Openings) -> tuple[int, bytes]:
    """What is open, as a state."""
    kept = [_Kept(node, name, *one) for node, several in openings.open.items() for name, one in several.items()]
    return VERSION, msgspec.json.encode(kept)


class _Released(StatefulProcessor):
    """The rows of some nodes, in the order of each; those without a subject may speak of situations."""

    def __init__(self, releases: Releases, columns: list[str], waits: bool) -> None:
        self._releases = releases
        self._columns = columns
        self._waits = waits

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("situations", _STATE)
        if self._waits:
            self._waiting = handle.getValueState("waiting", delayed.STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        openings = Openings(self._releases.policies)
        openings.open.update(read_state(self._state.get() if self._state.exists() else None))
        stage = Stage(
            self._releases,
            lambda row, scope: openings.open.get(row["node"], NONE_OPEN),
            lambda row, scope, at: openings.open.get(row["node"], NONE_OPEN),
        )
        waiting = Waiting(stage)
        if self._waits:
            waiting.read(self._waiting.get() if self._waiting.exists() else None)
        check = _Check(self._releases.policies)
        for row in sorted((row.asDict() for row in rows), key=_place):
            at = {**row, "time": row["time"] / _MICROSECONDS}
            check.step(at)
            if self._waits:
                yield from map(self._row, waiting.due(at))
            if row["subject"] is None:
                if row["topic"] is not None:
                    openings.step(at, row["node"])
            elif not row[CONCERNED]:
                yield self._row(at)
            elif self._waits:
                yield from map(self._row, waiting.step(at))
            elif (made := stage.step(at)) is not None:
                yield self._row({**at, **made})
        self._state.update(write_state(openings))
        if self._waits:
            self._waiting.update(waiting.write())

    def _row(self, said: dict[str, Any]) -> Row:
        said = {**said, "time": round(said["time"] * _MICROSECONDS)}
        return Row(**{name: said[name] for name in self._columns})


class _Check:
    """Whether nodes have told each other of the situations that the domain has."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._good: set[tuple[str, str]] = set()

    def step(self, row: dict[str, Any]) -> None:
        """Raises `PipelineError`."""
        ends = row["policy"], row["revision"]
        if row["policy"] == row["revision"] or ends in self._good:
            return
        now = self._policies.by_digest[row["policy"]].compiled()
        before = self._policies.known(row["revision"])
        said = [one and one.ensemble.contracts and one.ensemble.contracts.situations for one in (now, before)]
        if now.has_links and said[0] != said[1]:
            raise PipelineError(
                "the domain has other situations than were in force when this was recorded, and a stream cannot say"
                " when they were open at other nodes: use `penstock pipeline govern`"
            )
        self._good.add(ends)


def _place(row: dict[str, Any]) -> tuple[object, ...]:
    return row["node"], row["arrival"], row["place"], row["subject"] is not None, row["part"] or 0, row["subject"] or ""


def released(views: DataFrame, learnt: DataFrame, releases: Releases, waits: bool) -> DataFrame:
    """As `released.released`, on a stream. If something may have to wait, all that comes tells how late it is."""
    is_said = is_signal(list(releases.policies.judging))
    signals = delayed.clocks(learnt.select(*COLUMNS), is_said) if waits else learnt.filter(is_said).select(*COLUMNS)
    rows = views.unionByName(signals, allowMissingColumns=True)
    numbered = rows.withColumn("time", F.unix_micros("time"))
    types = StructType(list(numbered.schema.fields))
    keyed = numbered.withColumn(_BUCKET, F.pmod(F.hash("node"), F.lit(BUCKETS)))
    steps = _Released(releases, numbered.columns, waits)
    made = keyed.groupBy(_BUCKET).transformWithState(steps, types, "Append", "None")
    return made.select(*(F.timestamp_micros("time").alias("time") if n == "time" else n for n in views.columns))
