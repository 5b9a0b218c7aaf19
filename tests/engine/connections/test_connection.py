"""The connection machine by itself: bytes in, bytes out, whoever carries them."""

import random

import pytest

from penstock.engine.connections.connection import MAX_CONNECT_BYTES, NodeConnection
from penstock.engine.connections.host import Host
from penstock.wire.codec import encode
from penstock.wire.packet import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from penstock.wire.reason import Reason
from penstock.wire.session import CLOSED, LEAVING, OPEN
from tests.support.memory.node import Client, MemoryNode

LARGE = 20_000


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("seed", range(20))
def test_how_bytes_are_cut_makes_no_difference(version: int, seed: int) -> None:
    draw = random.Random(seed)
    packets: list[Packet] = [
        Connect("ann", version),
        Subscribe(1, (SubscriptionRequest("a/#", 2),)),
        *(Publish(f"a/{draw.randrange(3)}", bytes(draw.choice((0, 5, LARGE)))) for _ in range(5)),
        Publish("a/b", b"once", 1, packet_id=7),
        Pingreq(),
        Publish("a/c", b"last"),
        Disconnect(),
        Publish("a/d", b"too late"),
    ]
    stream = b"".join(encode(packet, version) for packet in packets)
    whole, pieces = Client(MemoryNode(), version), Client(MemoryNode(), version)
    whole.sends_bytes(stream)
    while stream:
        size = draw.choice((1, 2, 3, 50, LARGE))
        pieces.node_end.receive(stream[:size])
        stream = stream[size:]
    pieces.joined.turn()
    assert whole.raw == pieces.raw
    assert len(whole.raw) >= 11
    assert whole.closed is pieces.closed is Reason.SUCCESS


class SharingHost(Host):
    """Gives a connection so many questions whether it is late, then nothing more in this turn."""

    def __init__(self, joined: MemoryNode, share: int) -> None:
        super().__init__(joined.node, lambda: joined.now)
        self.share = self.left = share
        self.held: list[NodeConnection] = []

    def begin_share(self) -> None:
        self.left = self.share

    def is_late(self) -> bool:
        self.left -= 1
        return self.left <= 0

    def add_held(self, connection: NodeConnection) -> None:
        self.held.append(connection)

    def remove_held(self, connection: NodeConnection) -> None:
        self.held.remove(connection)


@pytest.mark.parametrize("seed", range(40))
def test_shares_of_turns_delay_packets_and_change_nothing_else(seed: int) -> None:
    """Issue 17, item 17. However a connection is cut off in its turns, and although its transport is lost before the
    last one, its packets are handled in order, and a bystander has its turn in between."""
    draw = random.Random(seed)
    joined = MemoryNode()
    reader, writer = joined.connect("reader").subscribe("#"), joined.connect("writer")
    reader.take()
    host = writer.node_end.host = SharingHost(joined, draw.randrange(1, 5))
    packets = [
        Publish(f"a/{number % 7}", b"%d" % number, qos, packet_id=qos * (number + 1))
        for number, qos in enumerate(draw.choices((0, 1), (4, 1), k=2_000))
    ]
    stream = b"".join(encode(packet, 5) for packet in packets)
    writer.node_end.receive(stream + bytes(draw.choice((0, 200_000))))  # the end of it may be no packet at all
    assert host.held
    writer.node_end.end()
    turns = 0
    while host.held:
        host.held[0].go_on()
        joined.turn()
        turns += 1
    assert reader.payloads() == [packet.payload.decode() for packet in packets]
    assert turns > 2
    assert "writer" not in joined.node.sessions


def test_an_acknowledgement_that_waits_for_the_store_goes_out_before_the_reason() -> None:
    joined = MemoryNode(durable=True, commits=False)
    client = joined.connect("ann", session_expiry=60)
    joined.commit()
    joined.turn()
    client.take()
    client.sends(Publish("a", b"hi", 1, packet_id=1), Connack())
    assert client.node_end.phase == LEAVING
    client.sends(Publish("a", b"ignored", 1, packet_id=2))
    joined.commit()
    joined.turn()
    assert client.take() == [Puback(1, Reason.NO_MATCHING_SUBSCRIBERS)]
    assert client.raw[-1] == encode(Disconnect(Reason.PROTOCOL_ERROR), 5)
    assert client.node_end.phase == CLOSED
    assert client.closed is Reason.PROTOCOL_ERROR


def test_publications_wait_while_the_host_is_full_and_nothing_else_does() -> None:
    joined = MemoryNode()
    reader, writer = joined.connect("reader").subscribe("a"), joined.connect("writer")
    reader.take()
    writer.take()
    host = writer.node_end.host
    host.is_full = True
    writer.sends(Pingreq(), Publish("a", b"1"), Publish("a", b"2"), Pingreq())
    writer.sends(Publish("a", b"3"))
    assert writer.take() == [Pingresp()]
    assert reader.payloads() == []
    for _ in range(100):
        writer.node_end.tick()
    assert writer.node_end.phase == OPEN
    host.is_full = False
    writer.node_end.go_on()
    joined.turn()
    assert writer.take() == [Pingresp()]
    assert reader.payloads() == ["1", "2", "3"]


def test_a_stranger_gets_no_memory_for_a_long_packet() -> None:
    client = Client(MemoryNode(), 5)
    assert MAX_CONNECT_BYTES < 0x1FFFFF
    client.sends_bytes(b"\x10\xff\xff\x7f")  # a CONNECT of 0x1fffff bytes begins
    assert client.closed is Reason.PACKET_TOO_LARGE
    assert client.raw == []


def test_an_error_of_the_engine_is_not_hidden_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live node logs it and closes the connection; a rehearsal or a test must fail."""
    joined = MemoryNode()
    client = joined.connect("ann")
    monkeypatch.setattr("penstock.engine.sessions.receive.handle", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        client.sends(Pingreq())


def test_a_peer_that_has_gone_before_it_is_told_why_is_just_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    client, closed = MemoryNode().connect("ann"), list[bool]()

    def gone() -> None:
        raise OSError(107, "Transport endpoint is not connected")

    monkeypatch.setattr(client, "write_eof", gone)
    monkeypatch.setattr(client, "close", lambda: closed.append(True))
    client.node_end.disconnect(Reason.SERVER_SHUTTING_DOWN, "the node is shutting down")
    assert closed == [True]
