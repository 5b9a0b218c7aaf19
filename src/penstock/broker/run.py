"""Run the nodes of a domain in one process until a signal says to stop."""

import asyncio
import logging
import signal
from collections.abc import Callable

import uvloop

from penstock.broker import log as logs
from penstock.broker.admin import Admin
from penstock.broker.server import Server
from penstock.domain import Domain
from penstock.model.errors import PenstockError

log = logging.getLogger("penstock.run")


async def _serve(domain: Domain, reread: Callable[[], Domain] | None, ready: Callable[[list[str]], None]) -> None:
    servers = [Server(name, settings) for name, settings in domain.nodes.items()]
    admins: list[Admin] = []
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        for server in servers:
            await server.start()
            if server.settings.admin is not None:
                admin = Admin(server)
                await admin.start()
                admins.append(admin)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, _reload, servers, reread)
        ready([address for server in servers for address in server.addresses] + [admin.address for admin in admins])
        await stop.wait()
    finally:
        for admin in admins:
            await admin.stop()
        for server in servers:
            await server.stop()


def _reload(servers: list[Server], reread: Callable[[], Domain] | None) -> None:
    """SIGHUP: a domain that does not check leaves the old one in force."""
    if reread is None:
        log.info("nothing to reload: the node runs without a domain file")
        return
    try:
        domain = reread()
        for server in servers:
            if server.name in domain.nodes:
                server.reload(domain.nodes[server.name])
    except PenstockError as error:
        log.error("not reloaded, the old settings stay in force", extra={"cause": str(error)})
        return
    log.info("reloaded")


def run(domain: Domain, reread: Callable[[], Domain] | None, ready: Callable[[list[str]], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` gets the addresses once all nodes listen."""
    settings = next(iter(domain.nodes.values()))
    logs.configure(settings.log.level, settings.log.format)
    uvloop.run(_serve(domain, reread, ready))
