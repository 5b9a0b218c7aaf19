"""Access policies one by one: listed, added, changed and ended, in the files that the domain names.

A change is made to the file: what does not check is refused before the file is written, and the file is replaced whole.
So the node starts with it again, and other tools see it. Changes take turns; who has looked at a policy before says at
which revision, and is refused if it is another by now.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from penstock.broker.http.answers.drafts import domain_file, reread
from penstock.broker.http.audit import record
from penstock.broker.http.endpoint import ApiError, ApiRequest, Endpoints, Query
from penstock.domain.checks.access import KnownSubjects, oddities
from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import replace_file
from penstock.policy.sparkplug.bulk_changes import PolicyLine, is_json_lines, lines_of, with_line
from penstock.policy.sparkplug.bulk_files import make_policies

ENDPOINTS = Endpoints()
MAX_LISTED = 1_000
MAX_DETAIL = 2_000
"""Characters of a policy in the audit log."""


class ListedPolicy(msgspec.Struct, frozen=True):
    """An access policy as it is written."""

    id: str
    file: str
    """The file that it is in; empty: the domain file."""
    policy: dict[str, Any]
    revision: str = ""
    """A digest of what it says."""
    is_changeable: bool = False
    """It is in a file: it can be changed and ended here."""


class ListedPolicies(msgspec.Struct, frozen=True):
    """Access policies, and how many there are."""

    policies: tuple[ListedPolicy, ...]
    count: int


class PolicyChange(msgspec.Struct, frozen=True):
    """A policy that is to be added or changed, with the keys of `access.policies`; it must have an `id`."""

    policy: dict[str, Any]
    file: str = ""
    """The name of the file to add it to; empty: the first of JSON lines, or else of CSV."""
    revision: str = ""
    """The revision of the policy that is changed; refused if it is another by now. Empty: whatever it is."""


class PolicyEnd(msgspec.Struct, frozen=True):
    """A policy that is to be ended."""

    id: str
    revision: str = ""


class ChangedPolicy(msgspec.Struct, frozen=True):
    """A policy as it is in force now; or was, if it was ended."""

    policy: ListedPolicy
    warnings: tuple[str, ...] = ()


def _files(request: ApiRequest) -> tuple[Path, ...]:
    access = request.api.domain.access
    if access is None:
        raise ApiError("the domain has no `access`", 409)
    return tuple(access.files)


def _listed(line: PolicyLine) -> ListedPolicy:
    return ListedPolicy(line.id, line.file.name, line.row, line.revision, is_changeable=True)


def _all(request: ApiRequest) -> Iterator[ListedPolicy]:
    files, access = _files(request), request.api.domain.access
    for number, settings in enumerate(access.policies if access is not None else ()):
        row = settings.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        yield ListedPolicy(settings.id or f"access.policies[{number}]", "", row)
    for file in files:
        yield from map(_listed, lines_of(file))


@ENDPOINTS.add(
    "GET /api/access",
    "read",
    "access policies as they are written, those of files too",
    Query("subject", "only of this subject, as policies write it"),
    Query("id", "only this one"),
    Query("limit", f"how many (at most {MAX_LISTED})", "number"),
)
async def _list(request: ApiRequest) -> ListedPolicies:
    subject, id = request.query.get("subject"), request.query.get("id")
    limit = int(request.number("limit", 100, MAX_LISTED))
    try:
        policies = await asyncio.to_thread(lambda: list(_all(request)))
    except PolicyError as error:
        raise ApiError(str(error), 409) from None

    def is_asked(listed: ListedPolicy) -> bool:
        subjects = listed.policy.get("subject", ())
        return (not id or listed.id == id) and (not subject or subject == subjects or subject in tuple(subjects))

    asked = [listed for listed in policies if is_asked(listed)]
    return ListedPolicies(tuple(asked[:limit]), len(asked))


@ENDPOINTS.add("POST /api/access", "change", "add an access policy", body=PolicyChange)
async def _add(request: ApiRequest) -> ChangedPolicy:
    change = request.parsed_body(PolicyChange)
    id = _id(change.policy)
    async with request.api.reload_lock:
        with _alone(request), _audited(request, "access policy added", change.policy):
            if any(listed.id == id for listed in await asyncio.to_thread(lambda: list(_all(request)))):
                raise ApiError(f"there is a policy `{id:.200}` already: change it, or give this one another `id`", 409)
            return await _write(request, PolicyLine(_file(request, change.file), 0, id, change.policy), change.policy)


@ENDPOINTS.add("POST /api/access/change", "change", "change an access policy, by its `id`", body=PolicyChange)
async def _change(request: ApiRequest) -> ChangedPolicy:
    change = request.parsed_body(PolicyChange)
    id = _id(change.policy)
    async with request.api.reload_lock:
        with _alone(request), _audited(request, "access policy changed", change.policy) as about:
            line = await _find(request, id, change.revision)
            about.append(line.row)
            return await _write(request, line, change.policy)


@ENDPOINTS.add("POST /api/access/end", "change", "end an access policy: it is taken out of its file", body=PolicyEnd)
async def _end(request: ApiRequest) -> ChangedPolicy:
    ending = request.parsed_body(PolicyEnd)
    async with request.api.reload_lock:
        with _alone(request), _audited(request, "access policy ended", {"id": ending.id}) as about:
            line = await _find(request, ending.id, ending.revision)
            about.append(line.row)
            return await _write(request, line, None)


def _id(policy: dict[str, Any]) -> str:
    id = policy.get("id")
    if not isinstance(id, str) or not id:
        raise ApiError("`policy`: `id` is missing: expected a name by which it can be changed and ended")
    return id


def _file(request: ApiRequest, name: str) -> Path:
    files = sorted(_files(request), key=is_json_lines, reverse=True)
    for file in files:
        if name in ("", file.name, str(file)):
            return file
    known = ", ".join(file.name for file in files) or "none: add one that ends in .jsonl or .csv"
    raise ApiError(f"no file `{name:.200}` in `access.files`: there is {known}", 409)


async def _find(request: ApiRequest, id: str, revision: str) -> PolicyLine:
    """Return the line of a policy; raise `ApiError` if there is none, several, or another than its caller has seen."""
    files = _files(request)

    def search() -> list[PolicyLine]:
        return [line for file in files for line in lines_of(file) if line.id == id]

    found = await asyncio.to_thread(search)
    if not found:
        raise ApiError(f"no policy `{id:.200}` in a file: those of the domain file are changed there", 404)
    if len(found) > 1:
        raise ApiError(f"there are {len(found)} policies `{id:.200}`: change them in their files", 409)
    if revision and found[0].revision != revision:
        raise ApiError(f"policy `{id:.200}` has been changed since: look at it again", 409)
    return found[0]


@contextmanager
def _audited(request: ApiRequest, what: str, policy: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Record what a caller has done. What the policy said before is put into the list; refusals are recorded by all
    endpoints.
    """
    before: list[dict[str, Any]] = []
    try:
        yield before
    except PolicyError as error:
        raise ApiError(str(error), 422) from None
    texts = (msgspec.json.encode(each).decode()[:MAX_DETAIL] for each in (policy, *before))
    record(request, what, " was ".join(texts), True)


async def _write(request: ApiRequest, line: PolicyLine, row: dict[str, Any] | None) -> ChangedPolicy:
    """Write a file with another line, or without one, and put it into force; raise `PolicyError` if it is wrong."""
    text = await asyncio.to_thread(with_line, line.file, line.id, row, line.number)
    before, mode = line.file.read_bytes().decode(), line.file.stat().st_mode & 0o777
    await asyncio.to_thread(replace_file, line.file, text, mode)
    try:
        await reread(request)
    except ApiError:
        await asyncio.to_thread(replace_file, line.file, before, mode)
        raise
    if row is None:
        return ChangedPolicy(_listed(line))
    people = KnownSubjects(request.api.domain)
    odd = (odd.what for policy in make_policies(row, line.id) for odd in oddities(policy, people))
    written = next(each for each in await asyncio.to_thread(lines_of, line.file) if each.id == line.id)
    return ChangedPolicy(_listed(written), tuple(dict.fromkeys(odd)))


@contextmanager
def _alone(request: ApiRequest) -> Iterator[None]:
    """Keep other processes of the domain from changing policies for a while; raise `ApiError` if one does now."""
    folder = os.open(domain_file(request).parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ApiError("another process of the domain changes policies: try again", 409, 1) from None
        yield
    finally:
        os.close(folder)
