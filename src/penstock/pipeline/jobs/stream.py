"""The job `stream`: authorised views as a journal grows, exactly once into tables, and out again by MQTT.

The stages are those of `stages/govern.py`. What they remember is kept by Spark (`state/buckets.py`).

A batch becomes the folder `view/batch=N` in one step, when all of it is written: whoever reads the table sees a batch
as a whole or not at all, and one that is done again after a crash is there already.
"""

import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.journal.private import make_folder
from penstock.pipeline.jobs.govern import QUARANTINE, VIEW, check_places
from penstock.pipeline.spark.policies import Asker, Policies, following
from penstock.pipeline.stages.govern import stream_view
from penstock.pipeline.stages.release import check_stream, holds_back
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.journal_stream import FORMAT, MAX_BYTES, JournalSource
from penstock.pipeline.tables.stream_marks import StreamLedger
from penstock.pipeline.tables.tables import EVENT_TYPES
from penstock.pipeline.tables.view import EVENT, current

_DRAFTS = "_drafts"
_PARTITIONS = 4

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch without rows would only be written and thrown away.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
"""Of a session that streams."""


@dataclass(frozen=True)
class StreamBatch:
    """What a batch gave: how many events for whom."""

    number: int
    counts: dict[str, int]


Publish = Callable[[DataFrame, int], None]
"""Takes the rows of a batch and its number."""
OnBatch = Callable[[StreamBatch], None]


@dataclass(frozen=True)
class Stream:
    """What to stream, from where to where."""

    journal: Path
    domain: Path
    folder: Path
    checkpoint: Path
    askers: tuple[Asker, ...]
    nodes: frozenset[str] | None = None
    max_bytes: int = MAX_BYTES
    """Of files, for one batch."""
    partitions: int = _PARTITIONS
    """Of the operators with state. A stream keeps to what it began with."""

    @property
    def policies(self) -> Policies:
        return following(self.domain, self.journal)


def start(
    spark: SparkSession,
    stream: Stream,
    once: bool = False,
    every: float = 1.0,
    publish: Publish | None = None,
    on_batch: OnBatch = lambda batch: None,
) -> StreamingQuery:
    """Start streaming: `once`, up to what is sealed now; else until it is stopped, looking `every` so many seconds.

    `publish` is called with each batch and its number, after it is in the table; once more for the last one if the
    process was killed. Raises `PipelineError` or `DomainError` before anything is started.
    """
    policies = stream.policies
    check_places(policies, stream.askers)
    scope = Scope.of(policies, stream.askers)
    check_stream(scope)
    ledger = StreamLedger.open(stream.folder, stream.checkpoint, _shape(scope))
    configure(spark, stream.partitions)
    quarantine = stream.folder / QUARANTINE
    rows = stream_view(journal_events(spark, stream.journal, stream.max_bytes, quarantine, stream.nodes), scope)
    sink = _ViewSink(stream.folder, publish, on_batch)
    return begin(rows, sink.take, stream.checkpoint, f"penstock stream {ledger.token}", once, every)


def configure(spark: SparkSession, partitions: int) -> None:
    """Set what a session needs that streams; `partitions` are those of the operators with state."""
    for key, value in {**SETTINGS, "spark.sql.shuffle.partitions": str(partitions)}.items():
        spark.conf.set(key, value)


def journal_events(
    spark: SparkSession, journal: Path, max_bytes: int, quarantine: Path, nodes: Collection[str] | None
) -> DataFrame:
    """Return the events of a journal as a stream, of some nodes or of all; what cannot be read goes to quarantine."""
    spark.dataSource.register(JournalSource)
    types = StructType([field for field in EVENT_TYPES.fields if field.name in EVENT])
    source = spark.readStream.format(FORMAT).schema(types).option("max_bytes", str(max_bytes))
    source = source.option("quarantine", str(quarantine.resolve()))
    if nodes is not None:
        source = source.option("nodes", ",".join(sorted(nodes)))
    return source.load(str(journal.resolve()))


def begin(
    rows: DataFrame, take: Callable[[DataFrame, int], None], checkpoint: Path, name: str, once: bool, every: float
) -> StreamingQuery:
    """Start a query that takes batches: `once`, up to what is there now; else `every` so many seconds."""
    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint.resolve())).queryName(name)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every} seconds")).start()


def _shape(scope: Scope) -> dict[str, object]:
    """Return what must not change while a checkpoint is in use: the stream's operators, and its subjects."""
    return {
        "subjects": sorted(asker.label for asker in scope.askers),
        "monitors on links into nodes": scope.may_run_monitors,
        "access policies": scope.has_access,
        "situations": scope.has_situations,
        "rules that give events later, or means": holds_back(scope),
        "monitors on links to subjects, or nodes in a cycle": scope.has_monitors_out or scope.is_cyclic,
    }


@dataclass(frozen=True)
class _ViewSink:
    """Takes batches, and each of them once."""

    folder: Path
    publish: Publish | None
    on_batch: OnBatch

    def take(self, rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        done = self.folder / VIEW / f"batch={number:09d}"
        if not done.exists():
            draft = self.folder / _DRAFTS / str(number)
            dated = current(rows).withColumn("date", F.date_format("time", "yyyy-MM-dd"))
            dated.write.mode("overwrite").partitionBy("subject", "date").parquet(str(draft))
            if not any(path.name.startswith("subject=") for path in draft.iterdir()):
                shutil.rmtree(draft)
                self.on_batch(StreamBatch(number, {}))
                return
            make_folder(done.parent)
            draft.rename(done)
        else:  # it was killed after that: monitors must go on from the states that the batch leaves
            rows.write.format("noop").mode("overwrite").save()
        written = spark.read.parquet(str(done))
        if self.publish is not None:
            self.publish(written, number)
        counts = {row["subject"]: row["count"] for row in written.groupBy("subject").count().collect()}
        self.on_batch(StreamBatch(number, counts))
