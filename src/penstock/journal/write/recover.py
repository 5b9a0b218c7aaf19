"""Recovery after a process was killed: seal the segment it left open, up to its last complete batch."""

import os
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.journal.format import ENDING, OPEN, READABLE, SCHEMA
from penstock.journal.listing import Part, all_parts


class IntactSegment(NamedTuple):
    """A segment as far as it can be read."""

    schema: pa.Schema | None
    batches: list[pa.RecordBatch]
    end: int
    """Number of bytes that are intact."""
    problem: str
    """The reason why reading stopped early; empty if it did not."""

    @property
    def version(self) -> int:
        """Return the format version in the segment's metadata."""
        return 0 if self.schema is None else version_of(self.schema)

    @property
    def last(self) -> int:
        """Return the number of its last row; -1 if it has none."""
        return int(self.batches[-1].column("seq")[-1].as_py() or 0) if self.batches else -1


def version_of(schema: pa.Schema) -> int:
    """Return the format version in a segment's schema; 0 if there is none."""
    value = (schema.metadata or {}).get(b"penstock.journal", b"")
    return int(value) if value.isdigit() else 0


def recover(folder: Path, node: str) -> int:
    """Seal the segments an earlier run of the node left open; return the last sequence number in use, or -1."""
    for path in sorted((folder / f"node={node}").glob(f"*/{OPEN}*{ENDING}")):
        _seal(path)
    while True:
        try:
            files = all_parts(folder, frozenset({node}))
            segments = [part for part in files if part.last is None]
            taken = [part.last for part in files if part.last is not None] + [_last(part) for part in segments[-1:]]
            return max(taken, default=-1)
        except FileNotFoundError:  # it was compacted meanwhile
            continue


def _seal(path: Path) -> None:
    """Rename a segment without its incomplete end; delete it if nothing is left."""
    segment = read_intact(path)
    if not segment.batches:
        path.unlink()
        return
    os.truncate(path, segment.end)
    path.rename(path.with_name(path.name.removeprefix(OPEN)))


def read_intact(path: Path) -> IntactSegment:
    """Return the batches of a segment up to where it breaks off."""
    batches: list[pa.RecordBatch] = []
    schema, end = None, 0
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            schema, end = stream.schema, file.tell()
            if version_of(schema) in READABLE and not schema.equals(SCHEMA):
                return IntactSegment(None, [], 0, "its columns are not those of a journal")
            while True:
                batch = stream.read_next_batch()
                batch.validate(full=True)
                if batch.num_rows:
                    batches.append(batch)
                end = file.tell()
    except StopIteration:
        return IntactSegment(schema, batches, end, "")
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        return IntactSegment(schema, batches, end, f"it breaks off after {end} bytes: {error}")


def _last(part: Part) -> int:
    """Return the last number that a segment uses; if it is damaged, a number that is certainly not smaller."""
    segment = read_intact(part.path)
    return part.first + part.path.stat().st_size if segment.problem else max(segment.last, part.first)
