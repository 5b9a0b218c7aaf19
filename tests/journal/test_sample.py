"""The end of a journal as a small journal: the last events of all nodes together, whichever files they are in."""

from pathlib import Path

import pytest

from penstock.journal.read.sample import sample
from penstock.journal.read.tables import parts, read_all
from penstock.journal.write.compact import compact
from tests.support.memory.journals import NOON, rows, write_segments


def journal(folder: Path) -> Path:
    """Node `n` has ten events in three segments, one a second; node `quiet` one, before all others."""
    written = [rows((f"t/{number}", b""), time=NOON + number) for number in range(10)]
    write_segments(folder, written[:4], written[4:7], written[7:])
    write_segments(folder, [rows(("early", b""), time=NOON - 60)], node="quiet")
    (folder / "revisions" / "r1").mkdir(parents=True)
    (folder / "revisions" / "r1" / "domain.yaml").write_text("domain: test\n")
    return folder


def topics(folder: Path, since: object) -> list[str]:
    events = read_all(folder)[0].to_pylist()
    return [event["topic"] for event in events if since is None or event["time"] >= since]


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(
    ("last", "expected"),
    [(1, ["t/9"]), (3, ["t/7", "t/8", "t/9"]), (5, ["t/5", "t/6", "t/7", "t/8", "t/9"])],
    ids=["one", "a whole segment", "of two segments"],
)
def test_the_last_events(tmp_path: Path, last: int, expected: list[str], is_compacted: bool) -> None:
    whole = journal(tmp_path / "whole")
    if is_compacted:
        assert list(compact(whole))
    sampled = sample(whole, tmp_path / "small", last)
    assert sampled.arrivals == last
    assert topics(tmp_path / "small", sampled.since) == expected
    assert {part.node for part in parts(tmp_path / "small")} == {"n", "quiet"}, "it is known which nodes recorded"
    assert (tmp_path / "small" / "revisions" / "r1" / "domain.yaml").exists()


def test_a_journal_with_less_than_asked_for_is_taken_whole(tmp_path: Path) -> None:
    sampled = sample(journal(tmp_path / "whole"), tmp_path / "small", 1_000)
    assert (sampled.since, sampled.arrivals) == (None, 11)
    assert len(topics(tmp_path / "small", None)) == 11


def test_files_from_before_are_left_out(tmp_path: Path) -> None:
    sample(journal(tmp_path / "whole"), tmp_path / "small", 2)
    assert sorted(part.first for part in parts(tmp_path / "small", frozenset({"n"})))[0] > 4


def test_an_empty_journal(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    assert sample(tmp_path / "whole", tmp_path / "small", 5) == (None, 0)
