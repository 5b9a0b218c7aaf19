"""The admin HTTP of a node.

`/metrics` for Prometheus, `/health` for a watchdog, `/explain` for who asks why, `/persisted` for what policies keep,
`/trust` for what the node holds of its neighbours; and where clients get tokens (`authorisation.py`).
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.broker.authorisation import Authorisation
from penstock.broker.metrics import make_registry
from penstock.broker.persisted import Selection, plain
from penstock.engine.account import Account, account
from penstock.engine.arrival import ExplainError, arrival, hypothetical
from penstock.engine.explain import explain
from penstock.engine.standing import standing
from penstock.model.errors import PenstockError, TopicError
from penstock.model.topic import check_topic

if TYPE_CHECKING:
    from penstock.broker.server import Server


MOST_PERSISTED = 1000
"""Messages in one answer."""


class _Quiet(uvicorn.Server):
    """Signals are the node's business."""

    def install_signal_handlers(self) -> None:
        return


class Admin:
    """An HTTP server on the node's own event loop."""

    def __init__(self, server: "Server", others: "Mapping[str, Server] | None" = None) -> None:
        """`others` are the nodes that run here too: an explanation follows an event through them."""
        assert server.settings.admin is not None
        self._server = server
        self._servers = others if others is not None else {server.name: server}
        self._registry = make_registry(server)
        self._address = server.settings.admin
        self.address = ""
        self._authorisation = Authorisation(server)
        routes = [
            Route("/metrics", self._metrics),
            Route("/health", self._health),
            Route("/explain", self._explain, methods=["GET", "POST"]),
            Route("/persisted", self._persisted),
            Route("/trust", self._trust),
            *self._authorisation.routes,
        ]
        app = Starlette(routes=routes)
        config = uvicorn.Config(
            app, host=self._address.host, port=self._address.port, log_config=None, lifespan="off", access_log=False
        )
        self._http = _Quiet(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, or say why not."""
        socket = None
        try:
            socket = self._http.config.bind_socket()
        except SystemExit:
            raise PenstockError(f"admin address `{self._address}` cannot be listened on") from None
        socket.listen()  # before the node says that it is ready: who comes now waits, and is not refused
        host, port = socket.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._task = asyncio.create_task(self._http.serve([socket]))

    async def stop(self) -> None:
        self._http.should_exit = True
        if self._task is not None:
            await self._task
        self._authorisation.stop()

    async def _metrics(self, _request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def _health(self, _request: Request) -> Response:
        server = self._server
        body = {
            "status": server.trouble or "ok",
            "node": server.name,
            "connected": server.node.connected,
        }
        return JSONResponse(body, status_code=503 if server.trouble else 200)

    async def _explain(self, request: Request) -> Response:
        """Why an event would be delivered, changed or withheld, as things are now. Nothing is published.

        A payload that is not text, or long, is the body of a POST.
        """
        asked = request.query_params
        payload = await request.body() if request.method == "POST" else asked.get("payload", "").encode()
        try:
            told = self._account(asked, payload)
        except (ExplainError, TopicError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return Response(msgspec.json.encode(told), media_type="application/json")

    async def _persisted(self, request: Request) -> Response:
        """Messages that policies have had persisted: the newest, the oldest of these first."""
        asked, store = request.query_params, self._server.store
        try:
            since, until = float(asked.get("since", "-inf")), float(asked.get("until", "inf"))
            most = min(int(asked.get("limit", str(MOST_PERSISTED))), MOST_PERSISTED)
        except ValueError:
            error = "`since` and `until` are seconds since 1970, `limit` is a number"
            return JSONResponse({"error": error}, status_code=400)
        wanted = Selection(asked.get("collection"), since, until)
        rows = [] if store is None else [plain(row) for row in store.persisted(wanted, max(0, most))]
        return Response(msgspec.json.encode(rows), media_type="application/json")

    async def _trust(self, _request: Request) -> Response:
        """Evidence, opinion and rating of each neighbour, the least trustworthy paths, and what the node asks for."""
        told = standing(self._server.node, self._server.now())
        return Response(msgspec.json.encode(told), media_type="application/json")

    def _account(self, asked: QueryParams, payload: bytes) -> Account:
        node, to = self._server.node, asked.getlist("to")
        for name in ("from", "topic"):
            if not asked.get(name):
                raise ExplainError(f"`{name}` is missing")
        if asked.get("qos", "0") not in ("0", "1", "2"):
            raise ExplainError(f"`qos` is 0, 1 or 2, found `{asked['qos']:.20}`")
        topic, qos, retain = check_topic(asked["topic"]), int(asked.get("qos", "0")), asked.get("retain") == "1"
        event = hypothetical(topic, payload, qos, retain, asked.get("content_type", ""), asked.get("policy", ""))
        nodes = {name: server.node for name, server in self._servers.items()}
        decisions = explain(nodes, arrival(node, asked["from"], event), self._server.now(), to)
        return account(decisions, node.ensemble, (), to)
