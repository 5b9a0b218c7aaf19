"""The job `capsules`: context of a higher level, by windows of time, as a journal grows or as a broker sends.

What a capsule is given is the authorised view of its client, or what a broker sends to that. Windows are summed up
batch by batch: the state after a batch is a table of its own, made of the one before and of the batch, so that a batch
that is done again after a crash makes the same. A window is closed when an event has come so long after its end as the
capsule allows; that is told by when events came, never by when a batch was made: batches of any size give the same. Who
knows that nothing else comes up to a time can say so (`close`): then the last windows are closed too.
"""

import json
import shutil
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from penstock.journal.private import leave_to_operators, make_folder, make_operators_folder, write_file
from penstock.pipeline.capsules import sums as capsule_sums
from penstock.pipeline.capsules.rows import CapsuleReference, needs_order, row_types, taken
from penstock.pipeline.capsules.sequences import OUTCOMES, outcomes
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs import stream
from penstock.pipeline.jobs.govern import check_places
from penstock.pipeline.jobs.stream import OnBatch, Publish, StreamBatch
from penstock.pipeline.mqtt import source
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.spark.policies import Asker, Policies
from penstock.pipeline.stages.govern import stream_view, view
from penstock.pipeline.stages.release import check_stream
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.filters import is_on
from penstock.pipeline.tables.journal_stream import MAX_BYTES
from penstock.pipeline.tables.stream_marks import StreamLedger
from penstock.pipeline.tables.view import NOT_BEFORE, UNTIL, current
from penstock.policy.capsules.capsule import MICROSECONDS, Capsule

RESULTS, QUARANTINE, LOST = "results", "quarantine", "lost"
RESULT_KEY = ("capsule", "window", "group")
"""The columns by which results are told apart when they are published."""
STATES, _DRAFTS, _SPOOL, _CHECKPOINT = "_states", "_drafts", "_spool", "_checkpoint"
_PROGRESS, _MEMORY = "_progress.json", "_memory"


@dataclass(frozen=True)
class Running:
    """A capsule, where its events come from, and where its tables are."""

    reference: CapsuleReference
    origin: Path | BrokerAddress
    """A journal, or a broker that sends what the capsule's client may have."""
    folder: Path
    max_bytes: int = MAX_BYTES
    partitions: int = 2

    @property
    def checkpoint(self) -> Path:
        return self.folder / _CHECKPOINT


# --- a batch


def given(events: DataFrame, policies: Policies, capsule: Capsule) -> DataFrame:
    """Return the recorded events that the capsule may have and takes."""
    asker = Asker(capsule.client)
    return _had(_on_topics(view(events, policies, (asker,)), capsule))


def _had(rows: DataFrame) -> DataFrame:
    """Return rows of a view that its subject may have now; their time is when it gets them: a contract may give them
    later than they came, and what was released for a time that is over is not taken any more."""
    later = F.coalesce(F.col(NOT_BEFORE), F.col("time"))
    return current(rows).withColumn("time", later)


def process(rows: DataFrame, reference: CapsuleReference, until: int = 0) -> DataFrame:
    """Return the capsule's results, with the columns `sums.RESULTS`: for the windows of a view that are over, by the
    time of its last event or, if that is later, by `until` (µs), up to which there is nothing else.
    """
    capsule, some = reference.capsule(), taken(rows, reference, None)
    # Kept as rows, as they are asked twice: Spark's cache would make columns of them, which costs more than the sums.
    some = some.localCheckpoint() if needs_order(capsule) else some
    sums = capsule_sums.summed(some, capsule, None).localCheckpoint()
    reached = max(sums.agg(F.max("seen")).collect()[0][0] or 0, until)
    made = capsule_sums.results(sums.filter(_is_over(capsule, reached)), reference)
    if needs_order(capsule):
        made = made.unionByName(_results(outcomes(some, reference, None, reached)))
    return made


def _results(outcomes: DataFrame) -> DataFrame:
    return outcomes.filter("memory_key IS NULL").select(*capsule_sums.RESULTS.names)


def _on_topics(rows: DataFrame, capsule: Capsule) -> DataFrame:
    return rows.filter(reduce(or_, (is_on(filter, F.col("topic")) for filter in capsule.topics)))


def _is_over(capsule: Capsule, closed: int) -> Column:
    if capsule.window is None:
        return F.lit(False)
    return F.col("problem").isNull() & F.col("start").isNotNull() & ~capsule_sums.is_open(capsule, closed)


# --- a stream


def start(
    spark: SparkSession,
    running: Running,
    once: bool = False,
    every: float = 1.0,
    publish: Publish | None = None,
    on_batch: OnBatch = lambda batch: None,
) -> StreamingQuery:
    """Run a capsule: `once`, up to what is there now; else until it is stopped, looking `every` so many seconds.

    `publish` is called with the results of each batch and its number, after they are in the table; once more for the
    last ones if the process was killed. Raises `PipelineError`, `PolicyError` or `DomainError` before it is started.
    """
    capsule = running.reference.capsule()
    if isinstance(running.origin, Path):
        check_places(running.reference.policies, (Asker(capsule.client),))
        check_stream(Scope.of(running.reference.policies, (Asker(capsule.client),)))
    ledger = StreamLedger.open(running.folder, running.checkpoint, shape(running), RESULTS)
    stream.configure(spark, running.partitions)
    read = _sent if isinstance(running.origin, BrokerAddress) else _recorded
    sink = _CapsuleSink(running.reference, running.folder, publish, on_batch)
    name = f"penstock capsule {capsule.name} {ledger.token}"
    return stream.begin(read(spark, running, capsule), sink.take, running.checkpoint, name, once, every)


def close(
    spark: SparkSession,
    running: Running,
    until: float,
    publish: Publish | None = None,
    on_batch: OnBatch = lambda batch: None,
) -> None:
    """Close the windows of a capsule that has been run `once`, up to a time after which nothing else has come."""
    _CapsuleSink(running.reference, running.folder, publish, on_batch).close(spark, int(until * MICROSECONDS))


def _recorded(spark: SparkSession, running: Running, capsule: Capsule) -> DataFrame:
    assert isinstance(running.origin, Path)
    entry = running.reference.standing.domain().clients[capsule.client]
    events = stream.journal_events(spark, running.origin, running.max_bytes, running.folder / LOST, entry.node)
    scope = Scope.of(running.reference.policies, (Asker(capsule.client),))
    return _had(_on_topics(stream_view(events, scope), capsule))


def _sent(spark: SparkSession, running: Running, capsule: Capsule) -> DataFrame:
    assert isinstance(running.origin, BrokerAddress)
    source.register(spark)
    own = {"topics": ",".join(capsule.topics), "spool": str((running.folder / _SPOOL).resolve())}
    sent = spark.readStream.format(source.FORMAT).options(**running.origin.options(), **own).load()
    return sent.withColumns({"place": F.lit(0), "part": F.lit(0)})


def shape(running: Running) -> dict[str, object]:
    """Return what must not change while a state is in use: all that is done up to the windows."""
    settings = running.reference.standing.domain().capsules[running.reference.name]
    described = settings.model_dump(mode="json", include={"client", "input", "window", "operations"})
    if settings.inputs:
        described["inputs"] = {name: input.model_dump(mode="json") for name, input in settings.inputs.items()}
    return {"source": "broker" if isinstance(running.origin, BrokerAddress) else "journal", **described}


@dataclass(frozen=True)
class _CapsuleSink:
    """Takes batches, and each of them once."""

    reference: CapsuleReference
    folder: Path
    publish: Publish | None
    on_batch: OnBatch

    @property
    def _capsule(self) -> Capsule:
        return self.reference.capsule()

    def take(self, rows: DataFrame, number: int) -> None:
        state = self._place(STATES, number)
        if state.exists():  # it was killed after that: monitors must go on from the states that the batch leaves
            rows.write.format("noop").mode("overwrite").save()
        else:
            self._sum(rows, number)
        self._put_aside(rows.sparkSession, number)
        self._conclude(rows.sparkSession, number)
        made = self._place(RESULTS, number)
        count = 0
        if made.exists():
            written = rows.sparkSession.read.parquet(str(made)).filter(F.col("problem").isNull())
            count = written.count()
            if self.publish is not None and count:
                self._send(written, number)
        while (old := self._before(number)) is not None:
            shutil.rmtree(old)
        self.on_batch(StreamBatch(number, {self._capsule.name: count} if count else {}))

    def _sum(self, rows: DataFrame, number: int) -> None:
        """Return the state after a batch: windows that were open before it, and how far it is."""
        before = self._before(number)
        closed = None if before is None else _progress(before)
        some = taken(rows, self.reference, closed)
        some = some.localCheckpoint() if needs_order(self._capsule) else some
        sums = capsule_sums.summed(some, self._capsule, closed)
        if before is not None and self._capsule.window is not None:
            left = rows.sparkSession.read.schema(sums.schema).parquet(str(before))
            left = left.filter(F.col("problem").isNull() & F.col("start").isNotNull())
            left = left if closed is None else left.filter(capsule_sums.is_open(self._capsule, closed))
            sums = capsule_sums.together(left.unionByName(sums), self._capsule)
        draft = self._draft(sums, STATES, number)
        seen = pc.max(_table(draft, ["seen"])["seen"]).as_py()
        reached = max((at for at in (closed, seen) if at is not None), default=None)
        write_file(draft / _PROGRESS, json.dumps({"closed": reached}).encode())
        if needs_order(self._capsule):
            known = None if before is None else _memory(rows.sparkSession, before)
            made = outcomes(some, self.reference, known, reached or 0)
            made.write.mode("overwrite").parquet(str(draft / _MEMORY))
        self._finish(draft, STATES, number)

    def _put_aside(self, spark: SparkSession, number: int) -> None:
        state, done = self._place(STATES, number), self._place(QUARANTINE, number)
        if done.exists() or not _table(state, ["problem"], ds.field("problem").is_valid()).num_rows:
            return
        rows = spark.read.parquet(str(state)).filter(F.col("problem").isNotNull())
        kept = rows.select(F.lit(self._capsule.name).alias("capsule"), "problem", "event.*")
        micros = {name: F.timestamp_micros(name) for name in ("arrival", UNTIL)}
        kept = kept.withColumns(micros).withColumnRenamed("arrival", "time")
        self._finish(self._draft(kept, QUARANTINE, number), QUARANTINE, number)

    def _conclude(self, spark: SparkSession, number: int) -> None:
        """Return the results of the windows that the batch has closed."""
        state = self._place(STATES, number)
        closed = _progress(state)
        if closed is None or self._place(RESULTS, number).exists():
            return
        made = self._closed(spark, state, closed)
        if made is not None:
            self._finish(self._draft(made, RESULTS, number), RESULTS, number)

    def _closed(self, spark: SparkSession, state: Path, closed: int, before: int | None = None) -> DataFrame | None:
        """Return the results in a state of what is over by a time, and was not before; None if there are none."""
        made, window = [], self._capsule.window
        if window is not None:
            last = closed - window.length - window.lateness
            is_over = ds.field("start").is_valid() & (ds.field("start") <= last) & ds.field("problem").is_null()
            if _table(state, ["start"], is_over).num_rows:
                over = spark.read.parquet(str(state)).filter(_is_over(self._capsule, closed))
                over = over if before is None else over.filter(capsule_sums.is_open(self._capsule, before))
                made.append(capsule_sums.results(over, self.reference))
        if needs_order(self._capsule):
            memory = _memory(spark, state)
            if before is not None:
                made.append(_results(outcomes(self._nothing(spark), self.reference, memory, closed)))
            elif _table(state / _MEMORY, ["memory_key"], ds.field("memory_key").is_null()).num_rows:
                made.append(_results(memory))
        if not made:
            return None
        current = F.col(UNTIL).isNull() | (F.col(UNTIL) > F.current_timestamp())
        return reduce(DataFrame.unionByName, made).filter(current)

    def _nothing(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([], from_arrow_schema(row_types(self._capsule)))

    def close(self, spark: SparkSession, until: int) -> None:
        """Make the results of what is over by a time, up to which nothing else comes, and remember that."""
        last = self._before(None)
        closed = None if last is None else _progress(last)
        if last is None or closed is None or until <= closed:
            return
        number = _number(last)[0]
        made = self._closed(spark, last, until, closed)
        if made is not None:
            draft, table = self._draft(made.coalesce(1), RESULTS, number), self._place(RESULTS, number)
            make_folder(table)
            for part in draft.glob("*.parquet"):  # one; killed before it is remembered, it is made again
                part.rename(table / f"after-{closed}.parquet")
            written = spark.read.parquet(str(table / f"after-{closed}.parquet")).filter(F.col("problem").isNull())
            self._send(written, number)
            self.on_batch(StreamBatch(number, {self._capsule.name: written.count()}))
        draft = self.folder / _DRAFTS / f"{STATES}-{number}"
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(last, draft)
        if needs_order(self._capsule):
            memory = outcomes(self._nothing(spark), self.reference, _memory(spark, last), until)
            memory.filter("memory_key IS NOT NULL").write.mode("overwrite").parquet(str(draft / _MEMORY))
        write_file(draft / _PROGRESS, json.dumps({"closed": until}).encode())
        draft.rename(self.folder / STATES / f"{self._place(STATES, number).name}.{until}")

    def _send(self, written: DataFrame, number: int) -> None:
        if self.publish is not None:
            window = F.concat_ws(" ", F.unix_micros("start").cast("string"), "place")
            self.publish(written.withColumns({"time": F.col("end"), "window": window}), number)

    def _before(self, number: int | None) -> Path | None:
        """Return the state that a batch goes on from; None: the next one."""
        states = self.folder / STATES
        every = list(states.iterdir()) if states.is_dir() else []
        earlier = [state for state in every if number is None or _number(state)[0] < number]
        return max(earlier, key=_number, default=None)

    def _place(self, table: str, number: int) -> Path:
        return self.folder / table / f"batch={number:09d}"

    def _draft(self, rows: DataFrame, table: str, number: int) -> Path:
        draft = make_operators_folder(self.folder / _DRAFTS) / f"{table}-{number}"
        rows.write.mode("overwrite").parquet(str(draft))
        return draft

    def _finish(self, draft: Path, table: str, number: int) -> None:
        """Make what is written part of the table, in one step."""
        done = self._place(table, number)
        if table == QUARANTINE:
            make_operators_folder(done.parent)
            leave_to_operators(draft)
        else:
            make_folder(done.parent)
        draft.rename(done)


def _number(folder: Path) -> tuple[int, int]:
    """Return the number of a batch, and up to when what it left open was closed later; 0: it was not."""
    number, _, until = folder.name.removeprefix("batch=").partition(".")
    return int(number), int(until or 0)


def _memory(spark: SparkSession, state: Path) -> DataFrame:
    return spark.read.schema(from_arrow_schema(OUTCOMES)).parquet(str(state / _MEMORY))


def _progress(state: Path) -> int | None:
    """Up to when events have come, in microseconds."""
    closed: int | None = json.loads((state / _PROGRESS).read_text())["closed"]
    return closed


def _table(folder: Path, columns: list[str], filter: ds.Expression | None = None) -> pa.Table:
    try:
        return ds.dataset(folder, format="parquet").to_table(columns=columns, filter=filter)
    except OSError as error:
        raise PipelineError(f"`{folder}` cannot be read: {error}") from error
