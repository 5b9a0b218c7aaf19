"""Flows that the policies in force allow: computed by `penstock flows` in a separate process, and cached."""

import asyncio
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.broker.http.answers.drafts import MAX_ERROR_TEXT
from penstock.broker.http.endpoint import ApiError, ApiRequest, Endpoints, Query
from penstock.broker.http.processes import run_penstock
from penstock.journal.revision import DOMAIN, MONITORS, Revision
from penstock.model.errors import TopicError
from penstock.model.topic import parse_filter
from penstock.policy.monitors.protocol import UNLISTED

ENDPOINTS = Endpoints()

MAX_KEPT = 200
"""Number of cached answers; `MAX_BYTES` limits their total size."""
MAX_BYTES = 16 * 2**20
MAX_WAITING = 10
"""Requests that wait at a time: they are computed one after the other."""
MAX_NAME_SHOWN = 80
"""Characters of an unknown name that are shown in the error."""
MAX_ENTITIES = 500
"""Largest number of entities for which all flows are answered at once."""
_EXIT_USAGE = 2


class FlowStep(msgspec.Struct, frozen=True):
    """One link of a way, and a filter that covers the topics of what comes through it."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    type: str
    topics: str


class FlowClosure(msgspec.Struct, frozen=True):
    """An obstacle to a flow: a table's entry, a monitor, or a device in the middle of a route."""

    at: str
    what: str


class EntityFlow(msgspec.Struct, frozen=True):
    """The answer whether information can flow; the way, or else the way that comes nearest and its obstacles."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    flows: bool
    way: tuple[FlowStep, ...]
    """Empty: no links lead there, or there are too many pairs to show ways."""
    closed: tuple[FlowClosure, ...]
    open_on: tuple[str, ...] = ()
    """Of a flow on any topic: filters that monitors on the way name and that something passes."""
    closed_on: tuple[str, ...] = ()
    """Filters that nothing passes."""


class FlowEntity(msgspec.Struct, frozen=True):
    name: str
    kind: str
    """`node`, `client`, `foreign broker`."""
    reaches: tuple[str, ...]


class Flows(msgspec.Struct, frozen=True):
    """The answer; `flows` if the request names an entity, else `entities`."""

    on: str
    routes: bool
    flows: tuple[EntityFlow, ...] = ()
    entities: tuple[FlowEntity, ...] = ()


class AssertionState(msgspec.Struct, frozen=True):
    """An assertion of the domain about its flows, and whether it holds."""

    assertion: str
    kind: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    on: str
    routes: bool
    holds: bool
    why: str
    """The reason why it does not hold."""


class Assertions(msgspec.Struct, frozen=True):
    assertions: tuple[AssertionState, ...]


class FlowAnswers:
    """Cached answers about the policies in force: one is computed at a time, and none twice."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._bytes = 0
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def of(self, revision: Revision, *options: str) -> bytes:
        """Return the output of `penstock flows` for a revision, as JSON; raise `ApiError`."""
        key = (revision.digest, *options)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if self._waiting >= MAX_WAITING:
            raise ApiError("too many requests of this kind at a time", 503, 5)
        self._waiting += 1
        try:
            async with self._turn:
                if key not in self._kept:  # another request may have asked the same
                    self._keep(key, await _run(revision, options))
                return self._kept[key]
        finally:
            self._waiting -= 1

    def _keep(self, key: tuple[str, ...], answer: bytes) -> None:
        self._kept[key] = answer
        self._bytes += len(answer)
        while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT or self._bytes > MAX_BYTES):
            self._bytes -= len(self._kept.popitem(last=False)[1])


async def _run(revision: Revision, options: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="penstock-flows-") as name:
        folder = Path(name)
        for file, data in revision.files:
            relative = file.removeprefix(f"{MONITORS}/")  # Python monitors are imported from beside the domain file
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            (folder / relative).write_bytes(data)
        code, output, wrong = await run_penstock("flows", str(folder / DOMAIN), "--json", *options)
    error_text = wrong.decode(errors="replace").replace(f"{folder}/", "")[-MAX_ERROR_TEXT:].strip()
    if code == _EXIT_USAGE:
        raise ApiError(error_text.rpartition("error: ")[2])
    if code:
        raise ApiError(f"flows could not be computed: {error_text}", 500)
    return output


def _options(request: ApiRequest) -> Iterator[str]:
    """Return the options, each in one word with its value, so that no value can be taken for an option."""
    entities = request.server.node.ensemble
    for name in ("from", "to"):
        value = request.query.get(name, "")
        if not value:
            continue
        if not any(value in names for names in ((UNLISTED,), entities.nodes, entities.devices, entities.foreign)):
            raise ApiError(f"`{name}`: there is no client, node or foreign broker `{value:.{MAX_NAME_SHOWN}}`")
        yield f"--{name}={value}"
    on = request.query.get("on", "")
    if on:
        try:
            yield f"--on={parse_filter(on).filter}"
        except TopicError as error:
            raise ApiError(f"`on`: {error}") from None
    if request.query.get("routes") == "1":
        yield "--routes"


@ENDPOINTS.add(
    "GET /api/flows",
    "read",
    "which information can flow from where to where, by which way, and what blocks the others",
    Query("from", "from this entity: a client, node or foreign broker; unset: from each"),
    Query("to", "to this one; unset: to each"),
    Query("on", "only events published on topics that this filter matches"),
    Query("routes", "1: by nodes alone; else clients on the way may publish what they have read", "integer"),
)
async def _flows(request: ApiRequest) -> Flows:
    options, domain = tuple(_options(request)), request.api.domain
    is_whole = not request.query.get("from") and not request.query.get("to")
    if is_whole and len(domain.nodes) + len(domain.clients) > MAX_ENTITIES:
        raise ApiError(f"the domain has more than {MAX_ENTITIES} nodes and clients: give `from` or `to`", 409)
    return msgspec.json.decode(await request.api.flow_answers.of(request.api.revision, *options), type=Flows)


@ENDPOINTS.add("GET /api/assertions", "read", "assertions of the domain about flows, and whether they hold")
async def _assertions(request: ApiRequest) -> Assertions:
    return msgspec.json.decode(await request.api.flow_answers.of(request.api.revision, "--assertions"), type=Assertions)
