"""One open node for all tests that need nothing special of it; each test keeps to topics and client ids of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.processes.node import ANY_PORT, LiveNode, running

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def node() -> Iterator[LiveNode]:
    listeners = [ANY_PORT, {"address": ANY_PORT, "websocket": True}]
    with running({"listen": listeners, "admin": ANY_PORT, "sys_interval": 1}) as live:
        yield live
        assert "Traceback" not in live.log


@pytest.fixture
def name() -> str:
    """A word that no other test uses: for topics and client ids."""
    return f"t{next(_NUMBERS)}"
