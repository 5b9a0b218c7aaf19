"""Servers and clients for the conformance tests.

`PENSTOCK_TEST_BROKER=mosquitto` runs them against Mosquitto, to check the tests themselves. A test marked
`mosquitto_differs` must then fail: there Mosquitto 2.0.11 does something else.
"""

import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from penstock.wire.packet import MQTT_5, MQTT_311
from tests.support.clients.peer import Peer
from tests.support.processes.server import REFERENCE, Server, Wishes, serving

Join = Callable[..., Awaitable[Peer]]
"""Open a connection and, unless told `client_id=None`, connect: `await join("a", version=4, keepalive=1)`."""


def titled(cases: Mapping[str, object], differs: Mapping[str, str] | None = None) -> list[ParameterSet]:
    """Cases with their titles as ids; `differs` says of some what Mosquitto does instead."""
    why = differs or {}
    assert set(why) <= set(cases)
    marks = {title: [pytest.mark.mosquitto_differs(text)] for title, text in why.items()}
    return [pytest.param(case, id=title, marks=marks.get(title, [])) for title, case in cases.items()]


def both_versions(*, mosquitto_5: str) -> pytest.MarkDecorator:
    """Run a test in both versions; in MQTT 5 Mosquitto does `mosquitto_5` instead."""
    differs = pytest.mark.mosquitto_differs(mosquitto_5)
    return pytest.mark.parametrize(
        "version", [pytest.param(MQTT_311, id="3.1.1"), pytest.param(MQTT_5, id="5.0", marks=differs)]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "mosquitto_differs(why): Mosquitto 2.0.11 does not behave so")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not REFERENCE:
        return
    for item in items:
        mark = item.get_closest_marker("mosquitto_differs")
        if mark is not None:
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server as it is without settings."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def limited() -> Iterator[Server]:
    """A server with QoS 1 at most, no retained messages, small packets and a longest keep alive of 60 s."""
    with serving(Wishes(max_packet_size=500, max_keepalive=60, max_qos=1, retain=False)) as running:
        yield running


@pytest.fixture(params=[MQTT_311, MQTT_5], ids=["3.1.1", "5.0"])
def version(request: pytest.FixtureRequest) -> int:
    """For what both versions say."""
    chosen: int = request.param
    return chosen


_numbers = itertools.count(1)


@pytest.fixture
def topic() -> str:
    """A topic of this test's own."""
    return f"test/{next(_numbers)}"


@pytest.fixture
def name() -> str:
    """A client identifier of this test's own: letters and digits, 23 at most."""
    return f"c{uuid.uuid4().hex[:20]}"


def chosen_version(request: pytest.FixtureRequest) -> int:
    """The version that the test runs in: both in turn if it uses `version`, else MQTT 5."""
    chosen: int = request.getfixturevalue("version") if "version" in request.fixturenames else MQTT_5
    return chosen


def joining(server: Server, clients: list[Peer], version: int) -> Join:
    """How to connect to `server`; whoever calls this closes the clients."""

    async def join(client_id: str | None = "", version: int = version, **fields: Any) -> Peer:
        client = await Peer.open(server.host, server.port, version)
        clients.append(client)
        if client_id is not None:
            await client.connect(client_id, **fields)
        return client

    return join


@pytest.fixture
async def join(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Join]:
    """Connections to `server`, closed at the end."""
    clients: list[Peer] = []
    yield joining(server, clients, chosen_version(request))
    for client in clients:
        await client.close()


@pytest.fixture
async def join_limited(limited: Server, request: pytest.FixtureRequest) -> AsyncIterator[Join]:
    """As `join`, to `limited`."""
    clients: list[Peer] = []
    yield joining(limited, clients, chosen_version(request))
    for client in clients:
        await client.close()
