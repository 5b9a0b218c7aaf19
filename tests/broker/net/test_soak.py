"""The soak for a few seconds; `make soak` runs it for longer."""

import os

import pytest

from tests.soak import soak

SECONDS = 600 if os.environ.get("PENSTOCK_SOAK") else 4


@pytest.mark.soak
async def test_soak() -> None:
    report = await soak(SECONDS, seed=1)
    assert report.messages > 100
    assert report.clients > 20
