"""Running nodes of a domain in one process until a signal says to stop."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from penstock.broker.console_process import ConsoleProcess
from penstock.broker.federation import Federation
from penstock.broker.observe import log as logs
from penstock.broker.observe.systemd import notify
from penstock.domain import Domain
from penstock.model.errors import PenstockError

if TYPE_CHECKING:
    from penstock.broker.http.admin import AdminServer

log = logging.getLogger("penstock.run")

Reread = Callable[[], Domain]
Ready = Callable[[list[str]], None]


async def _serve(federation: Federation, file: Path | None, reread: Reread | None, ready: Ready) -> None:
    servers = federation.servers.values()
    admins = _admins(federation, file, reread)
    pages = [ConsoleProcess(admin.server, admin) for admin in admins if admin.server.settings.console is not None]
    stop = asyncio.Event()
    tasks: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    try:
        await federation.start()
        for admin in admins:
            await admin.start()
        for page in pages:
            page.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.add(loop.create_task(_reload(federation, reread))))
        addresses = [address for server in servers for address in server.listeners.addresses]
        ready(addresses + [admin.address for admin in admins])
        notify("READY=1")
        await stop.wait()
    finally:
        notify("STOPPING=1")
        for page in pages:
            await page.stop()
        for admin in admins:
            await admin.stop()
        await federation.stop()


def _admins(federation: Federation, file: Path | None, reread: Reread | None) -> list["AdminServer"]:
    administered = [server for server in federation.servers.values() if server.settings.admin is not None]
    if not administered:
        return []
    from penstock.broker.http.admin import AdminServer
    from penstock.broker.http.api import Api

    api = Api(federation, file, reread)
    return [AdminServer(server, api) for server in administered]


async def _reload(federation: Federation, reread: Reread | None) -> None:
    """Handle SIGHUP: a domain that does not check leaves the old one in force."""
    if reread is None:
        log.info("nothing to reload: the node runs without a domain file")
        return
    try:
        await federation.reload(reread())
    except PenstockError as error:
        log.error("not reloaded, the old settings stay in force", extra={"cause": str(error)})
        return
    log.info("reloaded")


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: a login shell's soft limit is for programs that use select."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(domain: Domain, names: tuple[str, ...], file: Path | None, reread: Reread | None, ready: Ready) -> None:
    """Serve until SIGTERM or SIGINT. `ready` gets the addresses once all nodes listen."""
    settings = domain.nodes[names[0]]
    logs.configure(settings.log.level, settings.log.format)
    # Most objects of a message are freed before the next: look for cycles less often, and not among long-lived objects.
    gc.set_threshold(20_000, 50, 100)
    gc.freeze()
    _raise_file_limit()
    folder = file.parent if file is not None else None
    uvloop.run(_serve(Federation(domain, names, folder), file, reread, ready))
