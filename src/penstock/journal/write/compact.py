"""Sealed segments to Parquet: fewer and smaller files, with content in typed columns.

A compacted file has the numbers of its first and last row in its name. It is renamed atomically when it is complete;
then the segments it was made of are deleted. Readers skip files whose rows are in a compacted one, so no row is read
twice in between, and an interrupted compaction loses nothing.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.journal.format import COMPACT, COMPACT_ENDING, DRAFT, VERSION, compact_name
from penstock.journal.format import QUARANTINE as QUARANTINE_FOLDER
from penstock.journal.listing import Part, all_parts, covered
from penstock.journal.private import FILE_MODE, leave_to_operators, make_folder, make_operators_folder, write_file
from penstock.journal.read.content import Typing, rules_of
from penstock.journal.read.events import QUARANTINE, SegmentContents
from penstock.journal.read.tables import read_part
from penstock.model.errors import PenstockError

TARGET = 256 * 2**20
"""Bytes of segments for one file. As Parquet they take less."""
_ROW_GROUP = 128 * 1024
_LOCK = ".lock"


class Compacted(NamedTuple):
    """A compacted file and the files it replaced."""

    path: Path
    files: int
    rows: int
    bytes_before: int
    bytes_after: int


def compact(folder: Path, nodes: frozenset[str] | None = None, target: int = TARGET) -> Iterator[Compacted]:
    """Compact sealed segments by node and day, and yield each compacted file.

    Damaged segments are left as they are. Raises `PenstockError` if another process is compacting.
    """
    with _alone(folder):
        _clear(folder, nodes)
        sealed = [part for part in all_parts(folder, nodes) if not part.is_open]
        for (node, _), of_day in groupby(sealed, lambda part: (part.node, part.day)):
            yield from _compact_day(folder, node, list(of_day), target)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    home = folder / COMPACT
    make_folder(home, with_parents=False)
    with open(home / _LOCK, "w", opener=lambda path, flags: os.open(path, flags, FILE_MODE)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PenstockError(f"journal `{folder}` is being compacted already") from None
        yield


def _clear(folder: Path, nodes: frozenset[str] | None) -> None:
    """Remove the remains of an interrupted run."""
    for part in covered(all_parts(folder, nodes)):
        _remove(part)
    for home in (folder / COMPACT, folder / QUARANTINE_FOLDER):
        for draft in home.glob(f"node=*/date=*/{DRAFT}*"):
            draft.unlink()
    expected = {part.quarantine for part in all_parts(folder) if part.last is not None}
    for path in (folder / QUARANTINE_FOLDER).glob(f"node=*/date=*/*{COMPACT_ENDING}"):
        if path not in expected:
            path.unlink()


def _compact_day(folder: Path, node: str, of_day: list[Part], target: int) -> Iterator[Compacted]:
    batch: _Batch | None = None
    for part in of_day:
        size = part.path.stat().st_size
        contents = None if part.last is not None and size > target // 2 else read_part(part)
        if contents is None or contents.is_damaged:
            if batch is not None:
                yield from batch.finish()
            batch = None
            continue
        typing = _typing(folder, tuple(sorted(contents.events["revision"].unique().to_pylist())))
        if batch is not None and not batch.takes(size, typing):
            yield from batch.finish()
            batch = None
        if batch is None:
            batch = _Batch(folder, node, part, typing, target)
        batch.add(part, contents, size)
    if batch is not None:
        yield from batch.finish()


@lru_cache(maxsize=64)
def _typing(folder: Path, revisions: tuple[str, ...]) -> Typing:
    """Return the columns for rows of these revisions; none if the revisions disagree about content."""
    rules = [rules_of(folder, revision) for revision in revisions]
    return Typing(rules[0] if rules and all(other == rules[0] for other in rules) else ())


class _Batch:
    """One file that is being made."""

    def __init__(self, folder: Path, node: str, part: Part, typing: Typing, target: int) -> None:
        self._parts: list[Part] = []
        self._typing = typing
        self._target = target
        self._size = self._rows = 0
        self._last = -1
        self._lost: list[pa.Table] = []
        self._first: pa.Table | None = None
        self._home = folder / COMPACT / f"node={node}" / part.path.parent.name
        self._lost_in = folder / QUARANTINE_FOLDER, f"node={node}/{part.path.parent.name}"
        make_folder(self._home)
        self._draft = self._home / f"{DRAFT}{part.first:016d}{COMPACT_ENDING}"
        write_file(self._draft, b"")  # it keeps its mode
        metadata = {"penstock.journal": str(VERSION), "node": node}
        self._writer = pq.ParquetWriter(
            self._draft,
            typing.schema.with_metadata(metadata),
            compression="zstd",
            sorting_columns=[pq.SortingColumn(typing.schema.get_field_index("seq"))],
        )

    def takes(self, size: int, typing: Typing) -> bool:
        """Return whether a file of this size and with these columns fits in."""
        return self._size + size <= self._target and typing.schema.equals(self._typing.schema)

    def add(self, part: Part, contents: SegmentContents, size: int) -> None:
        if not self._parts and part.last is not None:
            self._first = contents.events  # it may stay the only file, and then there is nothing to do
        else:
            self._write(self._first)
            self._first = None
            self._write(contents.events)
        self._lost.append(contents.lost)
        self._parts.append(part)
        self._size += size
        self._rows += contents.events.num_rows
        self._last = max(contents.last, part.first)

    def _write(self, events: pa.Table | None) -> None:
        if events is not None:
            self._writer.write_table(self._typing.add(events), row_group_size=_ROW_GROUP)

    def finish(self) -> Iterator[Compacted]:
        """Rename the file and delete the files it replaces; do nothing if that is just one compacted file."""
        self._writer.close()
        if len(self._parts) == 1 and self._parts[0].last is not None:
            self._draft.unlink()
            return
        name = compact_name(self._parts[0].first, self._last)
        lost = pa.concat_tables([QUARANTINE.empty_table(), *self._lost])
        if lost.num_rows:  # before the file itself: neither is used without the other
            quarantine = make_operators_folder(*self._lost_in)
            draft = quarantine / f"{DRAFT}{name}"
            pq.write_table(lost, draft, compression="zstd")
            leave_to_operators(draft)
            _settle(draft, quarantine / name)
        path = self._home / name
        _settle(self._draft, path)
        after = path.stat().st_size
        for part in self._parts:
            _remove(part)
        yield Compacted(path, len(self._parts), self._rows, self._size, after)


def _settle(draft: Path, path: Path) -> None:
    """Sync a file, rename it, and sync its folder."""
    _sync(draft, os.O_RDONLY)
    draft.rename(path)
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(part: Part) -> None:
    part.path.unlink(missing_ok=True)
    if part.last is not None:
        part.quarantine.unlink(missing_ok=True)
