"""The admin HTTP of a node: `/metrics` for Prometheus, `/health` for whoever watches over it."""

import asyncio
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.broker.metrics import make_registry
from penstock.model.errors import PenstockError

if TYPE_CHECKING:
    from penstock.broker.server import Server


class _Quiet(uvicorn.Server):
    """Signals are the node's business."""

    def install_signal_handlers(self) -> None:
        return


class Admin:
    """An HTTP server on the node's own event loop."""

    def __init__(self, server: "Server") -> None:
        assert server.settings.admin is not None
        self._server = server
        self._registry = make_registry(server)
        self._address = server.settings.admin
        self.address = ""
        app = Starlette(routes=[Route("/metrics", self._metrics), Route("/health", self._health)])
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
        host, port = socket.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._task = asyncio.create_task(self._http.serve([socket]))

    async def stop(self) -> None:
        self._http.should_exit = True
        if self._task is not None:
            await self._task

    async def _metrics(self, _request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def _health(self, _request: Request) -> Response:
        server = self._server
        body = {
            "status": "ok" if server.healthy else "store cannot be written",
            "node": server.name,
            "connected": server.node.connected,
        }
        return JSONResponse(body, status_code=200 if server.healthy else 503)
