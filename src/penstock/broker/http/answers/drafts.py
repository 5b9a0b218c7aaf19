"""Drafts of the domain file: shown without secrets, checked in a process of their own, put into force."""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from penstock.broker.http.audit import tell
from penstock.broker.http.endpoint import Asked, Done, Endpoint, Refused
from penstock.broker.http.processes import run_masks, run_penstock
from penstock.broker.http.secret_masks import Shown, has_marks
from penstock.domain import diff
from penstock.domain.schema.admin import reaches
from penstock.model.errors import PenstockError

MOST_DRAFT = 2_000_000
"""Characters of a domain file that is shown or taken: one of thirty thousand clients has as many."""
EXIT_DOMAIN = 3
"""How `penstock check` ends for a domain that is not good."""
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


class NotADomain(Refused):
    """A draft that cannot be read as a domain: nothing of it has been looked at but the text itself."""

    def __init__(self, found: Checked) -> None:
        first = next((one.what for one in found.problems), "it cannot be read as a domain")
        super().__init__(f"it cannot be read as a domain: {first}")
        self.found = found


class _Brought(msgspec.Struct, frozen=True):
    """What a draft names and does that is other than now."""

    names: tuple[str, ...]
    sent: tuple[str, ...]
    ends: tuple[str, ...]


async def taken(asked: Asked, draft: Draft) -> str:
    """A draft with the secrets that its marks stand for; raises `Refused` for what its author may not have read or run.

    A draft names files, which are read, and Python code, which is run; and secrets that are there already go where it
    says. As they are now they may stay; others only the system's user brings in that runs the node, who could do so
    anyway.
    """
    now = present(asked)
    if max(len(draft.text), len(now)) > MOST_DRAFT:
        raise Refused(f"more than {MOST_DRAFT} characters", 413)
    if (draft.revision or has_marks(draft.text)) and draft.revision != revision_of(now):
        raise Refused("the domain file is another than when the draft was begun: look at it first", 409)
    found = await _masks({"draft": draft.text, "now": now})
    text = str(found["text"])
    if asked.who.how == "local":
        return text
    if found["is_other"] is not False:
        raise Refused("`include` is other: only the system's user that runs the node brings files in", 403)
    await _let_bring(asked, text)
    return text


async def _let_bring(asked: Asked, text: str) -> None:
    """Raise `Refused` unless it is certain that a draft brings nothing in, sends no secret elsewhere, and leaves the
    record of changes where it is.
    """
    async with beside(asked, text) as path:
        code, said, _ = await run_penstock("check", "--json", "--names", "--against", str(file_of(asked)), str(path))
        if code == EXIT_DOMAIN:
            raise NotADomain(_checked(asked, path, said))
    why = "only the system's user does that who runs the node"
    try:
        brought = msgspec.json.decode(said, type=_Brought)
    except msgspec.MsgspecError:
        brought = None
    if code or brought is None:
        raise Refused(f"what a draft brings in cannot be told while the domain file is not good: {why}", 403)
    if brought.names:
        raise Refused(f"it names `{brought.names[0]:.200}`, which the present domain does not as that: {why}", 403)
    if brought.ends:
        raise Refused(f"it ends the record of changes in `{brought.ends[0]:.200}`: {why}", 403)
    if brought.sent:
        raise Refused(
            f"over the link `{brought.sent[0]:.200}` it would send a secret that is kept, but to another place or in"
            f" another way than now: give the link a new `secret`, or {why}",
            403,
        )


async def _masks(question: dict[str, str]) -> dict[str, object]:
    """What `masks` says, which takes as long as it takes in a process of its own; raises `Refused`."""
    code, said = await run_masks(msgspec.json.encode(question))
    found: dict[str, object] = {"error": "it is too long or too deep"} if code else msgspec.json.decode(said)
    if "error" in found:
        raise Refused(str(found["error"]))
    return found


class Showing:
    """The domain file as it may be shown, worked out once."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._kept: tuple[str, Shown | Refused] | None = None

    async def of(self, text: str) -> Shown:
        """Raises `Refused`."""
        async with self._turn:
            revision = revision_of(text)
            if self._kept is None or self._kept[0] != revision:
                self._kept = revision, await self._look(text)
        if isinstance(self._kept[1], Refused):
            raise Refused(str(self._kept[1]), 409)
        return self._kept[1]

    async def _look(self, text: str) -> Shown | Refused:
        if len(text) > MOST_DRAFT:
            return Refused(f"the domain file cannot be shown: it has more than {MOST_DRAFT} characters")
        try:
            found = await _masks({"text": text})
            return Shown(*(str(found[name]) for name in Shown._fields))
        except Refused as error:  # what is a secret in it cannot be told
            return Refused(f"the domain file cannot be shown: {error}")


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


async def checked(asked: Asked, text: str) -> Checked:
    """What `penstock check` says of a draft with its secrets."""
    async with beside(asked, text) as path:
        code, said, wrong = await run_penstock("check", "--json", "--against", str(file_of(asked)), str(path))
        if code not in (0, EXIT_DOMAIN):
            raise Refused(f"the check has failed, {code}: {wrong.decode(errors='replace')[-MOST_ERRORS:]}", 500)
        return _checked(asked, path, said)


def _checked(asked: Asked, path: Path, said: bytes) -> Checked:
    name, shown = str(path), file_of(asked).name
    try:
        told = msgspec.json.decode(said, type=Checked)
    except msgspec.MsgspecError:
        raise Refused("the check has failed", 500) from None
    problems, warnings = ([_of_file(one, name, shown) for one in some] for some in (told.problems, told.warnings))
    return msgspec.structs.replace(told, problems=tuple(problems), warnings=tuple(warnings))


def _of_file(one: Problem, draft: str, shown: str) -> Problem:
    """It is told of the domain file, not of the file that the draft was checked in."""
    return Problem(one.file.replace(draft, shown), one.line, one.path, one.what.replace(draft, shown))


async def _text(asked: Asked) -> DomainText:
    text, right = present(asked), asked.who.right
    found = await asked.api.showing.of(text)
    said = found.change if reaches(right, "change") else found.content if reaches(right, "content") else found.read
    if text and not said:
        why = "what is in `clients` cannot be told from the rest"
        raise Refused(f"the domain file cannot be shown without the right `content`: {why}", 409)
    return DomainText(file_of(asked).name, said, revision_of(text))


async def _check(asked: Asked) -> Checked:
    async with asked.api.turns.turn():
        try:
            return await checked(asked, await taken(asked, asked.said(Draft)))
        except NotADomain as error:
            return error.found


async def _put(asked: Asked) -> Reloaded:
    draft = asked.said(Draft)
    async with asked.api.turns.turn(), asked.api.changing:
        try:
            text = await taken(asked, draft)
            found = await checked(asked, text)
        except NotADomain as error:
            found = error.found
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
    Endpoint(
        "POST",
        "/api/draft/check",
        "change",
        "check a draft of the domain file",
        Checked,
        _check,
        body=Draft,
        is_given_up=True,
    ),
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
