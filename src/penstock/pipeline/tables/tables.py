"""The journal as tables of Spark: events, and what of it cannot be read; and the tables that jobs write."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from penstock.journal.listing import Part, parts
from penstock.journal.read.events import EVENTS, QUARANTINE, read_segment
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.tables.constant_columns import alike, with_values

EVENT_TYPES = from_arrow_schema(EVENTS)
QUARANTINE_TYPES = from_arrow_schema(QUARANTINE)
_BATCH_ROWS = 20_000
_ROW_GROUP = 32 * 2**20
"""Bytes of one part of a file: a task has one in memory for each file that it writes at a time."""
_CONTENT = "content_"
_NO_CONTENT = frozenset({"content_type"})

Days = tuple[date, date]


def events(
    spark: SparkSession, journal: Path, nodes: frozenset[str] | None = None, days: Days | None = None
) -> DataFrame:
    """Return the events of a journal; of some nodes only, or of some days, both included: other files are not opened.

    Compacted files are read by Spark itself; segments in Arrow batches. A column of typed content is there if it means
    the same in all compacted files; it is NULL where the payload has to be asked.
    """
    journal_parts = _parts(journal, nodes, days)
    segments = [part.path for part in journal_parts if part.last is None]
    compacted = [part.path for part in journal_parts if part.last is not None]
    if compacted:
        files = [pq.read_metadata(path) for path in compacted]
        types = StructType([*EVENT_TYPES.fields, *_typed(files)])
        settled = spark.read.schema(types).parquet(*(str(path) for path in compacted))
        settled = with_values(settled, alike(files, EVENT_TYPES))
        if not segments:
            return settled
    fresh = _segments(spark, segments, EVENT_TYPES, lambda path: read_segment(path).events)
    return settled.unionByName(fresh, allowMissingColumns=True) if compacted else fresh


def quarantine(
    spark: SparkSession, journal: Path, nodes: frozenset[str] | None = None, days: Days | None = None
) -> DataFrame:
    """Return the parts of a journal that cannot be read, or are missing, and why."""
    journal_parts = _parts(journal, nodes, days)
    segments = [part.path for part in journal_parts if part.last is None]
    fresh = _segments(spark, segments, QUARANTINE_TYPES, lambda path: read_segment(path).lost)
    settled = [str(part.quarantine) for part in journal_parts if part.last is not None and part.has_quarantine]
    return fresh.unionByName(spark.read.schema(QUARANTINE_TYPES).parquet(*settled)) if settled else fresh


def typed_columns_of(events: DataFrame) -> tuple[str, ...]:
    """Return the columns of typed content that a table of events has."""
    return tuple(name for name in events.columns if _is_typed(name))


def _typed(files: list[pq.FileMetaData]) -> list[StructField]:
    """Return the columns of typed content of compacted files, unless they differ."""
    schemas = [[field for field in file.schema.to_arrow_schema() if _is_typed(field.name)] for file in files]
    if any(schema != schemas[0] for schema in schemas):
        return []
    return list(from_arrow_schema(pa.schema(schemas[0])).fields)


def _is_typed(name: str) -> bool:
    return name.startswith(_CONTENT) and name not in _NO_CONTENT


def _parts(journal: Path, nodes: frozenset[str] | None, days: Days | None) -> list[Part]:
    if not journal.is_dir():
        raise PipelineError(f"there is no journal in `{journal}`")
    return [part._replace(path=part.path.resolve()) for part in parts(journal, nodes, days)]


def _segments(spark: SparkSession, paths: list[Path], types: StructType, read: Callable[[Path], pa.Table]) -> DataFrame:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                try:
                    yield from read(Path(path)).to_batches(max_chunksize=_BATCH_ROWS)
                except FileNotFoundError:
                    raise PipelineError(f"segment `{path}` was sealed or compacted meanwhile: start again") from None

    # Neighbouring files go together, in few tasks: each task has a Python process to wait for.
    named = spark.createDataFrame([(str(path),) for path in paths], "path string")
    tasks = min(len(paths), _tasks(spark))
    if tasks > 1:
        named = named.repartitionByRange(tasks, "path")
    return named.mapInArrow(work, types)


def _tasks(spark: SparkSession) -> int:
    """Return how many tasks are worth while: some for each core, so that none waits for one that is slow."""
    return 4 * int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or _cores(spark))


def _cores(spark: SparkSession) -> int:
    try:
        return spark.sparkContext.defaultParallelism
    except PySparkException:  # a Connect session does not say
        return 16


def write_view(view: DataFrame, folder: Path) -> None:
    """Write views as Parquet, partitioned by subject and date, in place of what is there."""
    dated = view.withColumn("date", F.to_date("time").cast("string"))
    written = dated.write.mode("overwrite").partitionBy("subject", "date").option("parquet.block.size", _ROW_GROUP)
    written.parquet(str(folder))
