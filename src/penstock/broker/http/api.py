"""The admin HTTP API of all nodes of one process: routes and shared state."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.broker.http import audit, openapi, people
from penstock.broker.http.admin_tokens import AdminTokens
from penstock.broker.http.answers import access, comparison, decisions, drafts, flows, pipeline, status, subjects
from penstock.broker.http.answers.comparison import Comparisons
from penstock.broker.http.answers.decisions import RecentDecisions
from penstock.broker.http.answers.drafts import MaskedDomain
from penstock.broker.http.answers.flows import FlowAnswers
from penstock.broker.http.answers.status import RatingSnapshot
from penstock.broker.http.audit import AuditLog
from penstock.broker.http.endpoint import ApiEndpoint, ApiError, ApiRequest, Caller, Error, read_body
from penstock.broker.http.processes import Turns
from penstock.broker.http.secret_masks import HIDDEN
from penstock.broker.identity.logins import Logins
from penstock.domain import Domain
from penstock.domain.schema.admin import AdminSettings, Right, includes_right
from penstock.journal.revision import Revision
from penstock.policy.access.passwords import Passwords

if TYPE_CHECKING:
    from penstock.broker.federation import Federation
    from penstock.broker.server import Server

_MODULES = (people, status, decisions, flows, drafts, comparison, subjects, access, pipeline, audit)
ENDPOINTS = tuple(endpoint for module in _MODULES for endpoint in module.ENDPOINTS)
MAX_BODY = 8 * 2**20
MAX_LOGIN_BODY = 16 * 1024
"""Bytes of a body from a caller without a valid token."""
BODY_SECONDS = 20.0
HISTORY_SECONDS, MAX_HISTORY = 10.0, 1_440
"""Seconds between two records of the ratings, and how many are kept: four hours."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_JSON = "application/json"
Reread = Callable[[], Domain]


class Api:
    """The admin API of the nodes of one process."""

    def __init__(self, federation: "Federation", file: Path | None = None, reread: Reread | None = None) -> None:
        self.federation = federation
        self.file = file.resolve() if file is not None else None
        """The domain file."""
        self.reread = reread
        self.tokens = AdminTokens()
        self.audit = AuditLog()
        self.recent = RecentDecisions()
        self.flow_answers = FlowAnswers()
        self.logins = Logins()
        self.comparisons = Comparisons()
        self.reload_lock = asyncio.Lock()
        self.turns = Turns()
        self.masked_domain = MaskedDomain()
        self.history: deque[RatingSnapshot] = deque(maxlen=MAX_HISTORY)
        self.states: dict[tuple[bool, bool], tuple[bytes, float]] = {}
        """The last state of the nodes, with and without clients and content, and its time."""
        self.is_running = True
        self._revision: tuple[Domain, Revision] | None = None
        self._revision_without_attributes: tuple[Domain, Revision] | None = None
        self._passwords: tuple[object, Passwords | None] = (None, None)
        self._recording: asyncio.Task[None] | None = None
        self.audit.file = self.settings.audit
        for server in self.servers.values():
            self.recent.watch(server)
            self.audit.watch(server)

    def start(self) -> None:
        """Start recording ratings; may be called once for each address."""
        if self._recording is None:
            self._recording = asyncio.create_task(self._record_ratings())

    def stop(self) -> None:
        self.is_running = False
        self.logins.stop()
        self.comparisons.stop()
        if self._recording is not None:
            self._recording.cancel()

    @property
    def domain(self) -> Domain:
        return self.federation.domain

    @property
    def servers(self) -> "dict[str, Server]":
        return self.federation.servers

    @property
    def settings(self) -> AdminSettings:
        settings = self.domain.admin or AdminSettings()
        self.audit.file = settings.audit
        return settings

    @property
    def revision(self) -> Revision:
        """Return the policies in force."""
        if self._revision is None or self._revision[0] is not self.domain:
            self._revision = self.domain, Revision.of(self.domain, self.federation.folder)
        return self._revision[1]

    @property
    def revision_without_attributes(self) -> Revision:
        """Return the same without the values of clients' attributes; may be called in another thread."""
        domain, cached = self.domain, self._revision_without_attributes
        if cached is None or cached[0] is not domain:
            clients = {
                name: client.model_copy(update={"attributes": dict.fromkeys(client.attributes, HIDDEN)})
                for name, client in domain.clients.items()
            }
            cached = domain, Revision.of(domain.model_copy(update={"clients": clients}), self.federation.folder)
            self._revision_without_attributes = cached
        return cached[1]

    @property
    def passwords(self) -> Passwords | None:
        """Return the password file as it is now: a user who is removed from it is out at once."""
        place = self.settings.passwords
        if place is None:
            return None
        try:
            status = place.stat()
            key = (place, status.st_mtime_ns, status.st_size, status.st_ino)
            if self._passwords[0] != key:
                self._passwords = key, Passwords.read(place)
        except Exception:  # whatever is wrong with the file: nobody may log in
            return None
        return self._passwords[1]

    def routes(self, server: "Server") -> list[Route]:
        """Return the endpoints at the address of a node."""

        async def described(request: Request) -> Response:
            refused = self.refusal(server, request, "read")
            return refused or Response(_document(), media_type=_JSON, headers=HEADERS)

        return [*(self._route(server, endpoint) for endpoint in ENDPOINTS), Route("/api/openapi.json", described)]

    def caller(self, server: "Server", token: str) -> Caller:
        """Return the caller with this token, and its present right."""
        return self.tokens.caller(server, self.settings, self.passwords, token, server.now())

    def refusal(self, server: "Server", request: Request, right: Right | None) -> Response | None:
        """Return the answer to a caller without the right; None if it has it."""
        try:
            _require(self.caller(server, token_of(request)), right)
        except ApiError as error:
            return error_response(error)
        return None

    def _route(self, server: "Server", endpoint: ApiEndpoint) -> Route:
        async def respond(request: Request) -> Response:
            token = token_of(request)
            address = request.client.host if request.client is not None else "unknown"
            caller = self.caller(server, token)
            api_request = ApiRequest(self, server, caller, request.query_params, b"", address, token)
            try:
                _require(caller, endpoint.right)
                if endpoint.method == "POST":
                    body = await read_body(request, MAX_BODY if endpoint.right else MAX_LOGIN_BODY, BODY_SECONDS)
                    api_request = api_request._replace(body=body)
                answer = endpoint.handler(api_request)
                result = await (_until_disconnected(request, answer) if endpoint.is_cancellable else answer)
            except ApiError as error:
                if endpoint.right == "change" and caller.right:
                    audit.record(api_request, endpoint.path.removeprefix("/api/"), str(error), False)
                return error_response(error)
            except ClientDisconnect:
                return Response(status_code=400)  # the caller has gone
            except Exception:
                server.log.exception("a request could not be answered", extra={"path": endpoint.path})
                return error_response(ApiError("the node could not answer", 500))
            if isinstance(result, AsyncIterator):
                return StreamingResponse(result, media_type="application/x-ndjson", headers=HEADERS)
            return Response(msgspec.json.encode(result), media_type=_JSON, headers=HEADERS)

        return Route(endpoint.path, respond, methods=[endpoint.method])

    async def _record_ratings(self) -> None:
        """Record ratings periodically, where there are any."""
        while True:
            rated = {
                name: {neighbour: ratings.rating(neighbour, server.now()) for neighbour in server.node.federation.rated}
                for name, server in self.servers.items()
                if (ratings := server.node.trust.ratings) is not None
            }
            if rated:
                self.history.append(RatingSnapshot(time.time(), rated))
            await asyncio.sleep(HISTORY_SECONDS)


async def _until_disconnected(request: Request, answer: Awaitable[object]) -> object:
    """Return the answer, or cancel it when the caller disconnects. The body must have been read."""
    working, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return await working
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.wait((working, leaving))


def _require(caller: Caller, right: Right | None) -> None:
    """Raise `ApiError` for a caller without the right."""
    if right is None:
        return
    if not caller.right:
        raise ApiError("a valid token is needed", 401)
    if not includes_right(caller.right, right):
        raise ApiError(f"`{caller.name}` has the right `{caller.right}`, and this needs `{right}`", 403)


@cache
def _document() -> bytes:
    """Return the OpenAPI document; made on first use, because it takes longer than a node may take to start."""
    return msgspec.json.encode(openapi.document(ENDPOINTS))


def token_of(request: Request) -> str:
    """Return the bearer token of a request; empty if there is none, or more than one."""
    headers = request.headers.getlist("authorization")
    if len(headers) != 1:
        return ""
    scheme, _, token = headers[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def error_response(error: ApiError) -> Response:
    """Return an error as a response."""
    headers = dict(HEADERS)
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="penstock"'
    if error.later:
        headers["Retry-After"] = str(error.later)
    return Response(msgspec.json.encode(Error(str(error))), error.status, headers, _JSON)
