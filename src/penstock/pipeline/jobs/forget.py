"""The job `forget`: rows that were released for a time are deleted from tables when it is over.

Each file that has such rows is written again without them, and takes the place of the old one in one step. So whoever
reads sees either, and a job that was killed is started again. A file stays even if nothing is left in it: a stream
knows by its batches what it has done.
"""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.capsules import RESULTS, STATES
from penstock.pipeline.jobs.govern import METRICS, QUARANTINE, VIEW
from penstock.pipeline.tables.view import UNTIL

_TYPES = "path string, kept bigint, gone bigint"
_DRAFT = "_forgetting-"
"""Before the names of files that are not complete yet: readers do not look at these."""
_SUBJECT = "subject="


class Forgotten(NamedTuple):
    """What was deleted from a table: rows by subject, or capsule; and how many are left."""

    table: str
    counts: dict[str, int]
    left: int


def forget(spark: SparkSession, folder: Path, now: datetime | None = None) -> tuple[Forgotten, ...]:
    """Delete from the tables in a folder what is to be deleted by now; raises `PipelineError`."""
    tables = [name for name in (VIEW, METRICS) if (folder / name).is_dir()]
    capsules = sorted(folder.glob(f"*/{STATES}")) if folder.is_dir() else ()
    kept = [table.parent / name for table in capsules for name in (RESULTS, QUARANTINE)]
    made = [str(table.relative_to(folder)) for table in kept if table.is_dir()]
    if not tables and not capsules:
        made_by = "`govern`, `stream` or `capsules`"
        raise PipelineError(f"there are no tables in `{folder}`: expected what {made_by} has written")
    at = datetime.now(UTC) if now is None else now
    return tuple(_forget(spark, folder.resolve(), name, at) for name in (*tables, *made))


def _forget(spark: SparkSession, folder: Path, name: str, now: datetime) -> Forgotten:
    table = folder / name

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [(path, *rewrite(Path(path), now)) for path in batch.column("path").to_pylist()]
            columns = zip(*rows, strict=True) if rows else ((), (), ())
            types = (pa.string(), pa.int64(), pa.int64())
            arrays = [pa.array(list(values), type) for values, type in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["path", "kept", "gone"])

    paths = [(str(path),) for path in _files(table)]
    named = spark.createDataFrame(paths, "path string").repartition(max(1, min(len(paths), 64)))
    counts: dict[str, int] = {}
    left = 0
    for row in named.mapInArrow(work, _TYPES).collect():
        left += row.kept
        if row.gone:
            subject = _subject(Path(row.path)) or table.parent.name
            counts[subject] = counts.get(subject, 0) + row.gone
    return Forgotten(name, dict(sorted(counts.items())), left)


def _files(table: Path) -> Iterator[Path]:
    """Return the files of a table that readers look at; drafts that a killed job has left are removed."""
    for path in sorted(table.rglob("*.parquet")):
        if path.name.startswith(_DRAFT):
            path.unlink(missing_ok=True)
        elif not any(part.startswith(("_", ".")) for part in path.relative_to(table).parts):
            yield path


def _subject(path: Path) -> str:
    return unquote(next((part.removeprefix(_SUBJECT) for part in path.parts if part.startswith(_SUBJECT)), ""))


def rewrite(path: Path, now: datetime) -> tuple[int, int]:
    """Write a file again without the rows that are to be deleted by now; how many are left, and how many were."""
    with pq.ParquetFile(path) as file:
        rows, schema = file.metadata.num_rows, _plain(file.schema_arrow)
        if UNTIL not in schema.names:
            return rows, 0
        end = pa.scalar(now, pa.timestamp("us", "UTC"))
        until = file.read(columns=[UNTIL])[UNTIL].cast(end.type, safe=False)
        gone = pc.sum(pc.less_equal(until, end)).as_py() or 0
        if not gone:
            return rows, 0
        draft = path.with_name(_DRAFT + path.name)
        with pq.ParquetWriter(draft, schema) as writer:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group).cast(schema, safe=False)
                over = pc.fill_null(pc.less_equal(table[UNTIL], end), False)
                writer.write_table(table.filter(pc.invert(over)))
    # Spark checks a file against its sum, if there is one: that of the old must not meet the new.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    shutil.copymode(path, draft)
    os.replace(draft, path)
    return rows - gone, gone


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a table with times as Spark reads them: in microseconds, where Arrow may have finer ones."""
    for at, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            schema = schema.set(at, field.with_type(pa.timestamp("us", "UTC")))
    return schema
