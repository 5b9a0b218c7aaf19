"""How long silence lasts until the node ends the connection."""

from typing import Any

import pytest

from penstock.broker.net.connection import Connection
from penstock.wire.session import OPEN


@pytest.mark.parametrize("patience", [1, 2, 90])
def test_a_silent_client_is_given_up_one_tick_late_at_most(patience: int) -> None:
    nothing: Any = None
    connection = Connection(nothing, nothing)
    connection.phase = OPEN
    connection.patience = patience
    ticks = [connection.tick() for _ in range(patience + 1)]  # the first may come just after the last packet
    assert ticks == [False] * patience + [True]


def test_a_client_that_speaks_is_not_given_up() -> None:
    nothing: Any = None
    connection = Connection(nothing, nothing)
    connection.phase = OPEN
    connection.patience = 2
    for _ in range(10):
        assert not connection.tick()
        assert not connection.tick()
        connection.alive = True
