"""Changes on their way to the store: one transaction at a time, committed in a thread, which waits for the disk."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from penstock.broker.observe.log import NodeLog
from penstock.broker.store.store import Store
from penstock.engine.ledger import Changes
from penstock.engine.sessions.session import Session

RETRY_SECONDS = 1.0
Deferred = list[tuple[Session, object, bytes]]


class Committing(NamedTuple):
    """A transaction that is being stored, and the packets that may be sent once it is."""

    store: Store
    changes: Changes
    deferred: Deferred


class Commits:
    """The transaction of a node that is running, if any."""

    def __init__(self, name: str, log: NodeLog, done: Callable[[Deferred], None]) -> None:
        self.healthy = True
        self._log = log
        self._done = done
        self._under_way: Committing | None = None
        self._thread = ThreadPoolExecutor(1, f"{name}-store")

    @property
    def is_idle(self) -> bool:
        return self._under_way is None

    def write(self, store: Store, changes: Changes, deferred: Deferred) -> None:
        """Store the changes; when the disk has them, return the packets that waited for it to the server."""
        self._under_way = Committing(store, changes, deferred)
        try:
            store.write(changes)
        except sqlite3.Error as error:
            self._failed(error)
            return
        future = asyncio.get_running_loop().run_in_executor(self._thread, store.commit)
        future.add_done_callback(self._committed)

    def _committed(self, future: "asyncio.Future[None]") -> None:
        error = future.exception()
        if error is not None:
            self._failed(error)
            return
        assert self._under_way is not None
        deferred, self._under_way = self._under_way.deferred, None
        self.healthy = True
        self._done(deferred)

    def _failed(self, error: BaseException) -> None:
        """Hold everything back and try again: nothing is acknowledged that is not stored."""
        assert self._under_way is not None
        if self.healthy:
            self._log.error("the store cannot be written, acknowledgements wait", extra={"cause": str(error)})
        self.healthy = False
        self._under_way.store.rollback()
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self.write, *self._under_way)

    def stop(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown()
