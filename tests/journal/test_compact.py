"""Compaction: the same events in fewer files, whenever it is stopped; content in typed columns."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.domain import Domain
from penstock.journal.read.follow import Follower
from penstock.journal.read.tables import parts, read_all
from penstock.journal.revision import Revision
from penstock.journal.write.compact import compact
from penstock.journal.write.recover import recover
from penstock.model.errors import PenstockError
from tests.support.memory.journals import DAY, NOON, events, gathered, problems, rows, same, write_segments


def _journal(folder: Path) -> Path:
    """Two days, one of them with several segments, a row that is no event, and one that is open."""
    bad = gathered([b"\x10\0"])
    segments = [[rows(("a", b"%d" % number), ("b", b"x"))] for number in range(3)]
    write_segments(folder, *segments, [bad, rows(("c", b"3"))], [rows(("d", b"next day"), time=NOON + DAY)])
    return folder


def test_a_compacted_journal_has_the_same_events(tmp_path: Path) -> None:
    before = read_all(_journal(tmp_path))
    last = recover(tmp_path, "n")
    done = list(compact(tmp_path))
    after = read_all(tmp_path)
    assert same(before[0], after[0])
    assert same(before[1], after[1])
    assert [compacted.files for compacted in done] == [4, 1], "one file for each day"
    assert not list((tmp_path / "node=n").rglob("*.arrow"))
    assert recover(tmp_path, "n") == last, "numbers are not used again"


def test_there_is_nothing_to_do_the_second_time(tmp_path: Path) -> None:
    list(compact(_journal(tmp_path)))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert list(compact(tmp_path)) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before


def test_small_files_of_one_day_are_joined_later(tmp_path: Path) -> None:
    write_segments(tmp_path, [rows(("a", b"1"))])
    list(compact(tmp_path))
    write_segments(tmp_path / "more", [rows(("a", b"1"))], [rows(("a", b"2"))])
    (tmp_path / "node=n").mkdir(exist_ok=True)
    shutil.copytree(tmp_path / "more" / "node=n", tmp_path / "node=n", dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "more")
    list(compact(tmp_path))
    assert [row["payload"] for row in events(tmp_path)] == [b"1", b"2"]
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_files_do_not_grow_beyond_their_target(tmp_path: Path) -> None:
    write_segments(tmp_path, *[[rows(("a", os.urandom(2000)))] for _ in range(6)])
    size = parts(tmp_path)[0].path.stat().st_size
    assert [compacted.files for compacted in compact(tmp_path, target=size * 2 + 10)] == [2, 2, 2]


def test_a_damaged_segment_stays_where_it_is(tmp_path: Path) -> None:
    _journal(tmp_path)
    damaged = parts(tmp_path)[1].path
    damaged.write_bytes(damaged.read_bytes()[:-50])
    before = read_all(tmp_path)
    list(compact(tmp_path))
    assert damaged.exists()
    assert same(before[0], read_all(tmp_path)[0])
    assert sorted(problems(tmp_path)) == sorted(before[1]["problem"].to_pylist())


def test_two_do_not_compact_at_once(tmp_path: Path) -> None:
    first = compact(_journal(tmp_path))
    next(first)
    with pytest.raises(PenstockError, match="being compacted already"):
        next(compact(tmp_path))
    list(first)


def _stopped_after(steps: int, folder: Path) -> bool:
    """Compact in a process that ends, as by kill -9, before the step of this number; whether it got that far."""
    child = os.fork()
    if not child:
        left = steps

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def step(*arguments: object, **named: object) -> object:
                nonlocal left
                if not left:
                    os._exit(9)
                left -= 1
                return call(*arguments, **named)

            return step

        for name in ("rename", "unlink"):
            setattr(Path, name, counted(getattr(Path, name)))
        os.fsync = counted(os.fsync)  # type: ignore[assignment]
        list(compact(folder))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_whenever_it_is_stopped_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    whole = read_all(_journal(tmp_path / "whole"))
    steps = 0
    while True:
        folder = shutil.copytree(tmp_path / "whole", tmp_path / str(steps))
        was_stopped = _stopped_after(steps, folder)
        for when in ("stopped", "done again"):
            tables = read_all(folder)
            assert same(tables[0], whole[0]), f"events, {when}, before step {steps}"
            assert same(tables[1], whole[1]), f"quarantine, {when}, before step {steps}"
            list(compact(folder))
        assert not list(folder.rglob("_*")), "no draft is left"
        if not was_stopped:
            break
        steps += 1
    assert steps > 8, "there were steps to be stopped at"


def test_whoever_follows_sees_each_event_once_while_it_is_compacted(tmp_path: Path) -> None:
    _journal(tmp_path)
    follower = Follower(tmp_path)
    seen = [seq for table in follower.more() for seq in table["seq"].to_pylist()]
    list(compact(tmp_path))
    assert list(follower.more()) == []
    assert seen == [row["seq"] for row in events(tmp_path)]


DOMAIN = Domain.model_validate(
    {
        "nodes": {"n": {"listen": "127.0.0.1:0", "store": "memory"}},
        "content": [
            {"topics": "raw/#", "format": "text"},
            {
                "topics": "t/#",
                "format": "json",
                "schema": {"x": "int", "y": "double", "l": ["string"], "r": {"b": "bool"}},
            },
            {"topics": "dyn/#", "format": "json", "schema": {"v": "dyn"}},
            {"topics": "u/#", "format": "json", "schema": {"n": "uint"}},
        ],
    }
)
CONTENTS: dict[str, tuple[str, object, object]] = {
    "as declared": (
        "t/1",
        {"x": 1, "y": 2.5, "l": ["a", None], "r": {"b": True}},
        {"x": 1, "y": 2.5, "l": ["a", None], "r": {"b": True}},
    ),
    "some of it": ("t/1", {"x": 1}, {"x": 1, "y": None, "l": None, "r": None}),
    "nothing of it": ("t/1", {}, {"x": None, "y": None, "l": None, "r": None}),
    "an int where a double is declared": ("t/1", {"y": 2}, {"x": None, "y": 2.0, "l": None, "r": None}),
    "a double is no int": ("t/1", {"x": 2.0}, "not as declared: a value of type double where int was expected"),
    "null is not absent": ("t/1", {"x": None}, "not as declared: a value of type null where int was expected"),
    "more than declared": ("t/1", {"z": 1}, "not as declared: `z` is not declared"),
    "a bool is no int": ("t/1", {"x": True}, "not as declared: a value of type bool where int was expected"),
    "an int is no uint": ("u/1", {"n": 5}, "not as declared: a value of type int where uint was expected"),
}


def _typed(folder: Path, topic: str, payload: bytes) -> dict[str, object]:
    revision = Revision.of(DOMAIN)
    revision.keep(folder)
    write_segments(folder, [rows((topic, payload))], revision=revision.digest)
    (done,) = compact(folder)
    (row,) = pq.ParquetFile(done.path).read().to_pylist()
    return row  # type: ignore[no-any-return]


@pytest.mark.parametrize("title", CONTENTS)
def test_content_as_declared_is_in_a_typed_column(tmp_path: Path, title: str) -> None:
    topic, content, expected = CONTENTS[title]
    row = _typed(tmp_path, topic, json.dumps(content).encode())
    column = "content_0" if topic.startswith("t/") else "content_2"
    assert (row[column] or row["unreadable"]) == expected
    assert (row[column] is None) == (row["unreadable"] is not None)


def test_content_that_is_not_what_its_format_says_is_unreadable(tmp_path: Path) -> None:
    row = _typed(tmp_path, "t/1", b"{")
    assert row["content_0"] is None
    assert "not JSON" in str(row["unreadable"])


@pytest.mark.parametrize("topic", ["raw/1", "dyn/1", "other"])
def test_content_without_declared_types_has_no_column(tmp_path: Path, topic: str) -> None:
    row = _typed(tmp_path, topic, b'{"v": 1}')
    assert {name for name in row if name.startswith("content_")} == {"content_type", "content_0", "content_2"}
    assert (row["content_0"], row["content_2"], row["unreadable"]) == (None, None, None)


def test_a_day_is_a_folder(tmp_path: Path) -> None:
    list(compact(_journal(tmp_path)))
    days = [datetime.fromtimestamp(time, UTC).date() for time in (NOON, NOON + DAY)]
    assert [part.day for part in parts(tmp_path)] == days
    assert read_all(tmp_path, days=(days[1], days[1]))[0]["payload"].to_pylist() == [b"next day"]
