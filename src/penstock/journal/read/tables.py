"""A journal as tables: sealed, open and compacted files, by node and day."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.journal.listing import Part as Part
from penstock.journal.listing import parts as parts
from penstock.journal.read.events import EVENTS, QUARANTINE, SegmentContents, read_segment


def read(
    folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield the events and the unreadable rows of each file: by node, then in order."""
    done: dict[str, int] = {}
    pending = parts(folder, nodes, days)
    while pending:
        part = pending.pop(0)
        if (part.last if part.last is not None else part.first) <= done.get(part.node, -1):
            continue
        try:
            contents = read_part(part)
        except FileNotFoundError:  # it was sealed or compacted meanwhile: read the file that has its rows now
            pending = parts(folder, nodes, days)
            pending = [later for later in pending if later.node >= part.node]
            continue
        since = done.get(part.node, -1)
        done[part.node] = max(contents.last, since)
        yield _after(contents.events, since), _after(contents.lost, since)


def read_part(part: Part) -> SegmentContents:
    """Read one file."""
    if part.last is None:
        return read_segment(part.path)
    stored = pq.ParquetFile(part.path).read(columns=EVENTS.names)
    for field in EVENTS:
        if field.name not in stored.schema.names:  # written by an earlier version
            stored = stored.append_column(field, pa.nulls(stored.num_rows, field.type))
    events = stored.select(EVENTS.names).cast(EVENTS)
    lost = pq.ParquetFile(part.quarantine).read() if part.has_quarantine else QUARANTINE.empty_table()
    return SegmentContents(events, lost.cast(QUARANTINE), part.last, False)


def read_all(
    folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None
) -> tuple[pa.Table, pa.Table]:
    """Return all events and all unreadable rows."""
    events, lost = [EVENTS.empty_table()], [QUARANTINE.empty_table()]
    for readable, unreadable in read(folder, nodes, days):
        events.append(readable)
        lost.append(unreadable)
    return pa.concat_tables(events), pa.concat_tables(lost)


def _after(table: pa.Table, seq: int) -> pa.Table:
    """Return the rows that were not read before, if a file has replaced one that was."""
    if not table.num_rows or seq < 0:
        return table
    return table.filter(pa.compute.fill_null(pa.compute.greater(table["seq"], seq), True))
