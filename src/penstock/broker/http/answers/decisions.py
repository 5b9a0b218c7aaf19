"""Decisions of late, for who looks on: all refusals within a bound, and a sample of everything that comes.

Refusals are noted as they happen. Of the rest, some are explained as they come in (`engine/explain/walk.py`), while
somebody looks on and as long as that takes no more than a small share of the processor.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.http.endpoint import Asked, Endpoint, Query, Refused, Who
from penstock.broker.http.redaction import without_payloads, without_reasons
from penstock.domain.schema.admin import reaches
from penstock.engine.connections.host import Sampler
from penstock.engine.events.ingress import travelling
from penstock.engine.explain.arrival import arrived
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
from penstock.wire.packet import PUBLISH, Publish

if TYPE_CHECKING:
    from penstock.broker.server import Server

MOST_KEPT = 5_000
MOST_BYTES = 32 * 2**20
"""Of payloads that are kept; of long ones there are fewer."""
MOST_ASKED = 1_000
SAMPLES, SHARE = 5, 0.01
"""Events that are explained in a second, and the part of a processor that this may take, in the long run."""
BURST, BURST_SECONDS = 20, 0.04
"""What there may be of both at once after a quiet time: one event's way through several nodes is shown whole."""
MOST_TOWARDS = 20
"""Links towards which one sampled event's decisions are kept."""
REFUSALS = 200
"""Refusals that are kept in a second at most; others are counted."""
LOOKING_SECONDS = 15.0
"""So long after the last question somebody still looks on."""
STREAM_SECONDS = 0.5
HEARTBEAT_SECONDS = 10.0
MOST_STREAMS, MOST_STREAMS_EACH = 50, 10


class DecisionRow(msgspec.Struct, frozen=True):
    """One decision: what a node did with an event towards one link."""

    id: int
    at: float
    node: str
    source: str
    """Who sent it."""
    target: str
    """The end of the link towards which it was decided; empty if it went no further than its own link."""
    topic: str
    effect: str
    stage: str
    """The stage that told most, and in `rule` and `reason` by what rule and why."""
    rule: str
    reason: str
    bytes: int | None
    """How long the payload was; null for who may not see it."""


class Decisions(msgspec.Struct, frozen=True):
    """Rows, the newest last; `id` of the next ones is at least `next`."""

    rows: tuple[DecisionRow, ...]
    next: int
    left_out: int
    """Refusals that were too many to keep, since the node began."""


class DecisionDetail(msgspec.Struct, frozen=True):
    """One decision with all its verdicts; payloads are left out for who may not see them."""

    row: DecisionRow
    decision: DecisionAccount


class _Kept(msgspec.Struct, frozen=True):
    row: DecisionRow
    decision: Decision

    @property
    def discreet(self) -> DecisionRow:
        """The row, for who may not see payloads."""
        told = without_reasons(self.decision).reason
        return msgspec.structs.replace(self.row, stage=told.stage, rule=told.rule, reason=told.reason, bytes=None)


class Recent:
    """The decisions of late of all nodes of a process."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._numbers = count(1)
        self._next = 1
        self._until = 0.0
        self._second = 0
        self._refused = 0
        self._samples, self._seconds = float(BURST), BURST_SECONDS
        self._filled = 0.0
        self.left_out = 0
        self.streams: Counter[str] = Counter()
        """By who has them."""

    def watch(self, server: "Server") -> None:
        """Note what the node refuses from now on."""

        def refused(session: Session, event: Event, verdict: Verdict, now: float) -> None:
            self._refuse(server, session, event, verdict, now)

        server.node.onlooker = refused

    def look(self, servers: "Iterator[Server]") -> None:
        """Somebody looks on: explain some of what comes, for a while."""
        self._until = time.monotonic() + LOOKING_SECONDS
        for server in servers:
            if server.sampler is None:
                server.sampler = self._sampler(server)

    def rows(self, since: int) -> Iterator[_Kept]:
        """What is kept from that number on."""
        kept = self._kept
        skip = max(0, since - kept[0].row.id) if kept else 0
        return islice(kept, skip, None)

    @property
    def next(self) -> int:
        return self._next

    def find(self, id: int) -> _Kept | None:
        return next((one for one in self.rows(id) if one.row.id == id), None)

    def _keep(self, decision: Decision, at: float) -> None:
        told, goes_by = decision.reason, decision.goes_by
        row = DecisionRow(
            next(self._numbers),
            at,
            decision.node,
            decision.came_by.source,
            goes_by.target if goes_by is not None else "",
            decision.event.topic,
            decision.effect,
            told.stage,
            told.rule,
            told.reason,
            len(decision.event.payload),
        )
        self._next = row.id + 1
        self._kept.append(_Kept(row, decision))
        self._bytes += _weight(decision)
        while len(self._kept) > MOST_KEPT or (self._bytes > MOST_BYTES and len(self._kept) > 1):
            self._bytes -= _weight(self._kept.popleft().decision)

    def _count(self) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._refused = second, 0

    def _refuse(self, server: "Server", session: Session, event: Event, verdict: Verdict, now: float) -> None:
        self._count()
        self._refused += 1
        if self._refused > REFUSALS:
            self.left_out += 1
            return
        link = Link(session.neighbour or session.entity, server.name, session.publish_type)
        self._keep(Decision(server.name, link, event, None, (verdict,)), now)

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
            spent = time.thread_time()  # of the processor: time that others have had does not count
            if self._explain(server, session, buffer, frames):
                self._samples -= 1
                self._seconds -= time.thread_time() - spent

        return sample

    def _explain(self, server: "Server", session: Session, buffer: bytes, frames: list[Frame]) -> bool:
        """Whether there was something to explain."""
        event = _first(server, session, buffer, frames)
        if event is None:
            return False
        now = server.now()
        try:
            arrival = arrived(server.node, session, event)
            with closing(explaining({server.name: server.node}, arrival, now)) as found:
                decisions = list(islice(found, MOST_TOWARDS))
        except PenstockError:  # what makes no sense to explain is refused by the node in its own words
            return True
        for decision in decisions:
            is_echo = decision.goes_by is not None and decision.goes_by.target == decision.came_by.source
            if not is_echo and (decision.goes_by is not None or decision.effect is not Effect.SUPPRESS):
                self._keep(decision, now)
        return True


def _weight(decision: Decision) -> int:
    return len(decision.event.payload) + sum(len(one.payload) for one in decision.outputs)


def _first(server: "Server", session: Session, buffer: bytes, frames: list[Frame]) -> Event | None:
    """The first publication that has come, if it is one of others' business: not what nodes tell each other."""
    for first, start, end in frames:
        if first >> 4 != PUBLISH:
            continue
        try:
            packet = decode(first, buffer[start:end], session.version)
        except WireError:
            return None
        assert isinstance(packet, Publish)
        is_bound = session.tokens is None or packet.topic in session.tokens.bound_in
        if not packet.topic or packet.topic.startswith("$") or not is_bound:
            return None
        kept = travelling(server.node, session, packet.properties)
        return Event(packet.topic, packet.payload, packet.qos, packet.retain, kept)
    return None


# --- what is asked


class _Wanted:
    """Which decisions somebody asks for."""

    def __init__(self, asked: Asked) -> None:
        query = asked.query
        self._exact = {name: query[name] for name in ("node", "stage", "effect") if query.get(name)}
        self._subject, self._rule, self._topic = query.get("subject"), query.get("rule"), query.get("topic")
        if self._topic:
            try:
                parse_filter(self._topic)
            except TopicError as error:
                raise Refused(f"`topic`: {error}") from None

    def takes(self, row: DecisionRow) -> bool:
        return (
            all(getattr(row, name) == value for name, value in self._exact.items())
            and (not self._subject or self._subject in (row.source, row.target))
            and (not self._rule or self._rule in row.rule)
            and (not self._topic or matches(self._topic, row.topic))
        )


async def _decisions(asked: Asked) -> Decisions:
    recent, wanted = asked.api.recent, _Wanted(asked)
    recent.look(iter(asked.api.servers.values()))
    since, most = int(asked.number("since", 0, 2**53)), int(asked.number("limit", 200, MOST_ASKED))
    found = [row for row in _shown(recent.rows(since), asked.who) if wanted.takes(row)]
    return Decisions(tuple(found[-most:] if most else ()), recent.next, recent.left_out)


def _shown(some: Iterator[_Kept], who: Who) -> Iterator[DecisionRow]:
    """The rows, for who asks: what is not told cannot be asked for either."""
    if reaches(who.right, "content"):
        return (one.row for one in some)
    return (one.discreet for one in some)


async def _stream(asked: Asked) -> AsyncIterator[bytes]:
    recent, wanted = asked.api.recent, _Wanted(asked)
    name = asked.who.name
    if recent.streams.total() >= MOST_STREAMS or recent.streams[name] >= MOST_STREAMS_EACH:
        raise Refused("too many streams", 503, 5)

    async def lines() -> AsyncIterator[bytes]:
        recent.streams[name] += 1
        try:
            since, said = recent.next, time.monotonic()
            while asked.api.is_running:
                who = asked.api.who(asked.server, asked.token)
                if not who.right:  # it has lost the right meanwhile
                    return
                recent.look(iter(asked.api.servers.values()))
                found = [row for row in _shown(recent.rows(since), who) if wanted.takes(row)]
                since = recent.next
                if found:
                    yield b"".join(msgspec.json.encode(row) + b"\n" for row in found)
                elif time.monotonic() - said > HEARTBEAT_SECONDS:
                    yield b"\n"
                else:
                    await asyncio.sleep(STREAM_SECONDS)
                    continue
                said = time.monotonic()
                await asyncio.sleep(STREAM_SECONDS)
        finally:
            recent.streams[name] -= 1

    return lines()


async def _decision(asked: Asked) -> DecisionDetail:
    found = asked.api.recent.find(int(asked.number("id", 0, 2**53)))
    if found is None:
        raise Refused("no such decision any more", 404)
    if reaches(asked.who.right, "content"):
        return DecisionDetail(found.row, DecisionAccount.of(found.decision))
    told = without_payloads(DecisionAccount.of(without_reasons(found.decision)))
    return DecisionDetail(found.discreet, told)


_WANTED = (
    Query("node", "at this node"),
    Query("subject", "from or to this client or node"),
    Query("topic", "whose topic this filter matches"),
    Query("stage", "decided at this stage"),
    Query("rule", "by a rule with this in its name"),
    Query("effect", "`pass`, `suppress`, `replace` or `inject`"),
)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/decisions",
        "read",
        "decisions of late: refusals, and a sample of all else while somebody asks",
        Decisions,
        _decisions,
        (*_WANTED, Query("since", "from this number on", "integer"), Query("limit", "at most so many", "integer")),
    ),
    Endpoint(
        "GET",
        "/api/decisions/stream",
        "read",
        "decisions as they are made, a line of JSON each",
        DecisionRow,
        _stream,
        _WANTED,
    ),
    Endpoint(
        "GET",
        "/api/decision",
        "read",
        "one decision, stage by stage",
        DecisionDetail,
        _decision,
        (Query("id", "its number", "integer"),),
    ),
)
