"""Journals for tests: rows by hand, and what a journal of a live node says."""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.engine.journal_rows import Note, Reached, Rows, Source
from penstock.journal.read.tables import read_all
from penstock.journal.write.segment import Segment
from penstock.model.verdict import Effect, Verdict
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

NOON = 1_700_049_600.0
"""A day's noon, UTC."""
DAY = 86400.0

SENSOR = Source("sensor-1", "sue", "sensor", "lan", None, 4, 4)
NODE = Source("a", None, "a", "wan", "a", 5, 5)
PHONE = Reached("phone", "phone-7", None, "lan", None, 1)
PASSES = Note(1, Verdict("admit", Effect.PASS), False, (PHONE,), ())
DENIED = Note(2, Verdict("admit", Effect.SUPPRESS, "acl line 3", "`sue` may not write `x`"), False, (), ())


def rows(*published: tuple[str, bytes], source: Source = SENSOR, note: Note = PASSES, time: float = NOON) -> Rows:
    """What a recorder gathers of QoS 0 publications."""
    return gathered(
        [encode(Publish(topic, payload), source.packets) for topic, payload in published], note, source, time
    )


def gathered(packets: Sequence[bytes], note: Note = PASSES, source: Source = SENSOR, time: float = NOON) -> Rows:
    """What a recorder gathers of packets that come one after the other."""
    return Rows.of(packets, note, source, time)


def write_segments(folder: Path, *segments: Sequence[Rows], node: str = "n", revision: str = "r1") -> int:
    """Write sealed segments one after the other; returns the next sequence number."""
    seq = 0
    for number, of_segment in enumerate(segments):
        time = of_segment[0].times[0] if of_segment else NOON
        segment = Segment(folder, node, "test", seq, time + number / 1000)
        seq = segment.revision(seq, time, revision)
        for one in of_segment:
            seq = segment.write(seq, one)
        segment.seal()
    return seq


def events(folder: Path) -> list[dict[str, object]]:
    """All events of a journal."""
    return read_all(folder)[0].to_pylist()  # type: ignore[no-any-return]


def problems(folder: Path) -> list[str]:
    """All that is missing of a journal, or cannot be read."""
    return read_all(folder)[1]["problem"].to_pylist()  # type: ignore[no-any-return]


def same(left: pa.Table, right: pa.Table) -> bool:
    return bool(left.combine_chunks().equals(right.combine_chunks()))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a disk that is full, a file takes so many bytes of what is written, and then no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
