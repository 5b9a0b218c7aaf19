"""Following a journal while it is written."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.format import EVENT_KINDS, OPEN
from penstock.journal.listing import Part, parts
from penstock.journal.read.events import EVENTS, events_of
from penstock.journal.read.tables import read_part

_EVENT_KINDS = pa.array(EVENT_KINDS, pa.int8())


class Follower:
    """Returns the rows written since the last call. Existing rows can be skipped."""

    def __init__(self, folder: Path, nodes: frozenset[str] | None = None) -> None:
        self._folder = folder
        self._nodes = nodes
        self._files: dict[str, _File] = {}
        self._seen: dict[str, int] = {}
        """By node, the number of the last row that was returned."""

    def skip(self) -> None:
        """Skip the rows that exist already."""
        for _ in self.more():
            pass

    def more(self) -> Iterator[pa.Table]:
        """Yield new events, by node and in order."""
        files: dict[str, _File] = {}
        for part in parts(self._folder, self._nodes):
            try:
                events = self._read(part, files)
            except FileNotFoundError:  # it was renamed meanwhile: read it next time
                continue
            events = events.filter(pc.greater(events["seq"], self._seen.get(part.node, -1)))
            if events.num_rows:
                self._seen[part.node] = events["seq"][-1].as_py()
                yield events
        self._files = files

    def _read(self, part: Part, files: dict[str, "_File"]) -> pa.Table:
        if part.last is not None:
            return EVENTS.empty_table() if part.last <= self._seen.get(part.node, -1) else read_part(part).events
        key = str(part.path.with_name(part.path.name.removeprefix(OPEN)))
        file = files[key] = self._files.get(key) or _File(part.node)
        return file.more(part.path)


class _File:
    """One segment, read as far as it has been written."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._at = 0
        self._schema: pa.Schema | None = None
        self._definitions: list[pa.RecordBatch] = []

    def more(self, path: Path) -> pa.Table:
        if path.stat().st_size <= self._at:
            return EVENTS.empty_table()
        batches = [*self._definitions, *self._new(path)]
        self._definitions = [batch.filter(pc.invert(pc.is_in(batch["kind"], _EVENT_KINDS))) for batch in batches]
        return events_of(batches, self._node, lambda rows, problems: None)

    def _new(self, path: Path) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(path)) as file:
            file.seek(self._at)
            while True:
                try:
                    message = pa.ipc.read_message(file)
                    if self._schema is None:
                        self._schema = pa.ipc.read_schema(message)
                    else:
                        yield pa.ipc.read_record_batch(message, self._schema)
                except (EOFError, pa.ArrowException, OSError):  # the end, or an incomplete batch
                    return
                self._at = file.tell()
