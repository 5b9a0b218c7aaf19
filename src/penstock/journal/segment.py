"""Writing a segment: rows of a recorder become Arrow batches."""

import os
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.record import Note, Reached, Rows, Source
from penstock.journal.format import OPEN, SCHEMA, Kind, partition, schema_of, segment_name
from penstock.model.verdict import Verdict

_encode = msgspec.json.Encoder().encode
_number = attrgetter("number")
_END = b"\xff\xff\xff\xff\0\0\0\0"

Definition = tuple[Kind, int | None, int | None, Any]


class Segment:
    """One file that is being written. What is appended is in it as a whole, or not at all."""

    def __init__(self, folder: Path, node: str, domain: str, first: int, time: float) -> None:
        self.first = first
        self.began = time
        home = partition(folder, node, time)
        home.mkdir(parents=True, exist_ok=True)
        name = segment_name(first, time)
        self.path, self.sealed = home / f"{OPEN}{name}", home / name
        self.size = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._sources: dict[Source, int] = {}
        self._seen: dict[int, tuple[Source, int]] = {}
        """Sources by identity: finding one so is quicker. They are held, so that no other can have the same."""
        self._plans: set[int] = set()
        self._begin = schema_of(node, domain).serialize()

    def revision(self, seq: int, time: float, revision: str) -> int:
        """Say which policies are in force; returns the next sequence number."""
        self._append(_defining(seq, time, [(Kind.REVISION, None, None, {"revision": revision})]))
        return seq + 1

    def gap(self, seq: int, time: float, missing: int) -> int:
        """Say that rows are missing."""
        self._append(_defining(seq, time, [(Kind.GAP, None, None, {"rows": missing})]))
        return seq + 1

    def write(self, seq: int, rows: Rows) -> int:
        """Append rows; returns the next sequence number."""
        if not rows.packets:
            return seq
        plans = np.fromiter(map(_number, rows.notes), np.int32, len(rows.notes))
        new = [*self._new_sources(rows), *self._new_plans(rows, plans)]
        batches = [_defining(seq, rows.runs[0][2], new)] if new else []
        seq += len(new)
        self._append(*batches, self._batch(seq, rows, plans))
        return seq + len(rows.packets)

    def seal(self) -> Path:
        """Nothing more comes: it gets its name, and the disk has it."""
        try:
            self._put(_END)
            os.fsync(self._file)
        finally:
            self._leave()
        return self.sealed

    def abandon(self) -> bool:
        """It cannot be written any more: what is in it is kept. Whether that is done; if not, recovery will do it."""
        try:
            os.ftruncate(self._file, self.size)
            self._leave()
        except OSError:
            return False
        return True

    def _leave(self) -> None:
        os.close(self._file)
        if self.size:
            self.path.rename(self.sealed)
        else:
            self.path.unlink()

    def _append(self, *batches: pa.RecordBatch) -> None:
        parts = [self._begin] if not self.size else []
        for part in (*parts, *(batch.serialize() for batch in batches)):
            self._put(part)
        self.size = os.lseek(self._file, 0, os.SEEK_END)

    def _put(self, data: Any) -> None:
        left = memoryview(data)
        while left:  # a disk that is nearly full takes a part, and says only the next time that it is
            left = left[os.write(self._file, left) :]

    def _batch(self, seq: int, rows: Rows, plans: npt.NDArray[np.int32]) -> pa.RecordBatch:
        count = len(rows.packets)
        ends, sources, times = zip(*rows.runs, strict=True)
        bounds = np.array((0, *ends), np.int64)
        lengths = bounds[1:] - bounds[:-1]
        seen = self._seen
        numbers = np.array([seen[id(source)][1] for source in sources], np.int32)
        kinds = np.zeros(count, np.int8)
        kinds[rows.outputs] = Kind.OUTPUT
        kinds[rows.retained] = Kind.RETAINED
        return pa.record_batch(
            [
                pa.array(np.arange(seq, seq + count)),
                pa.array(np.repeat(_micros(times), lengths), pa.timestamp("us", "UTC")),
                pa.array(kinds),
                pa.array(np.repeat(numbers, lengths)),
                pa.array(plans),
                pa.array(rows.packets, pa.binary()),
                _details(rows, count),
            ],
            schema=SCHEMA,
        )

    def _new_sources(self, rows: Rows) -> list[Definition]:
        made: list[Definition] = []
        for _, source, _ in rows.runs:
            if id(source) in self._seen:
                continue
            number = self._sources.get(source)
            if number is None:
                number = self._sources[source] = len(self._sources)
                made.append((Kind.SOURCE, number, None, source._asdict()))
            self._seen[id(source)] = source, number
        return made

    def _new_plans(self, rows: Rows, numbers: npt.NDArray[np.int32]) -> list[Definition]:
        distinct, places = np.unique(numbers, return_index=True)
        made: list[Definition] = []
        for number, place in zip(distinct.tolist(), places.tolist(), strict=True):
            if number not in self._plans:
                self._plans.add(number)
                made.append((Kind.PLAN, None, number, _told(rows.notes[place])))
        return made


def _defining(seq: int, time: float, rows: list[Definition]) -> pa.RecordBatch:
    kinds, sources, plans, details = zip(*rows, strict=True)
    columns = [
        pa.array(range(seq, seq + len(rows)), pa.int64()),
        pa.array([int(time * 1_000_000)] * len(rows), pa.timestamp("us", "UTC")),
        pa.array(kinds, pa.int8()),
        pa.array(sources, pa.int32()),
        pa.array(plans, pa.int32()),
        pa.nulls(len(rows), pa.binary()),
        pa.array([_encode(detail).decode() for detail in details], pa.string()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def _micros(times: tuple[float, ...]) -> npt.NDArray[np.int64]:
    return (np.array(times) * 1_000_000).astype(np.int64)


def _told(note: Note) -> dict[str, Any]:
    told: dict[str, Any] = {**_verdict(note.verdict), "reached": [_reached(one) for one in note.reached]}
    if note.is_open:
        told["open"] = True
    if note.groups:
        told["groups"] = note.groups
    return told


def _details(rows: Rows, count: int) -> pa.Array:
    """What was decided about single events; there is little of it."""
    if not rows.verdicts and not rows.chosen and not rows.missed:
        return pa.nulls(count, pa.string())
    details: list[str | None] = [None] * count
    for row in rows.verdicts.keys() | rows.chosen.keys() | rows.missed.keys():
        told: dict[str, Any] = {}
        if row in rows.verdicts:
            told |= _verdict(rows.verdicts[row])
        if row in rows.chosen:
            told["chosen"] = [_reached(one) for one in rows.chosen[row]]
        if row in rows.missed:
            told["missed"] = [_reached(one) for one in rows.missed[row]]
        details[row] = _encode(told).decode()
    return pa.array(details, pa.string())


def _verdict(verdict: Verdict) -> dict[str, str]:
    return {"effect": verdict.effect.value, "stage": verdict.stage, "rule": verdict.rule, "reason": verdict.reason}


def _reached(one: Reached) -> dict[str, Any]:
    return one._asdict()
