"""Settings for every test. `make fuzz` sets HYPOTHESIS_PROFILE=long to take more examples."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a busy CI machine makes any single example slow, and no test here is about time.
settings.register_profile("short", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("short"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

PIPELINE = Path(__file__).parent / "pipeline"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests run in two processes; those that need Spark in one of them, so that there is one session."""
    for item in items:
        if PIPELINE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
