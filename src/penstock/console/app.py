"""The console's server: the page behind its log-in."""

import contextlib
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.requests import Request
from starlette.responses import HTMLResponse

from penstock.broker.http.bounded_http import config
from penstock.broker.http.host_names import OwnNames
from penstock.broker.net.tls import make_context
from penstock.console.login.plain import plain
from penstock.console.person import People
from penstock.domain import Tls
from penstock.domain.units import Address
from penstock.model.errors import PenstockError

STATIC = Path(__file__).parent / "static"
RECONNECT_SECONDS = 30.0
"""Seconds for which a page that has lost its connection is kept."""


class ConsoleSettings(NamedTuple):
    """The address of the console, and its node."""

    node: str
    """The admin address of the node that it asks first."""
    at: Address
    tls: Tls | None = None
    ca: str | None = None
    """Authorities that certificates of nodes are checked against."""
    pin: str | None = None
    """The certificate that the first node must have."""
    also: tuple[str, ...] = ()
    """Admin addresses beyond this machine where people may be logged in too."""
    hosts: tuple[str, ...] = ()
    """Names by which it is reached besides its address."""


def serve(served: ConsoleSettings, ready: Callable[[str], None], until_eof: bool = False) -> None:
    """Serve until a signal says to stop, or standard input ends; `ready` gets the address once it listens."""
    # The framework would otherwise keep files in the present folder.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", tempfile.mkdtemp(prefix="penstock-console-"))
    from fastapi import FastAPI
    from nicegui import app as pages
    from nicegui import ui

    from penstock.console.login.guard import LoginGuard, person_of
    from penstock.console.parts import PARTS, PagePart
    from penstock.console.shell import shell

    people = People(served.node, served.ca, served.pin, served.also)
    pages.add_static_files("/static", STATIC)

    def add(part: PagePart) -> None:
        @ui.page(part.path, response_timeout=30)
        async def page(request: Request) -> None:
            for style in ("console", "parts", "decisions", "map"):
                ui.add_head_html(f'<link rel="stylesheet" href="/static/{style}.css">')
            ui.add_head_html('<script type="module" src="/static/lost.js"></script>')
            await shell(person_of(people, request), part)

    for part in PARTS:
        add(part)

    @pages.exception_handler(404)
    async def not_there(_request: Request, _error: Exception) -> HTMLResponse:
        return HTMLResponse(plain("nothing here", "nothing"), 404)

    inner = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(
        inner,
        title="Penstock",
        favicon=STATIC / "penstock.svg",
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=RECONNECT_SECONDS,
        show_welcome_message=False,
        tailwind=False,
    )
    listening = _listen(served.at)
    host, port = listening.getsockname()[:2]
    named = f"[{host}]" if ":" in host else host
    names = OwnNames((host, served.at.host), served.hosts)
    door = LoginGuard(inner, people, served.tls is not None, names, [part.path for part in PARTS])
    server_config = config(door, ws="websockets-sansio", proxy_headers=False)
    server_config.load()
    if served.tls is not None:
        server_config.ssl = make_context(served.tls)
    ready(f"{'https' if served.tls else 'http'}://{named}:{port}")
    server = uvicorn.Server(server_config)
    if until_eof:
        threading.Thread(target=_wait_for_end, args=(server,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run([listening])


def _wait_for_end(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True


def _listen(at: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        listener = socket.create_server((at.host, at.port), family=family, backlog=128)
    except OSError as error:
        raise PenstockError(f"console address `{at}` cannot be listened on: {error.strerror}") from None
    listener.setblocking(False)
    return listener
