"""A node's end of a connection: bytes in, packets to the engine, bytes out. No sockets, no event loop.

A connection goes through the phases of `wire.session`: NEW, perhaps PROVING while an exchange of proofs is under way,
OPEN, perhaps LEAVING while its last packets wait for the store, and CLOSED. How it becomes open depends on who
connected: `Inbound` awaits a CONNECT, `Outbound` sends one. Once it is open, the two are alike.

Whoever owns the transport calls `begin` when it is there, `receive` with what arrives, `pause` and `resume` when the
transport takes no more bytes and takes them again, `tick` once a second, and `end` when it is gone. The connection is
its session's outlet: it writes to its transport, and closes it. A live node drives it from asyncio's callbacks, a
rehearsal from its wires, a test by hand.

A peer that sends more than its share of a turn waits for the next one, and is not read meanwhile: the host says when
the share is used up (`Host.is_late`), and calls `go_on` in a later turn. The same holds while the host has no room.
"""

import math
from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from penstock.engine.connections.host import DISCARD, Host, Transport
from penstock.engine.events import entrances, link_plans
from penstock.engine.events.plan import Plan
from penstock.engine.sessions import lifecycle, outbox, receive, session_flow
from penstock.engine.sessions.refusal import encode_told
from penstock.engine.sessions.session import Session
from penstock.engine.sessions.state import max_packet_size
from penstock.engine.stages.admit import Door
from penstock.wire.codec import decode
from penstock.wire.errors import WireError, protocol_error
from penstock.wire.framing import Frame, Framer
from penstock.wire.kinds import DISCONNECT, PUBLISH
from penstock.wire.packet import Disconnect
from penstock.wire.primitives import MAX_VARINT
from penstock.wire.properties import MAX_USER_PROPERTIES
from penstock.wire.reason import Reason
from penstock.wire.session import CLOSED, LEAVING, NEW, OPEN

MAX_CONNECT_BYTES = 512 * 1024
"""Bytes of the largest CONNECT: a peer that is not authenticated yet gets no more memory than this."""
MAX_PIECE_BYTES = 128 * 1024
"""Bytes that are divided into packets at once."""
MAX_BATCH = 128
"""Packets that are passed on before the host is asked whether the connection's share of the turn is used up."""
CLOSE_SECONDS = 5
"""The time that a closed connection may take to read its last bytes."""

_NO_PLANS: dict[bytes, Plan] = {}


class NodeConnection:
    """The rules of a connection that hold whoever connected; see `Inbound` and `Outbound`."""

    __slots__ = (
        "_cause",
        "_left",
        "_unread",
        "_work",
        "door",
        "framer",
        "host",
        "is_heard",
        "is_held",
        "max_silence",
        "phase",
        "reason",
        "session",
        "silence",
        "transport",
        "version",
    )

    EXPECTED: ClassVar[dict[tuple[int, int], int]]
    """The phases in which the peer may send each type of packet, and the phase that follows."""

    def __init__(self, host: Host, door: Door) -> None:
        self.host = host
        self.door = door
        self.transport: Transport = DISCARD
        self.framer = Framer(MAX_CONNECT_BYTES)
        self.phase = NEW
        self.version = 0
        self.session: Session | None = None
        self.reason: Reason | None = None
        """The reason with which this side closed the connection; SUCCESS if the peer did."""
        self.is_heard = True
        """Something has come since the last tick."""
        self.silence = 0
        """Seconds since it began; once it is open, since the peer was heard; once it is closed, since then."""
        self.max_silence = 0
        """Seconds; 0: any."""
        self.is_held = False
        """The peer is not read: its share of a turn is used up, or the host has no room. `go_on` ends it."""
        self._left: tuple[bytes, list[Frame], int] | None = None
        """Packets that wait, in their buffer, and where the first of them begins; behind them waits `_unread`."""
        self._unread: deque[bytes] | None = None  # most connections never need one, and an empty one is large
        self._work: Iterator[None] | None = None
        """The rest of the work of a packet that asks for much: it goes on before the next packet is handled."""
        self._cause: str | None = None
        """The reason why the transport is gone, while packets that came before are still waiting."""

    @property
    def is_lost(self) -> bool:
        """The transport is gone, and packets that came before are still waiting."""
        return self._cause is not None

    @property
    def name(self) -> str:
        """The client's identifier, or its address while it is not known."""
        return self.session.client_id if self.session is not None else self.door.address

    def begin(self, transport: Transport) -> None:
        """Begin, now that there is a transport."""
        self.transport = transport
        self.host.add_connection(self)

    def tick(self) -> None:
        """Let a second pass; close a connection that has been silent or has not got on for too long."""
        if self.phase == OPEN and self.is_heard:
            self.is_heard = False
            self.silence = 0
            return
        self.silence += 1
        if self.phase >= CLOSED:
            if self.silence > CLOSE_SECONDS:
                self.transport.abort()
        elif self.phase == OPEN:
            if self.silence >= self.max_silence > 0 and not self.is_held:  # [MQTT-3.1.2-22]
                cause = "nothing received within one and a half keep alive times"
                self.disconnect(Reason.KEEP_ALIVE_TIMEOUT, cause)
        elif self.silence > math.ceil(self.host.node.limits.connect_timeout):
            self.host.log_event("refused", address=self.door.address, cause="no CONNECT in time")
            self.close()

    # --- input

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer, and handle the packets that they complete."""
        self.is_heard = True
        if self.phase != OPEN:
            while self.phase < OPEN and data:
                data = self._receive_first(data)
            if self.phase >= CLOSED or not data:
                return
        host = self.host
        host.node.stats.bytes_received += len(data)
        if self.is_held or len(data) > MAX_PIECE_BYTES:
            self._unread = self._unread or deque()
            self._unread.extend(data[at : at + MAX_PIECE_BYTES] for at in range(0, len(data), MAX_PIECE_BYTES))
            self.hold()
            return
        buffer, frames = self.framer.feed(data)
        if len(frames) == 1 and not host.is_full and self.framer.error is None:
            self._take_batch(buffer, frames, 0)
            if self._work is not None:
                self.hold()
            return
        host.begin_share()
        if self._take(buffer, frames, 0):
            self.hold()

    def hold(self) -> None:
        """Do not read the peer until the host lets it go on."""
        if not self.is_held:
            self.is_held = True
            self.transport.pause_reading()
            self.host.add_held(self)

    def go_on(self) -> None:
        """Handle what waits, as far as the connection's share of this turn goes; if all is handled, read on."""
        host = self.host
        self.is_heard = True
        host.begin_share()
        while self.phase < CLOSED:
            if self._work is not None:
                work, self._work = self._work, None
                try:
                    self._work_on(work)
                except Exception as error:
                    self._failed(error)
                if self._work is not None:
                    return
                continue
            if self._left is not None:
                (buffer, frames, position), self._left = self._left, None
            elif self._unread:
                buffer, frames = self.framer.feed(self._unread.popleft())
                position = 0
            else:
                break
            if self._take(buffer, frames, position):
                return
            if host.is_late() and self._unread:
                return
        if self.phase < CLOSED and not host.has_room_for(self):
            return
        self._left, self._unread, self._work, self.is_held = None, None, None, False
        host.remove_held(self)
        self.transport.resume_reading()
        if self._cause is not None:
            self.end(self._cause)

    def _receive_first(self, data: bytes) -> bytes:
        """Handle a packet of a connection that is not open yet. Return what comes behind it: its limits are others."""
        rest = b""
        try:
            # This is not MQTT: do not wait for the rest.
            if not self.framer.pending and (self.phase, data[0] >> 4) not in self.EXPECTED:
                raise protocol_error(f"first packet has type {data[0] >> 4}")  # [MQTT-3.1.0-1]
            buffer, frames = self.framer.feed(data)
            if frames:
                first, start, end = frames[0]
                rest = buffer[end:]
                self.framer = Framer(MAX_CONNECT_BYTES)
                self.host.node.stats.packets_received += 1
                self._open(first, buffer[start:end])
            elif self.framer.error is not None:
                raise self.framer.error
        except WireError as error:
            self.fail(error)
        except Exception as error:
            self.host.log_error(error, self.name)
            self.close()
        self.host.node.stats.bytes_received += len(data) - len(rest)
        self.host.wake()
        return rest

    def _take(self, buffer: bytes, frames: list[Frame], position: int) -> bool:
        """Handle packets of an open connection, as far as its share goes; return whether some are left for later.

        `position`: where the first of the frames begins in the buffer.
        """
        host, at, count = self.host, 0, len(frames)
        while at < count:
            batch = frames[at : at + MAX_BATCH] if count > MAX_BATCH else frames
            if host.is_full:
                batch = _before_publication(batch)
            handled = self._take_batch(buffer, batch, position) if batch else 0
            at += handled
            if self.phase != OPEN:
                return False
            if at < count:
                if handled:
                    position = frames[at - 1][2]
                if host.is_full or host.is_late() or self._work is not None:
                    self._left = (buffer, frames[at:], position)
                    return True
            elif self._work is not None:
                return True
        if self.framer.error is not None:
            self.fail(self.framer.error)
        return False

    def _take_batch(self, buffer: bytes, frames: list[Frame], position: int) -> int:
        """Handle packets until the share of the turn is used up; return how many."""
        host = self.host
        node = host.node
        session = self.session
        version = self.version
        known: dict[bytes, Plan] | None = None
        """The plans of the session; None: another packet has come since they were looked up, and may have changed them,
        as by the state of a monitor.
        """
        link = session.trust.tokens if session is not None and session.neighbour is not None else None
        history = link.history if link is not None else None
        recorder = node.recorder
        if recorder is not None:
            notes = recorder.notes
        relayed = handled = 0
        failure: Exception | None = None
        begin, unrecorded = position, 0
        """The start of what the recorder has not been told of, in the buffer and among the frames."""
        try:
            for first, start, end in frames:
                # The hot path: a QoS 0 PUBLISH on a topic for which only links and topics decide.
                if first == 0x30 and end - start > 2:
                    after = start + 2 + (buffer[start] << 8) + buffer[start + 1]
                    if after <= end if version == 4 else after < end and not buffer[after]:
                        if known is None:
                            known = _NO_PLANS if session is None else link_plans.plans_of(node, session).known
                        plan = known.get(buffer[start + 2 : after])
                        if plan is None or not plan.valid:
                            topic = buffer[start + 2 : after]
                            plan = None if session is None else entrances.plan_at_once(node, session, topic)
                        if plan is None:
                            pass
                        elif plan.simple:
                            outbox.relay(node, plan, buffer[position:end], version, after - position)
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
                            now = host.now()
                            if recorder is not None:
                                recorder.relayed(session, now, buffer, begin, frames, unrecorded)
                            entrances.relay_edited(node, session, packet, start + 2 - position, after - position, now)
                            known = None
                            relayed += 1
                            position = begin = end
                            unrecorded = relayed + handled
                            if host.is_late():
                                break
                            continue
                if relayed and recorder is not None and session is not None:
                    recorder.relayed(session, host.now(), buffer, begin, frames, unrecorded)
                is_kept = recorder is not None and first >> 4 == PUBLISH
                self._handle(first, buffer[start:end], buffer[position:end] if is_kept else b"")
                handled += 1
                position = begin = end
                unrecorded = relayed + handled
                if self.phase != OPEN or host.is_late() or self._work is not None:
                    break
                session, version, known = self.session, self.version, None
        except Exception as error:  # it is dealt with below, after what came before it has been counted and recorded
            failure = error
        if relayed and recorder is not None and session is not None:
            recorder.relayed(session, host.now(), buffer, begin, frames, unrecorded)
        node.stats.received += relayed
        node.stats.packets_received += relayed + handled
        if session is not None:
            session.took += relayed + handled
            if host.sampler is not None:
                host.sampler(session, buffer, frames[: relayed + handled])
        host.count_packets(self, relayed + handled)
        if failure is not None:
            self._failed(failure)
        return relayed + handled

    def _failed(self, error: Exception) -> None:
        """Close after a packet that could not be handled."""
        if isinstance(error, WireError):
            self.fail(error)
            return
        self.host.log_error(error, self.name)
        self.disconnect(Reason.UNSPECIFIED_ERROR, "the node could not handle a packet")

    def _work_on(self, work: Iterator[None]) -> None:
        """Go on with what a packet asks for, until it is done or the share of the turn is used up."""
        for _ in work:
            if self.host.is_late():
                self._work = work
                return
        self.host.wake()

    def _open(self, first: int, body: bytes) -> None:
        """Handle a packet that comes before the connection is open."""
        raise NotImplementedError

    def _handle(self, first: int, body: bytes, raw: bytes) -> None:
        """Handle a packet of an open connection; `raw` is the whole of it if it is to be recorded."""
        kind = first >> 4
        if (OPEN, kind) not in self.EXPECTED:
            raise protocol_error(f"packet type {kind} is not allowed here")
        assert self.session is not None
        if kind == DISCONNECT and self.session.buffer:
            self.send(self.session.buffer)  # answers to what came in one piece with it
        # What a foreign broker passes on is refused by itself, as its link serves many (`ingress.policy_refused`).
        most = MAX_USER_PROPERTIES if self.session.neighbour is None else MAX_VARINT
        packet = decode(first, body, self.version, most)
        work = receive.handle(self.host.node, self.session, packet, self.host.now(), raw)
        if work is not None:
            self._work_on(work)
        if kind == DISCONNECT:
            self.close()

    def _opened(self, version: int, max_silence: int) -> None:
        self.phase = OPEN
        self.version = version
        neighbour = None if self.session is None else self.session.neighbour
        self.framer = Framer(max_packet_size(self.host.node.limits.max_packet_size, neighbour))
        self.framer.minimal = version == 5
        self.max_silence = max_silence
        self.silence = 0

    # --- output

    def pause(self) -> None:
        """Stop sending: the transport takes no more bytes for now."""
        if self.session is not None and self.session.outlet is self:
            self.session.block()

    def resume(self) -> None:
        """Resume sending: the transport takes bytes again."""
        if self.session is not None and self.session.outlet is self:
            session_flow.unblock(self.host.node, self.session, self.host.now())
            self.host.wake()

    def send(self, packets: list[bytes]) -> None:
        """Write the packets and empty the list; see `Outlet`."""
        session = self.session
        if session is None or session.connection.blocked or self.phase == CLOSED:
            return
        max_size = session.connection.maximum_packet_size
        if max_size and max(map(len, packets)) > max_size:  # [MQTT-3.1.2-24] an answer that it cannot take
            packets.clear()
            self.close()
            return
        leaves = self.phase == LEAVING and _cut(packets)
        stats, count = self.host.node.stats, len(packets)
        stats.packets_sent += count
        session.gave += count
        data = packets[0] if count == 1 else b"".join(packets)
        packets.clear()
        stats.bytes_sent += len(data)
        self.transport.write(data)
        if leaves:
            self._linger()

    # --- the end

    def disconnect(self, reason: Reason, text: str = "") -> None:
        """Send what is pending, say why, and close."""
        if self.phase >= CLOSED:
            return
        self.reason = reason
        self.host.log_event("closing", client=self.name, reason=reason.name, cause=text)
        if self.transport.is_closing():  # by who gave dialling up, say: nothing more can be written
            self._part()
            return
        session = self.session
        words = b""
        if self.version == 5:
            asked, max_size = False, 0
            if session is not None:
                asked, max_size = session.connection.problem_info, session.connection.maximum_packet_size
            words = encode_told(Disconnect(reason), text, 5, asked, max_size)  # [MQTT-3.14.2-2]
        attached = session is not None and session.outlet is self and reason is not Reason.SESSION_TAKEN_OVER
        if session is not None and attached and session.connection.held:
            # Acknowledgements that wait for the store go first, so that a client which breaks a rule each time it
            # connects still makes progress.
            self.phase = LEAVING
            self.silence = 0
            outbox.push(self.host.node, session, words)
            return
        if session is not None and session.outlet is self and session.buffer:
            self.send(session.buffer)
        if words:
            self.transport.write(words)
        self._linger()

    def fail(self, error: WireError) -> None:
        """Tell the peer which rule it broke, and close."""
        # [MQTT-3.14.0-1] [MQTT-4.13.2-1] [MQTT311-4.8.0-1]
        if self.phase == OPEN:
            self.disconnect(error.reason, str(error))
        elif self.phase < OPEN:
            self.reason = error.reason
            self.host.log_event("refused", client=self.name, reason=error.reason.name, cause=str(error))
            self.close()

    def close(self) -> None:
        """Close as soon as written bytes are out."""
        self._part()
        self.transport.close()

    def _linger(self) -> None:
        """Close our side, and read on without listening until the peer closes too.

        Closing with unread input would reset the connection, and the peer might never see our last packet. `tick` cuts
        off a peer that takes too long.
        """
        # [MQTT-3.14.4-1] [MQTT-3.14.4-2]
        self._part()
        try:
            if self.transport.can_write_eof():
                self.transport.write_eof()
                return
        except OSError:  # the peer has gone, and nobody has told us yet
            pass
        self.transport.close()

    def end(self, cause: str = "closed") -> None:
        """Handle the loss of the transport; what came before it is handled first."""
        if self.phase == OPEN and (self._left is not None or self._unread or self._work is not None):
            self.transport, self._cause = DISCARD, cause
            return
        self.host.remove_connection(self)
        self._part()
        if self.session is not None:
            self.host.wake()
        self.host.log_event("disconnected", client=self.name, cause=cause)

    def _part(self) -> None:
        """Part from the session at once: what comes for it now must not wait for a peer that may not read."""
        if self.phase < CLOSED:
            self.silence = 0
        self.phase = CLOSED
        self.reason = self.reason or Reason.SUCCESS
        if self.session is not None:
            lifecycle.lost(self.host.node, self.session, self, self.host.now())


def _before_publication(frames: list[Frame]) -> list[Frame]:
    """Return the packets before the first publication."""
    return frames[: next((place for place, frame in enumerate(frames) if frame[0] >> 4 == PUBLISH), len(frames))]


def _cut(packets: list[bytes]) -> bool:
    """Leave out what comes after a DISCONNECT, or the empty packet that stands for it in 3.1.1; whether it is there."""
    for place, packet in enumerate(packets):
        if not packet or packet[0] == DISCONNECT << 4:
            del packets[place + 1 :]
            return True
    return False
