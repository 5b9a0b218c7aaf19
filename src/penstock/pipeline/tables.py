"""The journal as tables of Spark: events, and what of it cannot be read; and the tables that jobs write."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.journal.events import EVENTS, QUARANTINE, read_segment
from penstock.journal.read import parts
from penstock.pipeline.errors import PipelineError

EVENT_TYPES = from_arrow_schema(EVENTS)
QUARANTINE_TYPES = from_arrow_schema(QUARANTINE)
_BATCH_ROWS = 20_000

Days = tuple[date, date]


def events(
    spark: SparkSession, journal: Path, nodes: frozenset[str] | None = None, days: Days | None = None
) -> DataFrame:
    """The events of a journal; of some nodes only, or of some days, both included: other files are not opened."""
    return _segments(spark, _paths(journal, nodes, days), EVENT_TYPES, lambda path: read_segment(path)[0])


def quarantine(
    spark: SparkSession, journal: Path, nodes: frozenset[str] | None = None, days: Days | None = None
) -> DataFrame:
    """What of a journal cannot be read, or is not there, and why."""
    return _segments(spark, _paths(journal, nodes, days), QUARANTINE_TYPES, lambda path: read_segment(path)[1])


def _paths(journal: Path, nodes: frozenset[str] | None, days: Days | None) -> list[str]:
    if not journal.is_dir():
        raise PipelineError(f"there is no journal in `{journal}`")
    return [str(part.path.resolve()) for part in parts(journal, nodes, days)]


def _segments(spark: SparkSession, paths: list[str], types: object, read: Callable[[Path], pa.Table]) -> DataFrame:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from read(Path(path)).to_batches(max_chunksize=_BATCH_ROWS)

    # Neighbouring files go together, in few tasks: each task has a Python process to wait for.
    named = spark.createDataFrame([(path,) for path in paths], "path string")
    tasks = min(len(paths), _tasks(spark))
    if tasks > 1:
        named = named.repartitionByRange(tasks, "path")
    return named.mapInArrow(work, types)  # type: ignore[arg-type]


def _tasks(spark: SparkSession) -> int:
    """How many tasks are worth while: some for each core, so that none waits for one that is slow."""
    return 4 * int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or _cores(spark))


def _cores(spark: SparkSession) -> int:
    try:
        return spark.sparkContext.defaultParallelism
    except PySparkException:  # a Connect session does not say
        return 16


def write_view(view: DataFrame, folder: Path) -> None:
    """Write views as Parquet, partitioned by subject and date, in place of what is there."""
    dated = view.withColumn("date", F.date_format("time", "yyyy-MM-dd"))
    dated.write.mode("overwrite").partitionBy("subject", "date").parquet(str(folder))
