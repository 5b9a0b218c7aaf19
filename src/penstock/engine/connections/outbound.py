"""A connection that this node makes to a neighbour, another node or a foreign broker."""

from logging import ERROR
from typing import ClassVar

from penstock.engine.connections.connection import NodeConnection
from penstock.engine.connections.host import Host, Transport
from penstock.engine.federation.dialling import KEEPALIVE, Greeting
from penstock.engine.sessions import lifecycle
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import Door
from penstock.engine.trust import group_proofs
from penstock.engine.trust.state import Claiming
from penstock.wire.codec import decode, encode
from penstock.wire.errors import protocol_error
from penstock.wire.kinds import DISCONNECT, PINGRESP, SUBACK
from penstock.wire.packet import Auth, Connack, Disconnect, Pingreq, Suback
from penstock.wire.session import DIALLED, OPEN, PROVING

_PINGREQ = encode(Pingreq(), 4)


class Outbound(NodeConnection):
    """The client's side of a connection: it sends a CONNECT, and the neighbour's CONNACK opens it."""

    __slots__ = ("claiming", "greeting", "neighbour", "unsaid")
    EXPECTED: ClassVar = DIALLED

    def __init__(self, host: Host, neighbour: Session, greeting: Greeting) -> None:
        super().__init__(host, Door(f"link to {neighbour.neighbour}", "dialled", False))
        self.neighbour = neighbour
        self.greeting = greeting
        self.unsaid = 0
        """Seconds since it last sent a PINGREQ."""
        self.claiming: Claiming | None = None
        """The exchange of proofs, if the neighbour is in a trust group that this node is in."""

    def begin(self, transport: Transport) -> None:
        """Send the CONNECT."""
        super().begin(transport)
        claimant = group_proofs.make_claimant(self.host.node, self.neighbour)
        self.claiming = Claiming(claimant) if claimant is not None else None
        claim = claimant.claim if claimant is not None else None
        self.transport.write(encode(self.greeting.packet(claim), self.greeting.version))

    def tick(self) -> None:
        # Ping even if packets arrive: the neighbour measures our silence, and this may be all that we send.
        self.unsaid += 1
        if self.phase == OPEN and self.unsaid >= KEEPALIVE // 4:
            self.unsaid = 0
            self.transport.write(_PINGREQ)
        if self.phase == OPEN and self.claiming is not None:
            group_proofs.renew(self.host.node, self.neighbour, self.host.now())
        super().tick()

    def _open(self, first: int, body: bytes) -> None:
        packet = decode(first, body, self.greeting.version)
        if isinstance(packet, Auth):
            self._prove(packet)
            return
        assert isinstance(packet, Connack)
        if packet.reason:
            cause = packet.properties.reason_string or f"reason {packet.reason:#04x}"
            self.host.log_event("a neighbour refuses us", level=ERROR, neighbour=self.neighbour.neighbour, cause=cause)
            self.close()
        else:
            self._join(packet)

    def _prove(self, packet: Auth) -> None:
        if self.claiming is None or self.claiming.claimant is None:  # [MQTT-4.12.0-6]
            raise protocol_error("AUTH without an authentication method")
        self.phase = PROVING
        self.transport.write(encode(group_proofs.answer(self.claiming.claimant, packet), self.greeting.version))

    def _join(self, packet: Connack) -> None:
        neighbour, node, now = self.neighbour, self.host.node, self.host.now()
        proof = None if self.claiming is None else group_proofs.concluded(node, self.claiming, packet, now)
        self.session = neighbour
        neighbour.version = self.greeting.version
        self._opened(neighbour.version, KEEPALIVE * 2)
        lifecycle.joined(node, neighbour, packet, self, now, proof)
        wish = self.greeting.wish(is_new=neighbour.connection.ended == 0)
        if wish is not None:
            self.transport.write(encode(wish, self.version))
        self.host.log_event("linked", neighbour=neighbour.neighbour, groups=" ".join(neighbour.trust.proven) or None)

    def _handle(self, first: int, body: bytes, raw: bytes) -> None:
        kind = first >> 4
        if kind == SUBACK:
            self._subscribed(decode(first, body, self.version))
        elif kind == DISCONNECT:
            self._ended(decode(first, body, self.version))
        elif kind != PINGRESP:
            super()._handle(first, body, raw)

    def _subscribed(self, packet: object) -> None:
        assert isinstance(packet, Suback)
        for text, reason in zip(self.greeting.filters, packet.reasons, strict=False):
            if reason >= 0x80:
                details = {"neighbour": self.neighbour.neighbour, "topic": text, "reason": f"{reason:#04x}"}
                self.host.log_event("a foreign broker refuses a subscription", level=ERROR, **details)

    def _ended(self, packet: object) -> None:
        assert isinstance(packet, Disconnect)
        cause = packet.properties.reason_string or f"{packet.reason:#04x}"
        self.host.log_event("a neighbour ends the link", neighbour=self.neighbour.neighbour, cause=cause)
        self.close()
