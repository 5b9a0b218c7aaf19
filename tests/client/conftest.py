"""One open node for the tests of a folder that need nothing special of it; each keeps to topics of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.processes.node import LiveNode, running

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def node() -> Iterator[LiveNode]:
    with running() as live:
        yield live
        assert "Traceback" not in live.log


@pytest.fixture
def name() -> str:
    """A word that no other test uses: for topics and client ids."""
    return f"t{next(_NUMBERS)}"
