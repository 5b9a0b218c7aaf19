"""The records that jobs leave in a journal: what was run, when, how it ended, and their reports.

Each job has an id, and files of that name in the folder `jobs` of the journal: `ID.json`, and `ID.html` if there is a
report. A job that may not write there leaves no record and continues.
"""

import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from penstock.journal.private import make_folder, write_file

FOLDER = "jobs"
MAX_JOBS = 200
"""Number of jobs whose records are kept; the oldest are deleted first."""
MAX_REPORT_BYTES = 16 * 2**20
"""Size in bytes of the largest report that is kept."""
_ID = re.compile(r"[0-9a-f]{8,16}-[0-9a-f]{8}")
_USER_OF_URL = re.compile(r"://[^/@\s]*@")
_SECRET = re.compile(r"password|secret|token|key", re.IGNORECASE)

State = Literal["running", "done", "failed", "killed"]


class JobTable(msgspec.Struct, frozen=True):
    """A table that a job wrote."""

    folder: str
    rows: int | None = None
    """None: unknown."""


class Job(msgspec.Struct, frozen=True):
    """A job, as its record describes it."""

    id: str
    job: str
    began: float
    arguments: tuple[str, ...]
    """The command's arguments, without secrets."""
    state: State = "running"
    ended: float | None = None
    code: int | None = None
    why: str = ""
    """The reason of a failure."""
    counts: dict[str, int] = {}
    tables: tuple[JobTable, ...] = ()
    has_report: bool = False
    host: str = ""
    process: int = 0


class JobRecord:
    """Writes the record of a running job; a record that cannot be written is skipped."""

    def __init__(self, journal: Path, job: str, options: Mapping[str, object]) -> None:
        id = f"{int(time.time() * 1000):x}-{secrets.token_hex(4)}"
        self._folder = journal / FOLDER
        self._job = Job(id, job, time.time(), _arguments(options), host=socket.gethostname(), process=os.getpid())
        with contextlib.suppress(OSError):
            make_folder(self._folder, with_parents=False)
            _make_room(self._folder)
        self._write()

    def add(self, counts: Mapping[str, int] | None = None, tables: Sequence[JobTable] = (), report: str = "") -> None:
        """Add counts, tables and the report to the record."""
        is_kept = bool(report) and self._keep(f"{self._job.id}.html", report.encode())
        self._job = msgspec.structs.replace(
            self._job,
            counts={**self._job.counts, **(counts or {})},
            tables=(*self._job.tables, *tables),
            has_report=self._job.has_report or is_kept,
        )
        self._write()

    def add_details(self, data: bytes) -> None:
        """Keep JSON data that the console can look things up in: see `details`."""
        self._keep(f"{self._job.id}.more", data)

    def end(self, code: int, why: str = "") -> None:
        state: State = "failed" if why else "done"
        self._job = msgspec.structs.replace(self._job, state=state, ended=time.time(), code=code, why=why[:2_000])
        self._write()

    def _write(self) -> None:
        self._keep(f"{self._job.id}.json", msgspec.json.encode(self._job))

    def _keep(self, name: str, data: bytes) -> bool:
        """Write a file atomically; return whether that succeeded."""
        if len(data) > MAX_REPORT_BYTES:
            return False
        draft = self._folder / f"_{name}"
        try:
            write_file(draft, data)
            draft.rename(self._folder / name)
        except OSError:
            return False
        return True


def list_jobs(journal: Path) -> list[Job]:
    """Return the jobs that left a record, the newest first. Files that are not records are skipped."""
    jobs = list[Job]()
    for path in (journal / FOLDER).glob("*.json"):
        if _ID.fullmatch(path.stem):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                job = msgspec.json.decode(_read(journal, path.name), type=Job)
                if job.id == path.stem:
                    jobs.append(_with_present_state(job))
    return sorted(jobs, key=lambda job: -job.began)


def read_report(journal: Path, id: str) -> str | None:
    """Return the report of a job, or None. The id alone determines the path."""
    data = _by_id(journal, id, "html")
    return None if data is None else data.decode(errors="replace")


def details(journal: Path, id: str) -> bytes | None:
    """Return the details that a job kept, or None."""
    return _by_id(journal, id, "more")


def _by_id(journal: Path, id: str, ending: str) -> bytes | None:
    if not _ID.fullmatch(id):
        return None
    try:
        return _read(journal, f"{id}.{ending}")
    except OSError:
        return None


def _read(journal: Path, name: str) -> bytes:
    """Read a file of the folder itself, never through a symbolic link."""
    handle = os.open(journal / FOLDER / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        return file.read(MAX_REPORT_BYTES)


def _with_present_state(job: Job) -> Job:
    """Return the job marked as killed if its process has gone without recording an end."""
    if job.state != "running" or job.host != socket.gethostname():
        return job
    try:
        os.kill(job.process, 0)
    except ProcessLookupError:
        return msgspec.structs.replace(job, state="killed")
    except OSError:
        pass
    return job


def _arguments(options: Mapping[str, object]) -> tuple[str, ...]:
    """Return the options as command-line arguments, with secrets masked."""
    arguments = list[str]()
    for name, value in options.items():
        if value in (None, False, [], "") or name == "json" or callable(value):
            continue
        option = "--from" if name in ("journal", "origin") else f"--{name.replace('_', '-')}"
        for item in value if isinstance(value, list) else [value]:
            shown = "…" if _SECRET.search(name) else _USER_OF_URL.sub("://…@", str(item))
            arguments += [option] if item is True else [option, shown]
    return tuple(arguments)


def _make_room(folder: Path) -> None:
    ids = [path.stem for path in folder.glob("*.json") if _ID.fullmatch(path.stem)]
    ids.sort(key=lambda id: int(id.partition("-")[0], 16))
    for id in ids[: max(0, len(ids) - MAX_JOBS + 1)]:
        for ending in ("json", "html", "more"):
            with contextlib.suppress(OSError):
                (folder / f"{id}.{ending}").unlink()
