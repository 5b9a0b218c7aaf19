"""A node joined to clients without a socket: packets in, packets out, and time goes on only when it is told to.

    joined = Joined()
    ann = joined.connect("ann")
    ann.subscribe("a/+", qos=1)
    joined.connect("bob").publish("a/b", b"hi", qos=1)
    ann.take()  # the packets that ann has got since the last time

Whatever a client does is handled as a turn of the server does it: input, commit, output. With `commits=False` a durable
node's commits wait for `commit`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.domain import Limits
from penstock.engine import emit, lifecycle, publish, subscribe
from penstock.engine.admit import Door
from penstock.engine.changes import Changes
from penstock.engine.node import Node
from penstock.engine.session import Session
from penstock.policy.acl import Acl
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import Reason
from penstock.wire.session import CLOSED, CONNECTION, NEW, OPEN
from penstock.wire.stream import Decoder

START = 1_000_000.0
_ACKNOWLEDGEMENTS: dict[type, int] = {Puback: PUBACK, Pubrec: PUBREC, Pubcomp: PUBCOMP}


class Client:
    """A client's end of one connection, and the outlet of its session."""

    def __init__(self, joined: "Joined", version: int) -> None:
        self.joined = joined
        self.version = version
        self.session: Session | None = None
        self.inbox: list[Packet] = []
        self.unanswered: list[Packet] = []
        """Taken from the inbox and not acknowledged."""
        self.raw: list[bytes] = []
        """Every packet received, as it came."""
        self.refused: lifecycle.Refusal | None = None
        self.closed: Reason | None = None
        """Why the node closed the connection; the client's own end of it is SUCCESS."""
        self.stuck = False
        """Takes no more bytes, like a client that does not read."""
        self.phase = NEW
        self._decoder = Decoder(version=version)
        self._server = Decoder(version=0)
        self.last_id = 0

    # --- the outlet

    def send(self, packets: list[bytes]) -> None:
        if self.stuck:
            return
        self.raw.extend(packets)
        for packet in packets:
            self.inbox.extend(self._decoder.feed(packet))
        assert self._decoder.error is None, self._decoder.error
        packets.clear()

    def disconnect(self, reason: Reason, text: str = "") -> None:
        if self.phase == CLOSED:
            return
        if self.session is not None and self.session.outlet is self:
            self.send(self.session.buffer)
        self._close(reason)

    def _close(self, reason: Reason) -> None:
        self.phase = CLOSED
        self.closed = reason
        if self.session is not None:
            lifecycle.lost(self.joined.node, self.session, self, self.joined.now)

    # --- what a client does

    def sends(self, *packets: Packet) -> "Client":
        """Send packets in one chunk."""
        return self.sends_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def sends_bytes(self, data: bytes) -> "Client":
        """Send a chunk of bytes, as the node's connections receive them."""
        packets = self._server.feed(data)
        try:
            for packet in packets:
                if self.phase != CLOSED:
                    self.joined.handle(self, packet)
            if self._server.error is not None:
                raise self._server.error
        except WireError as error:
            self.disconnect(error.reason, str(error))
        self.joined.turn()
        return self

    def lose(self) -> None:
        """The connection breaks."""
        self._close(Reason.SUCCESS)
        self.joined.turn()

    def leave(self, reason: int = 0, session_expiry: int | None = None) -> None:
        """Say goodbye and close."""
        self.sends(Disconnect(reason, Properties(session_expiry=session_expiry)))

    def subscribe(self, filter: str, qos: int = 0, identifier: int = 0, **options: Any) -> "Client":
        """Subscribe; the SUBACK stays in the inbox."""
        properties = Properties(subscription_ids=(identifier,)) if identifier else NO_PROPERTIES
        return self.sends(Subscribe(self.next_id(), (Subscription(filter, qos, **options),), properties))

    def unsubscribe(self, *filters: str) -> "Client":
        return self.sends(Unsubscribe(self.next_id(), filters))

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, **fields: Any) -> "Client":
        """Publish; what the node answers stays in the inbox."""
        return self.sends(Publish(topic, payload, qos, packet_id=self.next_id() if qos else 0, **fields))

    def next_id(self) -> int:
        self.last_id = self.last_id % 65535 + 1
        return self.last_id

    def take(self) -> list[Packet]:
        """The packets received since the last time."""
        taken, self.inbox = self.inbox, []
        self.unanswered.extend(taken)
        return taken

    def messages(self) -> list[Publish]:
        """As `take`, the PUBLISH packets only."""
        return [packet for packet in self.take() if isinstance(packet, Publish)]

    def payloads(self) -> list[str]:
        return [message.payload.decode() for message in self.messages()]

    def acknowledge(self) -> list[Publish]:
        """Acknowledge all that ever came, step by step, until nothing more comes; the messages not taken before."""
        seen: list[Publish] = []
        while self.inbox or self.unanswered:
            seen += self.messages()
            packets, self.unanswered = self.unanswered, []
            self.sends(*(answer for packet in packets for answer in _answers(packet)))
        return seen

    def goes_deaf(self) -> None:
        """Read no more: the connection takes no more bytes."""
        self.stuck = True
        assert self.session is not None
        self.joined.node.block(self.session)

    def reads_on(self) -> None:
        self.stuck = False
        assert self.session is not None
        self.joined.node.unblock(self.session, self.joined.now)
        self.joined.turn()


def _answers(packet: Packet) -> Iterator[Packet]:
    if isinstance(packet, Publish):
        if packet.qos:
            yield Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id)
    elif isinstance(packet, Pubrel):
        yield Pubcomp(packet.packet_id)


class Joined:
    """The node, its clock, and the turns that a server would take."""

    def __init__(
        self,
        limits: Limits | None = None,
        acl: Acl | None = None,
        durable: bool = False,
        commits: bool = True,
        write: Callable[[Changes], None] | None = None,
    ) -> None:
        self.now = START
        self.commits = commits
        self.write = write
        self.made = 0
        self.clients: list[Client] = []
        self.node = Node("test", limits or Limits(), self._make_id, durable, None, acl)

    def _make_id(self) -> str:
        self.made += 1
        return f"made-{self.made}"

    def connect(self, client_id: str = "", version: int = 5, user: str | None = None, **fields: Any) -> Client:
        """Connect a client; it has its CONNACK in the inbox, or has been refused."""
        client = Client(self, version)
        properties = {name: fields.pop(name) for name in list(fields) if name in Properties.__struct_fields__}
        if properties:
            fields["properties"] = Properties(**properties)
        return client.sends(Connect(client_id, version, username=user, **fields))

    def handle(self, client: Client, packet: Packet) -> None:
        """One packet, as a connection of the broker hands it to the engine."""
        kind = encode(packet, client.version)[0] >> 4
        if (client.phase, kind) not in CONNECTION:
            raise WireError(Reason.PROTOCOL_ERROR, f"packet type {kind} is not allowed here")
        node, now = self.node, self.now
        if isinstance(packet, Connect):
            self._open(client, packet)
            return
        session = client.session
        assert session is not None
        match packet:
            case Publish():
                self._publish(client, session, packet)
            case Puback() | Pubrec() | Pubcomp():
                kind = _ACKNOWLEDGEMENTS[type(packet)]
                emit.acknowledge(node, session, kind, packet.packet_id, packet.reason, now)
                subscribe.advance(node, session, now)
            case Pubrel():
                publish.release(node, session, packet.packet_id)
            case Subscribe():
                subscribe.subscribe(node, session, packet, now)
            case Unsubscribe():
                subscribe.unsubscribe(node, session, packet)
            case Pingreq():
                emit.push(node, session, encode(Pingresp(), 4))
            case Disconnect():
                lifecycle.disconnect(node, session, packet, now)
                client._close(Reason.SUCCESS)
            case Auth():
                raise WireError(Reason.PROTOCOL_ERROR, "AUTH without an authentication method")

    def _open(self, client: Client, packet: Connect) -> None:
        opened = lifecycle.connect(self.node, packet, Door("here", "test/0", True), client, self.now)
        if isinstance(opened, lifecycle.Refusal):
            client.refused = opened
            client._close(opened.reason)
        else:
            client.session, client.phase = opened.session, OPEN
            self.clients.append(client)

    def _publish(self, client: Client, session: Session, packet: Publish) -> None:
        """By the short way where a connection takes it: a plain QoS 0 message on a topic with a simple plan."""
        node = self.node
        plan = node.plans_of(session).known.get(packet.topic.encode())
        plain = not packet.qos and not packet.retain and packet.properties == NO_PROPERTIES
        if plain and plan is not None and plan.valid and plan.simple:
            data = encode(packet, client.version)
            node.relay(plan, data, client.version, len(data) - len(packet.payload) - (client.version == 5))
        else:
            publish.receive(node, session, packet, self.now)

    def turn(self) -> None:
        """What the server does between two rounds of input, until nothing is left to do."""
        self.node.turn(self.now)
        if self.commits:
            self.commit()
        self.flush()

    def commit(self) -> Changes:
        """Write what has changed, then let go the packets that waited for it."""
        changes, deferred = self.node.ledger.take()
        if self.write is not None:
            self.write(changes)
        emit.release(self.node, deferred)
        return changes

    def flush(self) -> None:
        dirty, self.node.dirty = self.node.dirty, []
        for session in dirty:
            if session.outlet is not None and session.buffer:
                session.outlet.send(session.buffer)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        lifecycle.tick(self.node, self.now)
        self.turn()

    def govern(self, acl: Acl | None) -> None:
        """Change the access rights, as a reload does."""
        self.node.govern(self.node.limits, None, acl)
        self.clients = [client for client in self.clients if client.phase != CLOSED]
        self.turn()

    def session_present(self, client: Client) -> bool:
        """What the CONNACK said, which is taken out of the inbox."""
        connack = client.inbox.pop(0)
        assert isinstance(connack, Connack), connack
        return connack.session_present
