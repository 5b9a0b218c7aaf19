"""What jobs over a journal leave in it of themselves: what was run, when, how it ended, and their reports.

Each job has an id, and files of that name in the folder `jobs` of the journal: `ID.json`, and `ID.html` if there is a
report. Whoever may not write there leaves nothing, and the job goes on.
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

from penstock.journal.private import FOLDER_MODE, write_file

FOLDER = "jobs"
MOST_KEPT = 200
"""Jobs of which something is kept; the oldest make room."""
MOST_REPORT = 16 * 2**20
"""Bytes of a report that is kept."""
_ID = re.compile(r"[0-9a-f]{8,16}-[0-9a-f]{8}")
_USER_OF_URL = re.compile(r"://[^/@\s]*@")
_SECRET = re.compile(r"password|secret|token|key", re.IGNORECASE)

State = Literal["running", "done", "failed", "killed"]


class Table(msgspec.Struct, frozen=True):
    """A table that a job wrote."""

    folder: str
    rows: int | None = None
    """None: it is not known."""


class Job(msgspec.Struct, frozen=True):
    """A job, as it tells of itself."""

    id: str
    job: str
    began: float
    arguments: tuple[str, ...]
    """Of the command, without what is nobody's business."""
    state: State = "running"
    ended: float | None = None
    code: int | None = None
    why: str = ""
    """Why it has failed."""
    counts: dict[str, int] = {}
    tables: tuple[Table, ...] = ()
    has_report: bool = False
    host: str = ""
    process: int = 0


class Record:
    """What a job leaves while it runs; whatever cannot be written is not."""

    def __init__(self, journal: Path, job: str, options: Mapping[str, object]) -> None:
        id = f"{int(time.time() * 1000):x}-{secrets.token_hex(4)}"
        self._folder = journal / FOLDER
        self._job = Job(id, job, time.time(), _arguments(options), host=socket.gethostname(), process=os.getpid())
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            _make_room(self._folder)
        self._write()

    def tell(self, counts: Mapping[str, int] | None = None, tables: Sequence[Table] = (), report: str = "") -> None:
        """What came of it."""
        is_kept = bool(report) and self._keep(f"{self._job.id}.html", report.encode())
        self._job = msgspec.structs.replace(
            self._job,
            counts={**self._job.counts, **(counts or {})},
            tables=(*self._job.tables, *tables),
            has_report=self._job.has_report or is_kept,
        )
        self._write()

    def tell_more(self, data: bytes) -> None:
        """Something to look up in, as JSON: see `more`."""
        self._keep(f"{self._job.id}.more", data)

    def end(self, code: int, why: str = "") -> None:
        state: State = "failed" if why else "done"
        self._job = msgspec.structs.replace(self._job, state=state, ended=time.time(), code=code, why=why[:2_000])
        self._write()

    def _write(self) -> None:
        self._keep(f"{self._job.id}.json", msgspec.json.encode(self._job))

    def _keep(self, name: str, data: bytes) -> bool:
        """Whole or not at all."""
        if len(data) > MOST_REPORT:
            return False
        draft = self._folder / f"_{name}"
        try:
            write_file(draft, data)
            draft.rename(self._folder / name)
        except OSError:
            return False
        return True


def listing(journal: Path) -> list[Job]:
    """Jobs that left something, the newest first; what is no record is passed over."""
    found = list[Job]()
    for path in (journal / FOLDER).glob("*.json"):
        if _ID.fullmatch(path.stem):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                one = msgspec.json.decode(_read(journal, path.name), type=Job)
                if one.id == path.stem:
                    found.append(_as_it_is(one))
    return sorted(found, key=lambda one: -one.began)


def report(journal: Path, id: str) -> str | None:
    """The report of a job; None if there is none. The id is all that says where it is."""
    data = _by_id(journal, id, "html")
    return None if data is None else data.decode(errors="replace")


def more(journal: Path, id: str) -> bytes | None:
    """What a job left to look up in; None if there is none."""
    return _by_id(journal, id, "more")


def _by_id(journal: Path, id: str, ending: str) -> bytes | None:
    if not _ID.fullmatch(id):
        return None
    try:
        return _read(journal, f"{id}.{ending}")
    except OSError:
        return None


def _read(journal: Path, name: str) -> bytes:
    """A file of the folder itself, never what a link in it leads to."""
    handle = os.open(journal / FOLDER / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        return file.read(MOST_REPORT)


def _as_it_is(one: Job) -> Job:
    """A job whose process is gone, and that has not said how it ended, was killed."""
    if one.state != "running" or one.host != socket.gethostname():
        return one
    try:
        os.kill(one.process, 0)
    except ProcessLookupError:
        return msgspec.structs.replace(one, state="killed")
    except OSError:
        pass
    return one


def _arguments(options: Mapping[str, object]) -> tuple[str, ...]:
    """As on a command line; a secret is never among them."""
    found = list[str]()
    for name, value in options.items():
        if value in (None, False, [], "") or name == "json" or callable(value):
            continue
        option = "--from" if name in ("journal", "origin") else f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            said = "…" if _SECRET.search(name) else _USER_OF_URL.sub("://…@", str(one))
            found += [option] if one is True else [option, said]
    return tuple(found)


def _make_room(folder: Path) -> None:
    ids = sorted((path.stem for path in folder.glob("*.json") if _ID.fullmatch(path.stem)), key=_begun)
    for id in ids[: max(0, len(ids) - MOST_KEPT + 1)]:
        for ending in ("json", "html", "more"):
            with contextlib.suppress(OSError):
                (folder / f"{id}.{ending}").unlink()


def _begun(id: str) -> int:
    return int(id.partition("-")[0], 16)
