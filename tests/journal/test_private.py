"""Access to a journal's files: its owner, and its owner's group; payloads are in it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.domain import Domain
from penstock.journal.jobs import JobRecord
from penstock.journal.revision import Revision
from penstock.journal.write.compact import compact
from tests.support.memory.journals import rows, write_segments


@pytest.fixture
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_mask")
def test_nobody_else_reads_a_journal(tmp_path: Path) -> None:
    home = tmp_path / "journal"
    write_segments(home, [rows(("a", b"1"))])
    Revision.of(Domain.model_validate({"nodes": {"main": {"listen": "127.0.0.1:0"}}})).keep(home)
    JobRecord(home, "audit", {}).add(report="<h1>payloads</h1>")
    _nothing_for_others(home)
    list(compact(home))
    _nothing_for_others(home)


def _nothing_for_others(home: Path) -> None:
    paths = [home, *home.rglob("*")]
    assert [(str(path), oct(path.stat().st_mode)) for path in paths if path.stat().st_mode & 0o027] == []
    assert any(path.is_file() for path in paths)
