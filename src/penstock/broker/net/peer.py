"""Links that this node makes: it dials a neighbour, another node or a foreign broker, and dials again when cut off."""

import asyncio
import random
import ssl
from collections.abc import Callable
from logging import WARNING

from penstock.broker.net.protocol import DialledProtocol
from penstock.domain import Address
from penstock.domain.schema.federation import ForeignSettings, LinkSettings
from penstock.engine.connections.host import Host
from penstock.engine.connections.outbound import Outbound
from penstock.engine.federation.dialling import Greeting
from penstock.engine.sessions.session import Session
from penstock.wire.reason import Reason

MIN_WAIT_SECONDS = 0.1
MAX_WAIT_SECONDS = 30.0
"""Seconds between two attempts: twice as many after each that fails, and never the same for two nodes."""
STEADY_SECONDS = 10.0
"""A link that breaks sooner than this has failed too: what broke it may do so again at once."""


class Waits:
    """The waits between attempts."""

    def __init__(self) -> None:
        self._next = MIN_WAIT_SECONDS

    def after(self, seconds: float) -> float:
        """Return the wait after a link that was up for so many seconds; 0 if it never was."""
        wait = MIN_WAIT_SECONDS if seconds >= STEADY_SECONDS else self._next
        self._next = min(wait * 2, MAX_WAIT_SECONDS)
        return wait


class Dialler:
    """Keeps one link up."""

    def __init__(
        self,
        host: Host,
        neighbour: Session,
        greeting: Greeting,
        locate: Callable[[], Address],
        context: ssl.SSLContext | None,
    ) -> None:
        self._host = host
        self._neighbour = neighbour
        self._greeting = greeting
        self._locate = locate
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self.terms: tuple[LinkSettings, ForeignSettings | None, bool] | None = None
        """What the domain file said when the link was made."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Dial no more, and end the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        outlet = self._neighbour.outlet
        if outlet is not None:
            outlet.disconnect(Reason.SUCCESS)

    async def _run(self) -> None:
        waits = Waits()
        while True:
            wait = waits.after(await self._dial())
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))

    async def _dial(self) -> float:
        """Dial once and stay until the end; return how many seconds the connection was open."""
        name, clock = self._neighbour.neighbour, asyncio.get_running_loop().time
        begun = clock()
        try:
            address = self._locate()
            _, protocol = await asyncio.get_running_loop().create_connection(
                lambda: DialledProtocol(Outbound(self._host, self._neighbour, self._greeting)),
                address.host,
                address.port,
                ssl=self._context,
            )
        except (OSError, ssl.SSLError) as error:
            if not self._failed:
                self._host.log_event("a neighbour cannot be reached", WARNING, neighbour=name, cause=str(error))
            self._failed = True
            return 0.0
        opened = await protocol.closed
        if opened or not self._failed:
            self._host.log_event("the link is down", WARNING, neighbour=name)
        self._failed = not opened
        return clock() - begun if opened else 0.0
