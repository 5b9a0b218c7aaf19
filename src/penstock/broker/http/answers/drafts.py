"""Drafts of the domain file: shown without secrets, checked in a separate process, put into force."""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from penstock.broker.http.audit import record
from penstock.broker.http.endpoint import ApiError, ApiRequest, Done, Endpoints
from penstock.broker.http.processes import run_masks, run_penstock
from penstock.broker.http.secret_masks import MaskedText, has_marks
from penstock.domain import diff
from penstock.domain.schema.admin import includes_right
from penstock.model.errors import PenstockError

ENDPOINTS = Endpoints()

MAX_DRAFT = 2_000_000
"""Characters of a domain file that is shown or accepted: one of thirty thousand clients has as many."""
EXIT_DOMAIN = 3
"""The exit code of `penstock check` for a domain that does not check."""
MAX_ERROR_TEXT = 2_000
"""Characters of the error output of a check that failed itself."""


class DomainText(msgspec.Struct, frozen=True):
    """The domain file as it is now, with marks in place of its secrets."""

    file: str
    text: str
    revision: str


class DomainDraft(msgspec.Struct, frozen=True):
    """A draft of the domain file."""

    text: str
    revision: str = ""
    """The revision of the file it was made from; refused if the file has changed since. Empty: not checked."""


class DraftProblem(msgspec.Struct, frozen=True):
    """A mistake or a warning, and its place."""

    file: str
    line: int
    path: str
    what: str


class DraftAssertion(msgspec.Struct, frozen=True):
    """An assertion, whether it holds, and if not, why."""

    text: str
    holds: bool
    why: str = ""


class DraftCheck(msgspec.Struct, frozen=True):
    """The result of a check."""

    good: bool
    problems: tuple[DraftProblem, ...]
    warnings: tuple[DraftProblem, ...]
    assertions: tuple[DraftAssertion, ...] = ()
    changes: tuple[str, ...] = ()
    """The differences from the domain file."""


class Reloaded(msgspec.Struct, frozen=True):
    """The changes now in force; nothing, if the draft does not check."""

    done: bool
    checked: DraftCheck
    changes: tuple[str, ...] = ()


def domain_file(request: ApiRequest) -> Path:
    """Return the domain file of the nodes that answer."""
    if request.api.file is None:
        raise ApiError("the node runs without a domain file", 409)
    return request.api.file


def present_text(request: ApiRequest) -> str:
    """Return the present text of the domain file."""
    try:
        return domain_file(request).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ApiError(f"the domain file cannot be read: {error}", 409) from None


def revision_of(text: str) -> str:
    """Return a digest of a domain file as it is, whatever of it is in force."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class NotADomain(ApiError):
    """The draft cannot be read as a domain: only the text itself has been looked at."""

    def __init__(self, check: DraftCheck) -> None:
        first = next((problem.what for problem in check.problems), "it cannot be read as a domain")
        super().__init__(f"it cannot be read as a domain: {first}")
        self.check = check


class _DraftAdditions(msgspec.Struct, frozen=True):
    """External names and destinations of secrets in a draft that are new."""

    names: tuple[str, ...]
    sent: tuple[str, ...]
    ends: tuple[str, ...]


async def accept_draft(request: ApiRequest, draft: DomainDraft) -> str:
    """Return a draft with the secrets that its marks stand for; raise `ApiError` if its author may not make such a
    change.

    A draft names files, which are read, and Python code, which is run; and existing secrets are sent where it says.
    The present ones may stay; new ones may be added only by the system user that runs the node, who could do so
    anyway.
    """
    now = present_text(request)
    if max(len(draft.text), len(now)) > MAX_DRAFT:
        raise ApiError(f"more than {MAX_DRAFT} characters", 413)
    if (draft.revision or has_marks(draft.text)) and draft.revision != revision_of(now):
        raise ApiError("the domain file has changed since the draft was begun: look at it first", 409)
    answer = await _masks({"draft": draft.text, "now": now})
    text = str(answer["text"])
    if request.caller.how == "local":
        return text
    if answer["is_other"] is not False:
        raise ApiError("`include` has changed: only the system user that runs the node may add files", 403)
    await _check_additions(request, text)
    return text


async def _check_additions(request: ApiRequest, text: str) -> None:
    """Raise `ApiError` unless a draft adds no files or code, sends no secret elsewhere, and keeps the audit file."""
    async with written_beside(request, text) as path:
        options = ("--json", "--names", "--against", str(domain_file(request)))
        code, output, _ = await run_penstock("check", *options, str(path))
        if code == EXIT_DOMAIN:
            raise NotADomain(_checked(request, path, output))
    why = "only the system user that runs the node may do that"
    try:
        brought = msgspec.json.decode(output, type=_DraftAdditions)
    except msgspec.MsgspecError:
        brought = None
    if code or brought is None:
        raise ApiError(f"a draft cannot be compared while the domain file does not check: {why}", 403)
    if brought.names:
        raise ApiError(f"it names `{brought.names[0]:.200}`, which the present domain does not: {why}", 403)
    if brought.ends:
        raise ApiError(f"it ends the audit file `{brought.ends[0]:.200}`: {why}", 403)
    if brought.sent:
        raise ApiError(
            f"over the link `{brought.sent[0]:.200}` it would send an existing secret to another place or in"
            f" another way than now: give the link a new `secret`; {why}",
            403,
        )


async def _masks(question: dict[str, str]) -> dict[str, object]:
    """Run `secret_masks` in a separate process, where it may take long; raise `ApiError`."""
    code, output = await run_masks(msgspec.json.encode(question))
    answer: dict[str, object] = {"error": "it is too long or too deep"} if code else msgspec.json.decode(output)
    if "error" in answer:
        raise ApiError(str(answer["error"]))
    return answer


class MaskedDomain:
    """The domain file as it may be shown, computed once."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._kept: tuple[str, MaskedText | ApiError] | None = None

    async def of(self, text: str) -> MaskedText:
        """Return the text for each right; raise `ApiError`."""
        async with self._turn:
            revision = revision_of(text)
            if self._kept is None or self._kept[0] != revision:
                self._kept = revision, await self._look(text)
        if isinstance(self._kept[1], ApiError):
            raise ApiError(str(self._kept[1]), 409)
        return self._kept[1]

    async def _look(self, text: str) -> MaskedText | ApiError:
        if len(text) > MAX_DRAFT:
            return ApiError(f"the domain file cannot be shown: it has more than {MAX_DRAFT} characters")
        try:
            answer = await _masks({"text": text})
            return MaskedText(*(str(answer[name]) for name in MaskedText._fields))
        except ApiError as error:  # its secrets cannot be recognised
            return ApiError(f"the domain file cannot be shown: {error}")


@contextlib.asynccontextmanager
async def written_beside(request: ApiRequest, text: str) -> AsyncIterator[Path]:
    """Write a draft beside the domain file for a while, so that relative file names in it mean the same."""
    place = domain_file(request)
    try:
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".draft-", suffix=".yaml")
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
    except OSError as error:
        raise ApiError(f"a draft cannot be written beside the domain file: {error.strerror}", 409) from None
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


async def check_draft(request: ApiRequest, text: str) -> DraftCheck:
    """Return the result of `penstock check` for a draft with its secrets."""
    async with written_beside(request, text) as path:
        code, output, wrong = await run_penstock("check", "--json", "--against", str(domain_file(request)), str(path))
        if code not in (0, EXIT_DOMAIN):
            raise ApiError(f"the check has failed, {code}: {wrong.decode(errors='replace')[-MAX_ERROR_TEXT:]}", 500)
        return _checked(request, path, output)


def _checked(request: ApiRequest, path: Path, output: bytes) -> DraftCheck:
    try:
        result = msgspec.json.decode(output, type=DraftCheck)
    except msgspec.MsgspecError:
        raise ApiError("the check has failed", 500) from None

    def renamed(problem: DraftProblem) -> DraftProblem:
        """Return a problem with the name of the domain file, not of the file that the draft was checked in."""
        file, what = (text.replace(str(path), domain_file(request).name) for text in (problem.file, problem.what))
        return msgspec.structs.replace(problem, file=file, what=what)

    problems, warnings = tuple(map(renamed, result.problems)), tuple(map(renamed, result.warnings))
    return msgspec.structs.replace(result, problems=problems, warnings=warnings)


@ENDPOINTS.add("GET /api/draft", "read", "the domain file, with marks in place of its secrets")
async def _text(request: ApiRequest) -> DomainText:
    text, right = present_text(request), request.caller.right
    texts = await request.api.masked_domain.of(text)
    shown = texts.change if includes_right(right, "change") else texts.content
    shown = shown if includes_right(right, "content") else texts.read
    if text and not shown:
        why = "the contents of `clients` cannot be recognised"
        raise ApiError(f"the domain file cannot be shown without the right `content`: {why}", 409)
    return DomainText(domain_file(request).name, shown, revision_of(text))


@ENDPOINTS.add(
    "POST /api/draft/check", "change", "check a draft of the domain file", body=DomainDraft, is_cancellable=True
)
async def _check(request: ApiRequest) -> DraftCheck:
    async with request.api.turns.turn():
        try:
            return await check_draft(request, await accept_draft(request, request.parsed_body(DomainDraft)))
        except NotADomain as error:
            return error.check


@ENDPOINTS.add(
    "POST /api/draft", "change", "put a draft into force, if it checks; the file is rewritten", body=DomainDraft
)
async def _put(request: ApiRequest) -> Reloaded:
    draft = request.parsed_body(DomainDraft)
    async with request.api.turns.turn(), request.api.reload_lock:
        try:
            text = await accept_draft(request, draft)
            result = await check_draft(request, text)
        except NotADomain as error:
            result = error.check
        if not result.good:
            record(request, "draft", "it does not check", False)
            return Reloaded(False, result)
        file, before = domain_file(request), domain_file(request).read_bytes()
        _write(file, text.encode())
        try:
            changes = await reread(request)
        except ApiError:
            _write(file, before)
            raise
        record(request, "draft", "; ".join(changes) or "nothing changes", True)
        return Reloaded(True, result, changes)


@ENDPOINTS.add("POST /api/reload", "change", "read the domain file again, as SIGHUP does")
async def _reload(request: ApiRequest) -> Done:
    async with request.api.reload_lock:
        changes = await reread(request)
        record(request, "reload", "; ".join(changes) or "nothing changes", True)
    return Done()


async def reread(request: ApiRequest) -> tuple[str, ...]:
    """Read the domain file again and put it into force; return what changes. Raise `ApiError` if it does not check."""
    api = request.api
    if api.reread is None:
        raise ApiError("the node runs without a domain file", 409)
    before = api.domain
    try:
        after = api.reread()
        await api.federation.reload(after)
    except PenstockError as error:
        raise ApiError(f"not reloaded, the old settings stay in force: {error}", 409) from None
    return tuple(str(change) for change in diff(before, after).changes)


def _write(file: Path, data: bytes) -> None:
    """Replace the file atomically, with the same mode and owner."""
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        with os.fdopen(handle, "wb") as into:
            into.write(data)
            into.flush()
            os.fsync(into.fileno())
        os.chmod(draft, file.stat().st_mode & 0o777)
        os.replace(draft, file)
    except OSError as error:
        raise ApiError(f"the domain file cannot be written: {error.strerror}", 409) from None
