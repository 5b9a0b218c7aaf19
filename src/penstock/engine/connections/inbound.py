"""A connection that a client, or another node, makes: its CONNECT is awaited, and taken or refused."""

import math
from typing import ClassVar

from penstock.engine.connections.connection import MAX_CONNECT_BYTES, NodeConnection
from penstock.engine.connections.host import Host
from penstock.engine.sessions import lifecycle
from penstock.engine.stages.admit import Door
from penstock.engine.trust.group_proofs import Challenged
from penstock.wire.codec import decode, encode
from penstock.wire.errors import WireError
from penstock.wire.packet import Auth, Connack, Connect
from penstock.wire.reason import Reason, connack_code_311
from penstock.wire.session import CLOSED, CONNECTION, NEW, PROVING

_ANSWERED = (Reason.UNSUPPORTED_PROTOCOL_VERSION, Reason.CLIENT_IDENTIFIER_NOT_VALID)
"""Reasons to answer a CONNECT that cannot be decoded before the connection is closed."""


class Inbound(NodeConnection):
    """The server's side of a connection."""

    __slots__ = ("awaited", "challenged", "early", "refusal")
    EXPECTED: ClassVar = CONNECTION

    def __init__(self, host: Host, door: Door) -> None:
        super().__init__(host, door)
        self.challenged: Challenged | None = None
        """The CONNECT that waits for an answer to our AUTH."""
        self.refusal: lifecycle.Refusal | None = None
        """The refusal of the CONNECT."""
        self.awaited: lifecycle.Awaited | None = None
        """The CONNECT that waits for a session of another node, and in `early` what has come behind it."""
        self.early = b""

    def _receive_first(self, data: bytes) -> bytes:
        if self.awaited is None:
            return super()._receive_first(data)
        self.early += data
        if len(self.early) > MAX_CONNECT_BYTES:
            self.close()
        return b""

    def fail(self, error: WireError) -> None:
        if self.phase == PROVING and self.challenged is not None:  # [MQTT-4.12.0-4]
            self._refuse(self.challenged.connect, lifecycle.Refusal(error.reason, str(error)))
        else:
            super().fail(error)

    def _open(self, first: int, body: bytes) -> None:
        if self.phase == NEW:
            self._connect(first, body)
        else:
            self._prove(first, body)

    def _connect(self, first: int, body: bytes) -> None:
        try:
            packet = decode(first, body, 0)
        except WireError as error:
            self._count_refusal(error.reason, str(error))
            # [MQTT311-3.1.2-2] [MQTT311-3.2.2-6]
            if error.reason in _ANSWERED:
                self.transport.write(encode(Connack(False, connack_code_311(error.reason)), 4))  # [MQTT-3.1.2-2]
            self._linger()
            return
        assert isinstance(packet, Connect)
        node = self.host.node
        node.stats.connections_total += 1
        opened = lifecycle.connect(node, packet, self.door, self, self.host.now())
        if isinstance(opened, Challenged):
            self.phase = PROVING
            self.challenged = opened
            self.transport.write(opened.packet)
        else:
            self._decide_or_wait(packet, opened)

    def _decide_or_wait(
        self, packet: Connect, opened: lifecycle.Opened | lifecycle.Awaited | lifecycle.Refusal
    ) -> None:
        """Let the client in, or refuse it, when it is known whether another node has its session."""
        if not isinstance(opened, lifecycle.Awaited):
            self._decide(packet, opened)
            return
        self.awaited = opened
        opened.search.conclude, opened.search.abandon = self._found, self._abandon
        self.transport.pause_reading()

    def _found(self) -> None:
        """Go on with the CONNECT that has waited."""
        awaited, self.awaited = self.awaited, None
        if awaited is None or self.phase >= CLOSED:
            return
        node, now = self.host.node, self.host.now()
        self._decide(awaited.packet, lifecycle.found(node, awaited, self, now))
        self.transport.resume_reading()
        early, self.early = self.early, b""
        if early and self.phase < CLOSED:
            self.receive(early)
        self.host.wake()

    def _abandon(self) -> None:
        """Close: the client has made another connection."""
        self.awaited = None
        self.close()

    def _prove(self, first: int, body: bytes) -> None:
        """Take the answer to our AUTH."""
        assert self.challenged is not None
        connect = self.challenged.connect
        packet = decode(first, body, connect.version)
        if not isinstance(packet, Auth):
            self.close()
            return
        node, now = self.host.node, self.host.now()
        answered = lifecycle.answered(node, self.challenged, packet, self.door, self, now)
        self._decide_or_wait(connect, answered)

    def _decide(self, packet: Connect, opened: lifecycle.Opened | lifecycle.Refusal) -> None:
        """Let the client in, or refuse it."""
        self.challenged = None
        if isinstance(opened, lifecycle.Refusal):
            self._refuse(packet, opened)
            return
        self.session = session = opened.session
        self._opened(packet.version, math.ceil(opened.keepalive * 1.5))  # [MQTT-3.1.2-22]
        groups = " ".join(session.trust.proven) or None
        user, address = session.subject.user, self.door.address
        self.host.log_event("connected", client=session.client_id, user=user, address=address, groups=groups)

    def _refuse(self, packet: Connect, refusal: lifecycle.Refusal) -> None:
        """Answer a CONNECT with no, and close."""  # [MQTT-3.1.4-2], [MQTT-3.2.2-7]
        self.refusal = refusal
        self._count_refusal(refusal.reason, refusal.text)
        # [MQTT-3.1.4-6] [MQTT311-3.1.4-5] [MQTT311-3.2.2-5]
        self.transport.write(lifecycle.refusal_packet(packet, refusal))
        self._linger()

    def _count_refusal(self, reason: Reason, text: str) -> None:
        self.reason = reason
        self.host.node.stats.connections_refused += 1
        self.host.log_event("refused", address=self.door.address, reason=reason.name, cause=text)
