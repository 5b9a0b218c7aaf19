"""One client's connection: bytes in, packets to the engine, bytes out."""

import asyncio
import math
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.engine.events import entrances
from penstock.engine.events.plan import Plan
from penstock.engine.sessions import lifecycle, outbox, receive
from penstock.engine.sessions.refusal import encode_told
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import Door
from penstock.engine.trust.group_proofs import Challenged
from penstock.wire.codec import decode, encode
from penstock.wire.errors import WireError
from penstock.wire.framing import Frame, Framer
from penstock.wire.packet import AUTH, CONNECT, DISCONNECT, PUBLISH, Auth, Connack, Connect, Disconnect
from penstock.wire.reason import Reason, connack_code_311
from penstock.wire.session import CLOSED, LEAVING, NEW, OPEN, PROVING

if TYPE_CHECKING:
    from penstock.broker.server import Server

CONNECT_LIMIT = 512 * 1024
"""Bytes of the largest CONNECT: whoever is not authenticated yet gets no more memory than this."""

_ANSWERED = (Reason.UNSUPPORTED_PROTOCOL_VERSION, Reason.CLIENT_IDENTIFIER_NOT_VALID)
"""Why a CONNECT that cannot be decoded is answered before the connection is closed."""
_NONE_KNOWN: dict[bytes, Plan] = {}


class Connection(asyncio.Protocol):
    """The MQTT side of one transport. It is the session's outlet."""

    __slots__ = (
        "alive",
        "challenged",
        "door",
        "framer",
        "idle",
        "patience",
        "phase",
        "server",
        "session",
        "transport",
        "version",
    )

    FIRST: ClassVar[dict[int, tuple[int, ...]]] = {NEW: (CONNECT,), PROVING: (AUTH, DISCONNECT)}
    """The types of packets that the peer sends before the connection is open, by phase."""

    def __init__(self, server: "Server", door: Door) -> None:
        self.server = server
        self.door = door
        self.framer = Framer(CONNECT_LIMIT)
        self.phase = NEW
        self.version = 0
        self.session: Session | None = None
        self.challenged: Challenged | None = None
        """The CONNECT that waits for an answer to our AUTH."""
        self.transport: Any = None
        # Silence is counted in ticks of the server, so that no connection needs a timer of its own.
        self.alive = True
        self.idle = 0
        self.patience = 0

    def tick(self) -> bool:
        """A second has passed; whether the peer has been silent for too long."""  # [MQTT-3.1.2-22]
        if self.alive:
            self.alive = False
            self.idle = 0
        elif self.patience and self.phase >= OPEN:
            self.idle += 1
        return self.idle >= self.patience > 0

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.server.connected(self)

    def data_received(self, data: bytes) -> None:
        self.alive = True
        while self.phase < OPEN and data:
            data = self._greet(data)
        if self.phase >= CLOSED or not data:
            return
        buffer, frames = self.framer.feed(data)
        self.take(buffer, frames, 0)
        self.server.node.stats.bytes_received += len(data)

    def take(self, buffer: bytes, frames: list[Frame], position: int) -> None:
        """Take packets: where they are in a buffer, and where the first of them begins there."""
        server = self.server
        node = server.node
        if server.is_full:
            frames = server.hold(self, buffer, frames)
        session = self.session
        if server.sampler is not None and session is not None:
            server.sampler(session, buffer, frames)
        known, version = node.plans_of(session).known if session is not None else _NONE_KNOWN, self.version
        link = session.tokens if session is not None else None
        history = link.history if link is not None else None
        recorder = node.recorder
        if recorder is not None:
            notes = recorder.notes
        relayed = handled = 0
        begin, unsaid = position, 0
        """Where what the recorder has not been told of begins, in the buffer and among the frames."""
        try:
            for first, start, end in frames:
                # The hot path: a QoS 0 PUBLISH on a topic for which only links and topics decide.
                if first == 0x30 and end - start > 2:
                    after = start + 2 + (buffer[start] << 8) + buffer[start + 1]
                    if after <= end if version == 4 else after < end and not buffer[after]:
                        plan = known.get(buffer[start + 2 : after])
                        if plan is None or not plan.valid:
                            topic = buffer[start + 2 : after]
                            plan = None if session is None else entrances.plan_at_once(node, session, topic)
                        if plan is None:
                            pass
                        elif plan.simple:
                            node.relay(plan, buffer[position:end], version, after - position)
                            if recorder is not None:
                                note = plan.note
                                notes.append(note if note is not None else recorder.note(plan))
                            if history is not None:
                                history.append(buffer[position:end])
                            relayed += 1
                            position = end
                            continue
                        elif plan.edited and session is not None:
                            packet = buffer[position:end]
                            now = server.now()
                            if recorder is not None:
                                recorder.relayed(session, now, buffer, begin, frames, unsaid)
                            entrances.relay_edited(node, session, packet, start + 2 - position, after - position, now)
                            known = node.plans_of(session).known
                            relayed += 1
                            position = begin = end
                            unsaid = relayed + handled
                            continue
                if relayed and recorder is not None and session is not None:
                    recorder.relayed(session, server.now(), buffer, begin, frames, unsaid)
                is_kept = recorder is not None and first >> 4 == PUBLISH
                self._handle(first, buffer[start:end], buffer[position:end] if is_kept else b"")
                handled += 1
                position = begin = end
                unsaid = relayed + handled
                if self.phase != OPEN:
                    break
                session = self.session
                if session is not None:  # a monitor may have changed its state, and the plans with it
                    known, version = node.plans_of(session).known, self.version
            if self.framer.error is not None and not server.holds(self):
                raise self.framer.error
        except WireError as error:
            self.fail(error)
        except Exception:
            self.server.log.exception("a packet could not be handled", extra={"client": self._name()})
            self.disconnect(Reason.UNSPECIFIED_ERROR, "the node could not handle a packet")
        if relayed and recorder is not None and session is not None:
            recorder.relayed(session, server.now(), buffer, begin, frames, unsaid)
        stats = node.stats
        stats.received += relayed
        stats.packets_received += len(frames)
        if session is not None:
            session.took += len(frames)
        server.took(self, len(frames))

    def _greet(self, data: bytes) -> bytes:
        """Take a packet of a connection that is not open yet; what comes behind the last is framed by other limits."""
        rest = b""
        try:
            # Do not wait for the rest of what is not MQTT.
            if not self.framer.pending and data[0] >> 4 not in self.FIRST[self.phase]:
                raise WireError(Reason.PROTOCOL_ERROR, f"first packet has type {data[0] >> 4}")  # [MQTT-3.1.0-1]
            buffer, frames = self.framer.feed(data)
            if frames:
                first, start, end = frames[0]
                rest = buffer[end:]
                self.framer = Framer(CONNECT_LIMIT)
                self.server.node.stats.packets_received += 1
                self._handle(first, buffer[start:end])
            elif self.framer.error is not None:
                raise self.framer.error
        except WireError as error:
            self.fail(error)
        except Exception:
            self.server.log.exception("a first packet could not be handled", extra={"client": self._name()})
            self.close()
        self.server.node.stats.bytes_received += len(data) - len(rest)
        self.server.wake()
        return rest

    def connection_lost(self, exc: Exception | None) -> None:
        self.phase = CLOSED
        self.server.disconnected(self)
        if self.session is not None:
            lifecycle.lost(self.server.node, self.session, self, self.server.now())
            self.server.wake()
        self.server.log.info("disconnected", extra={"client": self._name(), "cause": str(exc) if exc else "closed"})

    def pause_writing(self) -> None:
        if self.session is not None and self.session.outlet is self:
            self.server.node.block(self.session)

    def resume_writing(self) -> None:
        if self.session is not None and self.session.outlet is self:
            self.server.node.unblock(self.session, self.server.now())
            self.server.wake()
        self.transport.resume_reading()

    # --- the outlet

    def send(self, packets: list[bytes]) -> None:
        """Write the packets and empty the list; see `Outlet`."""
        if self.session is None or self.session.blocked or self.phase == CLOSED:
            return
        most = self.session.maximum_packet_size
        if most and max(map(len, packets)) > most:  # [MQTT-3.1.2-24] an answer that it cannot take
            packets.clear()
            self.close()
            return
        leaves = self.phase == LEAVING and _cut(packets)
        stats = self.server.node.stats
        stats.packets_sent += len(packets)
        self.session.gave += len(packets)
        data = packets[0] if len(packets) == 1 else b"".join(packets)
        packets.clear()
        stats.bytes_sent += len(data)
        self.transport.write(data)
        if leaves:
            self._linger()

    def disconnect(self, reason: Reason, text: str = "") -> None:
        """Send what is pending, say why, and close."""
        if self.phase >= CLOSED:
            return
        self.server.log.info("closing", extra={"client": self._name(), "reason": reason.name, "cause": text})
        if self.transport.is_closing():  # by who gave dialling up, say: nothing more can be written
            self._part()
            return
        session = self.session
        words = b""
        if self.version == 5:
            asked, most = (session.problem_info, session.maximum_packet_size) if session is not None else (False, 0)
            words = encode_told(Disconnect(reason), text, 5, asked, most)  # [MQTT-3.14.2-2]
        attached = session is not None and session.outlet is self and reason is not Reason.SESSION_TAKEN_OVER
        if session is not None and attached and session.held:
            # Acknowledgements that were earned wait for the store. They go first, so that a client which breaks a
            # rule again each time it connects still gets on.
            self.phase = LEAVING
            self.server.closing(self)
            outbox.push(self.server.node, session, words)
            return
        if session is not None and session.outlet is self and session.buffer:
            self.send(session.buffer)
        if words:
            self.transport.write(words)
        self._linger()

    def _linger(self) -> None:
        """Close our side, and read on without listening until the peer closes too.

        Closing with unread input would reset the connection, and the peer might never see our last packet. The
        server cuts off a peer that takes too long.
        """
        # [MQTT-3.14.4-1] [MQTT-3.14.4-2]
        self._part()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close as soon as written bytes are out."""
        self._part()
        self.transport.close()

    def _part(self) -> None:
        """Part from the session at once: what comes for it now must not wait for a peer that may not read."""
        self.phase = CLOSED
        self.server.closing(self)
        if self.session is not None:
            lifecycle.lost(self.server.node, self.session, self, self.server.now())

    def fail(self, error: WireError) -> None:
        """The peer broke the rules: tell it which, and close."""
        # [MQTT-3.14.0-1] [MQTT-4.13.2-1] [MQTT311-4.8.0-1]
        if self.phase == OPEN:
            self.disconnect(error.reason, str(error))
        elif self.challenged is not None and self.phase == PROVING:
            self._refuse(self.challenged.connect, lifecycle.Refusal(error.reason, str(error)))  # [MQTT-4.12.0-4]
        elif self.phase < OPEN:
            self.server.log.info(
                "refused", extra={"client": self._name(), "reason": error.reason.name, "cause": str(error)}
            )
            self.close()

    # --- packets

    def _handle(self, first: int, body: bytes, raw: bytes = b"") -> None:
        receive.expect(self.phase, first >> 4)
        if self.phase == NEW:
            self._connect(first, body)
            return
        if self.phase == PROVING:
            self._prove(first, body)
            return
        assert self.session is not None
        if first >> 4 == DISCONNECT and self.session.buffer:
            self.send(self.session.buffer)  # answers to what came in one piece with it
        packet = decode(first, body, self.version)
        receive.handle(self.server.node, self.session, packet, self.server.now(), raw)
        if first >> 4 == DISCONNECT:
            self.close()

    def _connect(self, first: int, body: bytes) -> None:
        server = self.server
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
        server.node.stats.connections_total += 1
        opened = lifecycle.connect(server.node, packet, self.door, self, server.now())
        if isinstance(opened, Challenged):
            self.phase = PROVING
            self.challenged = opened
            self.transport.write(opened.packet)
        else:
            self._decided(packet, opened)

    def _prove(self, first: int, body: bytes) -> None:
        """The client answers our AUTH."""
        assert self.challenged is not None
        connect = self.challenged.connect
        packet = decode(first, body, connect.version)
        if not isinstance(packet, Auth):
            self.close()
            return
        server = self.server
        self._decided(connect, lifecycle.answered(server.node, self.challenged, packet, self.door, self, server.now()))

    def _decided(self, packet: Connect, opened: lifecycle.Opened | lifecycle.Refusal) -> None:
        """A CONNECT is taken or not."""
        self.challenged = None
        if isinstance(opened, lifecycle.Refusal):
            self._refuse(packet, opened)
            return
        server = self.server
        self.session, keepalive = opened
        self.phase = OPEN
        self.version = packet.version
        self.framer = Framer(server.node.limits.max_packet_size)
        self.framer.minimal = packet.version == 5
        self.patience = math.ceil(keepalive * 1.5)  # [MQTT-3.1.2-22]
        server.opened(self)
        self.server.log.info(
            "connected",
            extra={
                "client": self.session.client_id,
                "user": self.session.subject.user,
                "address": self.door.address,
                "groups": " ".join(self.session.proven) or None,
            },
        )

    def _refuse(self, packet: Connect, refusal: lifecycle.Refusal) -> None:
        """Answer a CONNECT with no, and close."""  # [MQTT-3.1.4-2], [MQTT-3.2.2-7]
        self._count_refusal(refusal.reason, refusal.text)
        # [MQTT-3.1.4-6] [MQTT311-3.1.4-5] [MQTT311-3.2.2-5]
        self.transport.write(lifecycle.refusal_packet(packet, refusal))
        self._linger()

    def _count_refusal(self, reason: Reason, text: str) -> None:
        self.server.node.stats.connections_refused += 1
        self.server.log.info("refused", extra={"address": self.door.address, "reason": reason.name, "cause": text})

    def _name(self) -> str:
        return self.session.client_id if self.session is not None else self.door.address


def _cut(packets: list[bytes]) -> bool:
    """Leave out what comes after a DISCONNECT, or the empty packet that stands for it in 3.1.1; whether it is there."""
    for place, packet in enumerate(packets):
        if not packet or packet[0] == DISCONNECT << 4:
            del packets[place + 1 :]
            return True
    return False
