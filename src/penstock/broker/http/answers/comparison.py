"""Comparison of a draft with the policies in force on recent traffic: the job `replay` on a sample, in the
background.

A sample this small needs no Spark; the answer contains the command for the whole journal, which does.
"""

import asyncio
import json
import shlex
import time
from pathlib import Path
from typing import Literal

import msgspec

from penstock.broker.http.answers.drafts import MAX_ERROR_TEXT, DomainDraft, accept_draft, written_beside
from penstock.broker.http.endpoint import ApiError, ApiRequest, Done, Endpoints, Query
from penstock.broker.http.processes import run_penstock

ENDPOINTS = Endpoints()

COMPARE_SECONDS = 600.0
"""Time limit of a comparison."""
MAX_LAST, DEFAULT_LAST = 20_000, 2_000
"""Number of the newest events that a draft is tried on: the limit and the default."""
MAX_ENTRIES = 500
MAX_KEPT = 20


class CompareDraft(DomainDraft, frozen=True):
    """A draft of the domain file, and the number of the newest events to try it on."""

    last: int = DEFAULT_LAST


class SubjectDifference(msgspec.Struct, frozen=True):
    """Events that a subject would gain and lose in all."""

    subject: str
    then: int
    draft: int
    gained: int
    lost: int
    changed: int


class RuleChange(msgspec.Struct, frozen=True):
    """The same by rule and reason: the rule held the events back then, or would now."""

    rule: str
    reason: str
    gained: int
    lost: int
    changed: int


class TopicChange(RuleChange, frozen=True):
    """The same for one topic and publisher."""

    subject: str
    topic: str
    publisher: str


class MetricDifference(msgspec.Struct, frozen=True):
    """The same for a Sparkplug metric."""

    subject: str
    topic: str
    metric: str
    gained: int
    lost: int


class ClaimResult(msgspec.Struct, frozen=True):
    """An assertion of the draft, and how many events show it, or contradict it."""

    text: str
    kind: str
    events: int
    holds: bool


class ComparisonResult(msgspec.Struct, frozen=True):
    """The result of a comparison; of each kind, the entries with most events."""

    events: int
    """Events that clients published."""
    first: str | None
    last: str | None
    totals: tuple[SubjectDifference, ...]
    changes: tuple[TopicChange, ...]
    rules: tuple[RuleChange, ...]
    claims: tuple[ClaimResult, ...]
    metrics: tuple[MetricDifference, ...]


class DraftComparison(msgspec.Struct, frozen=True):
    """A comparison that is running or has ended."""

    id: int
    state: Literal["running", "done", "failed"]
    seconds: float
    command: str
    """The command for the whole journal, on Spark."""
    why: str = ""
    """The reason of a failure."""
    result: ComparisonResult | None = None


_NONE = DraftComparison(0, "failed", 0.0, "")


class Comparisons:
    """The comparisons of one process: one at a time, the last ones are kept."""

    def __init__(self) -> None:
        self._kept: dict[int, DraftComparison] = {}
        self._began = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self, request: ApiRequest, text: str, last: int, journal: Path) -> DraftComparison:
        if self._task is not None and not self._task.done():
            raise ApiError("another comparison is running: wait for it, or stop it", 409)
        id = max(self._kept, default=0) + 1
        command = ["penstock", "pipeline", "replay", "--from", str(journal), "--domain", "DRAFT.yaml"]
        begun = DraftComparison(id, "running", 0.0, shlex.join([*command, "--html", "replay.html"]))
        self._kept[id] = begun
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._began = time.monotonic()
        self._task = asyncio.create_task(self._run(request, begun, text, last, journal))
        return begun

    def find(self, id: int) -> DraftComparison:
        """Return the comparison with this number; with 0 the one that is running."""
        comparison = self._kept.get(id or max(self._kept, default=0))
        if not id and (comparison is None or comparison.state != "running"):
            raise ApiError("no comparison is running", 404)
        if comparison is None:
            raise ApiError("no such comparison any more", 404)
        if comparison.state == "running":
            return msgspec.structs.replace(comparison, seconds=round(time.monotonic() - self._began, 1))
        return comparison

    def give_up(self, id: int) -> None:
        """Stop it, if it is running."""
        if self._task is not None and self._kept.get(id, _NONE).state == "running":
            self._task.cancel()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, request: ApiRequest, begun: DraftComparison, text: str, last: int, journal: Path) -> None:
        state: Literal["done", "failed"] = "failed"
        why, result = "", None
        try:
            result, state = await _replayed(request, text, last, journal), "done"
        except ApiError as error:
            why = str(error)
        except asyncio.CancelledError:
            why = "it was stopped"
            raise
        except Exception:
            why = "the comparison failed; see the node's log"
            request.server.log.exception("a comparison failed")
        finally:
            seconds = round(time.monotonic() - self._began, 1)
            self._kept[begun.id] = msgspec.structs.replace(begun, state=state, seconds=seconds, why=why, result=result)


async def _replayed(request: ApiRequest, text: str, last: int, journal: Path) -> ComparisonResult:
    async with written_beside(request, text) as path:
        options = ["--from", str(journal), "--domain", str(path), "--last", str(last), "--json"]
        code, output, wrong = await run_penstock("pipeline", "replay", *options, seconds=COMPARE_SECONDS)
        try:
            result = msgspec.convert(json.loads(output), ComparisonResult)
        except (ValueError, msgspec.ValidationError):
            words = wrong.decode(errors="replace").replace(str(path), "the draft").replace("penstock: ", "")
            raise ApiError(words.strip()[-MAX_ERROR_TEXT:] or f"it ended with {code}") from None
    totals = sorted(result.totals, key=lambda total: -total.gained - total.lost - total.changed)[:MAX_ENTRIES]
    longest = {name: getattr(result, name)[:MAX_ENTRIES] for name in ("changes", "rules", "claims", "metrics")}
    return msgspec.structs.replace(result, totals=tuple(totals), **longest)


@ENDPOINTS.add(
    "POST /api/draft/compare",
    "change",
    "start comparing a draft with the policies in force, on recent traffic",
    body=CompareDraft,
    is_cancellable=True,
)
async def _begin(request: ApiRequest) -> DraftComparison:
    compare = request.parsed_body(CompareDraft)
    if not 1 <= compare.last <= MAX_LAST:
        raise ApiError(f"`last`: expected a number from 1 to {MAX_LAST}, found `{compare.last}`")
    journal = request.api.domain.journal
    if journal is None:
        raise ApiError("the domain has no journal to try a draft on: add `journal: {folder: ...}`", 409)
    async with request.api.turns.turn():
        text = await accept_draft(request, compare)
    return request.api.comparisons.begin(request, text, compare.last, Path(journal.folder))


@ENDPOINTS.add(
    "GET /api/draft/compare",
    "change",
    "the state of a comparison, and its result",
    Query("id", "its number; unset: the one that is running", "integer"),
)
async def _state(request: ApiRequest) -> DraftComparison:
    return request.api.comparisons.find(int(request.number("id", 0, 2**53)))


@ENDPOINTS.add("POST /api/draft/compare/stop", "change", "stop a comparison", Query("id", "its number", "integer"))
async def _give_up(request: ApiRequest) -> Done:
    request.api.comparisons.give_up(int(request.number("id", 0, 2**53)))
    return Done()
