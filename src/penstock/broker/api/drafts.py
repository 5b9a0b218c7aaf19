"""Drafts of the domain file: shown without secrets, checked in a process of their own, put into force."""

import asyncio
import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from penstock.broker.api.audit import tell
from penstock.broker.api.endpoint import Asked, Done, Endpoint, Refused
from penstock.broker.api.masks import MaskError, has_marks, included, masked, unmasked
from penstock.domain import diff
from penstock.model.errors import PenstockError

CHECK_SECONDS = 60.0
"""In which a draft must have been checked."""
NICE = 5
"""How far what is run for people stands behind nodes: further, and a busy machine would never come to it."""
MOST_ERRORS = 2_000
"""Characters of what a check says that has gone wrong itself."""


class DomainText(msgspec.Struct, frozen=True):
    """The domain file as it is now; marks stand for its secrets."""

    file: str
    text: str
    revision: str


class Draft(msgspec.Struct, frozen=True):
    """A domain file as it might be."""

    text: str
    revision: str = ""
    """That of the file which it was made of: if another is in force by now, it is not taken. Empty: it is."""


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, or odd, and where."""

    file: str
    line: int
    path: str
    what: str


class Asserted(msgspec.Struct, frozen=True):
    """An assertion, whether it holds, and if not why."""

    text: str
    holds: bool
    why: str = ""


class Checked(msgspec.Struct, frozen=True):
    """What a check has found."""

    good: bool
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    assertions: tuple[Asserted, ...] = ()
    changes: tuple[str, ...] = ()
    """What is other than in the domain file."""


class Reloaded(msgspec.Struct, frozen=True):
    """What is other now; nothing, if the draft does not check."""

    done: bool
    checked: Checked
    changes: tuple[str, ...] = ()


def file_of(asked: Asked) -> Path:
    """The domain file of the nodes that answer."""
    if asked.api.file is None:
        raise Refused("the node runs without a domain file", 409)
    return asked.api.file


def present(asked: Asked) -> str:
    """The domain file as it is now."""
    try:
        return file_of(asked).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the domain file cannot be read: {error}", 409) from None


def revision_of(text: str) -> str:
    """What stands for a domain file as it is, whatever of it is in force."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def taken(asked: Asked, draft: Draft) -> str:
    """A draft with the secrets that its marks stand for; raises `Refused` for what its author may not have read or run.

    A draft names files, which are read, and Python code, which is run. Those of the present domain may stay; others
    only the system's user brings in that runs the node, who could do so anyway.
    """
    now = present(asked)
    if (draft.revision or has_marks(draft.text)) and draft.revision != revision_of(now):
        raise Refused("the domain file is another than when the draft was begun: look at it first", 409)
    try:
        text = unmasked(draft.text, now)
        is_other = included(text) != included(now)
    except MaskError as error:
        raise Refused(str(error)) from None
    if asked.who.how == "local":
        return text
    if is_other:
        raise Refused("`include` is other: only the system's user that runs the node brings files in", 403)
    async with beside(asked, text) as path:
        _, said, _ = await run_penstock("check", "--names", "--against", str(file_of(asked)), str(path))
    named = [line for line in said.decode(errors="replace").splitlines() if line]
    if named:
        why = "only the system's user that runs the node brings files and code in"
        raise Refused(f"it names `{named[0]:.200}`, which the present domain does not: {why}", 403)
    return text


@contextlib.asynccontextmanager
async def beside(asked: Asked, text: str) -> AsyncIterator[Path]:
    """A draft as a file in the folder of the domain file, so that names of files in it mean the same; for a while."""
    place = file_of(asked)
    try:
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".draft-", suffix=".yaml")
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
    except OSError as error:
        raise Refused(f"a draft cannot be written beside the domain file: {error.strerror}", 409) from None
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _step_back() -> None:
    """Between fork and exec; a service manager may not allow it."""
    with contextlib.suppress(OSError):
        os.nice(NICE)


async def run_penstock(*arguments: str, seconds: float = CHECK_SECONDS) -> tuple[int, bytes, bytes]:
    """A command of ours in a process of its own, behind the node in the queue for the processor. What it leaves behind
    if it is ended is removed.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-run-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "penstock",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "TMPDIR": folder},
            preexec_fn=_step_back,
        )
        try:
            said, wrong = await asyncio.wait_for(process.communicate(), seconds)
        except TimeoutError:
            raise Refused(f"it took longer than {seconds:g} seconds", 503) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return process.returncode or 0, said, wrong


async def checked(asked: Asked, text: str) -> Checked:
    """What `penstock check` says of a draft with its secrets."""
    async with beside(asked, text) as path:
        code, said, wrong = await run_penstock("check", "--json", "--against", str(file_of(asked)), str(path))
        try:
            found = json.loads(said)
        except ValueError:
            raise Refused(
                f"the check has failed, {code}: {wrong.decode(errors='replace')[-MOST_ERRORS:]}", 500
            ) from None
        name, shown = str(path), file_of(asked).name
        told = msgspec.convert(found, Checked)
        return Checked(
            told.good,
            tuple(_of_file(one, name, shown) for one in told.problems),
            tuple(_of_file(one, name, shown) for one in told.warnings),
            told.assertions,
            told.changes,
        )


def _of_file(one: Problem, draft: str, shown: str) -> Problem:
    """It is told of the domain file, not of the file that the draft was checked in."""
    return Problem(one.file.replace(draft, shown), one.line, one.path, one.what.replace(draft, shown))


async def _text(asked: Asked) -> DomainText:
    text = present(asked)
    try:
        return DomainText(file_of(asked).name, masked(text), revision_of(text))
    except MaskError as error:  # what is a secret in it cannot be told
        raise Refused(f"the domain file cannot be shown: {error}", 409) from None


async def _check(asked: Asked) -> Checked:
    return await checked(asked, await taken(asked, asked.said(Draft)))


async def _put(asked: Asked) -> Reloaded:
    draft = asked.said(Draft)
    async with asked.api.changing:
        text = await taken(asked, draft)
        found = await checked(asked, text)
        if not found.good:
            tell(asked, "draft", "it does not check", False)
            return Reloaded(False, found)
        file, before = file_of(asked), file_of(asked).read_bytes()
        _write(file, text.encode())
        try:
            changes = await _reread(asked)
        except Refused:
            _write(file, before)
            raise
        tell(asked, "draft", "; ".join(changes) or "nothing changes", True)
        return Reloaded(True, found, changes)


async def _reload(asked: Asked) -> Done:
    async with asked.api.changing:
        changes = await _reread(asked)
        tell(asked, "reload", "; ".join(changes) or "nothing changes", True)
    return Done()


async def _reread(asked: Asked) -> tuple[str, ...]:
    api = asked.api
    if api.reread is None:
        raise Refused("the node runs without a domain file", 409)
    before = api.domain
    try:
        after = api.reread()
        await api.federation.reload(after)
    except PenstockError as error:
        raise Refused(f"not reloaded, the old settings stay in force: {error}", 409) from None
    return tuple(str(change) for change in diff(before, after).changes)


def _write(file: Path, data: bytes) -> None:
    """Put it in the place of the file, whole or not at all, with the same rights."""
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        with os.fdopen(handle, "wb") as into:
            into.write(data)
            into.flush()
            os.fsync(into.fileno())
        os.chmod(draft, file.stat().st_mode & 0o777)
        os.replace(draft, file)
    except OSError as error:
        raise Refused(f"the domain file cannot be written: {error.strerror}", 409) from None


ENDPOINTS = (
    Endpoint("GET", "/api/draft", "read", "the domain file, with marks for its secrets", DomainText, _text),
    Endpoint("POST", "/api/draft/check", "change", "check a draft of the domain file", Checked, _check, body=Draft),
    Endpoint(
        "POST",
        "/api/draft",
        "change",
        "put a draft into force, if it checks; the file is rewritten",
        Reloaded,
        _put,
        body=Draft,
    ),
    Endpoint("POST", "/api/reload", "change", "read the domain file again, as SIGHUP does", Done, _reload),
)
