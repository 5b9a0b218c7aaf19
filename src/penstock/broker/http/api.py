"""The admin HTTP API of all nodes of one process: its routes, and what their answers are made of."""

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
from penstock.broker.http.answers import comparison, decisions, drafts, flows, pipeline, status, subjects
from penstock.broker.http.answers.comparison import Comparisons
from penstock.broker.http.answers.decisions import Recent
from penstock.broker.http.answers.drafts import Showing
from penstock.broker.http.answers.flows import Analyses
from penstock.broker.http.answers.status import Rated
from penstock.broker.http.audit import Audit
from penstock.broker.http.endpoint import Asked, Endpoint, Error, Refused, Who, read_body
from penstock.broker.http.guard import Guard
from penstock.broker.http.processes import Turns
from penstock.broker.http.secret_masks import HIDDEN
from penstock.broker.identity.logins import Logins
from penstock.domain import Domain
from penstock.domain.schema.admin import AdminSettings, Right, reaches
from penstock.journal.revision import Revision
from penstock.policy.access.passwords import Passwords

if TYPE_CHECKING:
    from penstock.broker.federation import Federation
    from penstock.broker.server import Server

ENDPOINTS = (
    *people.ENDPOINTS,
    *status.ENDPOINTS,
    *decisions.ENDPOINTS,
    *flows.ENDPOINTS,
    *drafts.ENDPOINTS,
    *comparison.ENDPOINTS,
    *subjects.ENDPOINTS,
    *pipeline.ENDPOINTS,
    *audit.ENDPOINTS,
)
MOST_BODY = 8 * 2**20
MOST_LOGIN = 16 * 1024
"""Bytes from who has not shown a token."""
BODY_SECONDS = 20.0
HISTORY_SECONDS, MOST_HISTORY = 10.0, 1_440
"""How often ratings are noted, and how many times are kept: four hours."""
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
    """What nodes of one process answer to operators."""

    def __init__(self, federation: "Federation", file: Path | None = None, reread: Reread | None = None) -> None:
        self.federation = federation
        self.file = file.resolve() if file is not None else None
        """The domain file."""
        self.reread = reread
        self.guard = Guard()
        self.audit = Audit()
        self.recent = Recent()
        self.analyses = Analyses()
        self.logins = Logins()
        self.comparisons = Comparisons()
        self.changing = asyncio.Lock()
        self.turns = Turns()
        self.showing = Showing()
        self.history: deque[Rated] = deque(maxlen=MOST_HISTORY)
        self.told: dict[tuple[bool, bool], tuple[bytes, float]] = {}
        """The state of the nodes as it was told last, with and without clients, and content, and when."""
        self.is_running = True
        self._revision: tuple[Domain, Revision] | None = None
        self._discreet: tuple[Domain, Revision] | None = None
        self._passwords: tuple[object, Passwords | None] = (None, None)
        self._noting: asyncio.Task[None] | None = None
        self.audit.file = self.settings.audit
        for server in self.servers.values():
            self.recent.watch(server)
            self.audit.watch(server)

    def start(self) -> None:
        """May be called once for each address."""
        if self._noting is None:
            self._noting = asyncio.create_task(self._note())

    def stop(self) -> None:
        self.is_running = False
        self.logins.stop()
        self.comparisons.stop()
        if self._noting is not None:
            self._noting.cancel()

    @property
    def domain(self) -> Domain:
        return self.federation.domain

    @property
    def servers(self) -> "dict[str, Server]":
        return self.federation.servers

    @property
    def settings(self) -> AdminSettings:
        found = self.domain.admin or AdminSettings()
        self.audit.file = found.audit
        return found

    @property
    def revision(self) -> Revision:
        """The policies in force."""
        if self._revision is None or self._revision[0] is not self.domain:
            self._revision = self.domain, Revision.of(self.domain, self.federation.folder)
        return self._revision[1]

    @property
    def revision_without_attributes(self) -> Revision:
        """The same, without the values of attributes of clients; may be asked for in another thread."""
        domain, known = self.domain, self._discreet
        if known is None or known[0] is not domain:
            clients = {
                name: one.model_copy(update={"attributes": dict.fromkeys(one.attributes, HIDDEN)})
                for name, one in domain.clients.items()
            }
            known = domain, Revision.of(domain.model_copy(update={"clients": clients}), self.federation.folder)
            self._discreet = known
        return known[1]

    @property
    def passwords(self) -> Passwords | None:
        """Those of people, as their file is now: who is taken out of it is out at once."""
        place = self.settings.passwords
        if place is None:
            return None
        try:
            found = place.stat()
            key = (place, found.st_mtime_ns, found.st_size, found.st_ino)
            if self._passwords[0] != key:
                self._passwords = key, Passwords.read(place)
        except Exception:  # whatever is wrong with the file: nobody gets in
            return None
        return self._passwords[1]

    def routes(self, server: "Server") -> list[Route]:
        """The endpoints, at the address of a node."""
        made = [Route(one.path, self._answering(server, one), methods=[one.method]) for one in ENDPOINTS]

        async def described(request: Request) -> Response:
            refused = self.refusal(server, request, "read")
            return refused or Response(_document(), media_type=_JSON, headers=HEADERS)

        return [*made, Route("/api/openapi.json", described)]

    def who(self, server: "Server", token: str) -> Who:
        """Who has this token, and what it may do now."""
        return self.guard.who(server, self.settings, self.passwords, token, server.now())

    def refusal(self, server: "Server", request: Request, right: Right | None) -> Response | None:
        """The answer to who may not ask; None if it may."""
        try:
            _let(self.who(server, token_of(request)), right)
        except Refused as error:
            return wrong(error)
        return None

    def _answering(self, server: "Server", one: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            token = token_of(request)
            address = request.client.host if request.client is not None else "unknown"
            asked = Asked(self, server, self.who(server, token), request.query_params, b"", address, token)
            try:
                _let(asked.who, one.right)
                if one.method == "POST":
                    asked = asked._replace(
                        body=await read_body(request, MOST_BODY if one.right else MOST_LOGIN, BODY_SECONDS)
                    )
                found = await (_while_there(request, one.handler(asked)) if one.is_given_up else one.handler(asked))
            except Refused as error:
                if one.right == "change" and asked.who.right:
                    audit.tell(asked, one.path.removeprefix("/api/"), str(error), False)
                return wrong(error)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody is there to read it
            except Exception:
                server.log.exception("a question could not be answered", extra={"path": one.path})
                return wrong(Refused("the node could not answer", 500))
            if isinstance(found, AsyncIterator):
                return StreamingResponse(found, media_type="application/x-ndjson", headers=HEADERS)
            return Response(msgspec.json.encode(found), media_type=_JSON, headers=HEADERS)

        return answer

    async def _note(self) -> None:
        """Note ratings again and again, where there are any."""
        while True:
            rated = {
                name: {one: ratings.rating(one, server.now()) for one in server.node.rated}
                for name, server in self.servers.items()
                if (ratings := server.node.ratings) is not None
            }
            if rated:
                self.history.append(Rated(time.time(), rated))
            await asyncio.sleep(HISTORY_SECONDS)


async def _while_there(request: Request, answer: Awaitable[object]) -> object:
    """The answer, unless the asker goes before: then it is ended. The body must have been read."""
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


def _let(who: Who, right: Right | None) -> None:
    """Raise `Refused` for who has not the right."""
    if right is None:
        return
    if not who.right:
        raise Refused("a token is needed, and this is none that counts here", 401)
    if not reaches(who.right, right):
        raise Refused(f"`{who.name}` may `{who.right}`, and this takes `{right}`", 403)


@cache
def _document() -> bytes:
    """Made when somebody asks: it takes longer than a node may take to start."""
    return msgspec.json.encode(openapi.document(ENDPOINTS))


def token_of(request: Request) -> str:
    """The bearer token of a request; empty if there is none, or more than one."""
    headers = request.headers.getlist("authorization")
    if len(headers) != 1:
        return ""
    scheme, _, token = headers[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def wrong(error: Refused) -> Response:
    """An error, as an answer."""
    headers = dict(HEADERS)
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="penstock"'
    if error.later:
        headers["Retry-After"] = str(error.later)
    return Response(msgspec.json.encode(Error(str(error))), error.status, headers, _JSON)
