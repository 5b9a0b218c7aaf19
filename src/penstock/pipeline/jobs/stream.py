"""The job `stream`: authorised views as a journal grows, exactly once into tables, and out again by MQTT.

The stages are those of `govern.py`. Two differ, for a stream cannot know what comes: monitors on links into nodes are
run in any case, where the domain has any, and what monitors remember is kept by Spark (`state.py`).

A batch becomes the folder `view/batch=N` in one step, when all of it is written: whoever reads the table sees a batch
as a whole or not at all, and one that is done again after a crash is there already.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.journal.read.events import ARRIVAL, RETAINED
from penstock.pipeline.jobs.govern import QUARANTINE, VIEW, check_places
from penstock.pipeline.spark.policies import Asker, Policies, following
from penstock.pipeline.stages import conform, decide, govern, release
from penstock.pipeline.stages.govern import EVENT, SIDES, Governing, Side
from penstock.pipeline.stages.judge import Judges, judged, with_ways
from penstock.pipeline.stages.release import Releases
from penstock.pipeline.state import edge_nodes, monitors, situations
from penstock.pipeline.tables.journal_stream import FORMAT, MOST_BYTES, JournalSource
from penstock.pipeline.tables.stream_marks import Ledger
from penstock.pipeline.tables.tables import EVENT_TYPES

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
class Batch:
    """What a batch gave: how many events for whom."""

    number: int
    counts: dict[str, int]


@dataclass(frozen=True)
class Stream:
    """What to stream, from where to where."""

    journal: Path
    domain: Path
    folder: Path
    checkpoint: Path
    askers: tuple[Asker, ...]
    nodes: frozenset[str] | None = None
    most_bytes: int = MOST_BYTES
    """Of files, for one batch."""
    partitions: int = _PARTITIONS
    """Of the operators with state. A stream keeps to what it began with."""

    @property
    def policies(self) -> Policies:
        return following(self.domain, self.journal)


def view(events: DataFrame, governing: Governing) -> DataFrame:
    """The authorised views of a stream of events, with the columns `govern.VIEW`."""
    came = events.filter(F.col("kind") != RETAINED)
    rows = decide.decide_by_batch(came.select(*EVENT), governing.policies, governing.askers)
    rows = rows.withColumn("passes", F.lit(True)).withColumn("part", F.lit(0))
    rows = govern.goes(govern.enters(rows, governing, STREAM_SIDES), governing, STREAM_SIDES)
    return rows.withColumn("seq", F.col("arrival")).select(*govern.VIEW)


def _prune(rows: DataFrame, governing: Governing) -> DataFrame:
    return edge_nodes.pruned(rows, governing.policies) if governing.has_access else rows


def _project(views: DataFrame, learnt: DataFrame, governing: Governing) -> DataFrame:
    if not governing.has_access:
        return views
    return edge_nodes.projected(views, learnt, governing.policies, governing.askers)


def _edit(rows: DataFrame, governing: Governing) -> DataFrame:
    if not governing.may_run:
        return govern.SIDES["edit"].on_rows(rows, governing)  # type: ignore[misc]
    arrivals = rows.filter((F.col("kind") == ARRIVAL) & F.col("passes")).select(*EVENT, "policy", "source")
    ran = monitors.edited(arrivals, governing.policies)
    if governing.has_contracts:
        ran = conform.made(ran, governing.policies)
    ran = ran.select(*EVENT)
    again = decide.decide_by_batch(ran, governing.policies, governing.askers)
    return again.withColumn("passes", F.lit(True)).withColumn("part", F.lit(0))


def _judge(rows: DataFrame, governing: Governing) -> DataFrame:
    """Not in two tables as in a batch: each would have all rows decided about."""
    if not governing.judges:
        return rows
    judges = Judges(governing.policies, governing.askers, has_contracts=governing.has_contracts)
    return judged(with_ways(rows) if governing.is_cyclic else rows, judges).drop("is_judged", "asks")


def _release(views: DataFrame, learnt: DataFrame, governing: Governing) -> DataFrame:
    """As in a batch, in one table; what is open is kept by Spark, for each node."""
    views = release.with_times(views)
    if not governing.has_contracts:
        return views
    waits = _waits(governing)
    releases = Releases(governing.policies, governing.askers, waits=waits)
    asked = views.withColumn(release.CONCERNED, release.is_concerned(governing.policies))
    if waits or governing.has_situations:
        made = situations.released(asked, learnt, releases, waits)
    else:
        made = release.released(asked, releases)
    return made.drop(release.CONCERNED, "release_asks")


_OUT = tuple(
    dict.fromkeys(
        (
            *(name for name in govern.VIEW if name not in (release.NOT_BEFORE, release.UNTIL)),
            *("arrival", "policy", "revision", "client_id", "user", "link_type_now", "path", "id"),
        )
    )
)


def _emit(rows: DataFrame, governing: Governing) -> DataFrame:
    if not governing.watches and not governing.is_cyclic:
        return rows.filter(F.col("wanted"))
    if not (governing.judges and governing.is_cyclic):
        rows = with_ways(rows)
    asks = ("release_asks",) if governing.has_contracts else ()
    seen = rows.select(*_OUT, *asks, "wanted", "said", "blocked")
    return monitors.emitted(seen, governing.policies, governing.askers, governing.is_cyclic)


STREAM_SIDES: dict[str, Side] = {
    **SIDES,
    "prune": SIDES["prune"]._replace(on_rows=_prune),
    "project": SIDES["project"]._replace(on_views=_project),
    "edit": SIDES["edit"]._replace(on_rows=_edit),
    "judge": SIDES["judge"]._replace(on_rows=_judge),
    "release": SIDES["release"]._replace(on_views=_release),
    "emit": SIDES["emit"]._replace(on_rows=_emit),
}
"""The stages' sides on a stream."""


def start(
    spark: SparkSession,
    stream: Stream,
    once: bool = False,
    every: float = 1.0,
    publish: Callable[[DataFrame, int], None] | None = None,
    tell: Callable[[Batch], None] = lambda batch: None,
) -> StreamingQuery:
    """Start streaming: `once`, up to what is sealed now; else until it is stopped, looking `every` so many seconds.

    `publish` is called with each batch and its number, after it is in the table; once more for the last one if the
    process was killed. Raises `PipelineError` or `DomainError` before anything is started.
    """
    policies = stream.policies
    check_places(policies, stream.askers)
    governing = Governing.of(policies, stream.askers)
    check(governing)
    ledger = Ledger.open(stream.folder, stream.checkpoint, _shape(governing))
    for key, value in {**SETTINGS, "spark.sql.shuffle.partitions": str(stream.partitions)}.items():
        spark.conf.set(key, value)
    spark.dataSource.register(JournalSource)
    source = (
        spark.readStream.format(FORMAT)
        .schema(StructType([field for field in EVENT_TYPES.fields if field.name in EVENT]))
        .option("max_bytes", str(stream.most_bytes))
        .option("quarantine", str((stream.folder / QUARANTINE).resolve()))
    )
    if stream.nodes is not None:
        source = source.option("nodes", ",".join(sorted(stream.nodes)))
    rows = view(source.load(str(stream.journal.resolve())), governing)
    sink = _Sink(stream, publish, tell)
    writer = rows.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(stream.checkpoint.resolve()))
    writer = writer.queryName(f"penstock stream {ledger.token}")
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every} seconds")).start()


def check(governing: Governing) -> None:
    """Raises `PipelineError` for what a stream cannot follow."""
    if governing.has_access:  # what they do goes by the order of an edge node's events
        release.check_stream(governing.policies)


def _waits(governing: Governing) -> bool:
    """Whether the stream holds back what contracts give later, and collects means."""
    return governing.has_contracts and not governing.has_access and release.may_wait(governing.policies)


def _shape(governing: Governing) -> dict[str, object]:
    """What must stay as it is for a checkpoint to be of use: a stream's operators, and for whom it is."""
    return {
        "subjects": sorted(asker.label for asker in governing.askers),
        "monitors on links into nodes": governing.may_run,
        "access policies": governing.has_access,
        "situations": governing.has_situations,
        "rules that give events later, or means": _waits(governing),
        "monitors on links to subjects, or nodes in a cycle": governing.watches or governing.is_cyclic,
    }


class _Sink:
    """Takes batches, and each of them once."""

    def __init__(
        self,
        stream: Stream,
        publish: Callable[[DataFrame, int], None] | None,
        tell: Callable[[Batch], None],
    ) -> None:
        self._folder = stream.folder
        self._publish = publish
        self._tell = tell

    def take(self, rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        done = self._folder / VIEW / f"batch={number:09d}"
        if not done.exists():
            draft = self._folder / _DRAFTS / str(number)
            dated = release.current(rows).withColumn("date", F.date_format("time", "yyyy-MM-dd"))
            dated.write.mode("overwrite").partitionBy("subject", "date").parquet(str(draft))
            if not any(path.name.startswith("subject=") for path in draft.iterdir()):
                shutil.rmtree(draft)
                self._tell(Batch(number, {}))
                return
            done.parent.mkdir(parents=True, exist_ok=True)
            draft.rename(done)
        else:  # it was killed after that: monitors must go on from the states that the batch leaves
            rows.write.format("noop").mode("overwrite").save()
        written = spark.read.parquet(str(done))
        if self._publish is not None:
            self._publish(written, number)
        counts = {row["subject"]: row["count"] for row in written.groupBy("subject").count().collect()}
        self._tell(Batch(number, counts))
