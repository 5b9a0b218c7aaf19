"""Settings for every test.

`make test` takes the same examples each time, so that it says something about what was changed; `make fuzz` sets
HYPOTHESIS_PROFILE=long for many more, each time others.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# No deadline: a busy CI machine makes any single example slow, and no test here is about time.
_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", _ANY_TIME, max_examples=50, derandomize=True, database=None)
settings.register_profile("long", _ANY_TIME, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

TESTS = Path(__file__).parent
LONGEST = ("pipeline", "console", "docs", "examples", "broker", "conformance")
"""Folders whose tests take long, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that neither process waits long for the other at the end."""
    items.sort(key=lambda item: _place(item.path.relative_to(TESTS).parts[0]))


def _place(name: str) -> int:
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]  # the library has no types
    """Tests of a file run in one process, so that what they share is made once; and all that need Spark in one, so that
    there is one session.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if file.startswith("tests/pipeline/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _ByFile(config, log)
