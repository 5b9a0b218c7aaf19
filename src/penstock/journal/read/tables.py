"""A journal as tables: its files, sealed and open, compacted or not, by node and day."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.journal.listing import Part as Part
from penstock.journal.listing import parts as parts
from penstock.journal.read.events import EVENTS, QUARANTINE, Read, take_in


def read(
    folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Events and what cannot be read, file by file: by node, and then in order."""
    done: dict[str, int] = {}
    pending = parts(folder, nodes, days)
    while pending:
        part = pending.pop(0)
        if (part.last if part.last is not None else part.first) <= done.get(part.node, -1):
            continue
        try:
            found = read_part(part)
        except FileNotFoundError:  # it was sealed or compacted meanwhile: what has its rows is taken instead
            pending = parts(folder, nodes, days)
            pending = [one for one in pending if one.node >= part.node]
            continue
        since = done.get(part.node, -1)
        done[part.node] = max(found.last, since)
        yield _after(found.events, since), _after(found.lost, since)


def read_part(part: Part) -> Read:
    """All that is in one file."""
    if part.last is None:
        return take_in(part.path)
    stored = pq.ParquetFile(part.path).read(columns=EVENTS.names)
    for field in EVENTS:
        if field.name not in stored.schema.names:  # of an earlier version
            stored = stored.append_column(field, pa.nulls(stored.num_rows, field.type))
    events = stored.select(EVENTS.names).cast(EVENTS)
    lost = pq.ParquetFile(part.quarantine).read() if part.quarantine.exists() else QUARANTINE.empty_table()
    return Read(events, lost.cast(QUARANTINE), part.last, False)


def read_all(
    folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None
) -> tuple[pa.Table, pa.Table]:
    """All of it at once."""
    events, lost = [EVENTS.empty_table()], [QUARANTINE.empty_table()]
    for some, unread in read(folder, nodes, days):
        events.append(some)
        lost.append(unread)
    return pa.concat_tables(events), pa.concat_tables(lost)


def _after(table: pa.Table, seq: int) -> pa.Table:
    """What was not seen before, if a file has taken the place of one that was."""
    if not table.num_rows or seq < 0:
        return table
    return table.filter(pa.compute.fill_null(pa.compute.greater(table["seq"], seq), True))
