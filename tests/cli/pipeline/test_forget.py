"""`penstock pipeline forget`, as its own process: what it deletes, what it prints, and how it ends."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.cli.main import main
from tests.support.processes.commands import PATIENCE, penstock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
UNTIL = pa.timestamp("us", "UTC")


def _table(path: Path, minutes: list[int | None]) -> None:
    """A file of a table: rows that are to be deleted so many minutes after noon, or never."""
    until = [None if after is None else NOON + timedelta(minutes=after) for after in minutes]
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"seq": pa.array(range(len(until))), "retain_until": pa.array(until, UNTIL)}), path)


def _left(folder: Path) -> list[int]:
    left: list[int] = ds.dataset(folder).to_table().column("seq").to_pylist()
    return left


@pytest.mark.recorded
def test_what_is_over_is_deleted_from_views_and_from_tables_of_capsules(tmp_path: Path) -> None:
    _table(tmp_path / "view" / "subject=doctor" / "date=2026-01-01" / "a.parquet", [0, 30, None])
    _table(tmp_path / "view" / "subject=lab" / "date=2026-01-01" / "a.parquet", [31])
    _table(tmp_path / "air" / "quarantine" / "batch=000000000" / "a.parquet", [29, 60])
    _table(tmp_path / "air" / "results" / "batch=000000000" / "a.parquet", [30, 31, None])
    (tmp_path / "air" / "_states").mkdir()
    command = penstock("pipeline", "forget", "--tables", str(tmp_path), "--at", "2026-01-01T12:30:00Z", "--json")
    done = subprocess.run([*command, "--master", "local[1]"], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "view": {"deleted": {"doctor": 2}, "left": 2},
        "air/results": {"deleted": {"air": 1}, "left": 2},
        "air/quarantine": {"deleted": {"air": 1}, "left": 1},
    }
    assert _left(tmp_path / "view" / "subject=doctor") == [2]
    assert _left(tmp_path / "view" / "subject=lab") == [0]
    assert _left(tmp_path / "air" / "quarantine") == [1]
    assert _left(tmp_path / "air" / "results") == [1, 2]


def test_a_time_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "forget", "--tables", str(tmp_path), "--at", "noon"])
    assert ended.value.code == 2
    assert "`noon` is not a time such as 2026-01-31" in capsys.readouterr().err
