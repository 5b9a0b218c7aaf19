"""Settings for every test. `make fuzz` sets HYPOTHESIS_PROFILE=long to take more examples."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a busy CI machine makes any single example slow, and no test here is about time.
settings.register_profile("short", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("short"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # xdist then finds the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests run in two processes: those of a file in one of them, so that what they share is made once; and all that
    need Spark in one, so that there is one session.
    """
    for item in items:
        place = item.path.relative_to(TESTS)
        item.add_marker(pytest.mark.xdist_group("spark" if place.parts[0] == "pipeline" else str(place)))
