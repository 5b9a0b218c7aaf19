"""What a node says of itself: nodes, links, clients, subscriptions, policies, journal, trust, tokens; and why."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import QueryParams

from penstock.broker.http.endpoint import Asked, Endpoint, Query, Refused
from penstock.broker.http.redaction import with_own_payload, without_others
from penstock.broker.store.persisted import Selection, plain
from penstock.domain.schema.admin import reaches
from penstock.engine.explain.arrival import ExplainError, arrival, hypothetical
from penstock.engine.explain.report import Account, account
from penstock.engine.explain.walk import explain
from penstock.engine.status import NodePortrait, SubscriptionPortrait, portrait, subscriptions
from penstock.engine.trust.trust_status import Standing, standing
from penstock.model.errors import TopicError
from penstock.model.topic import check_topic

if TYPE_CHECKING:
    from penstock.broker.server import Server

FRESH_SECONDS = 0.9
"""For so long the state of the nodes is told again as it was: many who look cost no more than one."""
MOST_SUBSCRIPTIONS = 10_000
MOST_PERSISTED = 1_000


class Counters(msgspec.Struct, frozen=True):
    """Since the node began."""

    received: int
    sent: int
    denied: int
    dropped: int
    expired: int
    bytes_received: int
    bytes_sent: int
    refused: int
    """Connections."""


class JournalState(msgspec.Struct, frozen=True):
    folder: str
    rows: int
    lost: int
    failing: str
    """Why it cannot be written; empty if it can."""


class NodeState(msgspec.Struct, frozen=True):
    """A node that runs in the process that answers."""

    addresses: tuple[str, ...]
    started: float
    trouble: str
    """What keeps it from working as it should; empty if nothing does."""
    connected: int
    counters: Counters
    journal: JournalState | None
    portrait: NodePortrait


class Nodes(msgspec.Struct, frozen=True):
    """All nodes of the process, as of one moment."""

    at: float
    revision: str
    nodes: dict[str, NodeState]


class RevisionFile(msgspec.Struct, frozen=True):
    name: str
    text: str


class RevisionState(msgspec.Struct, frozen=True):
    """The policies in force: the domain and the files that it names, without secrets."""

    digest: str
    files: tuple[RevisionFile, ...]


class KeyState(msgspec.Struct, frozen=True):
    id: str
    node: str
    retired: float | None
    is_revoked: bool


class TokenState(msgspec.Struct, frozen=True):
    """Tokens and keys that a node knows of; never a token itself."""

    node: str
    standing: Standing
    keys: tuple[KeyState, ...]
    revoked: int


class Rated(msgspec.Struct, frozen=True):
    """Ratings at one moment, by node and neighbour."""

    at: float
    ratings: dict[str, dict[str, float]]


async def _nodes(asked: Asked) -> msgspec.Raw:
    api, now = asked.api, time.monotonic()
    key = asked.query.get("clients") != "0", reaches(asked.who.right, "content")
    told, at = api.told.get(key, (b"", float("-inf")))
    if now - at > FRESH_SECONDS:
        states = {name: _state(server, *key) for name, server in api.servers.items()}
        told = msgspec.json.encode(Nodes(time.time(), api.revision.digest, states))
        api.told[key] = told, now
    return msgspec.Raw(told)


def _state(server: "Server", with_clients: bool, with_content: bool) -> NodeState:
    stats, journal, now = server.node.stats, server.journal, server.now()
    counters = Counters(
        stats.received,
        stats.sent,
        stats.denied,
        stats.dropped,
        stats.expired,
        stats.bytes_received,
        stats.bytes_sent,
        stats.connections_refused,
    )
    kept = None
    if journal is not None:
        kept = JournalState(str(journal.settings.folder), journal.rows, journal.lost, journal.failing)
    return NodeState(
        tuple(server.listeners.addresses),
        server.started,
        server.trouble,
        server.node.connected,
        counters,
        kept,
        portrait(server.node, now, with_clients, with_content),
    )


async def _subscriptions(asked: Asked) -> list[SubscriptionPortrait]:
    most = int(asked.number("limit", 1_000, MOST_SUBSCRIPTIONS))
    wanted, found = asked.query.get("subject"), list[SubscriptionPortrait]()
    for server in asked.api.servers.values():
        for one in subscriptions(server.node, MOST_SUBSCRIPTIONS):
            if not wanted or wanted in (one.entity, one.client_id):
                found.append(one)
    return found[:most]


async def _revision(asked: Asked) -> RevisionState:
    kept = asked.api.revision
    told = kept
    if not reaches(asked.who.right, "content"):  # of a large domain it takes long, the first time
        told = await asyncio.to_thread(lambda: asked.api.revision_without_attributes)
    files = tuple(RevisionFile(name, data.decode(errors="replace")) for name, data in told.files)
    return RevisionState(kept.digest, files)


async def _trust(asked: Asked) -> Standing:
    return standing(asked.server.node, asked.server.now())


async def _all_trust(asked: Asked) -> list[Standing]:
    paths = int(asked.number("paths", 1e6, 1e6))
    return [standing(server.node, server.now(), paths) for server in asked.api.servers.values()]


async def _history(asked: Asked) -> list[Rated]:
    """One rating, or those that are lowest now; over all the time, at no more moments than are asked for."""
    history, by, of = asked.api.history, asked.query.get("by"), asked.query.get("of")
    most, points = int(asked.number("limit", 12, 1_000)), int(asked.number("points", 240, 1_440))
    if not history or not points:
        return []
    last = history[-1].ratings
    named = [(node, name, rating) for node, ratings in last.items() for name, rating in ratings.items()]
    wanted = [one for one in named if by in (None, "", one[0]) and of in (None, "", one[1])]
    chosen = dict[str, list[str]]()
    for node, name, _ in sorted(wanted, key=lambda one: (one[2], one[0], one[1]))[:most]:
        chosen.setdefault(node, []).append(name)
    step = -(-len(history) // points)
    return [
        Rated(moment.at, {node: _some(moment.ratings.get(node, {}), names) for node, names in chosen.items()})
        for moment in list(history)[(len(history) - 1) % step :: step]
    ]


def _some(ratings: dict[str, float], names: list[str]) -> dict[str, float]:
    return {name: ratings[name] for name in names if name in ratings}


async def _tokens(asked: Asked) -> list[TokenState]:
    found = []
    for server in asked.api.servers.values():
        tokens = server.node.tokens
        if tokens is not None:
            revoked = tokens.keys.revoked
            keys = tuple(
                KeyState(one.key_id, one.node, one.retired, one.key_id in revoked.keys)
                for one in tokens.keys.public.keys.values()
            )
            found.append(TokenState(server.name, standing(server.node, server.now(), 0), keys, len(revoked.tokens)))
    return found


async def _persisted(asked: Asked) -> list[dict[str, Any]]:
    """Messages that policies have had persisted: the newest, the oldest of these first."""
    query, store = asked.query, asked.server.store
    try:
        since, until = float(query.get("since", "-inf")), float(query.get("until", "inf"))
    except ValueError:
        raise Refused("`since` and `until` are seconds since 1970") from None
    most = int(asked.number("limit", MOST_PERSISTED, MOST_PERSISTED))
    wanted = Selection(query.get("collection"), since, until)
    return [] if store is None else [dict(plain(row)) for row in store.persisted(wanted, most)]


async def _explain(asked: Asked) -> Account:
    """Why an event would be delivered, changed or withheld, as things are now. Nothing is published."""
    try:
        told = _account(asked, asked.query)
    except (ExplainError, TopicError) as error:
        raise Refused(str(error)) from None
    return told if reaches(asked.who.right, "content") else with_own_payload(told)


def _account(asked: Asked, query: QueryParams) -> Account:
    to, payload = query.getlist("to"), asked.body or query.get("payload", "").encode()
    for name in ("from", "topic"):
        if not query.get(name):
            raise ExplainError(f"`{name}` is missing")
    if query.get("qos", "0") not in ("0", "1", "2"):
        raise ExplainError(f"`qos` is 0, 1 or 2, found `{query['qos']:.20}`")
    at = asked.server if not query.get("at") else asked.api.servers.get(query["at"])
    if at is None:
        raise ExplainError(f"node `{query['at']:.80}` does not run here")
    topic, qos, retain = check_topic(query["topic"]), int(query.get("qos", "0")), query.get("retain") == "1"
    event = hypothetical(topic, payload, qos, retain, query.get("content_type", ""), query.get("policy", ""))
    nodes = {name: server.node for name, server in asked.api.servers.items()}
    decisions = explain(nodes, arrival(at.node, query["from"], event), at.now(), to)
    if not reaches(asked.who.right, "content"):
        decisions = tuple(without_others(one, event) for one in decisions)
    return account(decisions, at.node.ensemble, (), to)


_EXPLAIN = (
    Query("from", "the client, neighbour or foreign broker that publishes"),
    Query("topic", "its topic"),
    Query("at", "the node that it is published at, if not the one that is asked"),
    Query("to", "whom to tell of; may be repeated"),
    Query("payload", "its payload, if it is text; any other is the body of a POST"),
    Query("qos", "0, 1 or 2", "integer"),
    Query("retain", "1 if it is to be retained", "integer"),
    Query("content_type", "its content type"),
    Query("policy", "a policy attached to it"),
)
_WHY = "why an event would be delivered, changed or withheld, as things are now; nothing is published"

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/nodes",
        "read",
        "the nodes of this process: links, clients, counters",
        Nodes,
        _nodes,
        (Query("clients", "0: without clients, of which there may be many", "integer"),),
    ),
    Endpoint(
        "GET",
        "/api/subscriptions",
        "read",
        "what clients and neighbours have subscribed to",
        list[SubscriptionPortrait],
        _subscriptions,
        (Query("subject", "of this client or neighbour"), Query("limit", "at most so many", "integer")),
    ),
    Endpoint("GET", "/api/revision", "read", "the policies in force, without secrets", RevisionState, _revision),
    Endpoint("GET", "/api/trust", "read", "what the node that is asked holds of its neighbours", Standing, _trust),
    Endpoint(
        "GET",
        "/api/trust/all",
        "read",
        "what the nodes of this process hold",
        list[Standing],
        _all_trust,
        (Query("paths", "of each node at most so many paths, the least trustworthy", "integer"),),
    ),
    Endpoint(
        "GET",
        "/api/trust/history",
        "read",
        "ratings of the last hours: those that are lowest now, if none is asked for",
        list[Rated],
        _history,
        (
            Query("by", "what this node holds"),
            Query("of", "of this neighbour"),
            Query("limit", "at most so many ratings", "integer"),
            Query("points", "at so many moments", "integer"),
        ),
    ),
    Endpoint("GET", "/api/tokens", "read", "keys and tokens that nodes know of", list[TokenState], _tokens),
    Endpoint(
        "GET",
        "/api/persisted",
        "content",
        "messages that policies have had persisted at the node that is asked",
        list[dict[str, Any]],
        _persisted,
        (
            Query("collection", "of this collection"),
            Query("since", "from this time on, in seconds since 1970", "number"),
            Query("until", "before this time", "number"),
            Query("limit", "at most so many", "integer"),
        ),
    ),
    Endpoint("GET", "/api/explain", "read", _WHY, Account, _explain, _EXPLAIN),
    Endpoint("POST", "/api/explain", "read", _WHY, Account, _explain, _EXPLAIN),
)
