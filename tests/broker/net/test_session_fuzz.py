"""The session fuzz for a few seconds; `make fuzz` runs it for longer."""

import os

import pytest

from tests.fuzz.session_fuzz import fuzz

SECONDS = 120 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 5


@pytest.mark.fuzz
async def test_session_fuzz() -> None:
    tally = await fuzz(SECONDS, seed=1)
    assert tally.connections > 100
