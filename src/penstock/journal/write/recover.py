"""After a process was killed: the segment that it left open, as far as it is whole, becomes one like others."""

import os
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.journal.format import ENDING, OPEN, READABLE, SCHEMA
from penstock.journal.listing import Part, every_part


class Whole(NamedTuple):
    """A segment as far as it can be read."""

    schema: pa.Schema | None
    batches: list[pa.RecordBatch]
    end: int
    """Up to which byte it is whole."""
    problem: str
    """Why there is no more of it; empty if there is not meant to be."""

    @property
    def version(self) -> int:
        """The version of the format that it says it has."""
        return 0 if self.schema is None else version_of(self.schema)

    @property
    def last(self) -> int:
        """The number of its last row; -1 if it has none."""
        return int(self.batches[-1].column("seq")[-1].as_py() or 0) if self.batches else -1


def version_of(schema: pa.Schema) -> int:
    """The version of the format that a segment says it has; 0 if it says none."""
    said = (schema.metadata or {}).get(b"penstock.journal", b"")
    return int(said) if said.isdigit() else 0


def recover(folder: Path, node: str) -> int:
    """Seal what an earlier run of the node left open; returns the last sequence number that is taken, or -1."""
    for path in sorted((folder / f"node={node}").glob(f"*/{OPEN}*{ENDING}")):
        _seal(path)
    while True:
        try:
            found = every_part(folder, frozenset({node}))
            segments = [part for part in found if part.last is None]
            taken = [part.last for part in found if part.last is not None] + [_last(part) for part in segments[-1:]]
            return max(taken, default=-1)
        except FileNotFoundError:  # it was compacted meanwhile
            continue


def _seal(path: Path) -> None:
    """Give it its name, without what is not whole. One that has nothing is of no use."""
    whole = read_whole(path)
    if not whole.batches:
        path.unlink()
        return
    os.truncate(path, whole.end)
    path.rename(path.with_name(path.name.removeprefix(OPEN)))


def read_whole(path: Path) -> Whole:
    """The batches of a segment up to where it breaks off."""
    batches: list[pa.RecordBatch] = []
    schema, end = None, 0
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            schema, end = stream.schema, file.tell()
            if version_of(schema) in READABLE and not schema.equals(SCHEMA):
                return Whole(None, [], 0, "its columns are not those of a journal")
            while True:
                batch = stream.read_next_batch()
                batch.validate(full=True)
                if batch.num_rows:
                    batches.append(batch)
                end = file.tell()
    except StopIteration:
        return Whole(schema, batches, end, "")
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        return Whole(schema, batches, end, f"it breaks off after {end} bytes: {error}")


def _last(part: Part) -> int:
    """The last number that a segment has taken; if it is damaged, one that is surely not less."""
    whole = read_whole(part.path)
    return part.first + part.path.stat().st_size if whole.problem else max(whole.last, part.first)
