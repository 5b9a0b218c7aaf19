"""The silence after which the node ends a connection."""

import pytest

from penstock.domain import LimitSettings
from penstock.engine.connections.connection import CLOSE_SECONDS, NodeConnection
from penstock.wire.packet import Connect
from penstock.wire.reason import Reason
from penstock.wire.session import CLOSED, OPEN
from tests.support.memory.node import Client, MemoryNode


def opened(keepalive: int) -> NodeConnection:
    return MemoryNode().connect("ann", keepalive=keepalive).node_end


@pytest.mark.parametrize("keepalive", [1, 2, 60])
def test_a_silent_client_is_given_up_one_tick_late_at_most(keepalive: int) -> None:
    connection = opened(keepalive)
    ticks = []
    for _ in range(connection.max_silence + 1):  # the first may come just after the last packet
        connection.tick()
        ticks.append(connection.phase)
    assert ticks == [OPEN] * connection.max_silence + [CLOSED]
    assert connection.reason is Reason.KEEP_ALIVE_TIMEOUT


def test_a_client_that_speaks_is_not_given_up() -> None:
    connection = opened(1)
    for _ in range(10):
        connection.tick()
        connection.tick()
        assert connection.phase == OPEN
        connection.is_heard = True


class Cuttable(Client):
    """Notes that the node has cut it off."""

    is_cut = False

    def abort(self) -> None:
        self.is_cut = True


def test_a_client_that_does_not_say_who_it_is_is_sent_away() -> None:
    client = Client(MemoryNode(LimitSettings(connect_timeout=2)), 5)
    for _ in range(2):
        client.node_end.tick()
        assert client.node_end.phase != CLOSED
    client.node_end.tick()
    assert client.node_end.phase == CLOSED


def test_a_client_that_does_not_close_is_cut_off() -> None:
    client = Cuttable(MemoryNode(), 5)
    client.sends(Connect("ann", 5)).node_end.disconnect(Reason.SERVER_SHUTTING_DOWN)
    for _ in range(CLOSE_SECONDS):
        client.node_end.tick()
        assert not client.is_cut
    client.node_end.tick()
    assert client.is_cut
