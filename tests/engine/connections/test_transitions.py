"""The tables of `wire.session` on a node: every pair of state and packet, and what is missing is a breach."""

from collections.abc import Callable

import pytest

from penstock.wire import kinds
from penstock.wire import packet as p
from penstock.wire.packet import Packet
from penstock.wire.reason import Reason
from penstock.wire.session import (
    CLOSED,
    CONNECTION,
    DONE,
    FREE,
    HELD,
    NEW,
    OFFERED,
    OPEN,
    PUBLISHED,
    RECEIVER,
    RELEASED,
    SENDER,
)
from tests.support.memory.node import Client, MemoryNode
from tests.support.models.invariants import check_node

CLIENT_PACKETS: dict[int, Packet] = {
    kinds.CONNECT: p.Connect("ann"),
    kinds.PUBLISH: p.Publish("a"),
    kinds.PUBACK: p.Puback(9),
    kinds.PUBREC: p.Pubrec(9),
    kinds.PUBREL: p.Pubrel(9),
    kinds.PUBCOMP: p.Pubcomp(9),
    kinds.SUBSCRIBE: p.Subscribe(9, (p.SubscriptionRequest("a"),)),
    kinds.UNSUBSCRIBE: p.Unsubscribe(9, ("a",)),
    kinds.PINGREQ: p.Pingreq(),
    kinds.DISCONNECT: p.Disconnect(),
}
SERVER_PACKETS: dict[int, Packet] = {
    kinds.CONNACK: p.Connack(),
    kinds.SUBACK: p.Suback(9, (0,)),
    kinds.UNSUBACK: p.Unsuback(9, (0,)),
    kinds.PINGRESP: p.Pingresp(),
}
ACKNOWLEDGEMENTS: dict[int, Callable[[int], Packet]] = {
    kinds.PUBACK: p.Puback,
    kinds.PUBREC: p.Pubrec,
    kinds.PUBCOMP: p.Pubcomp,
}
NAMES = {PUBLISHED: "published", OFFERED: "offered", RELEASED: "released", FREE: "free", HELD: "held"}


def named(kind: int) -> str:
    return kinds.KIND_NAMES[kind]


@pytest.mark.parametrize("kind", (CLIENT_PACKETS | SERVER_PACKETS), ids=named)
@pytest.mark.parametrize("phase", [NEW, OPEN], ids=["new", "open"])
def test_a_packet_is_taken_in_a_phase_if_the_table_has_it(phase: int, kind: int) -> None:
    joined = MemoryNode()
    client = Client(joined, 5) if phase == NEW else joined.connect("ann")
    client.sends((CLIENT_PACKETS | SERVER_PACKETS)[kind])
    following = CONNECTION.get((phase, kind))
    if following is None:
        assert client.closed is Reason.PROTOCOL_ERROR
    else:
        assert client.closed is (Reason.SUCCESS if following == CLOSED else None)
    check_node(joined.node)


def test_a_server_s_packets_are_nowhere_in_the_table() -> None:
    assert not {kind for _, kind in CONNECTION} & set(SERVER_PACKETS)


def test_nothing_is_taken_after_the_end() -> None:
    assert not [pair for pair in CONNECTION if pair[0] == CLOSED]


def reach(state: int) -> tuple[MemoryNode, Client]:
    """A client that a message with packet identifier 1 is on its way to, with its handshake in a state."""
    joined = MemoryNode()
    client = joined.connect("ann", session_expiry=60).subscribe("a", qos=2)
    joined.connect("bob").publish("a", b"hi", qos=1 if state == PUBLISHED else 2)
    if state == RELEASED:
        client.sends(p.Pubrec(1))
    client.take()
    return joined, client


@pytest.mark.parametrize("kind", ACKNOWLEDGEMENTS, ids=named)
@pytest.mark.parametrize("state", [PUBLISHED, OFFERED, RELEASED], ids=NAMES.__getitem__)
def test_an_acknowledgement_moves_a_message_as_the_table_says(state: int, kind: int) -> None:
    joined, client = reach(state)
    client.sends(ACKNOWLEDGEMENTS[kind](1))
    assert client.session is not None
    step = SENDER.get((state, kind))
    if step is None:
        assert client.closed is Reason.PROTOCOL_ERROR
        assert client.session.outbox.inflight[1].state == state
        return
    following, reply = step
    assert client.closed is None
    assert client.take() == ([p.Pubrel(1)] if reply == kinds.PUBREL else [])
    assert [one.state for one in client.session.outbox.inflight.values()] == ([] if following == DONE else [following])
    check_node(joined.node)


@pytest.mark.parametrize(
    ("state", "packet"),
    [(PUBLISHED, p.Puback(1, 0x80)), (OFFERED, p.Pubrec(1, 0x97)), (RELEASED, p.Pubcomp(1, 0x92))],
    ids=["PUBACK", "PUBREC", "PUBCOMP"],
)
def test_a_refusal_ends_a_message_in_every_state(state: int, packet: Packet) -> None:
    joined, client = reach(state)
    client.sends(packet)
    assert client.session is not None
    assert not client.session.outbox.inflight
    assert client.take() == []
    check_node(joined.node)


@pytest.mark.parametrize("kind", [kinds.PUBLISH, kinds.PUBREL], ids=named)
@pytest.mark.parametrize("state", [FREE, HELD], ids=NAMES.__getitem__)
def test_a_received_identifier_is_held_as_the_table_says(state: int, kind: int) -> None:
    joined = MemoryNode()
    reader = joined.connect("ann").subscribe("a")
    client = joined.connect("bob")
    if state == HELD:
        client.sends(p.Publish("a", b"first", qos=2, packet_id=5))
    client.take()
    reader.take()
    client.sends(p.Publish("a", b"again", qos=2, packet_id=5) if kind == kinds.PUBLISH else p.Pubrel(5))
    following, reply = RECEIVER[state, kind]
    assert client.session is not None
    assert (5 in (client.session.received or ())) is (following == HELD)
    unknown = Reason.PACKET_IDENTIFIER_NOT_FOUND if (state, kind) == (FREE, kinds.PUBREL) else 0
    assert client.take() == [p.Pubrec(5) if reply == kinds.PUBREC else p.Pubcomp(5, unknown)]
    assert reader.payloads() == (["again"] if (state, kind) == (FREE, kinds.PUBLISH) else [])


def test_the_receiver_s_table_is_whole() -> None:
    assert set(RECEIVER) == {(state, kind) for state in (FREE, HELD) for kind in (kinds.PUBLISH, kinds.PUBREL)}
