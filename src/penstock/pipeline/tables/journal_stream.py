"""A journal as a stream: `spark.readStream.format("penstock-journal").load(FOLDER)`, sealed segments as they come.

How far a reader is, is for each node the number of the next row; so it does not matter if files are compacted on the
way. The segment that is being written is left alone until it is sealed. What cannot be read is written beside, to the
folder that the option `quarantine` names: each time the same file for the same part of the journal.
"""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.journal.format import DRAFT
from penstock.journal.listing import Part, parts
from penstock.journal.private import leave_to_operators, make_operators_folder
from penstock.journal.read.events import QUARANTINE
from penstock.journal.read.tables import read_part
from penstock.journal.write.recover import read_intact
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.tables.tables import EVENT_TYPES

FORMAT = "penstock-journal"
MAX_BYTES = 64 * 2**20
"""Of files, for one batch; a file that is larger is a batch by itself."""
_TASK_BYTES = 8 * 2**20
_BATCH_ROWS = 20_000
_ATTEMPTS = 5

Offset = dict[str, int]
"""For each node, the number of the next row."""


class JournalSource(DataSource):
    """Options: `path`, the journal; `nodes`, with commas between; `max_bytes` for a batch; `quarantine`, a folder."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return EVENT_TYPES

    def streamReader(self, schema: StructType) -> "JournalReader":
        return JournalReader(schema, self.options)


class JournalSpan(NamedTuple):
    """Rows of one node: from `start` to before `end`, which are in this file, if it has not been compacted."""

    node: str
    start: int
    end: int
    part: Part


class Spans(InputPartition):
    """What one task reads."""

    def __init__(self, spans: tuple[JournalSpan, ...]) -> None:
        self.spans = spans


class JournalReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds what is new, and reads it."""

    def __init__(self, schema: StructType, options: Any) -> None:
        path = options.get("path")
        if not path:
            raise PipelineError(f"`{FORMAT}` needs the folder of a journal")
        self._folder = Path(path)
        self._columns = schema.names
        self._nodes = frozenset(options["nodes"].split(",")) if options.get("nodes") else None
        self._limit = int(options.get("max_bytes") or MAX_BYTES)
        self._quarantine = Path(options["quarantine"]) if options.get("quarantine") else None
        self._target: Offset | None = None

    # --- how far it is

    def initialOffset(self) -> Offset:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest({}, None)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self._latest(start, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)

    def reportLatestOffset(self) -> Offset | None:
        return self._latest({}, None)

    def _latest(self, start: Offset, max_bytes: int | None) -> Offset:
        """Return how far a batch goes: one file of each node after the other in turn, so that none is left behind."""
        waiting = {node: iter(some) for node, some in self._sealed(start).items()}
        end, size = dict(start), 0
        while waiting:
            for node in list(waiting):
                following = next(waiting[node], None)
                if following is None:
                    del waiting[node]
                    continue
                size += _size(following[0])
                if max_bytes is not None and size > max_bytes and end != start:
                    return end
                end[node] = max(following[1], end.get(node, 0))
        return end

    def _sealed(self, start: Offset) -> dict[str, list[tuple[Part, int]]]:
        """Return by node the files that are new, each with the number after its last row."""
        sealed: dict[str, list[tuple[Part, int]]] = {}
        for node, of_node in groupby(self._parts(), lambda part: part.node):
            for part, following in pairwise([*of_node, None]):
                assert part is not None
                if part.is_open:
                    break
                end = following.first if following is not None else _end(part)
                if self._target is not None:
                    end = min(end, self._target.get(node, 0))
                if end > start.get(node, 0):
                    sealed.setdefault(node, []).append((part, end))
        return sealed

    def _parts(self, nodes: frozenset[str] | None = None) -> list[Part]:
        if not self._folder.is_dir():
            raise PipelineError(f"there is no journal in `{self._folder}`")
        return parts(self._folder, nodes or self._nodes)

    # --- what there is

    def partitions(self, start: Offset, end: Offset) -> Sequence[Spans]:
        tasks, some, size = list[Spans](), list[JournalSpan](), 0
        for span in self._spans(start, end):
            some.append(span)
            size += _size(span.part)
            if size > _TASK_BYTES:
                tasks.append(Spans(tuple(some)))
                some, size = [], 0
        return [*tasks, Spans(tuple(some))] if some else tasks

    def _spans(self, start: Offset, end: Offset) -> Iterator[JournalSpan]:
        """File by file, without holes."""
        for node in sorted(end):
            first, last = start.get(node, 0), end[node]
            if first >= last:
                continue
            files = self._between(node, first, last)
            if not files:
                raise PipelineError(f"rows {first} to {last - 1} of node `{node}` are gone from `{self._folder}`")
            for part, following in pairwise([*files, None]):
                assert part is not None
                until = last if following is None else following.first
                yield JournalSpan(node, first, until, part)
                first = until

    def _between(self, node: str, start: int, end: int) -> list[Part]:
        """Return the files of a node that may have rows with these numbers."""
        of_node = [part for part in self._parts(frozenset({node})) if not part.is_open]
        ends = [following.first for following in of_node[1:]] + [end]
        return [part for part, last in zip(of_node, ends, strict=True) if part.first < end and last > start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Spans)
        for span in partition.spans:
            yield from self._read(span)

    def _read(self, span: JournalSpan) -> Iterator[pa.RecordBatch]:
        node, start, files = span.node, span.start, [span.part]
        attempts = 0
        while files:
            part = files.pop(0)
            try:
                whole = read_part(part)
            except FileNotFoundError:  # it was compacted meanwhile
                attempts += 1
                if attempts > _ATTEMPTS:
                    raise PipelineError(f"`{part.path}` is gone, and no other file has its rows") from None
                files = self._between(node, start, span.end)
                continue
            rows = _within(whole.events, start, span.end)
            self._set_aside(_within(whole.lost, start, span.end))
            start = max(start, whole.last + 1)
            following = files[0].first if files else span.end
            if start < following and not whole.is_damaged:
                self._set_aside(_hole(node, start, following))
            yield from rows.select(self._columns).to_batches(max_chunksize=_BATCH_ROWS)

    def _set_aside(self, lost: pa.Table) -> None:
        if self._quarantine is None:
            return
        for file in lost["file"].unique().to_pylist():
            rows = lost.filter(pc.equal(lost["file"], file))
            name = f"{rows['node'][0].as_py()}-{file}.parquet"
            draft = make_operators_folder(self._quarantine) / f"{DRAFT}{os.getpid()}-{name}"
            pq.write_table(rows, draft)
            leave_to_operators(draft)
            draft.rename(self._quarantine / name)


def _hole(node: str, start: int, end: int) -> pa.Table:
    """Return the rows that are in no file. If a file with them comes later, the stream is past it."""
    file, what = f"{start:016d}-missing", f"rows {start} to {end - 1} are in no file: it is lost, or comes too late"
    return pa.Table.from_pylist([{"node": node, "file": file, "seq": start, "problem": what}], schema=QUARANTINE)


def _within(table: pa.Table, start: int, end: int) -> pa.Table:
    """Return the rows with these numbers; one without a number is about its file, which is read once."""
    seq = table["seq"]
    inside = pc.and_(pc.greater_equal(seq, start), pc.less(seq, end))
    return table.filter(pc.fill_null(inside, True))


def _size(part: Part) -> int:
    try:
        return part.path.stat().st_size
    except FileNotFoundError:  # compacted at this moment
        return 0


def _end(part: Part) -> int:
    return part.last + 1 if part.last is not None else _end_of_segment(str(part.path), part.first)


@lru_cache(maxsize=10_000)
def _end_of_segment(path: str, first: int) -> int:
    """Return the number after the last row: a segment does not say which it is."""
    try:
        return max(read_intact(Path(path)).last, first) + 1
    except FileNotFoundError:
        return first
