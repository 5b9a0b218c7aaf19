"""A node whose disk refuses: acknowledgements wait, `/health` says so, and all goes on when the disk takes more."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.broker.federation import Federation
from penstock.broker.http.admin import AdminServer
from penstock.broker.http.api import Api
from penstock.broker.server import Server
from penstock.broker.store.store import Store
from penstock.domain import Domain, NodeSettings
from penstock.wire.packet import Puback, Publish
from penstock.wire.properties import Properties
from tests.support.clients.peer import Peer
from tests.support.models.stored_state import read_disk
from tests.support.processes.admin import ask

KEPT = Properties(session_expiry=3600)
LARGE = bytes(100_000)


class Disk(Store):
    """A store whose disk can be made to refuse: when a batch is written, or when it is committed."""

    refuses_commit = False

    def fill(self) -> None:
        """Leave no page free."""
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        self._db.execute(f"PRAGMA max_page_count = {pages}")

    def empty(self) -> None:
        self._db.execute("PRAGMA max_page_count = 1000000")

    def commit(self) -> None:
        if self.refuses_commit:
            raise sqlite3.OperationalError("disk I/O error")
        super().commit()


class Live:
    """A running node with its admin address."""

    def __init__(self, server: Server, admin: AdminServer, disk: Disk) -> None:
        self.server, self.admin, self.disk = server, admin, disk

    async def peer(self) -> Peer:
        address = self.server.listeners.bound[0]
        return await Peer.open(address.host, address.port)

    async def health(self) -> tuple[int, str]:
        return await asyncio.to_thread(_get, f"{self.admin.address}/health")

    async def becomes(self, is_healthy: bool) -> None:
        async with asyncio.timeout(10):
            while self.server.commits.healthy is not is_healthy:  # noqa: ASYNC110 (a node has no event for it)
                await asyncio.sleep(0.01)


def _get(address: str) -> tuple[int, str]:
    status, _, body = ask(address)
    return status, json.loads(body)["status"]


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    path = tmp_path / "node.db"
    settings = NodeSettings(listen="127.0.0.1:0", store=str(path), admin="127.0.0.1:0", sys_interval=0)  # type: ignore[arg-type]
    federation = Federation(Domain(nodes={"main": settings}), ("main",), None)
    server = federation.servers["main"]
    assert server.store is not None
    server.store.close()
    server.store = disk = Disk(path, "full")
    await server.start()
    admin = AdminServer(server, Api(federation))
    await admin.start()
    yield Live(server, admin, disk)
    await admin.stop()
    await server.stop()


@pytest.mark.parametrize("moment", ["write", "commit"])
async def test_acknowledgements_wait_for_a_disk_that_refuses(live: Live, moment: str, tmp_path: Path) -> None:
    ann, bob = await live.peer(), await live.peer()
    await ann.connect("ann", properties=KEPT)
    await ann.subscribe("a", qos=1)
    await ann.disconnect()
    await bob.connect("bob")
    assert await live.health() == (200, "ok")

    if moment == "write":
        live.disk.fill()
    else:
        live.disk.refuses_commit = True
    await bob.send(Publish("a", LARGE, qos=1, packet_id=1))
    await live.becomes(is_healthy=False)
    assert await live.health() == (503, "store cannot be written")
    with pytest.raises(TimeoutError):  # and still not after it was tried again
        await bob.next(patience=1.5)

    live.disk.empty()
    live.disk.refuses_commit = False
    await bob.expect(Puback, packet_id=1, reason=0)
    assert await live.health() == (200, "ok")
    assert await bob.publish("a", b"second", qos=1) == 0
    await bob.disconnect()

    await live.server.stop()
    stored = Store(tmp_path / "node.db", "full")
    assert read_disk(stored).payloads("ann") == {LARGE, b"second"}
    stored.close()
