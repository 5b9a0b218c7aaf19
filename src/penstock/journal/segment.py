"""Writing a segment: rows of a recorder become Arrow batches."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.engine.record import Note, Reached, Rows, Source
from penstock.journal.format import OPEN, SCHEMA, Kind, partition, schema_of, segment_name
from penstock.model.verdict import Verdict

_encode = msgspec.json.Encoder().encode


class Segment:
    """One file that is being written."""

    def __init__(self, folder: Path, node: str, domain: str, first: int, time: float) -> None:
        self.first = first
        self.began = time
        home = partition(folder, node, time)
        home.mkdir(parents=True, exist_ok=True)
        name = segment_name(first, time)
        self.path, self.sealed = home / f"{OPEN}{name}", home / name
        self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115  # closed by `seal`
        self._stream = pa.ipc.new_stream(self._file, schema_of(node, domain))
        self._sources: dict[Source, int] = {}
        self._plans: set[int] = set()

    @property
    def size(self) -> int:
        return self._file.tell()

    def revision(self, seq: int, time: float, revision: str) -> int:
        """Say which policies are in force; returns the next sequence number."""
        return self._define(seq, time, [(Kind.REVISION, None, None, {"revision": revision})])

    def gap(self, seq: int, time: float, missing: int) -> int:
        """Say that rows are missing."""
        return self._define(seq, time, [(Kind.GAP, None, None, {"rows": missing})])

    def write(self, seq: int, rows: Rows) -> int:
        """Append rows; returns the next sequence number."""
        if not rows.packets:
            return seq
        time = rows.runs[0][2]
        seq = self._define(seq, time, [*self._new_sources(rows), *self._new_plans(rows)])
        self._stream.write_batch(self._batch(seq, rows))
        return seq + len(rows.packets)

    def seal(self) -> Path:
        """Nothing more comes: it gets its name."""
        self._stream.close()
        self._file.close()
        self.path.rename(self.sealed)
        return self.sealed

    def abandon(self) -> None:
        """It cannot be written any more; what is in it is found by recovery."""
        self._file.close()

    def _batch(self, seq: int, rows: Rows) -> pa.RecordBatch:
        count = len(rows.packets)
        ends = np.fromiter((run[0] for run in rows.runs), np.int64, len(rows.runs))
        lengths = np.diff(ends, prepend=0)
        times = np.fromiter((int(run[2] * 1_000_000) for run in rows.runs), np.int64, len(rows.runs))
        sources = np.fromiter((self._sources[run[1]] for run in rows.runs), np.int32, len(rows.runs))
        kinds = np.zeros(count, np.int8)
        kinds[rows.outputs] = Kind.OUTPUT
        return pa.record_batch(
            [
                pa.array(np.arange(seq, seq + count)),
                pa.array(np.repeat(times, lengths), pa.timestamp("us", "UTC")),
                pa.array(kinds),
                pa.array(np.repeat(sources, lengths)),
                pa.array([note.number for note in rows.notes], pa.int32()),
                pa.array(rows.packets, pa.binary()),
                _details(rows, count),
            ],
            schema=SCHEMA,
        )

    def _new_sources(self, rows: Rows) -> list[tuple[Kind, int | None, int | None, Any]]:
        made: list[tuple[Kind, int | None, int | None, Any]] = []
        for source in {run[1] for run in rows.runs}:
            if source not in self._sources:
                number = self._sources[source] = len(self._sources)
                made.append((Kind.SOURCE, number, None, source._asdict()))
        return made

    def _new_plans(self, rows: Rows) -> list[tuple[Kind, int | None, int | None, Any]]:
        made: list[tuple[Kind, int | None, int | None, Any]] = []
        for note in rows.notes:
            if note.number not in self._plans:
                self._plans.add(note.number)
                made.append((Kind.PLAN, None, note.number, _told(note)))
        return made

    def _define(self, seq: int, time: float, rows: list[tuple[Kind, int | None, int | None, Any]]) -> int:
        if not rows:
            return seq
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
        self._stream.write_batch(pa.record_batch(columns, schema=SCHEMA))
        return seq + len(rows)


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
