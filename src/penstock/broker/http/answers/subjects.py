"""The rights of one subject, the rules behind them, and how far its contracts fit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import asdict

from penstock.analysis.access import find_actor
from penstock.broker.http.answers.pipeline import journal_of
from penstock.broker.http.endpoint import ApiError, ApiRequest, Endpoints, Query
from penstock.broker.http.redaction import redact_verdict
from penstock.broker.http.secret_masks import HIDDEN
from penstock.domain import ClientEntry, Ensemble
from penstock.domain.schema.admin import includes_right
from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.session import Session
from penstock.journal import jobs
from penstock.language.statements.statement import Message
from penstock.model import verdict
from penstock.model.errors import PolicyError
from penstock.model.link import Link
from penstock.model.subject import Subject
from penstock.policy.access.acl import AclRule
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.fit import FitReport, match, way
from penstock.policy.tokens.rights import TokenRights

if TYPE_CHECKING:
    from penstock.broker.server import Server

ENDPOINTS = Endpoints()

MAX_CLAUSES = 500
MAX_AUDITED = 200
MAX_PAIRS = 200
"""Pairs of contracts that are compared for one request."""
_EVERYTHING = "#"

May = Literal["read", "write", "read and write"]
Effect = Literal["open", "grants", "limits", "denies"]
Role = Literal["producer", "consumer"]


class AccessClause(msgspec.Struct, frozen=True):
    """One rule about what a subject may do at a node."""

    node: str
    kind: str
    """The kind of rule: `acl`, `token`, `brokering`, `advertisement`, `where`, `access`, `statement`, `monitor`,
    `contract`, `privacy`."""
    effect: Effect
    """`open`: there are no rules of this kind."""
    may: May
    topics: str
    why: str


class ContractFit(FitReport, frozen=True):
    """The fit of a contract of the subject with another's, for one want and by one rule."""

    role: Role
    """The subject's role in it."""


class AuditedTopic(msgspec.Struct, frozen=True):
    """The recorded events that a subject was sent on a topic."""

    topic: str
    publisher: str
    events: int
    first: str
    last: str


class AuditedRight(msgspec.Struct, frozen=True):
    """A right that it has not used, or not completely."""

    node: str
    rule: str
    access: str
    filter: str
    reads: int
    writes: int
    suggestion: str


class AuditedWithholding(msgspec.Struct, frozen=True):
    """The recorded events on a topic that a policy kept from a subject, or some of each."""

    topic: str
    publisher: str
    node: str
    stage: str
    rule: str
    effect: str
    events: int
    first: str
    last: str
    reason: str
    """Of one of the events; if it may depend on content, reading it needs the right `content`."""


class LastAudit(msgspec.Struct, frozen=True):
    """The last audit of the journal about a subject."""

    id: str
    at: float
    seen: tuple[AuditedTopic, ...]
    rights: tuple[AuditedRight, ...]
    withheld: tuple[AuditedWithholding, ...] = ()


class SubjectAccount(msgspec.Struct, frozen=True):
    """A client, as the nodes of this process know it."""

    name: str
    listed: bool
    """True if the domain lists it under `clients`."""
    nodes: tuple[str, ...]
    """Nodes of this process where it may connect."""
    groups: tuple[str, ...]
    attributes: dict[str, bool | int | float | str]
    """Values need the right `content`."""
    clauses: tuple[AccessClause, ...]
    contracts: tuple[ContractFit, ...]
    left_out: int
    """Clauses and pairs of contracts that were too many to show."""
    audit: LastAudit | None = None
    """None: there was no audit."""


class _Place:
    """A subject at a node."""

    def __init__(self, node: Node, shown: Subject, entry: ClientEntry, session: Session | None) -> None:
        self.node, self.shown, self.entry, self.session = node, shown, entry, session


@ENDPOINTS.add(
    "GET /api/subject",
    "read",
    "what a client may read and write, by which rules, and how far its contracts fit",
    Query("name", "its name in the domain, or its client id"),
)
async def _subject(request: ApiRequest) -> SubjectAccount:
    name = request.query.get("name", "")
    if not name:
        raise ApiError("`name` is missing")
    places = [place for server in request.api.servers.values() for place in _places(server, name)]
    if not places:
        raise ApiError(f"nobody is called `{name:.200}` at the nodes of this process", 404)
    entry, entities = places[0].entry, places[0].node.ensemble
    clauses = list(dict.fromkeys(clause for place in places for clause in _clauses(place)))
    clauses += [*_access(entities, name), *_released(entities.contracts, entry.name)]
    fits = [fit async for fit in _contracts(entities.contracts, entry.name)]
    left_out = max(0, len(clauses) - MAX_CLAUSES) + max(0, _pairs(entities.contracts, entry.name) - MAX_PAIRS)
    nodes = tuple(dict.fromkeys(place.node.name for place in places))
    shown_clauses, journal = tuple(clauses[:MAX_CLAUSES]), journal_of(request)
    with_content = includes_right(request.caller.right, "content")
    audit = None if journal is None else await asyncio.to_thread(last_audit, journal, entry.name, with_content)
    attributes = dict(entry.attributes)
    if not with_content:
        attributes = dict.fromkeys(attributes, HIDDEN)
    about = (entry.name, entry.listed, nodes, entry.groups, attributes)
    return SubjectAccount(*about, shown_clauses, tuple(fits), left_out, audit)


def _places(server: "Server", name: str) -> Iterator[_Place]:
    """Return the places where it has a session, or else where the domain lets it connect."""
    node, has_session = server.node, False
    for session in list(node.sessions.values()):
        if session.neighbour is None and name in (session.place.entity, session.client_id):
            entry = _entry(node, session.subject)
            if entry is not None:
                has_session = True
                yield _Place(node, session.subject, entry, session)
    shown = None if has_session else node.ensemble.shown(node.name, name)
    entry = _entry(node, shown) if shown is not None else None
    if shown is not None and entry is not None:
        yield _Place(node, shown, entry, None)


def _entry(node: Node, shown: Subject) -> ClientEntry | None:
    return node.ensemble.client(node.name, shown.client_id, shown.user, shown.listener, shown.certificate)


# --- rules about it


def _clauses(place: _Place) -> Iterator[AccessClause]:
    node, entry = place.node, place.entry
    at = node.name
    yield from _rights(place)
    for advertised in entry.advertises:
        when = f" where `{advertised.condition.text}`" if advertised.condition is not None else ""
        yield AccessClause(at, "advertisement", "limits", "write", advertised.filter, f"its advertisement{when}")
    for filter, condition in entry.where:
        yield AccessClause(at, "where", "limits", "read", filter, f"only where `{condition.text}`")
    yield from _brokering(place)
    for to in (Message.PUBLICATION, Message.SUBSCRIPTION, Message.ADVERTISEMENT):
        for applied in node.ensemble.statements.of(entry.name, to):
            may: May = "read" if to is Message.SUBSCRIPTION else "write"
            why = f"policy `{applied.name}` applies to each {to.value}"
            yield AccessClause(at, "statement", "limits", may, applied.filter, why)
    publishes, notified = entry.links(at)
    sides: tuple[tuple[May, Link, str], ...] = (("write", publishes, "it publishes"), ("read", notified, "goes to it"))
    for side, link, what in sides:
        for monitor in node.ensemble.monitors(link):
            why = f"monitor `{monitor.name}` edits what {what}"
            yield AccessClause(at, "monitor", "limits", side, _EVERYTHING, why)


def _rights(place: _Place) -> Iterator[AccessClause]:
    node, session, at = place.node, place.session, place.node.name
    if session is not None:
        rights = session.rights
    else:
        rights = session_rights.rights_of(node, place.shown.client_id, place.shown.user)
        granted = node.trust.tokens.settings.granted(place.entry.name) if node.trust.tokens is not None else None
        if granted is not None:
            rights = TokenRights(*granted, rights)
        elif node.trust.tokens is not None and node.trust.tokens.settings.required:
            why = "it must show a token, and no grant names it"
            yield AccessClause(at, "token", "denies", "read and write", _EVERYTHING, why)
            return
    if isinstance(rights, TokenRights):
        by = "by the token that it has shown" if session is not None else "by the token that nodes give it"
        for filter in sorted(rights.publish):
            yield AccessClause(at, "token", "grants", "write", filter, by)
        for filter in sorted(rights.subscribe):
            yield AccessClause(at, "token", "grants", "read", filter, by)
        rights = rights.base
        if rights is None:
            return
    if rights is None:
        why = "no ACL file is set, so the ACL denies nothing"
        yield AccessClause(at, "acl", "open", "read and write", _EVERYTHING, why)
        return
    yield from (_line(at, rule) for rule in (*rights.topics, *rights.patterns))
    yield AccessClause(at, "acl", "denies", "read and write", "all else", rights.otherwise)


def _line(at: str, rule: AclRule) -> AccessClause:
    if rule.access == "deny":
        return AccessClause(at, "acl", "denies", "read and write", rule.filter, f"by {rule.source}")
    may: May = "read and write" if rule.access == "readwrite" else rule.access
    return AccessClause(at, "acl", "grants", may, rule.filter, f"by {rule.source}")


def _brokering(place: _Place) -> Iterator[AccessClause]:
    """Return what the table keeps from it, and where its events may not go."""
    entry, table, at = place.entry, place.node.ensemble.table(place.node.name), place.node.name
    for type in sorted(table.types):
        if not table.allows(entry.publish, type):
            why = f"what it publishes does not go on to links of type `{type}`: {table.why(entry.publish, type)}"
            yield AccessClause(at, "brokering", "denies", "write", _EVERYTHING, why)
        if not table.allows(type, entry.notify):
            why = f"what came by links of type `{type}` does not go to it: {table.why(type, entry.notify)}"
            yield AccessClause(at, "brokering", "denies", "read", _EVERYTHING, why)


def _access(entities: Ensemble, name: str) -> Iterator[AccessClause]:
    """Return the policies on Sparkplug messages and metrics."""
    if entities.access is None:
        return
    try:
        actor = find_actor(entities, name)
    except PolicyError:
        return
    for policy in entities.access.policies:
        if policy.subject in (*actor.ids, "*"):
            excepted = ", ".join(f"`{name}`" for name in policy.exceptions[:20])
            unless = f", but not {excepted}" if excepted else ""
            when = f", where `{policy.condition.text}`" if policy.condition is not None else ""
            may: May = "read" if policy.privilege == "read" else "write"
            times = f", valid {policy.valid.text}" if policy.valid is not None else ""
            why = f"by access policy {policy.id}{unless}{when}{times}"
            yield AccessClause("", "access", "grants", may, policy.filter, why)
    why = "no access policy grants it: on these topics everything else is denied"
    yield AccessClause("", "access", "denies", "read and write", "all else on spBv1.0/#", why)


def _released(contracts: Contracts | None, client: str) -> Iterator[AccessClause]:
    """Return its topics that contracts or XACML policies release, whoever the other side is."""
    if contracts is None:
        return
    for producer in contracts.producers:
        if producer.rules and client in producer.producers:
            why = f"only to receivers that contract `{producer.name}` releases it to"
            yield AccessClause("", "contract", "limits", "write", producer.filter, why)
        elif producer.rules:
            why = f"only events that contract `{producer.name}` releases to it"
            yield AccessClause("", "contract", "limits", "read", producer.filter, why)
    for consumer in contracts.consumers:
        for want in consumer.wants if client in consumer.consumers else ():
            if want.needs or want.condition is not None:
                why = f"only as its own contract `{consumer.name}` wants it (`{want.name}`)"
                yield AccessClause("", "contract", "limits", "read", want.filter, why)
    for policy in contracts.privacy:
        why = f"privacy policy `{policy.name}` decides about each event"
        yield AccessClause("", "privacy", "limits", "read", policy.filter, why)


# --- contracts


def _pairs(contracts: Contracts | None, client: str) -> int:
    if contracts is None:
        return 0
    mine = sum(client in producer.producers for producer in contracts.producers)
    own = sum(client in consumer.consumers for consumer in contracts.consumers)
    others = sum(len(consumer.consumers) for consumer in contracts.consumers)
    return mine * others + own * len(contracts.producers)


async def _contracts(contracts: Contracts | None, client: str) -> AsyncIterator[ContractFit]:
    """Return the fits in both roles; other work of the node can run between two pairs."""
    if contracts is None:
        return
    remaining = MAX_PAIRS
    for producer in contracts.producers:
        for consumer in contracts.consumers:
            for taker in sorted(consumer.consumers):
                if not remaining or (client not in producer.producers and taker != client):
                    continue
                remaining -= 1
                role: Role = "producer" if client in producer.producers else "consumer"
                await asyncio.sleep(0)
                fit = match(producer, contracts.of(taker, consumer), contracts.catalogue)
                for want in fit.wants:
                    for rule in want.rules:
                        yield ContractFit(role=role, **asdict(way(taker, fit, want, rule)))


# --- used rights


class _Seen(AuditedTopic, frozen=True):
    subject: str


class _Right(AuditedRight, frozen=True):
    subject: str


class _Withheld(AuditedWithholding, frozen=True):
    subject: str


class _Audit(msgspec.Struct, frozen=True):
    seen: tuple[_Seen, ...]
    rights: tuple[_Right, ...]
    withheld: tuple[_Withheld, ...] = ()


def last_audit(journal: Path, name: str, with_content: bool) -> LastAudit | None:
    """Return what the last audit of a journal says of a subject; `with_content`: with all reasons."""
    last = next((job for job in jobs.list_jobs(journal) if job.job == "audit" and job.state == "done"), None)
    audited = _audit(journal, last.id) if last is not None else None
    if last is None or audited is None:
        return None
    seen = [topic for topic in audited.seen if topic.subject.partition("@")[0] == name][:MAX_AUDITED]
    rights = [right for right in audited.rights if right.subject.partition("@")[0] == name][:MAX_AUDITED]
    withheld = [kept for kept in audited.withheld if kept.subject.partition("@")[0] == name][:MAX_AUDITED]
    shown = (kept if with_content else _redacted(kept) for kept in withheld)
    return LastAudit(last.id, last.ended or last.began, tuple(seen), tuple(rights), tuple(shown))


def _redacted(kept: _Withheld) -> _Withheld:
    decided = verdict.Verdict(kept.stage, verdict.Effect(kept.effect), kept.rule, kept.reason)
    return msgspec.structs.replace(kept, reason=redact_verdict(decided).reason)


@lru_cache(maxsize=1)
def _audit(journal: Path, id: str) -> _Audit | None:
    try:
        return msgspec.json.decode(jobs.details(journal, id) or b"", type=_Audit)
    except msgspec.MsgspecError:
        return None
