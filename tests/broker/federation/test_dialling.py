"""The times at which a node dials a neighbour again."""

import pytest

from penstock.broker.net.peer import MAX_WAIT_SECONDS, MIN_WAIT_SECONDS, STEADY_SECONDS, Dialler, Waits
from penstock.domain import Address, LimitSettings
from penstock.engine.connections.host import Host, Transport
from penstock.engine.connections.outbound import Outbound
from penstock.engine.federation.dialling import KEEPALIVE, Greeting
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.subject import Subject
from penstock.wire.codec import encode
from penstock.wire.packet import Connack, Pingreq
from penstock.wire.session import OPEN

GREETING = Greeting.of_node("here", b"secret", 1000)
CASES = [
    ("never up: ever longer", [0.0] * 4, [1, 2, 4, 8]),
    ("up and broken at once, again and again: ever longer", [0.5] * 4, [1, 2, 4, 8]),
    ("up for a good while: as at first", [0.0, 0.0, STEADY_SECONDS, 0.0], [1, 2, 1, 2]),
]


@pytest.mark.parametrize(("lasted", "waits"), [case[1:] for case in CASES], ids=[title for title, *_ in CASES])
def test_the_wait_grows_until_the_link_stays_up(lasted: list[float], waits: list[int]) -> None:
    after = Waits()
    assert [after.after(seconds) for seconds in lasted] == [wait * MIN_WAIT_SECONDS for wait in waits]


def test_the_wait_has_a_bound() -> None:
    waits = Waits()
    assert max(waits.after(0.0) for _ in range(20)) == MAX_WAIT_SECONDS


class Shut(Transport):
    """A transport that was closed when dialling was given up, as uvloop's are."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        raise RuntimeError("the handler is closed")


class Written(Transport):
    """A transport that remembers what was written."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.packets.append(data)


def dialled() -> tuple[Outbound, Written]:
    """A link that has just come up, and what was written to it since."""
    node = Node("here", LimitSettings(), lambda: "")
    neighbour = Session(1, Subject("$node/there", None, "", ""), 5)
    connection, transport = Outbound(Host(node, lambda: 0.0), neighbour, GREETING), Written()
    connection.begin(transport)
    connection.receive(encode(Connack(), 5))
    assert neighbour.outlet is connection
    transport.packets.clear()
    return connection, transport


async def test_a_link_that_has_just_come_up_can_be_given_up() -> None:
    connection, _ = dialled()
    connection.transport = Shut()
    await Dialler(connection.host, connection.neighbour, GREETING, lambda: Address("127.0.0.1", 1), None).stop()
    assert connection.neighbour.outlet is None


def test_a_link_over_which_events_only_come_says_that_it_is_there() -> None:
    """The neighbour hears nothing else from us, and would end it."""
    connection, transport = dialled()
    for _ in range(2 * KEEPALIVE):
        connection.is_heard = True  # something has come
        connection.tick()
        assert connection.phase == OPEN
    assert transport.packets.count(encode(Pingreq(), 5)) >= 4
