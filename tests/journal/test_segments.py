"""Segments are read as they were written; incomplete rows are left out, and wrong ones are reported."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.journal_rows import Reached
from penstock.journal.format import OPEN
from penstock.journal.read.events import EVENTS, read_segment
from penstock.journal.read.tables import parts, read_all
from penstock.journal.write.compact import compact
from penstock.journal.write.recover import read_intact, recover
from penstock.journal.write.segment import Segment
from penstock.model.verdict import Effect, Verdict
from penstock.wire.codec import encode
from penstock.wire.packet import Publish
from penstock.wire.properties import Properties
from tests.support.memory.journals import (
    DENIED,
    NODE,
    NOON,
    PHONE,
    SENSOR,
    events,
    files_of_at_most,
    gathered,
    problems,
    rows,
    write_segments,
)


def _segment(folder: Path) -> Path:
    write_segments(folder, [rows(("a", b"1"), ("b", b"2")), rows(("a", b"3")), rows(("x", b"4"), note=DENIED)])
    (part,) = parts(folder)
    return part.path


def test_an_event_says_who_sent_it_what_was_decided_and_whom_it_reached(tmp_path: Path) -> None:
    _segment(tmp_path)
    first, *_, denied = events(tmp_path)
    assert {name: first[name] for name in ("node", "revision", "kind", "topic", "payload", "qos", "version")} == {
        "node": "n",
        "revision": "r1",
        "kind": "arrival",
        "topic": "a",
        "payload": b"1",
        "qos": 0,
        "version": 4,
    }
    assert (first["client_id"], first["user"], first["entity"], first["link_type"]) == SENSOR[:4]
    assert first["reached"] == [PHONE._asdict()]
    assert (denied["stage"], denied["effect"], denied["rule"], denied["reason"]) == tuple(DENIED.verdict)
    assert denied["reached"] == []


def test_what_monitors_made_belongs_to_its_arrival(tmp_path: Path) -> None:
    packets = [encode(Publish("a", b"1"), 4), b"", encode(Publish("b", b"2"), 4), encode(Publish("c", b"3"), 4)]
    recorded = gathered(packets)._replace(outputs=[1, 2])
    write_segments(tmp_path, [recorded])
    arrival, same, other, next_ = events(tmp_path)
    assert [(row["kind"], row["place"], row["topic"], row["payload"]) for row in (arrival, same, other, next_)] == [
        ("arrival", 0, "a", b"1"),
        ("output", 0, "a", b"1"),
        ("output", 1, "b", b"2"),
        ("arrival", 0, "c", b"3"),
    ]
    assert {row["arrival"] for row in (arrival, same, other)} == {arrival["seq"]}
    assert next_["arrival"] == next_["seq"]


def test_what_is_said_of_one_event_counts_more_than_its_plan(tmp_path: Path) -> None:
    late = Reached("hub", "hub-1", "u", "lan", None, 0)
    withheld = Verdict("edit", Effect.SUPPRESS, "`once`", "suppressed")
    packets = [encode(Publish("a", b""), 4)] * 3
    recorded = gathered(packets)._replace(verdicts={0: withheld}, chosen={1: (late,)}, missed={2: (PHONE,)})
    write_segments(tmp_path, [recorded])
    suppressed, more, none = events(tmp_path)
    assert (suppressed["effect"], suppressed["rule"], suppressed["reached"]) == ("suppress", "`once`", [])
    assert more["reached"] == [PHONE._asdict(), late._asdict()]
    assert (none["effect"], none["reached"]) == ("pass", [])


def test_a_neighbour_is_the_path_unless_more_is_told(tmp_path: Path) -> None:
    properties = Properties(user_properties=(("penstock-path", "c,a"), ("penstock-id", "x1"), ("mine", "1")))
    packets = [encode(Publish("a", b""), 5), encode(Publish("a", b"", properties=properties), 5)]
    write_segments(tmp_path, [gathered(packets, source=NODE), rows(("a", b""))])
    near, far, own = events(tmp_path)
    assert [(row["path"], row["id"]) for row in (near, far, own)] == [(["a"], None), (["c", "a"], "x1"), ([], None)]
    assert far["properties"] == b"\x26\0\4mine\0\1" + b"1"


@given(st.data())
def test_a_segment_that_breaks_off_anywhere_gives_its_whole_batches(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = _segment(folder)
    whole = read_segment(path).events
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    left = path.with_name(OPEN + path.name)
    path.rename(left)
    left.write_bytes(content[:at])
    before = read_all(folder)[0]
    assert before.equals(whole.slice(0, before.num_rows))
    last = recover(folder, "n")
    after, unread = read_all(folder)
    assert after.equals(before), "recovery keeps what could be read"
    assert not unread.num_rows
    assert not list(folder.rglob(f"{OPEN}*"))
    assert last >= (before["seq"][-1].as_py() if before.num_rows else -1)


@given(st.data())
def test_damage_is_said_and_never_an_exception(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = _segment(folder)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    events = read_segment(path).events
    assert events.schema.equals(EVENTS)


def test_a_sealed_segment_that_breaks_off_is_in_the_quarantine(tmp_path: Path) -> None:
    path = _segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    assert ["it breaks off" in problem for problem in problems(tmp_path)] == [True]
    assert events(tmp_path), "what is whole is read"


@pytest.mark.parametrize(
    ("packet", "outputs", "problem"),
    [
        (b"\x10\x00", [], "it is not a PUBLISH packet"),
        (encode(Publish("a", b""), 4), [0], "it has no arrival"),
    ],
)
def test_a_row_that_is_no_event_is_in_the_quarantine(
    tmp_path: Path, packet: bytes, outputs: list[int], problem: str
) -> None:
    write_segments(tmp_path, [gathered([packet])._replace(outputs=outputs), rows(("a", b"2"))])
    (lost,) = read_all(tmp_path)[1].to_pylist()
    assert (lost["problem"], lost["packet"]) == (problem, packet)
    assert [row["payload"] for row in events(tmp_path)] == [b"2"]


def test_a_gap_is_in_the_quarantine(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "n", "test", 0, NOON)
    segment.write(segment.gap(0, NOON, 17), rows(("a", b"1")))
    segment.seal()
    assert [problem.split(":")[0] for problem in problems(tmp_path)] == ["17 rows are missing before this one"]


def _with_version(folder: Path, version: int) -> None:
    path = _segment(folder)
    read = read_intact(path)
    assert read.schema is not None
    with pa.ipc.new_stream(path, read.schema.with_metadata({"penstock.journal": str(version)})) as stream:
        for batch in read.batches:
            stream.write_batch(batch)


def test_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    _with_version(tmp_path, 6)
    assert (events(tmp_path), problems(tmp_path)) == ([], ["its version is 6; versions 1, 2, 3, 4, 5 are read"])


def test_a_view_belongs_to_the_output_before_it(tmp_path: Path) -> None:
    sent = rows(*((f"t/{number}", b"") for number in range(8)))
    for numbers, kind in ((sent.outputs, (1, 3)), (sent.views, (2, 4, 6)), (sent.sent, (7,))):
        numbers.extend(kind)
    write_segments(tmp_path, [sent])
    assert [(row["kind"], row["topic"], row["place"]) for row in events(tmp_path)] == [
        ("arrival", "t/0", 0),
        ("output", "t/1", 0),
        ("view", "t/2", 0),
        ("output", "t/3", 1),
        ("view", "t/4", 1),
        ("arrival", "t/5", 0),
        ("view", "t/6", 0),
        ("sent", "t/7", 0),
    ]
    topics = {row["seq"]: row["topic"] for row in events(tmp_path)}
    belongs = [topics[row["arrival"]] for row in events(tmp_path)]
    assert belongs == ["t/0", "t/0", "t/0", "t/0", "t/0", "t/5", "t/5", "t/7"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_before_are_read(version: int, tmp_path: Path) -> None:
    _with_version(tmp_path / "before", version)
    _segment(tmp_path / "now")
    assert events(tmp_path / "before") == events(tmp_path / "now")
    assert problems(tmp_path / "before") == []


@pytest.mark.parametrize("room", [0, 1, 700, 2000, 2500])
def test_what_the_disk_takes_in_part_is_not_in_the_segment(tmp_path: Path, room: int) -> None:
    segment = Segment(tmp_path, "n", "test", 0, NOON)
    seq = segment.write(0, rows(("a", b"1")))
    with files_of_at_most(segment.size + room), pytest.raises(OSError, match="File too large"):
        segment.write(seq, rows(("b", b"2" * 3000), note=DENIED))
    assert segment.abandon()
    assert [row["payload"] for row in events(tmp_path)] == [b"1"]
    assert problems(tmp_path) == []
    assert recover(tmp_path, "n") == seq - 1


@pytest.mark.parametrize("room", [0, 10, 1500, 2500], ids=["nothing", "a part", "its head", "all but an end"])
def test_a_segment_without_an_event_is_not_kept(tmp_path: Path, room: int) -> None:
    segment = Segment(tmp_path, "n", "test", 0, NOON)
    seq = segment.gap(segment.revision(0, NOON, "r1"), NOON, 17)
    with files_of_at_most(room), pytest.raises(OSError, match="File too large"):
        segment.write(seq, rows(("a", b"1" * 3000)))
    assert segment.abandon()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("room", [0, 1, 7])
def test_a_disk_that_has_no_room_for_the_end_damages_nothing(tmp_path: Path, room: int) -> None:
    segment = Segment(tmp_path, "n", "test", 0, NOON)
    seq = segment.write(0, rows(("a", b"1")))
    with files_of_at_most(segment.size + room), pytest.raises(OSError, match="File too large"):
        segment.seal()
    assert segment.abandon()
    assert [part.is_open for part in parts(tmp_path)] == [False]
    assert [row["payload"] for row in events(tmp_path)] == [b"1"]
    assert problems(tmp_path) == []
    assert recover(tmp_path, "n") == seq - 1


def test_a_segment_that_cannot_be_let_go_is_left_to_recovery(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "n", "test", 0, NOON)
    seq = segment.write(0, rows(("a", b"1")))
    open_files = _open_files()
    segment.sealed.mkdir()  # its name is taken
    assert not segment.abandon()
    assert _open_files() == open_files - 1
    segment.sealed.rmdir()
    assert recover(tmp_path, "n") == seq - 1
    assert [part.is_open for part in parts(tmp_path)] == [False]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_files_that_a_failed_attempt_once_left_are_harmless(tmp_path: Path) -> None:
    """Until 0.1.0 each attempt left one that says which policies are in force, and nothing else."""
    last = write_segments(tmp_path, [rows(("a", b"1"))], [], [], [rows(("a", b"2"))], []) - 1
    assert recover(tmp_path, "n") == last
    assert [row["payload"] for row in events(tmp_path)] == [b"1", b"2"]
    assert [compacted.files for compacted in compact(tmp_path)] == [5]
    assert [row["payload"] for row in events(tmp_path)] == [b"1", b"2"]
    assert problems(tmp_path) == []
    assert recover(tmp_path, "n") == last
