"""The state of nodes: links, clients, subscriptions, policies, journal, trust, tokens; and explanations."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import QueryParams

from penstock.broker.http.endpoint import ApiError, ApiRequest, Endpoints, Query
from penstock.broker.http.redaction import hide_foreign_payloads, redact_foreign_content
from penstock.broker.store.persisted import Selection, plain
from penstock.domain.schema.admin import includes_right
from penstock.engine.explain.arrival import ExplainError, arrival, hypothetical
from penstock.engine.explain.report import Account, account
from penstock.engine.explain.walk import explain
from penstock.engine.status import NodePortrait, SubscriptionPortrait, portrait, subscriptions
from penstock.engine.trust.trust_status import Standing, standing
from penstock.model.errors import TopicError
from penstock.model.topic import check_topic

if TYPE_CHECKING:
    from penstock.broker.server import Server

ENDPOINTS = Endpoints()

FRESH_SECONDS = 0.9
"""Seconds for which the state of the nodes is cached: many clients cost no more than one."""
MAX_SUBSCRIPTIONS = 10_000
MAX_PERSISTED = 1_000


class Counters(msgspec.Struct, frozen=True):
    """Counts since the node started."""

    received: int
    sent: int
    denied: int
    dropped: int
    expired: int
    bytes_received: int
    bytes_sent: int
    refused: int
    """Refused connections."""


class JournalState(msgspec.Struct, frozen=True):
    folder: str
    rows: int
    lost: int
    failing: str
    """The reason why it cannot be written; empty if it can."""


class NodeState(msgspec.Struct, frozen=True):
    """A node that runs in the process that answers."""

    addresses: tuple[str, ...]
    started: float
    trouble: str
    """The reason why it does not work as it should; empty if it does."""
    connected: int
    counters: Counters
    journal: JournalState | None
    portrait: NodePortrait


class NodeStates(msgspec.Struct, frozen=True):
    """All nodes of the process, at one moment."""

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
    """The tokens and keys that a node knows; never a token itself."""

    node: str
    standing: Standing
    keys: tuple[KeyState, ...]
    revoked: int


class RatingSnapshot(msgspec.Struct, frozen=True):
    """Ratings at one moment, by node and neighbour."""

    at: float
    ratings: dict[str, dict[str, float]]


@ENDPOINTS.add(
    "GET /api/nodes",
    "read",
    "the nodes of this process: links, clients, counters",
    Query("clients", "0: without clients, of which there may be many", "integer"),
    answer=NodeStates,
)
async def _nodes(request: ApiRequest) -> msgspec.Raw:
    api, now = request.api, time.monotonic()
    key = request.query.get("clients") != "0", includes_right(request.caller.right, "content")
    cached, at = api.states.get(key, (b"", float("-inf")))
    if now - at > FRESH_SECONDS:
        states = {name: _state(server, *key) for name, server in api.servers.items()}
        cached = msgspec.json.encode(NodeStates(time.time(), api.revision.digest, states))
        api.states[key] = cached, now
    return msgspec.Raw(cached)


def _state(server: "Server", with_clients: bool, with_content: bool) -> NodeState:
    stats, journal, now = server.node.stats, server.journal, server.now()
    messages = (stats.received, stats.sent, stats.denied, stats.dropped, stats.expired)
    counters = Counters(*messages, stats.bytes_received, stats.bytes_sent, stats.connections_refused)
    journal_state = None
    if journal is not None:
        journal_state = JournalState(str(journal.settings.folder), journal.rows, journal.lost, journal.failing)
    head = (tuple(server.listeners.addresses), server.started, server.trouble, server.node.sessions.connected)
    return NodeState(*head, counters, journal_state, portrait(server.node, now, with_clients, with_content))


@ENDPOINTS.add(
    "GET /api/subscriptions",
    "read",
    "what clients and neighbours have subscribed to",
    Query("subject", "of this client or neighbour"),
    Query("limit", "at most so many", "integer"),
)
async def _subscriptions(request: ApiRequest) -> list[SubscriptionPortrait]:
    limit, subject = int(request.number("limit", 1_000, MAX_SUBSCRIPTIONS)), request.query.get("subject")
    portraits = [
        subscription
        for server in request.api.servers.values()
        for subscription in subscriptions(server.node, MAX_SUBSCRIPTIONS)
        if not subject or subject in (subscription.entity, subscription.client_id)
    ]
    return portraits[:limit]


@ENDPOINTS.add("GET /api/revision", "read", "the policies in force, without secrets")
async def _revision(request: ApiRequest) -> RevisionState:
    revision = request.api.revision
    shown = revision
    if not includes_right(request.caller.right, "content"):  # for a large domain it takes long, the first time
        shown = await asyncio.to_thread(lambda: request.api.revision_without_attributes)
    files = tuple(RevisionFile(name, data.decode(errors="replace")) for name, data in shown.files)
    return RevisionState(revision.digest, files)


@ENDPOINTS.add("GET /api/trust", "read", "the ratings that the node at this address has of its neighbours")
async def _trust(request: ApiRequest) -> Standing:
    return standing(request.server.node, request.server.now())


@ENDPOINTS.add(
    "GET /api/trust/all",
    "read",
    "the ratings of the nodes of this process",
    Query("paths", "of each node at most so many paths, the least trustworthy", "integer"),
)
async def _all_trust(request: ApiRequest) -> list[Standing]:
    paths = int(request.number("paths", 1e6, 1e6))
    return [standing(server.node, server.now(), paths) for server in request.api.servers.values()]


@ENDPOINTS.add(
    "GET /api/trust/history",
    "read",
    "ratings of the last hours; by default those that are lowest now",
    Query("by", "ratings by this node"),
    Query("of", "of this neighbour"),
    Query("limit", "at most so many ratings", "integer"),
    Query("points", "at so many moments", "integer"),
)
async def _history(request: ApiRequest) -> list[RatingSnapshot]:
    """Return one rating, or those that are lowest now; over the whole time, at no more moments than are asked for."""
    history, by, of = request.api.history, request.query.get("by"), request.query.get("of")
    limit, points = int(request.number("limit", 12, 1_000)), int(request.number("points", 240, 1_440))
    if not history or not points:
        return []
    last = history[-1].ratings
    named = [(node, name, rating) for node, ratings in last.items() for name, rating in ratings.items()]
    matching = [entry for entry in named if by in (None, "", entry[0]) and of in (None, "", entry[1])]
    chosen = dict[str, list[str]]()
    for node, name, _ in sorted(matching, key=lambda entry: (entry[2], entry[0], entry[1]))[:limit]:
        chosen.setdefault(node, []).append(name)
    step = -(-len(history) // points)
    return [
        RatingSnapshot(moment.at, {node: _some(moment.ratings.get(node, {}), names) for node, names in chosen.items()})
        for moment in list(history)[(len(history) - 1) % step :: step]
    ]


def _some(ratings: dict[str, float], names: list[str]) -> dict[str, float]:
    return {name: ratings[name] for name in names if name in ratings}


@ENDPOINTS.add("GET /api/tokens", "read", "keys and tokens that nodes know")
async def _tokens(request: ApiRequest) -> list[TokenState]:
    states = []
    for server in request.api.servers.values():
        tokens = server.node.trust.tokens
        if tokens is not None:
            revoked = tokens.keys.revoked
            keys = tuple(
                KeyState(key.key_id, key.node, key.retired, key.key_id in revoked.keys)
                for key in tokens.keys.public.keys.values()
            )
            states.append(TokenState(server.name, standing(server.node, server.now(), 0), keys, len(revoked.tokens)))
    return states


@ENDPOINTS.add(
    "GET /api/persisted",
    "content",
    "messages that policies have persisted at the node at this address",
    Query("collection", "of this collection"),
    Query("since", "from this time on, in seconds since 1970", "number"),
    Query("until", "before this time", "number"),
    Query("limit", "at most so many", "integer"),
)
async def _persisted(request: ApiRequest) -> list[dict[str, Any]]:
    """Return the newest messages that policies have persisted, the oldest of these first."""
    query, store = request.query, request.server.store
    try:
        since, until = float(query.get("since", "-inf")), float(query.get("until", "inf"))
    except ValueError:
        raise ApiError("`since` and `until` are seconds since 1970") from None
    limit = int(request.number("limit", MAX_PERSISTED, MAX_PERSISTED))
    selection = Selection(query.get("collection"), since, until)
    return [] if store is None else [dict(plain(row)) for row in store.persisted(selection, limit)]


_EXPLAIN = (
    Query("from", "the client, neighbour or foreign broker that publishes"),
    Query("topic", "its topic"),
    Query("at", "the node that it is published at, if not the one at this address"),
    Query("to", "only this receiver; may be repeated"),
    Query("payload", "its payload, if it is text; any other is the body of a POST"),
    Query("qos", "0, 1 or 2", "integer"),
    Query("retain", "1 if it is to be retained", "integer"),
    Query("content_type", "its content type"),
    Query("policy", "a policy attached to it"),
)
_WHY = "why an event would be delivered, changed or withheld at present; nothing is published"


@ENDPOINTS.add("POST /api/explain", "read", _WHY, *_EXPLAIN)
@ENDPOINTS.add("GET /api/explain", "read", _WHY, *_EXPLAIN)
async def _explain(request: ApiRequest) -> Account:
    """Explain why an event would be delivered, changed or withheld at present. Nothing is published."""
    try:
        explained = _account(request, request.query)
    except (ExplainError, TopicError) as error:
        raise ApiError(str(error)) from None
    return explained if includes_right(request.caller.right, "content") else hide_foreign_payloads(explained)


def _account(request: ApiRequest, query: QueryParams) -> Account:
    to, payload = query.getlist("to"), request.body or query.get("payload", "").encode()
    for name in ("from", "topic"):
        if not query.get(name):
            raise ExplainError(f"`{name}` is missing")
    if query.get("qos", "0") not in ("0", "1", "2"):
        raise ExplainError(f"`qos` is 0, 1 or 2, found `{query['qos']:.20}`")
    at = request.server if not query.get("at") else request.api.servers.get(query["at"])
    if at is None:
        raise ExplainError(f"node `{query['at']:.80}` does not run here")
    topic, qos, retain = check_topic(query["topic"]), int(query.get("qos", "0")), query.get("retain") == "1"
    event = hypothetical(topic, payload, qos, retain, query.get("content_type", ""), query.get("policy", ""))
    nodes = {name: server.node for name, server in request.api.servers.items()}
    decisions = explain(nodes, arrival(at.node, query["from"], event), at.now(), to)
    if not includes_right(request.caller.right, "content"):
        decisions = tuple(redact_foreign_content(decision, event) for decision in decisions)
    return account(decisions, at.node.ensemble, (), to)
