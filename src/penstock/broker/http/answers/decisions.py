"""Recent decisions for operators: all refusals up to a limit, and a sample of everything else.

Refusals are recorded as they happen. Other events are sampled and explained as they come in
(`engine/explain/walk.py`), while an operator is watching and as long as that takes no more than a small share of the
processor.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.http.endpoint import ApiError, ApiRequest, Caller, Endpoints, Query
from penstock.broker.http.redaction import hide_payloads, redact_reasons
from penstock.domain.schema.admin import includes_right
from penstock.engine.connections.host import Sampler
from penstock.engine.events.ingress import travelling
from penstock.engine.events.plan import Target
from penstock.engine.explain.arrival import arrived
from penstock.engine.explain.matching import asks_by_content
from penstock.engine.explain.report import DecisionAccount
from penstock.engine.explain.walk import explaining
from penstock.engine.sessions.session import Session
from penstock.model.decision import Decision
from penstock.model.errors import PenstockError, TopicError
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Effect, Verdict
from penstock.wire.codec import decode
from penstock.wire.errors import WireError
from penstock.wire.framing import Frame
from penstock.wire.kinds import PUBLISH
from penstock.wire.packet import Publish

if TYPE_CHECKING:
    from penstock.broker.server import Server

ENDPOINTS = Endpoints()

MAX_KEPT = 5_000
MAX_BYTES = 32 * 2**20
"""Bytes of payloads that are kept; of long ones there are fewer."""
MAX_LIMIT = 1_000
SAMPLES, SHARE = 5, 0.01
"""Events that are explained per second, and the share of a processor that this may take, in the long run."""
BURST, BURST_SECONDS = 20, 0.04
"""The burst of both after a quiet time: one event's way through several nodes is shown completely."""
MAX_LINKS = 20
"""Links towards which one sampled event's decisions are kept."""
REFUSALS = 200
"""Refusals that are kept per second; others are only counted."""
LOOKING_SECONDS = 15.0
"""Seconds after the last request in which an operator still counts as watching."""
STREAM_SECONDS = 0.5
HEARTBEAT_SECONDS = 10.0
MAX_STREAMS, MAX_STREAMS_EACH = 50, 10


class DecisionRow(msgspec.Struct, frozen=True):
    """One decision: what a node did with an event towards one link."""

    id: int
    at: float
    node: str
    source: str
    """The sender."""
    target: str
    """The end of the link towards which it was decided; empty if it went no further than its own link."""
    topic: str
    effect: str
    stage: str
    """The most important stage; `rule` and `reason` are those of its verdict."""
    rule: str
    reason: str
    bytes: int | None
    """Length of the payload; null for a caller that may not read payloads."""


class Decisions(msgspec.Struct, frozen=True):
    """Rows, the newest last; the `id` of later ones is at least `next`."""

    rows: tuple[DecisionRow, ...]
    next: int
    left_out: int
    """Refusals that were too many to keep, since the node started."""


class DecisionDetail(msgspec.Struct, frozen=True):
    """One decision with all its verdicts; payloads are left out for a caller that may not read them."""

    row: DecisionRow
    decision: DecisionAccount


class _KeptDecision(msgspec.Struct, frozen=True):
    row: DecisionRow
    decision: Decision

    @property
    def discreet(self) -> DecisionRow:
        """Return the row for a caller that may not read payloads."""
        reason = redact_reasons(self.decision).reason
        return msgspec.structs.replace(self.row, stage=reason.stage, rule=reason.rule, reason=reason.reason, bytes=None)


class RecentDecisions:
    """The recent decisions of all nodes of a process."""

    def __init__(self) -> None:
        self._kept: deque[_KeptDecision] = deque()
        self._bytes = 0
        self.next = 1
        """The number of the next row."""
        self._until = 0.0
        self._second = 0
        self._refused = 0
        self._samples, self._seconds = float(BURST), BURST_SECONDS
        self._filled = 0.0
        self.left_out = 0
        self.streams: Counter[str] = Counter()
        """Number of streams by caller."""

    def watch(self, server: "Server") -> None:
        """Record the node's refusals from now on."""

        def refused(session: Session, event: Event, verdict: Verdict, now: float, target: Target | None) -> None:
            self._refuse(server, session, event, verdict, now, target)

        server.node.onlooker = refused

    def start_sampling(self, servers: "Iterator[Server]") -> None:
        """Start sampling for a while: an operator is watching."""
        self._until = time.monotonic() + LOOKING_SECONDS
        for server in servers:
            if server.sampler is None:
                server.sampler = self._sampler(server)

    def rows(self, since: int) -> Iterator[_KeptDecision]:
        """Return what is kept from that number on."""
        decisions = self._kept
        skip = max(0, since - decisions[0].row.id) if decisions else 0
        return islice(decisions, skip, None)

    def find(self, id: int) -> _KeptDecision | None:
        return next((decision for decision in self.rows(id) if decision.row.id == id), None)

    def _keep(self, decision: Decision, at: float) -> None:
        event, verdict, goes_by = decision.event, decision.reason, decision.goes_by
        ends = (decision.came_by.source, goes_by.target if goes_by is not None else "")
        outcome = (decision.effect, verdict.stage, verdict.rule, verdict.reason)
        row = DecisionRow(self.next, at, decision.node, *ends, event.topic, *outcome, len(event.payload))
        self.next += 1
        self._kept.append(_KeptDecision(row, decision))
        self._bytes += _weight(decision)
        while len(self._kept) > MAX_KEPT or (self._bytes > MAX_BYTES and len(self._kept) > 1):
            self._bytes -= _weight(self._kept.popleft().decision)

    def _refuse(
        self, server: "Server", session: Session, event: Event, verdict: Verdict, now: float, target: Target | None
    ) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._refused = second, 0
        self._refused += 1
        if self._refused > REFUSALS:
            self.left_out += 1
            return
        link = Link(session.neighbour or session.place.entity, server.name, session.place.publish_type)
        decision = Decision(server.name, link, event, None, (verdict,))
        if target is not None:
            place, subscriptions = target.session.place, target.subscriptions
            by_content = any(asks_by_content(subscribed, event.topic) for subscribed in subscriptions)
            goes_by = Link(server.name, place.entity, place.notify_type)
            decision = decision._replace(goes_by=goes_by, by_content=by_content)
        self._keep(decision, now)

    def _sampler(self, server: "Server") -> Sampler:
        def sample(session: Session, buffer: bytes, frames: list[Frame]) -> None:
            begin = time.monotonic()
            quiet, self._filled = begin - self._filled, begin
            self._samples = min(BURST, self._samples + quiet * SAMPLES)
            self._seconds = min(BURST_SECONDS, self._seconds + quiet * SHARE)
            if self._samples < 1 or self._seconds <= 0:
                return
            if begin > self._until:
                server.sampler = None
                return
            spent = time.thread_time()  # processor time: time of other processes does not count
            if self._explain(server, session, buffer, frames):
                self._samples -= 1
                self._seconds -= time.thread_time() - spent

        return sample

    def _explain(self, server: "Server", session: Session, buffer: bytes, frames: list[Frame]) -> bool:
        """Explain the first publication; return whether there was one."""
        event = _first(server, session, buffer, frames)
        if event is None:
            return False
        now = server.now()
        try:
            arrival = arrived(server.node, session, event)
            with closing(explaining({server.name: server.node}, arrival, now)) as explained:
                decisions = list(islice(explained, MAX_LINKS))
        except PenstockError:  # an event that cannot be explained is refused by the node in its own words
            return True
        for decision in decisions:
            is_echo = decision.goes_by is not None and decision.goes_by.target == decision.came_by.source
            if not is_echo and not _is_refusal(server, decision):
                self._keep(decision, now)
        return True


def _is_refusal(server: "Server", decision: Decision) -> bool:
    """Return True if the node itself tells of it: the event stopped on its own link, or before it left for a node."""
    if decision.effect is not Effect.SUPPRESS:
        return False
    goes_by = decision.goes_by
    return goes_by is None or (decision.reason.stage == "shape" and goes_by.target in server.node.ensemble.overlays)


def _weight(decision: Decision) -> int:
    return len(decision.event.payload) + sum(len(output.payload) for output in decision.outputs)


def _first(server: "Server", session: Session, buffer: bytes, frames: list[Frame]) -> Event | None:
    """Return the first publication that has come, unless it is a message between nodes."""
    for first, start, end in frames:
        if first >> 4 != PUBLISH:
            continue
        try:
            packet = decode(first, buffer[start:end], session.version)
        except WireError:
            return None
        assert isinstance(packet, Publish)
        is_bound = session.trust.tokens is None or packet.topic in session.trust.tokens.bound_in
        if not packet.topic or packet.topic.startswith("$") or not is_bound:
            return None
        forwarded = travelling(server.node, session, packet.properties)
        return Event(packet.topic, packet.payload, packet.qos, packet.retain, forwarded)
    return None


# --- requests


_FILTERS = (
    Query("node", "at this node"),
    Query("subject", "from or to this client or node"),
    Query("topic", "whose topic this filter matches"),
    Query("stage", "decided at this stage"),
    Query("rule", "by a rule with this in its name"),
    Query("effect", "`pass`, `suppress`, `replace` or `inject`"),
)


class _DecisionQuery:
    """The decisions that a request asks for."""

    def __init__(self, request: ApiRequest) -> None:
        query = request.query
        self._exact = {name: query[name] for name in ("node", "stage", "effect") if query.get(name)}
        self._subject, self._rule, self._topic = query.get("subject"), query.get("rule"), query.get("topic")
        if self._topic:
            try:
                parse_filter(self._topic)
            except TopicError as error:
                raise ApiError(f"`topic`: {error}") from None

    def takes(self, row: DecisionRow) -> bool:
        return (
            all(getattr(row, name) == value for name, value in self._exact.items())
            and (not self._subject or self._subject in (row.source, row.target))
            and (not self._rule or self._rule in row.rule)
            and (not self._topic or matches(self._topic, row.topic))
        )


@ENDPOINTS.add(
    "GET /api/decisions",
    "read",
    "recent decisions: refusals, and a sample of all other events while a client asks",
    *_FILTERS,
    Query("since", "from this number on", "integer"),
    Query("limit", "at most so many", "integer"),
)
async def _decisions(request: ApiRequest) -> Decisions:
    recent, query = request.api.recent, _DecisionQuery(request)
    recent.start_sampling(iter(request.api.servers.values()))
    since, limit = int(request.number("since", 0, 2**53)), int(request.number("limit", 200, MAX_LIMIT))
    rows = [row for row in _visible_rows(recent.rows(since), request.caller) if query.takes(row)]
    return Decisions(tuple(rows[-limit:] if limit else ()), recent.next, recent.left_out)


def _visible_rows(decisions: Iterator[_KeptDecision], caller: Caller) -> Iterator[DecisionRow]:
    """Return the rows for a caller: hidden fields cannot be filtered by either."""
    if includes_right(caller.right, "content"):
        return (decision.row for decision in decisions)
    return (decision.discreet for decision in decisions)


@ENDPOINTS.add(
    "GET /api/decisions/stream",
    "read",
    "decisions as they are made, a line of JSON each",
    *_FILTERS,
    answer=DecisionRow,
)
async def _stream(request: ApiRequest) -> AsyncIterator[bytes]:
    recent, query = request.api.recent, _DecisionQuery(request)
    name = request.caller.name
    if recent.streams.total() >= MAX_STREAMS or recent.streams[name] >= MAX_STREAMS_EACH:
        raise ApiError("too many streams", 503, 5)

    async def lines() -> AsyncIterator[bytes]:
        recent.streams[name] += 1
        try:
            since, last_sent = recent.next, time.monotonic()
            while request.api.is_running:
                caller = request.api.caller(request.server, request.token)
                if not caller.right:  # it has lost the right meanwhile
                    return
                recent.start_sampling(iter(request.api.servers.values()))
                rows = [row for row in _visible_rows(recent.rows(since), caller) if query.takes(row)]
                since = recent.next
                if rows or time.monotonic() - last_sent > HEARTBEAT_SECONDS:
                    yield b"".join(msgspec.json.encode(row) + b"\n" for row in rows) or b"\n"
                    last_sent = time.monotonic()
                await asyncio.sleep(STREAM_SECONDS)
        finally:
            recent.streams[name] -= 1

    return lines()


@ENDPOINTS.add("GET /api/decision", "read", "one decision, stage by stage", Query("id", "its number", "integer"))
async def _decision(request: ApiRequest) -> DecisionDetail:
    kept = request.api.recent.find(int(request.number("id", 0, 2**53)))
    if kept is None:
        raise ApiError("no such decision any more", 404)
    if includes_right(request.caller.right, "content"):
        return DecisionDetail(kept.row, DecisionAccount.of(kept.decision))
    detail = hide_payloads(DecisionAccount.of(redact_reasons(kept.decision)))
    return DecisionDetail(kept.discreet, detail)
