"""A journal as tables: its segments, sealed and open, by node and day."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.journal.events import EVENTS, QUARANTINE, is_segment, read_segment
from penstock.journal.format import OPEN


class Part(NamedTuple):
    """One file of a journal."""

    path: Path
    node: str
    day: date
    first: int
    """The sequence number of its first row."""
    is_open: bool
    """It is being written."""


def parts(folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None) -> list[Part]:
    """The files of a journal, by node and then in order; of some nodes only, or of some days, both included."""
    found = [_part(path) for path in folder.glob("node=*/date=*/*") if is_segment(path)]
    kept = [
        part
        for part in found
        if (nodes is None or part.node in nodes) and (days is None or days[0] <= part.day <= days[1])
    ]
    return sorted(kept, key=lambda part: (part.node, part.first))


def _part(path: Path) -> Part:
    name = path.name.removeprefix(OPEN)
    day = date.fromisoformat(path.parent.name.removeprefix("date="))
    node = path.parent.parent.name.removeprefix("node=")
    return Part(path, node, day, int(name.split("-")[0]), path.name.startswith(OPEN))


def read(
    folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Events and what cannot be read, file by file."""
    for part in parts(folder, nodes, days):
        yield read_segment(part.path)


def read_all(
    folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None
) -> tuple[pa.Table, pa.Table]:
    """All of it at once."""
    events, lost = [EVENTS.empty_table()], [QUARANTINE.empty_table()]
    for some, unread in read(folder, nodes, days):
        events.append(some)
        lost.append(unread)
    return pa.concat_tables(events), pa.concat_tables(lost)
