"""A disk that takes a segment's head and no batch: what was tried leaves nothing, and nothing admitted is lost."""

from pathlib import Path
from queue import Queue

import pytest

from penstock.broker.observe import journal as module
from penstock.broker.observe.journal import Journal
from penstock.broker.observe.log import NodeLog
from penstock.domain.schema.domain import JournalSettings
from penstock.engine.recorder import Recorder
from penstock.journal.read.tables import parts
from penstock.journal.revision import Revision
from tests.broker.observe.test_journal import SMALL_FILES, journalling, small_files
from tests.support.memory.journals import NOON, events, files_of_at_most, problems, rows
from tests.support.processes.commands import PATIENCE, until

ROOM = 16 * 1024
LARGE = bytes(ROOM)
ATTEMPTS = 5
NODE = "main"


class _Journal(Journal):
    """One that is given rows by hand, and tells of each attempt that failed."""

    def __init__(self, folder: Path, when_failing: str) -> None:
        settings = JournalSettings.model_validate({"folder": folder, "flush": 0, "when_failing": when_failing})
        super().__init__(settings, NODE, "test", Recorder(), NodeLog(NODE))
        self.woken: Queue[str] = Queue()
        self.start(lambda: self.woken.put(self.failing))
        self.set_revision(Revision("r1", (("domain.yaml", b"domain: test"),)))

    def take(self, payload: bytes, time: float) -> None:
        self.recorder.rows = rows(("t", payload), time=time)
        self.recorder.notes = self.recorder.rows.notes
        self.turn(time, 0)

    def fail(self, times: int) -> None:
        """Return when so many attempts have failed."""
        while times:
            times -= self.woken.get(timeout=PATIENCE) == "File too large"

    def recover(self) -> None:
        """Return when one has not."""
        while self.woken.get(timeout=PATIENCE):
            pass


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / f"node={NODE}").rglob("*") if path.is_file()]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


def test_attempts_that_fail_leave_no_files_and_use_up_no_numbers(tmp_path: Path) -> None:
    with files_of_at_most(ROOM):
        journal = _Journal(tmp_path, "stop")
        journal.take(LARGE, NOON)
        journal.take(b"after", NOON + 1)
        journal.fail(ATTEMPTS)
    journal.recover()
    journal.stop()
    assert [(row["payload"], row["revision"]) for row in events(tmp_path)] == [(LARGE, "r1"), (b"after", "r1")]
    assert [part.first for part in parts(tmp_path)] == [0]
    assert len(_files(tmp_path)) == 1
    assert problems(tmp_path) == []
    assert journal.lost == 0


def test_what_is_in_a_segment_that_takes_no_more_is_kept(tmp_path: Path) -> None:
    with files_of_at_most(ROOM):
        journal = _Journal(tmp_path, "stop")
        journal.take(b"before", NOON)
        journal.take(LARGE, NOON + 1)
        journal.fail(ATTEMPTS)
        assert [row["payload"] for row in events(tmp_path)] == [b"before"]
        assert len(parts(tmp_path)) <= 2, "one that is sealed, one that is tried"
    journal.recover()
    journal.stop()
    assert [row["payload"] for row in events(tmp_path)] == [b"before", LARGE]
    assert len(_files(tmp_path)) == 2
    assert problems(tmp_path) == []


def test_who_goes_on_leaves_one_gap_for_all_that_is_missing(tmp_path: Path) -> None:
    with files_of_at_most(ROOM):
        journal = _Journal(tmp_path, "go on")
        for number in range(ATTEMPTS):
            journal.take(LARGE, NOON + number)
        journal.fail(ATTEMPTS)
        journal.take(b"after", NOON + ATTEMPTS)
        journal.stop()
    assert [row["payload"] for row in events(tmp_path)] == [b"after"]
    assert len(_files(tmp_path)) == 1
    assert [problem.split(":")[0] for problem in problems(tmp_path)] == [f"{ATTEMPTS} rows are missing before this one"]
    assert journal.lost == ATTEMPTS


def _missing(folder: Path) -> list[str]:
    return [problem.split(":")[0] for problem in problems(folder)]


@pytest.mark.parametrize("when_failing", ["stop", "go on"])
def test_what_was_not_taken_until_the_end_is_a_gap(tmp_path: Path, when_failing: str) -> None:
    with files_of_at_most(ROOM):
        journal = _Journal(tmp_path, when_failing)
        for number in range(3):
            journal.take(LARGE, NOON + number)
        journal.fail(1)
        journal.stop()
    assert _missing(tmp_path) == ["3 rows are missing before this one"]
    again = _Journal(tmp_path, when_failing)
    again.take(b"again", NOON + 3)
    again.stop()
    assert [row["payload"] for row in events(tmp_path)] == [b"again"]
    assert _missing(tmp_path) == ["3 rows are missing before this one"]


@pytest.mark.parametrize("when_failing", ["stop", "go on"])
def test_the_next_run_says_what_a_full_disk_had_no_room_to_say(tmp_path: Path, when_failing: str) -> None:
    with files_of_at_most(ROOM):
        journal = _Journal(tmp_path, when_failing)
        journal.take(b"before", NOON)
        journal.take(LARGE, NOON + 1)
        journal.fail(1)
        with files_of_at_most(100):
            journal.stop()
            assert sorted(path.name[:9] for path in _files(tmp_path)) == ["000000000", "_missing-"]
            again = _Journal(tmp_path, when_failing)
            again.take(b"lost too", NOON + 2)
            again.stop()
            assert _missing(tmp_path) == []
    last = _Journal(tmp_path, when_failing)
    last.take(b"last", NOON + 3)
    last.stop()
    assert [row["payload"] for row in events(tmp_path)] == [b"before", b"last"]
    assert _missing(tmp_path) == ["2 rows are missing before this one"]
    assert len(_files(tmp_path)) == 2


async def test_what_a_killed_node_could_not_write_is_a_gap(tmp_path: Path) -> None:
    with journalling(tmp_path, {"when_failing": "stop"}, small_files) as node:
        publisher = await node.peer("publisher")
        await publisher.publish("t", b"before", 1)
        node.until_recorded(1)
        await publisher.publish("t", bytes(SMALL_FILES), 1)
        until(lambda: bool(list(node.journal.glob("node=*/_missing-1"))), "it is kept how many rows wait")
        node.kill()
        node.start()
        await (await node.peer("publisher")).publish("t", b"after", 1)
        until(lambda: b"after" in node.payloads(), "the journal goes on")
    assert node.payloads() == [b"before", b"after"]
    assert _missing(node.journal) == ["1 rows are missing before this one"]
    assert not list(node.journal.glob("node=*/_missing-*"))
