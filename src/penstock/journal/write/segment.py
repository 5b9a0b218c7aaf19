"""Writing a segment: the rows of a recorder become Arrow batches."""

import os
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.journal_rows import CUT, Note, Reached, Rows, Source, Withholding
from penstock.journal.format import OPEN, SCHEMA, RowKind, partition, schema_of, segment_name
from penstock.journal.private import FILE_MODE, make_folder
from penstock.model.verdict import Verdict

_encode = msgspec.json.Encoder().encode
_number = itemgetter(Note._fields.index("number"))
_END = b"\xff\xff\xff\xff\0\0\0\0"
_CLOSED = -1

Definition = tuple[RowKind, int | None, int | None, Any]


class Segment:
    """One file that is being written. A batch is appended completely or not at all.

    A revision or a gap is written together with the next rows: without these it is useless.
    """

    def __init__(self, folder: Path, node: str, domain: str, first: int, time: float) -> None:
        self.first = first
        self.began = time
        home = partition(folder, node, time)
        make_folder(home)
        name = segment_name(first, time)
        self.path, self.sealed = home / f"{OPEN}{name}", home / name
        self.size = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        self._sources: dict[Source, int] = {}
        self._seen: dict[int, int] = {}
        """Sources by identity: the lookup is faster."""
        self._held: list[Source] = []
        """Keeps the sources alive, so that no other object gets the same identity."""
        self._plans = np.zeros(0, np.bool_)
        """By number, whether a plan is defined."""
        self._sink = _PieceSink()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, "w"), schema_of(node, domain))

    def revision(self, seq: int, time: float, revision: str) -> int:
        """Record which policies are in force; return the next sequence number."""
        self._writer.write_batch(_defining(seq, time, [(RowKind.REVISION, None, None, {"revision": revision})]))
        return seq + 1

    def gap(self, seq: int, time: float, missing: int) -> int:
        """Record that rows are missing; return the next sequence number."""
        self._writer.write_batch(_defining(seq, time, [(RowKind.GAP, None, None, {"rows": missing})]))
        return seq + 1

    def write(self, seq: int, rows: Rows) -> int:
        """Append rows; return the next sequence number."""
        if not rows.notes:
            return seq
        plans = np.fromiter(map(_number, rows.notes), np.int32, len(rows.notes))
        new = self._new_plans(rows, plans)
        try:
            sources = self._numbers(rows.sources)
        except KeyError:
            new += self._new_sources(rows.sources)
            sources = self._numbers(rows.sources)
        batches = [_defining(seq, rows.times[0], new)] if new else []
        seq += len(new)
        self._append(*batches, _batch(seq, rows, plans, sources))
        return seq + len(rows.notes)

    def seal(self) -> Path:
        """Rename the finished segment and sync it to disk. If that fails, call `abandon`."""
        self._append()
        self._put([_END])
        os.fsync(self._file)
        self._leave()
        return self.sealed

    def abandon(self) -> bool:
        """Keep what is in a segment that can no longer be written; return false if recovery must do it."""
        try:
            os.ftruncate(self._file, self.size)
            self._leave()
        except OSError:
            return False
        finally:
            self._close()
        return True

    def _leave(self) -> None:
        if self.size:
            self.path.rename(self.sealed)
        else:
            self.path.unlink()
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, _CLOSED
        if file != _CLOSED:
            os.close(file)

    def _append(self, *batches: pa.RecordBatch) -> None:
        for batch in batches:
            self._writer.write_batch(batch)
        self.size += self._put(self._sink.take())

    def _put(self, parts: list[Any]) -> int:
        size = sum(map(len, parts))
        done = os.writev(self._file, parts)
        if done < size:  # a disk that is nearly full takes a part, and reports the error on the next write
            rest = memoryview(b"".join(parts))[done:]
            while rest:
                rest = rest[os.write(self._file, rest) :]
        return size

    def _numbers(self, sources: list[Source]) -> npt.NDArray[np.int32]:
        return np.fromiter(map(self._seen.__getitem__, map(id, sources)), np.int32, len(sources))

    def _new_sources(self, sources: list[Source]) -> list[Definition]:
        definitions: list[Definition] = []
        distinct = {id(source): source for source in sources}
        for key in distinct.keys() - self._seen.keys():
            source = distinct[key]
            number = self._sources.get(source)
            if number is None:
                number = self._sources[source] = len(self._sources)
                definitions.append((RowKind.SOURCE, number, None, source._asdict()))
            self._seen[key] = number
            self._held.append(source)
        return definitions

    def _new_plans(self, rows: Rows, numbers: npt.NDArray[np.int32]) -> list[Definition]:
        highest = int(numbers.max())
        if highest >= len(self._plans):
            self._plans = np.concatenate((self._plans, np.zeros(highest + 1, np.bool_)))
        (places,) = np.nonzero(~self._plans[numbers])
        definitions: list[Definition] = []
        for number, place in dict(zip(numbers[places].tolist(), places.tolist(), strict=True)).items():
            self._plans[number] = True
            definitions.append((RowKind.PLAN, None, number, _plan_detail(rows.notes[place])))
        return definitions


class _PieceSink:
    """Takes the pieces that Arrow writes without copying large ones."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def write(self, data: Any) -> None:
        self._parts.append(data)

    def flush(self) -> None:
        """Do nothing: no data is held back."""

    def take(self) -> list[Any]:
        """Return the pieces written since the last call."""
        parts, self._parts = self._parts, []
        return parts


def _batch(seq: int, rows: Rows, plans: npt.NDArray[np.int32], sources: npt.NDArray[np.int32]) -> pa.RecordBatch:
    count = len(rows.notes)
    bounds = np.zeros(len(rows.ends) + 1, np.int64)
    bounds[1:] = np.fromiter(rows.ends, np.int64, len(rows.ends))
    lengths = bounds[1:] - bounds[:-1]
    kinds = np.zeros(count, np.int8)
    kinds[rows.outputs] = RowKind.OUTPUT
    kinds[rows.retained] = RowKind.RETAINED
    kinds[rows.views] = RowKind.VIEW
    kinds[rows.sent] = RowKind.SENT
    kinds[rows.withdrawn] = RowKind.WITHDRAWN
    columns = [
        _column("seq", np.arange(seq, seq + count)),
        _column("time", np.repeat(_micros(rows.times), lengths)),
        _column("kind", kinds),
        _column("source", np.repeat(sources, lengths)),
        _column("plan", plans),
        _packets(bounds, rows.packets, rows.cuts),
        _details(rows, count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _defining(seq: int, time: float, rows: list[Definition]) -> pa.RecordBatch:
    kinds, sources, plans, details = zip(*rows, strict=True)
    count = len(rows)
    columns = [
        _column("seq", np.arange(seq, seq + count)),
        _column("time", np.repeat(_micros((time,)), count)),
        _column("kind", np.array(kinds, np.int8)),
        _column("source", *_present(sources)),
        _column("plan", *_present(plans)),
        pa.nulls(count, pa.binary()),
        _texts([_encode(detail) for detail in details]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


# `pyarrow.array` imports pandas where it is installed, which is expensive for a node. And it inspects each value.


def _column(name: str, values: npt.NDArray[Any], is_there: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return the values as a column; missing ones are null."""
    return pa.Array.from_buffers(SCHEMA.field(name).type, len(values), [_bits(is_there), pa.py_buffer(values)])


def _texts(texts: Sequence[bytes | None]) -> pa.Array:
    """Return strings as a column of UTF-8 bytes."""
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text or b"") for text in texts], out=offsets[1:])
    data = pa.py_buffer(b"".join(text for text in texts if text))
    is_there = np.array([text is not None for text in texts], np.bool_)
    return pa.Array.from_buffers(pa.string(), len(texts), [_bits(is_there), pa.py_buffer(offsets), data])


def _present(numbers: Sequence[int | None]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    is_there = np.array([number is not None for number in numbers], np.bool_)
    return np.array([number or 0 for number in numbers], np.int32), is_there


def _bits(is_there: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if is_there is None else pa.py_buffer(np.packbits(is_there, bitorder="little"))


def _packets(bounds: npt.NDArray[np.int64], data: Sequence[bytes], cuts: Sequence[bytes]) -> pa.Array:
    """Return one array of all packets: runs of packets are contiguous already."""
    offsets = np.zeros(bounds[-1] + 1, np.int32)
    ends = np.cumsum(np.fromiter(map(len, data), np.int32, len(data)), dtype=np.int32)
    offsets[bounds[1:]] = ends
    inside = np.frombuffer(b"".join(cuts), CUT)
    if len(inside):
        lengths = bounds[1:] - bounds[:-1] - 1
        is_inside = np.ones(len(offsets), np.bool_)
        is_inside[bounds] = False
        offsets[is_inside] = inside + np.repeat(offsets[bounds[:-1]], lengths)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(data))]
    return pa.Array.from_buffers(pa.binary(), int(bounds[-1]), buffers)


def _micros(times: Sequence[float]) -> npt.NDArray[np.int64]:
    return np.rint(np.fromiter(times, np.float64, len(times)) * 1_000_000).astype(np.int64)


def _plan_detail(note: Note) -> dict[str, Any]:
    detail: dict[str, Any] = {**_verdict(note.verdict), "reached": [_reached(receiver) for receiver in note.reached]}
    if note.is_open:
        detail["open"] = True
    if note.groups:
        detail["groups"] = note.groups
    if note.statements:
        detail["statements"] = note.statements
    if note.withheld:
        detail["withheld"] = list(map(_withheld, note.withheld))
    return detail


def _details(rows: Rows, count: int) -> pa.Array:
    """Return the decisions about single events; few events have one."""
    tables: tuple[dict[int, Any], ...] = (rows.verdicts, rows.chosen, rows.missed, rows.facts, rows.withheld)
    if not any(tables):
        return pa.nulls(count, pa.string())
    details: list[bytes | None] = [None] * count
    for row in set().union(*tables):
        detail: dict[str, Any] = {}
        if row in rows.verdicts:
            detail |= _verdict(rows.verdicts[row])
        if row in rows.chosen:
            detail["chosen"] = [_reached(receiver) for receiver in rows.chosen[row]]
        if row in rows.missed:
            detail["missed"] = [_reached(receiver) for receiver in rows.missed[row]]
        if row in rows.facts:
            detail["facts"] = rows.facts[row]
        if row in rows.withheld:
            detail["withheld"] = list(map(_withheld, rows.withheld[row]))
        details[row] = _encode(detail)
    return _texts(details)


def _verdict(verdict: Verdict) -> dict[str, str]:
    return {"effect": verdict.effect.value, "stage": verdict.stage, "rule": verdict.rule, "reason": verdict.reason}


def _withheld(withholding: Withholding) -> dict[str, Any]:
    return {
        **_verdict(withholding.verdict),
        "receivers": withholding.receivers,
        "count": withholding.total,
    }


def _reached(receiver: Reached) -> dict[str, Any]:
    return receiver._asdict()
