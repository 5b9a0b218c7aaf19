"""What a draft would change for whom, on what was recorded of late: the job `replay` on a sample, in the background.

Of so few events it needs no Spark; the command for all of them, which does, is told beside it.
"""

import asyncio
import json
import shlex
import time
from pathlib import Path
from typing import Literal

import msgspec

from penstock.broker.http.answers.drafts import MOST_ERRORS, Draft, beside, taken
from penstock.broker.http.endpoint import Asked, Done, Endpoint, Query, Refused
from penstock.broker.http.processes import run_penstock

COMPARE_SECONDS = 600.0
"""In which a comparison must be through."""
MOST_LAST, USUAL_LAST = 20_000, 2_000
"""Events of the journal's end that a draft is tried on."""
MOST_TOLD = 500
MOST_KEPT = 20


class CompareDraft(msgspec.Struct, frozen=True):
    """A domain file as it might be, and on how many of the last events it is to be tried."""

    text: str
    last: int = USUAL_LAST
    revision: str = ""


class SubjectChange(msgspec.Struct, frozen=True):
    """Events that a subject would have gained and lost in all."""

    subject: str
    then: int
    draft: int
    gained: int
    lost: int
    changed: int


class TopicChange(msgspec.Struct, frozen=True):
    """The same on a topic, of what one entity published; and the rule that held it back then, or that would now."""

    subject: str
    topic: str
    publisher: str
    gained: int
    lost: int
    changed: int
    rule: str
    reason: str


class RuleChange(msgspec.Struct, frozen=True):
    """The same by what is behind it."""

    rule: str
    reason: str
    gained: int
    lost: int
    changed: int


class MetricDifference(msgspec.Struct, frozen=True):
    """The same for a Sparkplug metric."""

    subject: str
    topic: str
    metric: str
    gained: int
    lost: int


class Claimed(msgspec.Struct, frozen=True):
    """An assertion of the draft, and how many events show it, or speak against it."""

    text: str
    kind: str
    events: int
    holds: bool


class Compared(msgspec.Struct, frozen=True):
    """What came of it; of each kind those with most events."""

    events: int
    """Events that clients published."""
    first: str | None
    last: str | None
    totals: tuple[SubjectChange, ...]
    changes: tuple[TopicChange, ...]
    rules: tuple[RuleChange, ...]
    claims: tuple[Claimed, ...]
    metrics: tuple[MetricDifference, ...]


class Comparison(msgspec.Struct, frozen=True):
    """A comparison that is under way or over."""

    id: int
    state: Literal["running", "done", "failed"]
    seconds: float
    command: str
    """That for the whole journal, on Spark."""
    why: str = ""
    """Why it has failed."""
    result: Compared | None = None


_NONE = Comparison(0, "failed", 0.0, "")


class Comparisons:
    """Those of one process: one at a time, the last ones kept."""

    def __init__(self) -> None:
        self._kept: dict[int, Comparison] = {}
        self._began = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self, asked: Asked, text: str, last: int, journal: Path) -> Comparison:
        if self._task is not None and not self._task.done():
            raise Refused("another comparison is under way: wait for it, or stop it", 409)
        id = max(self._kept, default=0) + 1
        command = ["penstock", "pipeline", "replay", "--from", str(journal), "--domain", "DRAFT.yaml"]
        begun = Comparison(id, "running", 0.0, shlex.join([*command, "--html", "replay.html"]))
        self._kept[id] = begun
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._began = time.monotonic()
        self._task = asyncio.create_task(self._run(asked, begun, text, last, journal))
        return begun

    def find(self, id: int) -> Comparison:
        """That with this number; with 0 the one that is under way."""
        found = self._kept.get(id or max(self._kept, default=0))
        if not id and (found is None or found.state != "running"):
            raise Refused("no comparison is under way", 404)
        if found is None:
            raise Refused("no such comparison any more", 404)
        if found.state == "running":
            return msgspec.structs.replace(found, seconds=round(time.monotonic() - self._began, 1))
        return found

    def give_up(self, id: int) -> None:
        """End it, if it is under way."""
        if self._task is not None and self._kept.get(id, _NONE).state == "running":
            self._task.cancel()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, asked: Asked, begun: Comparison, text: str, last: int, journal: Path) -> None:
        state: Literal["done", "failed"] = "failed"
        why, result = "", None
        try:
            result, state = await _replayed(asked, text, last, journal), "done"
        except Refused as error:
            why = str(error)
        except asyncio.CancelledError:
            why = "it was stopped"
            raise
        except Exception:
            why = "the node could not do it; its log says why"
            asked.server.log.exception("a comparison has failed")
        finally:
            seconds = round(time.monotonic() - self._began, 1)
            self._kept[begun.id] = msgspec.structs.replace(begun, state=state, seconds=seconds, why=why, result=result)


async def _replayed(asked: Asked, text: str, last: int, journal: Path) -> Compared:
    async with beside(asked, text) as path:
        options = ["--from", str(journal), "--domain", str(path), "--last", str(last), "--json"]
        code, said, wrong = await run_penstock("pipeline", "replay", *options, seconds=COMPARE_SECONDS)
        try:
            told = msgspec.convert(json.loads(said), Compared)
        except (ValueError, msgspec.ValidationError):
            words = wrong.decode(errors="replace").replace(str(path), "the draft").replace("penstock: ", "")
            raise Refused(words.strip()[-MOST_ERRORS:] or f"it ended with {code}") from None
    return Compared(
        told.events,
        told.first,
        told.last,
        tuple(sorted(told.totals, key=lambda one: -one.gained - one.lost - one.changed))[:MOST_TOLD],
        told.changes[:MOST_TOLD],
        told.rules[:MOST_TOLD],
        told.claims[:MOST_TOLD],
        told.metrics[:MOST_TOLD],
    )


async def _begin(asked: Asked) -> Comparison:
    said = asked.said(CompareDraft)
    if not 1 <= said.last <= MOST_LAST:
        raise Refused(f"`last`: expected a number from 1 to {MOST_LAST}, found `{said.last}`")
    journal = asked.api.domain.journal
    if journal is None:
        raise Refused("the domain keeps no journal to try a draft on: give it `journal: {folder: ...}`", 409)
    async with asked.api.turns.turn():
        text = await taken(asked, Draft(said.text, said.revision))
    return asked.api.comparisons.begin(asked, text, said.last, Path(journal.folder))


async def _give_up(asked: Asked) -> Done:
    asked.api.comparisons.give_up(int(asked.number("id", 0, 2**53)))
    return Done()


async def _state(asked: Asked) -> Comparison:
    return asked.api.comparisons.find(int(asked.number("id", 0, 2**53)))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/draft/compare",
        "change",
        "begin to find out what a draft would change for whom, on what was recorded of late",
        Comparison,
        _begin,
        body=CompareDraft,
        is_given_up=True,
    ),
    Endpoint(
        "GET",
        "/api/draft/compare",
        "change",
        "how far that is, and what came of it",
        Comparison,
        _state,
        (Query("id", "its number; unset: the one that is under way", "integer"),),
    ),
    Endpoint(
        "POST",
        "/api/draft/compare/stop",
        "change",
        "give a comparison up",
        Done,
        _give_up,
        (Query("id", "its number", "integer"),),
    ),
)
