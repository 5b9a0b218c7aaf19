"""When a node dials a neighbour again."""

import asyncio

import pytest

from penstock.broker.net.peer import LONGEST_WAIT, SHORTEST_WAIT, STEADY_SECONDS, Dialled, Dialler, Waits
from penstock.broker.server import Server
from penstock.domain import Address, NodeSettings
from penstock.engine.federation.dialling import KEEPALIVE, Greeting
from penstock.engine.sessions.session import Session
from penstock.model.subject import Subject
from penstock.wire.session import OPEN

CASES = [
    ("never up: ever longer", [0.0] * 4, [1, 2, 4, 8]),
    ("up and broken at once, again and again: ever longer", [0.5] * 4, [1, 2, 4, 8]),
    ("up for a good while: as at first", [0.0, 0.0, STEADY_SECONDS, 0.0], [1, 2, 1, 2]),
]


@pytest.mark.parametrize(("lasted", "waits"), [case[1:] for case in CASES], ids=[title for title, *_ in CASES])
def test_the_wait_grows_until_the_link_stays_up(lasted: list[float], waits: list[int]) -> None:
    after = Waits()
    assert [after.after(seconds) for seconds in lasted] == [wait * SHORTEST_WAIT for wait in waits]


def test_the_wait_has_a_bound() -> None:
    waits = Waits()
    assert max(waits.after(0.0) for _ in range(20)) == LONGEST_WAIT


class Wire:
    """A transport that remembers what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


class Shut(Wire):
    """A transport that was closed when dialling was given up, as uvloop's are."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        raise RuntimeError("the handler is closed")


async def test_a_link_that_has_just_come_up_can_be_given_up() -> None:
    server = Server("here", NodeSettings(listen="127.0.0.1:0"), None)  # type: ignore[arg-type]
    neighbour, greeting = Session(1, Subject("$node/there", None, "", ""), 5), Greeting.of_node("here", b"secret", 1000)
    server._loop = asyncio.get_running_loop()  # as when it has started
    dialled = Dialled(server, neighbour, greeting)
    dialled.transport, dialled.phase, dialled.version = Shut(), OPEN, 5
    dialled.session, neighbour.outlet = neighbour, dialled
    await Dialler(server, neighbour, greeting, lambda: Address("127.0.0.1", 1), None).stop()
    assert neighbour.outlet is None


async def test_a_link_over_which_events_only_come_says_that_it_is_there() -> None:
    """The neighbour hears nothing else from us, and would end it."""
    server = Server("here", NodeSettings(listen="127.0.0.1:0"), None)  # type: ignore[arg-type]
    greeting = Greeting.of_node("here", b"secret", 1000)
    dialled = Dialled(server, Session(1, Subject("$node/there", None, "", ""), 5), greeting)
    dialled.transport, dialled.phase, dialled.patience = Wire(), OPEN, 2 * KEEPALIVE
    for _ in range(2 * KEEPALIVE):
        dialled.alive = True  # something has come
        assert not dialled.tick()
    assert len(dialled.transport.written) >= 4
