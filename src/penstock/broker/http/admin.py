"""The admin HTTP server of a node.

`/health` is for a watchdog, `/metrics` for Prometheus, `/api/...` for operators, and clients get tokens at `/token`
(`identity/authorisation.py`). Only `/health` is open to everybody.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.broker.http.api import HEADERS, Api, error_response
from penstock.broker.http.bounded_http import config
from penstock.broker.http.endpoint import ApiError
from penstock.broker.http.host_names import OwnNames, is_same_site
from penstock.broker.identity.authorisation import Authorisation
from penstock.broker.net.tls import make_context
from penstock.broker.observe.metrics import make_registry
from penstock.client import local_token
from penstock.domain import Address
from penstock.domain.schema.admin import Right
from penstock.model.errors import PenstockError

if TYPE_CHECKING:
    from penstock.broker.server import Server


class _QuietServer(uvicorn.Server):
    """A server that leaves signals to the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminServer:
    """An HTTP server on the node's own event loop."""

    def __init__(self, server: "Server", api: Api) -> None:
        assert server.settings.admin is not None
        self.server = server
        self._api = api
        self._registry = make_registry(server)
        self._address = server.settings.admin
        self.address = ""
        self._names = OwnNames((self._address.host,))
        """The names by which it is reached."""
        self._authorisation = Authorisation(server)
        self._open = {"/health", *self._authorisation.paths}
        """Paths that are answered under any name: health, and tokens, whose requests authenticate themselves."""
        own = (Route("/metrics", self._metrics), Route("/health", self._health))
        routes = [*own, *api.routes(server), *self._authorisation.routes]
        server_config = config(
            self._guarded(Starlette(routes=routes, exception_handlers={HTTPException: _http_error})),
            host=self._address.host,
            port=self._address.port,
            lifespan="off",
            ws="none",
            proxy_headers=api.settings.behind_proxy,  # without a proxy, such headers may be forged
        )
        server_config.load()
        if server.settings.admin_tls is not None:
            server_config.ssl = make_context(server.settings.admin_tls)
        self._http = _QuietServer(server_config)
        self._task: asyncio.Task[None] | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names by which it is reached besides its address."""
        return self._api.settings.hosts

    async def start(self) -> None:
        """Listen, or raise `PenstockError`."""
        try:
            socket = self._http.config.bind_socket()
        except SystemExit:
            raise PenstockError(f"admin address `{self._address}` cannot be listened on") from None
        socket.listen()  # before the node reports that it is ready: early clients wait, and are not refused
        bound = Address(*socket.getsockname()[:2])
        self.address = f"http{'s' if self.server.settings.admin_tls is not None else ''}://{bound}"
        self._names = OwnNames((bound.host, self._address.host), self.hosts)
        try:
            local_token.write_token(self.address, self._api.tokens.local)
        except OSError as error:
            self.server.log.warning("the local admin token cannot be written", extra={"cause": str(error)})
        self._task = asyncio.create_task(self._http.serve([socket]))
        self._api.start()

    async def stop(self) -> None:
        self._http.should_exit = True
        local_token.delete_token(self.address, self._api.tokens.local)
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._authorisation.stop()
        self._api.stop()

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application so that it answers only requests for a name of this node (DNS rebinding).

        Pages of other sites cannot make a browser try passwords either.
        """

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            headers, refused = Headers(scope=scope), None
            if scope["path"] not in self._open and not self._names.has(headers.getlist("host")):
                refused = ApiError("this node has another name", 421)
            elif scope["method"] not in ("GET", "HEAD") and not is_same_site(headers):
                refused = ApiError("asked by a page of another site", 403)
            await (app if refused is None else error_response(refused))(scope, receive, send)

        return guarded

    async def _metrics(self, request: Request) -> Response:
        right: Right | None = None if "metrics" in self._api.settings.open else "read"
        refused = self._api.refusal(self.server, request, right)
        return refused or Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST, headers=HEADERS)

    async def _health(self, request: Request) -> Response:
        """Answer a watchdog: ok or not; the reason only if the caller may read it."""
        server, trouble = self.server, self.server.trouble
        body: dict[str, object] = {"status": "trouble" if trouble else "ok"}
        if self._api.refusal(server, request, "read") is None:
            body = {"status": trouble or "ok", "node": server.name, "connected": server.node.sessions.connected}
        return JSONResponse(body, 503 if trouble else 200, HEADERS)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = error_response(ApiError(error.detail.lower(), error.status_code))
    answer.headers.update(error.headers or {})
    return answer
