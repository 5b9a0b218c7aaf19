"""A node's end of a connection without a socket, and the turns that a node takes without an event loop.

Whoever holds the other end (another node's endpoint, a rehearsed client, a test) gives bytes to `take` and gets bytes
by `out`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.engine.events import entrances
from penstock.engine.federation.dialling import Greeting
from penstock.engine.ledger import Changes
from penstock.engine.node import Node
from penstock.engine.sessions import lifecycle, outbox, receive
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import Door
from penstock.engine.trust import group_proofs
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import Auth, Connack, Connect, Disconnect, Packet, Pingresp, Publish, Suback
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import Reason
from penstock.wire.session import CLOSED, NEW, OPEN, PROVING
from penstock.wire.stream import Decoder


class Storage(Protocol):
    """What a node that is to survive a restart writes to."""

    def write(self, changes: Changes) -> None:
        """Put one batch into an open transaction."""

    def commit(self) -> None:
        """End the transaction."""

    def load(self, node: Node, now: float) -> None:
        """Fill a new node with what was stored."""


class Dialled(NamedTuple):
    """A neighbour that the node dials, and how it introduces itself."""

    neighbour: Session
    greeting: Greeting


class Endpoint:
    """The node's side of one connection; the session's outlet once it is open.

    It accepts a client, or another node that dials. With `dialled` it is the other way round: `dial` sends the node's
    CONNECT, and the neighbour's CONNACK opens the connection.
    """

    def __init__(
        self,
        node: Node,
        door: Door,
        clock: Callable[[], float],
        out: Callable[[list[bytes]], None],
        dialled: Dialled | None = None,
    ) -> None:
        self.node = node
        self.door = door
        self.phase = NEW
        self.session: Session | None = None
        self.refusal: lifecycle.Refusal | None = None
        self._challenged: group_proofs.Challenged | None = None
        self._claiming: group_proofs.Claiming | None = None
        self.reason: Reason | None = None
        """Why the connection was closed by this side; SUCCESS if it was not."""
        self._clock = clock
        self._out = out
        self._dialled = dialled
        version = dialled.greeting.version if dialled is not None else 0
        self._decoder = Decoder(node.limits.max_packet_size, version)

    def dial(self) -> None:
        """Say who we are."""
        assert self._dialled is not None
        greeting = self._dialled.greeting
        claimant = group_proofs.make_claimant(self.node, self._dialled.neighbour)
        self._claiming = group_proofs.Claiming(claimant) if claimant is not None else None
        claim = claimant.claim if claimant is not None else None
        self._out([encode(greeting.packet(claim), greeting.version)])

    def take(self, data: bytes) -> None:
        """Bytes from the other side."""
        packets = self._decoder.feed(data)
        try:
            for packet in packets:
                if self.phase != CLOSED:
                    self._handle(packet)
            if self._decoder.error is not None:
                raise self._decoder.error
        except WireError as error:
            self.disconnect(error.reason, str(error))

    def send(self, packets: list[bytes]) -> None:
        """Hand the packets over and empty the list; see `Outlet`."""
        self._out(packets)

    def disconnect(self, reason: Reason, text: str = "") -> None:
        """Send what is pending, say why, and close."""
        if self.phase == CLOSED:
            return
        session = self.session
        if session is not None and session.outlet is self:
            self._out(session.buffer)
            if session.version == 5:
                told = Properties(reason_string=text) if text and session.problem_info else NO_PROPERTIES
                self._out([encode(Disconnect(reason, told), 5)])
        self.close(reason)

    def close(self, reason: Reason = Reason.SUCCESS) -> None:
        """The connection is gone."""
        self.phase = CLOSED
        self.reason = reason
        if self.session is not None:
            lifecycle.lost(self.node, self.session, self, self._clock())

    def _handle(self, packet: Packet) -> None:
        if self._dialled is not None and self._is_for_a_client(packet, self._dialled):
            return
        receive.expect(self.phase, receive.KINDS.get(type(packet), 0))
        if isinstance(packet, Connect):
            self._connect(packet)
            return
        if self._challenged is not None:
            self._prove(self._challenged, packet)
            return
        session = self.session
        assert session is not None
        if isinstance(packet, Publish) and self._relayed(session, packet):
            return
        receive.handle(self.node, session, packet, self._clock())
        if isinstance(packet, Disconnect):
            self.close()

    def _relayed(self, session: Session, packet: Publish) -> bool:
        """Take the short way where a live connection takes it: a plain QoS 0 message on a topic with a simple plan."""
        if packet.qos or packet.retain or packet.properties != NO_PROPERTIES:
            return False
        topic = packet.topic.encode()
        plan = self.node.plans_of(session).known.get(topic)
        if plan is None or not plan.valid:
            plan = entrances.plan_at_once(self.node, session, topic)
        if plan is None or not plan.simple:
            return False
        version = session.version
        data = encode(packet, version)
        self.node.relay(plan, data, version, len(data) - len(packet.payload) - (version == 5))
        recorder = self.node.recorder
        if recorder is not None:
            recorder.notes.append(recorder.note(plan))
            recorder.relayed(session, self._clock(), data, 0, [(data[0], 0, len(data))], 0)
        self.node.stats.received += 1
        return True

    def _connect(self, packet: Connect) -> None:
        opened = lifecycle.connect(self.node, packet, self.door, self, self._clock())
        if isinstance(opened, group_proofs.Challenged):
            self._challenged, self.phase = opened, PROVING
            self._out([opened.packet])
        else:
            self._decided(packet, opened)

    def _prove(self, challenged: group_proofs.Challenged, packet: Packet) -> None:
        self._challenged = None
        if isinstance(packet, Auth):
            opened = lifecycle.answered(self.node, challenged, packet, self.door, self, self._clock())
            self._decided(challenged.connect, opened)
        else:
            self.close()

    def _decided(self, packet: Connect, opened: lifecycle.Opened | lifecycle.Refusal) -> None:
        if isinstance(opened, lifecycle.Refusal):
            self.refusal = opened
            self._out([lifecycle.refusal_packet(packet, opened)])
            self.close(opened.reason)
        else:
            self.session, self.phase = opened.session, OPEN

    def _is_for_a_client(self, packet: Packet, dialled: Dialled) -> bool:
        """Take what only the one who dialled gets."""
        match packet:
            case Auth() if self._claiming is not None and self._claiming.claimant is not None and self.phase == NEW:
                self._out([encode(group_proofs.answer(self._claiming.claimant, packet), dialled.greeting.version)])
            case Connack() if self.phase == NEW:
                if packet.reason:
                    self.close()
                else:
                    self._welcome(packet, *dialled)
            case Disconnect():
                self.close()
            case Suback() | Pingresp():
                pass
            case _:
                return False
        return True

    def _welcome(self, packet: Connack, neighbour: Session, greeting: Greeting) -> None:
        now = self._clock()
        proof = group_proofs.concluded(self.node, self._claiming, packet, now) if self._claiming is not None else None
        neighbour.version = greeting.version
        self.session, self.phase = neighbour, OPEN
        lifecycle.joined(self.node, neighbour, packet, self, now, proof)
        wish = greeting.wish(is_new=neighbour.ended == 0)
        if wish is not None:
            self._out([encode(wish, greeting.version)])


def turn(node: Node, now: float, store: Storage | None = None) -> None:
    """What a node does between two rounds of input: go on, store what has changed, send what it has to say."""
    node.turn(now)
    commit(node, store)
    outbox.flush(node)


def commit(node: Node, store: Storage | None = None) -> Changes:
    """Store what has changed, then let go the packets that waited for it."""
    changes, deferred = node.ledger.take()
    if store is not None and changes:
        store.write(changes)
        store.commit()
    outbox.release_deferred(node, deferred)
    return changes
