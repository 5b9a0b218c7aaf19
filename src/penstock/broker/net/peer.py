"""Links that this node makes: it dials a neighbour, another node or a foreign broker, and dials again when cut off."""

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from penstock.broker.net.connection import Connection
from penstock.domain import Address
from penstock.domain.schema.federation import ForeignSettings, LinkSettings
from penstock.engine.federation.dialling import KEEPALIVE, Greeting
from penstock.engine.sessions import lifecycle
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import Door
from penstock.engine.trust import group_proofs
from penstock.wire.codec import decode, encode
from penstock.wire.errors import WireError
from penstock.wire.framing import Framer
from penstock.wire.packet import (
    AUTH,
    CONNACK,
    DISCONNECT,
    PINGRESP,
    SUBACK,
    Auth,
    Connack,
    Disconnect,
    Pingreq,
    Suback,
)
from penstock.wire.reason import Reason
from penstock.wire.session import NEW, OPEN, PROVING

if TYPE_CHECKING:
    from penstock.broker.server import Server

SHORTEST_WAIT = 0.1
LONGEST_WAIT = 30.0
"""Seconds between two attempts: twice as many after each that fails, and never the same for two nodes."""
STEADY_SECONDS = 10.0
"""A link that breaks sooner than this has failed too: what broke it may do so again at once."""

_PINGREQ = encode(Pingreq(), 4)


class Dialled(Connection):
    """The client's side of a connection; once it is open, the two sides are alike."""

    __slots__ = ("claiming", "closed", "greeting", "neighbour", "unsaid")
    FIRST: ClassVar = {NEW: (CONNACK, AUTH), PROVING: (CONNACK,)}

    def __init__(self, server: "Server", neighbour: Session, greeting: Greeting) -> None:
        super().__init__(server, Door(f"link to {neighbour.neighbour}", "dialled", False))
        self.neighbour = neighbour
        self.greeting = greeting
        self.unsaid = 0
        """Seconds since it said that it is there."""
        self.claiming: group_proofs.Claiming | None = None
        """The exchange of proofs, if the neighbour is in a trust group that this node is in."""
        self.closed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone; whether it had been open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.server.dialled(self)
        claimant = group_proofs.make_claimant(self.server.node, self.neighbour)
        self.claiming = group_proofs.Claiming(claimant) if claimant is not None else None
        claim = claimant.claim if claimant is not None else None
        self.transport.write(encode(self.greeting.packet(claim), self.greeting.version))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.closed.done():
            self.closed.set_result(self.session is not None)

    def tick(self) -> bool:
        # Whatever comes from there: the neighbour counts what it hears from us, which may be nothing but this.
        self.unsaid += 1
        if self.phase == OPEN and self.unsaid >= KEEPALIVE // 4:
            self.unsaid = 0
            self.transport.write(_PINGREQ)
        if self.phase == OPEN and self.claiming is not None:
            group_proofs.renew(self.server.node, self.neighbour, self.server.now())
        return super().tick()

    def _handle(self, first: int, body: bytes, raw: bytes = b"") -> None:
        kind = first >> 4
        if self.phase < OPEN:
            packet = decode(first, body, self.greeting.version)
            if isinstance(packet, Auth):
                self._answer(packet)
            else:
                self._welcome(packet)
        elif kind == SUBACK:
            self._subscribed(decode(first, body, self.version))
        elif kind == DISCONNECT:
            self._told_to_go(decode(first, body, self.version))
        elif kind != PINGRESP:
            super()._handle(first, body, raw)

    def _answer(self, packet: Auth) -> None:
        if self.claiming is None or self.claiming.claimant is None:  # [MQTT-4.12.0-6]
            raise WireError(Reason.PROTOCOL_ERROR, "AUTH without an authentication method")
        self.phase = PROVING
        self.transport.write(encode(group_proofs.answer(self.claiming.claimant, packet), self.greeting.version))

    def _welcome(self, packet: object) -> None:
        assert isinstance(packet, Connack)
        neighbour = self.neighbour
        if packet.reason:
            told = packet.properties.reason_string or f"reason {packet.reason:#04x}"
            self.server.log.error("a neighbour refuses us", extra={"neighbour": neighbour.neighbour, "cause": told})
            self.close()
            return
        proof = None
        if self.claiming is not None:
            proof = group_proofs.concluded(self.server.node, self.claiming, packet, self.server.now())
        self.version = neighbour.version = self.greeting.version
        self.phase = OPEN
        self.patience = KEEPALIVE * 2
        self.framer = Framer(self.server.node.limits.max_packet_size)
        self.framer.minimal = self.version == 5
        self.server.opened(self)
        self.session = neighbour
        lifecycle.joined(self.server.node, neighbour, packet, self, self.server.now(), proof)
        wish = self.greeting.wish(is_new=neighbour.ended == 0)
        if wish is not None:
            self.transport.write(encode(wish, self.version))
        extra = {"neighbour": neighbour.neighbour, "groups": " ".join(neighbour.proven) or None}
        self.server.log.info("linked", extra=extra)

    def _subscribed(self, packet: object) -> None:
        assert isinstance(packet, Suback)
        for text, reason in zip(self.greeting.filters, packet.reasons, strict=False):
            if reason >= 0x80:
                extra = {"neighbour": self.neighbour.neighbour, "topic": text, "reason": f"{reason:#04x}"}
                self.server.log.error("a foreign broker refuses a subscription", extra=extra)

    def _told_to_go(self, packet: object) -> None:
        assert isinstance(packet, Disconnect)
        cause = packet.properties.reason_string or f"{packet.reason:#04x}"
        self.server.log.info("a neighbour ends the link", extra={"neighbour": self.neighbour.neighbour, "cause": cause})
        self.close()


class Waits:
    """How long to wait before the next attempt."""

    def __init__(self) -> None:
        self._next = SHORTEST_WAIT

    def after(self, seconds: float) -> float:
        """The wait after a link that was up for so many seconds; 0 if it never was."""
        wait = SHORTEST_WAIT if seconds >= STEADY_SECONDS else self._next
        self._next = min(wait * 2, LONGEST_WAIT)
        return wait


class Dialler:
    """Keeps one link up."""

    def __init__(
        self,
        server: "Server",
        neighbour: Session,
        greeting: Greeting,
        locate: Callable[[], Address],
        context: ssl.SSLContext | None,
    ) -> None:
        self._server = server
        self._neighbour = neighbour
        self._greeting = greeting
        self._locate = locate
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self.terms: tuple[LinkSettings, ForeignSettings | None, bool] | None = None
        """What the domain said when the link was made."""

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
        """Dial once and stay until the end; for how many seconds there was a connection to speak of."""
        name, clock = self._neighbour.neighbour, asyncio.get_running_loop().time
        begun = clock()
        try:
            address = self._locate()
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Dialled(self._server, self._neighbour, self._greeting),
                address.host,
                address.port,
                ssl=self._context,
            )
        except (OSError, ssl.SSLError) as error:
            if not self._failed:
                self._server.log.warning(
                    "a neighbour cannot be reached", extra={"neighbour": name, "cause": str(error)}
                )
            self._failed = True
            return 0.0
        opened = await connection.closed
        if opened or not self._failed:
            self._server.log.warning("the link is down", extra={"neighbour": name})
        self._failed = not opened
        return clock() - begun if opened else 0.0
