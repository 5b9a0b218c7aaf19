"""Flows as the policies in force allow them: worked out by `penstock flows` in a process of its own, and kept."""

import asyncio
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.broker.http.answers.drafts import MOST_ERRORS
from penstock.broker.http.endpoint import Asked, Endpoint, Query, Refused
from penstock.broker.http.processes import run_penstock
from penstock.journal.revision import DOMAIN, MONITORS, Revision
from penstock.model.errors import TopicError
from penstock.model.topic import parse_filter
from penstock.policy.monitors.protocol import UNLISTED

MOST_KEPT = 200
"""Answers that are kept, and in `MOST_BYTES` how much they may take together."""
MOST_BYTES = 16 * 2**20
MOST_WAITING = 10
"""Questions that wait at a time: they are worked out one after the other."""
MOST_NAME = 80
"""Characters of an unknown name that are said back."""
MOST_WHOLE = 500
"""Entities of a domain of which it is told at once who reaches whom."""
_EXIT_USAGE = 2


class FlowStep(msgspec.Struct, frozen=True):
    """One link of a way, and a filter that covers the topics of what comes through it."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    type: str
    topics: str


class FlowClosure(msgspec.Struct, frozen=True):
    """What stops a flow: a table's entry, a monitor, or that a route has no device in the middle."""

    at: str
    what: str


class Flow(msgspec.Struct, frozen=True):
    """Whether something can flow; by which way, or else the way that comes nearest and what closes it."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    flows: bool
    way: tuple[FlowStep, ...]
    """Empty: no links lead there, or there are too many pairs to tell ways."""
    closed: tuple[FlowClosure, ...]
    open_on: tuple[str, ...] = ()
    """Of a flow on any topic: filters that monitors on the way name and of which something gets there."""
    closed_on: tuple[str, ...] = ()
    """Of which nothing does."""


class FlowEntity(msgspec.Struct, frozen=True):
    name: str
    kind: str
    """`node`, `client`, `foreign broker`."""
    reaches: tuple[str, ...]


class Flows(msgspec.Struct, frozen=True):
    """What was asked; `flows` if it was of an entity, else `entities`."""

    on: str
    routes: bool
    flows: tuple[Flow, ...] = ()
    entities: tuple[FlowEntity, ...] = ()


class AssertionState(msgspec.Struct, frozen=True):
    """A claim of the domain about its flows, and whether it holds."""

    assertion: str
    kind: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    on: str
    routes: bool
    holds: bool
    why: str
    """Why it does not hold."""


class Assertions(msgspec.Struct, frozen=True):
    assertions: tuple[AssertionState, ...]


class Analyses:
    """Answers of the policies in force: one is worked out at a time, and none twice."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._bytes = 0
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def of(self, revision: Revision, *options: str) -> bytes:
        """What `penstock flows` says of a revision, as JSON; raises `Refused`."""
        asked = (revision.digest, *options)
        if asked in self._kept:
            self._kept.move_to_end(asked)
            return self._kept[asked]
        if self._waiting >= MOST_WAITING:
            raise Refused("too many questions of this kind at a time", 503, 5)
        self._waiting += 1
        try:
            async with self._turn:
                if asked not in self._kept:  # somebody may have asked the same
                    self._keep(asked, await _run(revision, options))
                return self._kept[asked]
        finally:
            self._waiting -= 1

    def _keep(self, asked: tuple[str, ...], said: bytes) -> None:
        self._kept[asked] = said
        self._bytes += len(said)
        while len(self._kept) > 1 and (len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES):
            self._bytes -= len(self._kept.popitem(last=False)[1])


async def _run(revision: Revision, options: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="penstock-flows-") as name:
        folder = Path(name)
        for relative, data in _laid_out(revision):
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            (folder / relative).write_bytes(data)
        code, said, wrong = await run_penstock("flows", str(folder / DOMAIN), "--json", *options)
    told = wrong.decode(errors="replace").replace(f"{folder}/", "")[-MOST_ERRORS:].strip()
    if code == _EXIT_USAGE:
        raise Refused(told.rpartition("error: ")[2])
    if code:
        raise Refused(f"flows could not be worked out: {told}", 500)
    return said


def _laid_out(revision: Revision) -> Iterator[tuple[str, bytes]]:
    """The files of a revision; monitors that are Python are looked for beside the domain file."""
    return ((name.removeprefix(f"{MONITORS}/"), data) for name, data in revision.files)


def _options(asked: Asked) -> Iterator[str]:
    """Each in one word with its value, so that no value can be taken for an option."""
    whole = asked.server.node.ensemble
    for name in ("from", "to"):
        value = asked.query.get(name, "")
        if not value:
            continue
        if value != UNLISTED and not any(value in some for some in (whole.nodes, whole.devices, whole.foreign)):
            raise Refused(f"`{name}`: there is no client, node or foreign broker `{value:.{MOST_NAME}}`")
        yield f"--{name}={value}"
    on = asked.query.get("on", "")
    if on:
        try:
            yield f"--on={parse_filter(on).filter}"
        except TopicError as error:
            raise Refused(f"`on`: {error}") from None
    if asked.query.get("routes") == "1":
        yield "--routes"


async def _flows(asked: Asked) -> Flows:
    options, domain = tuple(_options(asked)), asked.api.domain
    is_whole = not asked.query.get("from") and not asked.query.get("to")
    if is_whole and len(domain.nodes) + len(domain.clients) > MOST_WHOLE:
        raise Refused(f"the domain has more than {MOST_WHOLE} nodes and clients: say `from` or `to`", 409)
    return msgspec.json.decode(await asked.api.analyses.of(asked.api.revision, *options), type=Flows)


async def _assertions(asked: Asked) -> Assertions:
    return msgspec.json.decode(await asked.api.analyses.of(asked.api.revision, "--assertions"), type=Assertions)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/flows",
        "read",
        "from where to where information can flow, by which way, and what closes the others",
        Flows,
        _flows,
        (
            Query("from", "from this entity: a client, node or foreign broker; unset: from each"),
            Query("to", "to this one; unset: to each"),
            Query("on", "only events published on topics that this filter matches"),
            Query("routes", "1: by nodes alone; else clients on the way may publish what they have read", "integer"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/assertions",
        "read",
        "claims of the domain about flows, and whether they hold",
        Assertions,
        _assertions,
    ),
)
