"""When a node dials a neighbour again."""

import pytest

from penstock.broker.peer import LONGEST_WAIT, SHORTEST_WAIT, STEADY_SECONDS, Waits

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
