"""Records of jobs in a journal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.journal import jobs
from penstock.journal.jobs import FOLDER, MAX_JOBS, JobRecord, JobTable, list_jobs


def test_a_job_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    record = JobRecord(tmp_path, "audit", {"journal": tmp_path, "node": ["a", "b"], "json": True, "to": None})
    (begun,) = list_jobs(tmp_path)
    assert (begun.job, begun.state, begun.ended) == ("audit", "running", None)
    assert begun.arguments == ("--from", str(tmp_path), "--node", "a", "--node", "b")
    record.add({"events": 3}, [JobTable("/t", 2)], "<h1>report</h1>")
    record.add_details(b"{}")
    record.end(0)
    (ended,) = list_jobs(tmp_path)
    assert (ended.state, ended.code, ended.counts, ended.tables) == ("done", 0, {"events": 3}, (JobTable("/t", 2),))
    assert jobs.read_report(tmp_path, ended.id) == "<h1>report</h1>"
    assert jobs.details(tmp_path, ended.id) == b"{}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"publish": "mqtt://ann:pa55@host:1883"}, ("--publish", "mqtt://…@host:1883")),
        ({"password": "pa55"}, ("--password", "…")),
        ({"token_file": "pa55"}, ("--token-file", "…")),
        ({"all_subjects": True, "paths": False}, ("--all-subjects",)),
    ],
)
def test_secrets_are_not_left(tmp_path: Path, options: dict[str, object], said: tuple[str, ...]) -> None:
    JobRecord(tmp_path, "stream", options)
    (job,) = list_jobs(tmp_path)
    assert job.arguments == said


def test_one_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    JobRecord(tmp_path, "govern", {})
    (path,) = (tmp_path / FOLDER).glob("*.json")
    over = subprocess.Popen([sys.executable, "-c", ""])
    over.wait()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"process": over.pid}))
    assert list_jobs(tmp_path)[0].state == "killed"


@pytest.mark.parametrize(
    "id", ["", "..", "../x", "0" * 12, "secret", f"{'0' * 11}-{'0' * 8}/../x", f"{'0' * 11}-{'0' * 8}"]
)
def test_an_id_leads_nowhere_else(tmp_path: Path, id: str) -> None:
    JobRecord(tmp_path, "audit", {})
    (tmp_path / "secret.html").write_text("secret")
    (tmp_path / FOLDER / "secret.html").write_text("secret")
    (tmp_path / FOLDER / f"{'0' * 11}-{'0' * 8}.html").symlink_to(tmp_path / "secret.html")
    assert jobs.read_report(tmp_path, id) is None


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    JobRecord(tmp_path, "audit", {})
    for name, text in (("a.json", "{}"), ("00000000-00000000.json", "["), ("00000001-00000000.json", '{"id": 1}')):
        (tmp_path / FOLDER / name).write_text(text)
    assert [job.job for job in list_jobs(tmp_path)] == ["audit"]


def test_the_oldest_make_room(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for number in range(MAX_JOBS + 5):
        (tmp_path / FOLDER / f"{number:08x}-00000000.json").write_text("{}")
    JobRecord(tmp_path, "audit", {})
    left = sorted(path.stem for path in (tmp_path / FOLDER).glob("*.json"))
    assert len(left) == MAX_JOBS
    assert "00000000-00000000" not in left


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_who_may_not_write_leaves_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    record = JobRecord(tmp_path, "audit", {})
    record.add(report="x")
    record.end(0)
    assert list_jobs(tmp_path) == []
    tmp_path.chmod(0o700)


def test_a_journal_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    record = JobRecord(tmp_path / "nowhere" / "deep", "audit", {})
    record.add(report="x")
    record.end(0)
    assert list_jobs(tmp_path / "nowhere" / "deep") == []
