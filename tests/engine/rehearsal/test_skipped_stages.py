"""What plays over time would find: each stage is skipped for what has waited at each place, and some play leaks.

`make fuzz` runs this; `pytest -k 'queued and shape'` with HYPOTHESIS_PROFILE=long runs one of them.
"""

import pytest

from tests.support.generators.aims import AimedPlay
from tests.support.generators.examples import IS_LONG
from tests.support.generators.plays import Leak
from tests.support.generators.skipping import DELIVERS, PLACES, STAGES, skipped

PLAYS = 200
MUTATIONS = [(name, place) for place in PLACES for name in STAGES if (name, place) not in DELIVERS]


def leaks(seed: int) -> bool:
    try:
        AimedPlay(seed).play()
    except Leak:
        return True
    return False


@pytest.mark.fuzz
@pytest.mark.skipif(not IS_LONG, reason="takes minutes: `make fuzz` runs it")
@pytest.mark.parametrize(("name", "place"), MUTATIONS, ids=[f"{place}-{name}" for name, place in MUTATIONS])
def test_some_play_finds_that_a_stage_is_skipped(name: str, place: str) -> None:
    with skipped(name, PLACES[place]):
        assert any(leaks(seed) for seed in range(PLAYS))
