"""Steps that remember: rows in the order of their link, edge node or node, over a table or over a stream.

Over a table, Spark brings the rows of a key together and sorts them, and the steps begin with nothing. Over a stream,
Spark keeps what the steps remember from batch to batch. Its cost there is by key, so keys are put into buckets: a
bucket has one value for each variable, under a version, with what is remembered of all its keys.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import StructType

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.state.rows import MICROSECONDS, Fields, stepping
from penstock.pipeline.tables.executor import F

BUCKETS = 32
_BUCKET = "bucket"
_ORDER = ("arrival", "place", "part", "subject")


class StateVariable(NamedTuple):
    """A value that Spark keeps for a bucket. Names and version are part of a checkpoint."""

    name: str
    field: str
    version: int

    def read(self, value: tuple[Any, ...]) -> bytes:
        """Return what a value holds; raises `PipelineError` for one of another version."""
        version, data = value
        if version != self.version:
            raise PipelineError(
                f"the checkpoint has states of version {version}, not {self.version}: begin a new stream"
            )
        return bytes(data)

    def write(self, data: bytes) -> tuple[int, bytes]:
        """Return the value that holds something."""
        return self.version, data


Kept = Mapping[str, bytes]
"""What is kept for a bucket, by the name of the variable; a new bucket has nothing."""


class Steps(Protocol):
    """Goes from row to row, and remembers."""

    def step(self, row: Fields) -> Iterable[Fields]:
        """Return the rows that a row becomes: of each, the columns that change."""

    def keep(self) -> Kept:
        """Return what the rows of the next batch must know."""


Make = Callable[[Kept | None], Steps]
"""Makes steps that go on from what was kept; None: over a table, where nothing is kept."""


def in_order(
    rows: DataFrame, key: tuple[str, ...], make: Make, variables: tuple[StateVariable, ...], is_stream: bool
) -> DataFrame:
    """Return what becomes of rows that go through steps in the order of each key."""
    if is_stream:
        return _bucketed(rows, key, make, variables)
    order = (*key, *(name for name in _ORDER if name in rows.columns and name not in key))
    ordered = rows.repartition(*key).sortWithinPartitions(*order)
    return ordered.mapInArrow(stepping(lambda: make(None).step), ordered.schema)


def _bucketed(rows: DataFrame, key: tuple[str, ...], make: Make, variables: tuple[StateVariable, ...]) -> DataFrame:
    # Times as numbers: Python's own are slow to make, and of another zone.
    numbered = rows.withColumn("time", F.unix_micros("time"))
    types = StructType(list(numbered.schema.fields))
    keyed = numbered.withColumn(_BUCKET, F.pmod(F.hash(*key), F.lit(BUCKETS)))
    processor = _Processor(key, make, variables, numbered.columns)
    made = keyed.groupBy(_BUCKET).transformWithState(processor, types, "Append", "None")
    return made.withColumn("time", F.timestamp_micros("time"))


@dataclass(eq=False)
class _Processor(StatefulProcessor):
    """The rows of a bucket, in the order of each key."""

    key: tuple[str, ...]
    make: Make
    variables: tuple[StateVariable, ...]
    columns: list[str]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._states = {
            variable: handle.getValueState(variable.name, f"version int, {variable.field} binary")
            for variable in self.variables
        }

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        states = self._states.items()
        values = ((variable, state.get() if state.exists() else None) for variable, state in states)
        steps = self.make({variable.name: variable.read(value) for variable, value in values if value is not None})
        for row in sorted((row.asDict() for row in rows), key=self._place):
            row["time"] /= MICROSECONDS
            for changes in steps.step(row):
                yield self._row({**row, **changes})
        made = steps.keep()
        for variable, state in states:
            state.update(variable.write(made[variable.name]))

    def _place(self, row: Fields) -> tuple[object, ...]:
        """Return where a row comes. One without a part or a subject is for the steps to learn from, and comes first."""
        part = row.get("part")
        key = (row[name] for name in self.key)
        return *key, row["arrival"], row["place"], -1 if part is None else part, row.get("subject") or ""

    def _row(self, row: Fields) -> Row:
        row["time"] = round(row["time"] * MICROSECONDS)
        return Row(**{name: row[name] for name in self.columns})
