"""A node joined to clients without a socket: packets in, packets out, and time goes on only when it is told to.

    joined = MemoryNode()
    ann = joined.connect("ann")
    ann.subscribe("a/+", qos=1)
    joined.connect("bob").publish("a/b", b"hi", qos=1)
    ann.take()  # the packets that ann has got since the last time

Whatever a client does is handled as a turn of the server does it: input, commit, output. With `commits=False` a durable
node's commits wait for `commit`.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from penstock.domain import Ensemble, LimitSettings
from penstock.engine import governing
from penstock.engine.connections.host import Host, Transport
from penstock.engine.connections.inbound import Inbound
from penstock.engine.ledger import Changes
from penstock.engine.node import Node
from penstock.engine.sessions import lifecycle, outbox, session_flow
from penstock.engine.sessions.lifecycle import Refusal
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import Door
from penstock.policy.access.acl import Acl
from penstock.wire.codec import encode
from penstock.wire.framing import Framer
from penstock.wire.packet import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from penstock.wire.stream import StreamDecoder

START = 1_000_000.0
DOOR = Door("here", "test/0", True)


class Client(Transport):
    """A client's end of one connection, and what carries the node's bytes to it."""

    def __init__(self, joined: "MemoryNode", version: int) -> None:
        self.joined = joined
        self.version = version
        self.inbox: list[Packet] = []
        self.unanswered: list[Packet] = []
        """Taken from the inbox and not acknowledged."""
        self.raw: list[bytes] = []
        """Every packet received, as it came."""
        self.stuck = False
        """Takes no more bytes, like a client that does not read."""
        self.node_end = Inbound(Host(joined.node, lambda: joined.now), joined.door)
        self.node_end.begin(self)
        self._framer = Framer()
        self._decoder = StreamDecoder(version=version)
        self.last_id = 0

    @property
    def session(self) -> Session | None:
        return self.node_end.session

    @property
    def refused(self) -> Refusal | None:
        return self.node_end.refusal

    @property
    def closed(self) -> Reason | None:
        """Why the node closed the connection; the client's own end of it is SUCCESS."""
        return self.node_end.reason

    def write(self, data: bytes) -> None:
        if self.stuck:
            return
        buffer, frames = self._framer.feed(data)
        ends = [0, *(end for _, _, end in frames)]
        self.raw.extend(buffer[begin:end] for begin, end in pairwise(ends))
        received = self._decoder.feed(data)
        assert self._decoder.error is None, self._decoder.error
        self.inbox.extend(packet for packet in received if not _is_goodbye(packet))

    # --- what a client does

    def sends(self, *packets: Packet) -> "Client":
        """Send packets in one chunk."""
        return self.sends_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def sends_bytes(self, data: bytes) -> "Client":
        """Send a chunk of bytes, as the node's connections receive them."""
        self.node_end.receive(data)
        self.joined.turn()
        return self

    def lose(self) -> None:
        """The connection breaks."""
        self.node_end.end()
        self.joined.turn()

    def leave(self, reason: int = 0, session_expiry: int | None = None) -> None:
        """Say goodbye and close."""
        self.sends(Disconnect(reason, Properties(session_expiry=session_expiry)))

    def subscribe(
        self,
        filter: str,
        qos: int = 0,
        identifier: int = 0,
        user_properties: tuple[tuple[str, str], ...] = (),
        **options: Any,
    ) -> "Client":
        """Subscribe; the SUBACK stays in the inbox."""
        ids = (identifier,) if identifier else ()
        properties = Properties(subscription_ids=ids, user_properties=user_properties)
        return self.sends(Subscribe(self.next_id(), (SubscriptionRequest(filter, qos, **options),), properties))

    def unsubscribe(self, *filters: str, user_properties: tuple[tuple[str, str], ...] = ()) -> "Client":
        return self.sends(Unsubscribe(self.next_id(), filters, Properties(user_properties=user_properties)))

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
        self.node_end.pause()

    def reads_on(self) -> None:
        self.stuck = False
        self.node_end.resume()
        self.joined.turn()


def _is_goodbye(packet: Packet) -> bool:
    """What `refused` and `closed` say already."""
    return isinstance(packet, Disconnect) or (isinstance(packet, Connack) and packet.reason != 0)


def _answers(packet: Packet) -> Iterator[Packet]:
    if isinstance(packet, Publish):
        if packet.qos:
            yield Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id)
    elif isinstance(packet, Pubrel):
        yield Pubcomp(packet.packet_id)


class MemoryNode:
    """The node, its clock, and the turns that a server would take."""

    def __init__(
        self,
        limits: LimitSettings | None = None,
        acl: Acl | None = None,
        durable: bool = False,
        commits: bool = True,
        whole: Ensemble | None = None,
    ) -> None:
        self.now = START
        self.commits = commits
        self.made = 0
        self.door = DOOR
        """Where clients come in from now on."""
        self.node = Node("test", limits or LimitSettings(), self._make_id, durable, None, acl, whole)

    def _make_id(self) -> str:
        self.made += 1
        return f"made-{self.made}"

    def connect(self, client_id: str = "", version: int = 5, user: str | None = None, **fields: Any) -> Client:
        """Connect a client; it has its CONNACK in the inbox, or has been refused."""
        client = Client(self, version)
        properties = {name: fields.pop(name) for name in list(fields) if name in Properties.__struct_fields__}
        if version == 5 and "properties" not in fields:
            properties.setdefault("request_problem_info", False)  # answers are told apart by their codes, not by words
        if properties:
            fields["properties"] = Properties(**properties)
        return client.sends(Connect(client_id, version, username=user, **fields))

    def turn(self) -> None:
        """What the server does between two rounds of input, until nothing is left to do."""
        session_flow.take_turn(self.node, self.now)
        if self.commits:
            self.commit()
        outbox.flush(self.node)

    def commit(self) -> Changes:
        """Write what has changed, then let go the packets that waited for it."""
        changes, deferred = self.node.ledger.take()
        outbox.release_deferred(self.node, deferred)
        return changes

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        lifecycle.tick(self.node, self.now)
        self.turn()

    def govern(self, acl: Acl | None, whole: Ensemble | None = None) -> None:
        """Change the access rights, or the domain, as a reload does."""
        governing.govern(self.node, self.node.limits, None, acl, whole)
        self.turn()

    def session_present(self, client: Client) -> bool:
        """What the CONNACK said, which is taken out of the inbox."""
        connack = client.inbox.pop(0)
        assert isinstance(connack, Connack), connack
        return connack.session_present
