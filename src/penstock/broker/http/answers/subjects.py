"""What one subject may read and write, by which rules, and how far its contracts fit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import asdict

from penstock.analysis.access import find_actor
from penstock.broker.http.answers.pipeline import journal_of
from penstock.broker.http.endpoint import Asked, Endpoint, Query, Refused
from penstock.broker.http.secret_masks import HIDDEN
from penstock.domain import ClientEntry, Ensemble
from penstock.domain.schema.admin import reaches
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.journal import jobs
from penstock.language.statements.statement import Message
from penstock.model.errors import PolicyError
from penstock.model.subject import Subject
from penstock.policy.access.acl import AclRule
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.fit import FitReport, match, way
from penstock.policy.tokens.rights import TokenRights

if TYPE_CHECKING:
    from penstock.broker.server import Server

MOST_CLAUSES = 500
MOST_AUDITED = 200
MOST_PAIRS = 200
"""Pairs of contracts that are held against each other for one question."""
_EVERYTHING = "#"

May = Literal["read", "write", "read and write"]
Effect = Literal["open", "grants", "limits", "denies"]
Role = Literal["producer", "consumer"]


class Clause(msgspec.Struct, frozen=True):
    """One thing that is said of what a subject may do at a node."""

    node: str
    kind: str
    """What says it: `acl`, `token`, `brokering`, `advertisement`, `where`, `access`, `statement`, `monitor`,
    `contract`, `privacy`."""
    effect: Effect
    """`open`: it could say something, and does not."""
    may: May
    topics: str
    why: str


class ContractFit(FitReport, frozen=True):
    """How far a contract of the subject fits another's, for one want and by one rule."""

    role: Role
    """What the subject is in it."""


class AuditedTopic(msgspec.Struct, frozen=True):
    """What a subject was sent on a topic, of all that was recorded."""

    topic: str
    publisher: str
    events: int
    first: str
    last: str


class AuditedRight(msgspec.Struct, frozen=True):
    """A right of which it has used nothing, or not all."""

    node: str
    rule: str
    access: str
    filter: str
    reads: int
    writes: int
    suggestion: str


class LastAudit(msgspec.Struct, frozen=True):
    """What the last audit of the journal says of a subject."""

    id: str
    at: float
    seen: tuple[AuditedTopic, ...]
    rights: tuple[AuditedRight, ...]


class SubjectAccount(msgspec.Struct, frozen=True):
    """A client, as the nodes of this process know it."""

    name: str
    listed: bool
    """Whether the domain has it among its `clients`."""
    nodes: tuple[str, ...]
    """Nodes of this process at which it has a place."""
    groups: tuple[str, ...]
    attributes: dict[str, bool | int | float | str]
    """Their values take the right `content`."""
    clauses: tuple[Clause, ...]
    contracts: tuple[ContractFit, ...]
    left_out: int
    """Clauses and pairs of contracts that are too many to tell."""
    audit: LastAudit | None = None
    """None: there was none."""


class _Place:
    """A subject at a node."""

    def __init__(self, node: Node, shown: Subject, entry: ClientEntry, session: Session | None) -> None:
        self.node, self.shown, self.entry, self.session = node, shown, entry, session


async def _subject(asked: Asked) -> SubjectAccount:
    name = asked.query.get("name", "")
    if not name:
        raise Refused("`name` is missing")
    places = [place for server in asked.api.servers.values() for place in _places(server, name)]
    if not places:
        raise Refused(f"nobody is called `{name:.200}` at the nodes of this process", 404)
    entry, whole = places[0].entry, places[0].node.ensemble
    clauses = list(dict.fromkeys(clause for place in places for clause in _clauses(place)))
    clauses += [*_access(whole, name), *_released(whole.contracts, entry.name)]
    fits = [fit async for fit in _contracts(whole.contracts, entry.name)]
    left = max(0, len(clauses) - MOST_CLAUSES) + max(0, _pairs(whole.contracts, entry.name) - MOST_PAIRS)
    nodes = tuple(dict.fromkeys(place.node.name for place in places))
    told, journal = tuple(clauses[:MOST_CLAUSES]), journal_of(asked)
    audit = None if journal is None else await asyncio.to_thread(_last_audit, journal, entry.name)
    attributes = dict(entry.attributes)
    if not reaches(asked.who.right, "content"):
        attributes = dict.fromkeys(attributes, HIDDEN)
    return SubjectAccount(entry.name, entry.listed, nodes, entry.groups, attributes, told, tuple(fits), left, audit)


def _places(server: "Server", name: str) -> Iterator[_Place]:
    """Where it has a session, and else where the domain lets it have one."""
    node, found = server.node, False
    for session in list(node.sessions.values()):
        if session.neighbour is None and name in (session.entity, session.client_id):
            entry = _entry(node, session.subject)
            if entry is not None:
                found = True
                yield _Place(node, session.subject, entry, session)
    shown = None if found else node.ensemble.shown(node.name, name)
    entry = _entry(node, shown) if shown is not None else None
    if shown is not None and entry is not None:
        yield _Place(node, shown, entry, None)


def _entry(node: Node, shown: Subject) -> ClientEntry | None:
    return node.ensemble.client(node.name, shown.client_id, shown.user, shown.listener, shown.certificate)


# --- what is said of it


def _clauses(place: _Place) -> Iterator[Clause]:
    node, entry = place.node, place.entry
    at = node.name
    yield from _rights(place)
    for one in entry.advertises:
        when = f" where `{one.condition.text}`" if one.condition is not None else ""
        yield Clause(at, "advertisement", "limits", "write", one.filter, f"what is advertised for it{when}")
    for filter, condition in entry.where:
        yield Clause(at, "where", "limits", "read", filter, f"only where `{condition.text}`")
    yield from _brokering(place)
    for to in (Message.PUBLICATION, Message.SUBSCRIPTION, Message.ADVERTISEMENT):
        for given in node.ensemble.statements.of(entry.name, to):
            may: May = "read" if to is Message.SUBSCRIPTION else "write"
            why = f"policy `{given.name}` is given to each {to.value}"
            yield Clause(at, "statement", "limits", may, given.filter, why)
    publishes, notified = entry.links(at)
    for monitor in node.ensemble.monitors(publishes):
        yield Clause(at, "monitor", "limits", "write", _EVERYTHING, f"monitor `{monitor.name}` edits what it publishes")
    for monitor in node.ensemble.monitors(notified):
        yield Clause(at, "monitor", "limits", "read", _EVERYTHING, f"monitor `{monitor.name}` edits what goes to it")


def _rights(place: _Place) -> Iterator[Clause]:
    node, session, at = place.node, place.session, place.node.name
    if session is not None:
        rights = session.rights
    else:
        rights = node.rights_of(place.shown.client_id, place.shown.user)
        granted = node.tokens.settings.granted(place.entry.name) if node.tokens is not None else None
        if granted is not None:
            rights = TokenRights(*granted, rights)
        elif node.tokens is not None and node.tokens.settings.required:
            yield Clause(at, "token", "denies", "read and write", _EVERYTHING, "it has to show a token, and gets none")
            return
    if isinstance(rights, TokenRights):
        by = "by the token that it has shown" if session is not None else "by the token that nodes give it"
        for filter in sorted(rights.publish):
            yield Clause(at, "token", "grants", "write", filter, by)
        for filter in sorted(rights.subscribe):
            yield Clause(at, "token", "grants", "read", filter, by)
        rights = rights.base
        if rights is None:
            return
    if rights is None:
        why = "no access control file: nothing is refused by it"
        yield Clause(at, "acl", "open", "read and write", _EVERYTHING, why)
        return
    yield from (_line(at, rule) for rule in (*rights.topics, *rights.patterns))
    yield Clause(at, "acl", "denies", "read and write", "all else", rights.otherwise)


def _line(at: str, rule: AclRule) -> Clause:
    if rule.access == "deny":
        return Clause(at, "acl", "denies", "read and write", rule.filter, f"by {rule.source}")
    may: May = "read and write" if rule.access == "readwrite" else rule.access
    return Clause(at, "acl", "grants", may, rule.filter, f"by {rule.source}")


def _brokering(place: _Place) -> Iterator[Clause]:
    """What the table keeps from it, and its events from."""
    entry, table, at = place.entry, place.node.ensemble.table(place.node.name), place.node.name
    for type in sorted(table.types):
        if not table.allows(entry.publish, type):
            why = f"what it publishes does not go on to links of type `{type}`: {table.why(entry.publish, type)}"
            yield Clause(at, "brokering", "denies", "write", _EVERYTHING, why)
        if not table.allows(type, entry.notify):
            why = f"what came by links of type `{type}` does not go to it: {table.why(type, entry.notify)}"
            yield Clause(at, "brokering", "denies", "read", _EVERYTHING, why)


def _access(whole: Ensemble, name: str) -> Iterator[Clause]:
    """Policies on Sparkplug messages and metrics."""
    if whole.access is None:
        return
    try:
        actor = find_actor(whole, name)
    except PolicyError:
        return
    for one in whole.access.policies:
        if one.subject in (*actor.ids, "*"):
            unless = f", but not {', '.join(f'`{name}`' for name in one.exceptions[:20])}" if one.exceptions else ""
            when = f", where `{one.condition.text}`" if one.condition is not None else ""
            may: May = "read" if one.privilege == "read" else "write"
            yield Clause("", "access", "grants", may, one.filter, f"by access policy {one.id}{unless}{when}")
    why = "no access policy grants it: on these topics nothing else is let through"
    yield Clause("", "access", "denies", "read and write", "all else on spBv1.0/#", why)


def _released(contracts: Contracts | None, client: str) -> Iterator[Clause]:
    """Which of its topics are released by contracts or policies in XACML, whoever is the other."""
    if contracts is None:
        return
    for one in contracts.producers:
        if one.rules and client in one.producers:
            yield Clause(
                "", "contract", "limits", "write", one.filter, f"goes to whom contract `{one.name}` lets have it"
            )
        elif one.rules:
            yield Clause(
                "", "contract", "limits", "read", one.filter, f"only what contract `{one.name}` releases to it"
            )
    for consumer in contracts.consumers:
        for want in consumer.wants if client in consumer.consumers else ():
            if want.needs or want.condition is not None:
                why = f"only as its own contract `{consumer.name}` wants it (`{want.name}`)"
                yield Clause("", "contract", "limits", "read", want.filter, why)
    for policy in contracts.privacy:
        why = f"privacy policy `{policy.name}` is asked about each event"
        yield Clause("", "privacy", "limits", "read", policy.filter, why)


# --- contracts


def _pairs(contracts: Contracts | None, client: str) -> int:
    if contracts is None:
        return 0
    mine = sum(client in one.producers for one in contracts.producers)
    own = sum(client in one.consumers for one in contracts.consumers)
    others = sum(len(one.consumers) for one in contracts.consumers)
    return mine * others + own * len(contracts.producers)


async def _contracts(contracts: Contracts | None, client: str) -> AsyncIterator[ContractFit]:
    """Both ways; other work of the node comes between two pairs."""
    if contracts is None:
        return
    left = MOST_PAIRS
    for producer in contracts.producers:
        for consumer in contracts.consumers:
            for taker in sorted(consumer.consumers):
                if not left or (client not in producer.producers and taker != client):
                    continue
                left -= 1
                role: Role = "producer" if client in producer.producers else "consumer"
                await asyncio.sleep(0)
                fit = match(producer, contracts.of(taker, consumer), contracts.catalogue)
                for want in fit.wants:
                    for rule in want.rules:
                        yield ContractFit(role=role, **asdict(way(taker, fit, want, rule)))


# --- what it used


class _Seen(AuditedTopic, frozen=True):
    subject: str


class _Right(AuditedRight, frozen=True):
    subject: str


class _Audit(msgspec.Struct, frozen=True):
    seen: tuple[_Seen, ...]
    rights: tuple[_Right, ...]


def _last_audit(journal: Path, name: str) -> LastAudit | None:
    last = next((one for one in jobs.list_jobs(journal) if one.job == "audit" and one.state == "done"), None)
    found = _audit(journal, last.id) if last is not None else None
    if last is None or found is None:
        return None
    seen = [one for one in found.seen if one.subject.partition("@")[0] == name][:MOST_AUDITED]
    rights = [one for one in found.rights if one.subject.partition("@")[0] == name][:MOST_AUDITED]
    return LastAudit(last.id, last.ended or last.began, tuple(seen), tuple(rights))


@lru_cache(maxsize=1)
def _audit(journal: Path, id: str) -> _Audit | None:
    try:
        return msgspec.json.decode(jobs.details(journal, id) or b"", type=_Audit)
    except msgspec.MsgspecError:
        return None


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/subject",
        "read",
        "what a client may read and write, by which rules, and how far its contracts fit",
        SubjectAccount,
        _subject,
        (Query("name", "its name in the domain, or its client id"),),
    ),
)
