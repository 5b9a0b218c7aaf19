"""A running node: listeners, connections, the store, and the turns in which input becomes output."""

import asyncio
import secrets
import socket
import sqlite3
import ssl
import time
import uuid
from collections import deque
from functools import partial
from logging import INFO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.identity.keys import read_keys
from penstock.broker.net.listeners import Listeners, named_listeners
from penstock.broker.net.peer import Dialler
from penstock.broker.net.tls import make_context
from penstock.broker.observe.load import ProcessorLoad
from penstock.broker.observe.log import NodeLog
from penstock.broker.observe.reporting import Reporting
from penstock.broker.observe.sys_topics import SysTopics
from penstock.broker.store.commits import Commits, Deferred
from penstock.broker.store.store import Store
from penstock.domain import NodeSettings
from penstock.domain.compile.ensemble import Ensemble
from penstock.domain.schema.domain import JournalSettings
from penstock.engine import governing
from penstock.engine.capsules import hosting
from penstock.engine.connections.connection import CLOSE_SECONDS, NodeConnection
from penstock.engine.connections.host import DISCARD, Host
from penstock.engine.connections.inbound import Inbound
from penstock.engine.federation import overlay
from penstock.engine.node import Node
from penstock.engine.recorder import Recorder
from penstock.engine.sessions import lifecycle, outbox, placement
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import is_known
from penstock.engine.trust import keys
from penstock.engine.trust.tokens import Keys
from penstock.model.errors import PenstockError
from penstock.model.group_proof import NONCE_BYTES
from penstock.policy.access.acl import Acl
from penstock.policy.access.passwords import Passwords
from penstock.policy.tokens.rights import NO_RIGHTS
from penstock.wire.reason import Reason
from penstock.wire.session import CLOSED

if TYPE_CHECKING:
    from penstock.broker.observe.journal import Journal

TICK = 1.0
MAX_PACKETS = 4000
"""Packets that are processed before output is sent although the round of input has not ended. Under overload a round
takes in everything that has come during the one before, so rounds would grow longer and longer."""
TURN_SECONDS, LEAST_SHARE = 0.008, 0.0005
"""The time of a turn that connections with more input than fits into one share, and the least that each of them gets:
whoever sends little waits no longer than such a turn, whatever the others send."""
MAX_GONE = 20
"""Lost connections that are ended in one turn; the others follow in the next ones."""
MAX_DEFERRED = 20_000
"""Packets that wait for the store before connections are no longer read."""


class NodeFiles(NamedTuple):
    """The contents of the files that a node's settings name."""

    passwords: Passwords | None
    acl: Acl | None
    contexts: dict[str, ssl.SSLContext]
    """TLS, by listener."""
    keys: Keys | None = None
    """The keys for tokens, if the domain has any."""


class Server(Host):
    """One live node of a domain."""

    def __init__(self, name: str, settings: NodeSettings, ensemble: Ensemble | None = None) -> None:
        self.name = name
        self.log = NodeLog(name)
        self.settings = settings
        self.diallers: dict[str, Dialler] = {}
        passwords, acl, contexts, own_keys = self.read_files(settings, ensemble)
        node = Node(name, settings.limits, _make_id, settings.durable, passwords, acl, ensemble, _make_nonce)
        super().__init__(node, time.time)
        self.node.trust.keys = own_keys
        self._set_admission(settings, acl, ensemble)
        self.node.runtime.host, self.node.runtime.clock = socket.gethostname(), time.time
        self._load = ProcessorLoad()
        self.store = Store(Path(settings.store), settings.synchronous) if settings.durable else None
        self.journal: Journal | None = None
        self.connections: set[NodeConnection] = set()
        self.listeners = Listeners(contexts)
        self.started = time.time()
        self.awake = False
        self._packets = 0
        """Packets processed in this round of input."""
        self._held: dict[NodeConnection, None] = {}
        """Connections that are not read before they have had another share of a turn, the next one first."""
        self._gone: deque[tuple[NodeConnection, str]] = deque()
        """Connections whose transport is gone, and the reason: some are ended in each turn."""
        self._ended = 0
        """Connections that have been ended in this round of input."""
        self._deadline = 0.0
        """The end of the share of the connection that is handled."""
        self._flusher: asyncio.TimerHandle | None = None
        self.commits = Commits(name, self.log, self._finish_commit)
        self.reporting = Reporting(self.log)
        self._sys = SysTopics(self)
        self._journal_failure = ""
        """The last reported reason why the journal cannot be written."""
        self._loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]  # set by start
        self._ticker: asyncio.TimerHandle | None = None
        self._draining = False

    def keep_journal(self, settings: JournalSettings, domain: str) -> None:
        """Record events in a journal."""
        try:
            from penstock.broker.observe.journal import Journal
        except ModuleNotFoundError as error:
            raise PenstockError(f"a journal needs `{error.name}`: install `penstock[journal]`") from None
        self.node.recorder = Recorder()
        self.journal = Journal(settings, self.name, domain, self.node.recorder, self.log)

    # --- starting and stopping

    async def start(self) -> None:
        """Load the store and listen."""
        self._loop = asyncio.get_running_loop()
        if self.journal is not None:
            self.journal.start(lambda: self._loop.call_soon_threadsafe(self.wake))
        keys.hold(self.node, self.node.trust.keys, self.now())
        if self.store is not None:
            self.store.load(self.node, self.now())
        self._forget_neighbours(overlay.prepare(self.node))
        hosting.prepare(self.node, self.now())
        keys.join(self.node, self.now())
        for name, listener in named_listeners(self.name, self.settings):
            await self.listeners.listen(name, listener, self.settings, partial(Inbound, self))
        self._sys.tick(self.now())
        self._ticker = self._loop.call_later(TICK, self._tick)

    async def stop(self) -> None:
        """Drain: refuse new connections, disconnect clients, wait until everything is stored."""
        self._draining = True
        self._loop = asyncio.get_running_loop()  # a node whose predecessor could not start has none
        for dialler in self.diallers.values():
            await dialler.stop()
        self.listeners.close()
        for connection in list(self.connections):
            connection.disconnect(Reason.SERVER_SHUTTING_DOWN, "the node is shutting down")
        deadline = self._loop.time() + CLOSE_SECONDS
        while self._has_more() and self._loop.time() < deadline:
            for connection in self.connections:
                if connection.phase == CLOSED:
                    connection.transport.close()  # it has our last packet; there is no time to wait for its own
            self.wake()
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        self._end_some(len(self._gone))
        for timer in (self._ticker, self._flusher):
            if timer is not None:
                timer.cancel()
        if self.journal is not None:
            self.journal.stop()
        if self.store is not None:
            self.commits.stop()
            self._write_last_changes(self.store)
            self.store.close()

    def _has_more(self) -> bool:
        return bool(self.connections or not self.commits.is_idle or self.node.ledger.changes)

    def _write_last_changes(self, store: Store) -> None:
        """Store the last changes. None of them has been acknowledged, so losing them breaks no promise."""
        if not self.commits.is_idle or not self.node.ledger.changes:
            return
        try:
            store.write(self.node.ledger.take()[0])
            store.commit()
        except sqlite3.Error as error:
            self.log.error("the last changes could not be stored", extra={"cause": str(error)})

    def _forget_neighbours(self, removed: list[Session]) -> None:
        for session in removed:
            if session.outlet is not None:
                session.outlet.disconnect(Reason.NOT_AUTHORIZED, "no longer a neighbour")
            lifecycle.end(self.node, session, self.now())

    def read_files(self, settings: NodeSettings, ensemble: Ensemble | None = None) -> NodeFiles:
        """Read the files that the settings name, and the domain's token files; raise `PolicyError` or `TlsError`."""
        passwords = Passwords.read(settings.passwords) if settings.passwords else None
        acl = Acl.read(settings.acl) if settings.acl else None
        listeners = named_listeners(self.name, settings)
        contexts = {name: make_context(listener.tls) for name, listener in listeners if listener.tls}
        tokens = ensemble.tokens if ensemble is not None else None
        own_keys = read_keys(self.name, settings, tokens) if tokens is not None else None
        return NodeFiles(passwords, acl, contexts, own_keys)

    def _set_admission(self, settings: NodeSettings, acl: Acl | None, ensemble: Ensemble | None) -> None:
        """Set the reason code of refusals, and the first setting that needs user names, if nothing checks them."""
        admission = self.node.admission
        admission.hides = settings.suppressed == "hide"
        if acl is not None and acl.counts_on_users and admission.passwords is None:
            self.log.warning("the ACL file depends on user names, and this node does not check them: set `passwords`")
        policies = ensemble.access.policies if ensemble is not None and ensemble.access is not None else ()
        if any(policy.subject.startswith("user:") for policy in policies):
            admission.unchecked = "an access policy is for a user name"
        else:
            admission.unchecked = ensemble.unchecked.get(self.name, "") if ensemble is not None else ""

    def reload(self, settings: NodeSettings, files: NodeFiles, ensemble: Ensemble | None = None) -> None:
        """Apply new settings; connections stay, unless their client may no longer connect here."""
        passwords, acl, contexts, self.node.trust.keys = files
        self.listeners.renew_certificates(named_listeners(self.name, settings), contexts)
        self.settings = settings.model_copy(update={"listen": self.settings.listen, "store": self.settings.store})
        governing.govern(self.node, settings.limits, passwords, acl, ensemble, time.time())
        self._set_admission(settings, acl, ensemble)
        self._forget_neighbours(overlay.prepare(self.node))
        hosting.prepare(self.node, self.now())
        keys.join(self.node, self.now())
        for connection in list(self.connections):
            session, unchecked = connection.session, self.node.admission.unchecked
            if session is None or session.neighbour is not None:
                continue
            # A client that has shown a token is known by it, and need not have a password here.
            if session.trust.token is None and not is_known(session.subject, passwords, unchecked):
                connection.disconnect(Reason.NOT_AUTHORIZED, "the user is no longer known")
            elif placement.entry_of(self.node, session.subject) is None:
                connection.disconnect(Reason.NOT_AUTHORIZED, "the domain no longer lists this client here")
            elif session.rights is NO_RIGHTS:
                connection.disconnect(Reason.NOT_AUTHORIZED, "this node asks for an authorisation token now")
        self.wake()

    # --- connections

    def add_connection(self, connection: NodeConnection) -> None:
        """Count a connection, or cut it off if there are too many; those that the node makes are never too many."""
        listener = connection.door.listener
        if isinstance(connection, Inbound) and self._has_no_room(listener):
            self.log.warning("refused", extra={"cause": "too many connections", "listener": listener})
            self.node.stats.connections_refused += 1
            connection.phase = CLOSED
            connection.transport.abort()
            return
        self.connections.add(connection)
        self.listeners.add(listener)

    def _has_no_room(self, listener: str) -> bool:
        is_full = len(self.connections) >= self.settings.limits.connections
        return is_full or self.listeners.is_full(listener) or self._draining

    def remove_connection(self, connection: NodeConnection) -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            self.listeners.remove(connection.door.listener)
        self._held.pop(connection, None)

    def end_soon(self, connection: NodeConnection, cause: str) -> None:
        if self._ended < MAX_GONE:
            self._ended += 1
            connection.end(cause)
            return
        connection.pause()  # what comes for its session until then waits
        connection.transport = DISCARD
        self._gone.append((connection, cause))
        self.wake()

    def _end_some(self, most: int = MAX_GONE) -> None:
        for _ in range(min(most, len(self._gone))):
            connection, cause = self._gone.popleft()
            connection.end(cause)
        if self._gone:
            self.wake()

    def begin_share(self) -> None:
        self._deadline = time.perf_counter() + max(TURN_SECONDS / (1 + len(self._held)), LEAST_SHARE)

    def is_late(self) -> bool:
        return time.perf_counter() > self._deadline

    def has_room_for(self, connection: NodeConnection) -> bool:
        ledger, session = self.node.ledger, connection.session
        if len(ledger.deferred) > MAX_DEFERRED or ledger.deferred_bytes > outbox.MAX_DEFERRED_BYTES:
            return False
        # `open` is asked first: an idle session's parts are not in the processor's cache
        if session is None or session.open or not session.connection.blocked or connection.is_lost:
            return True
        return session.connection.backlog <= 2 * self.settings.limits.outbox_bytes

    def add_held(self, connection: NodeConnection) -> None:
        self._held[connection] = None
        self.wake()

    def remove_held(self, connection: NodeConnection) -> None:
        self._held.pop(connection, None)

    def log_event(self, text: str, level: int = INFO, **details: object) -> None:
        self.log.log(level, text, extra=details)

    def log_error(self, error: Exception, client: str) -> None:
        self.log.error("a packet could not be handled", extra={"client": client}, exc_info=error)

    def count_packets(self, connection: NodeConnection, packets: int) -> None:
        """Throttle a client that gets ahead of the store or does not read; have a turn, and send now if it is late."""
        if not self.has_room_for(connection):
            self._deadline = 0.0
            connection.hold()
        self._packets += packets
        if self._packets > MAX_PACKETS:
            self._packets = 0
            outbox.flush(self.node)
        if not self.awake:
            self.wake()

    # --- turns

    def wake(self) -> None:
        """Schedule a turn at the end of the present round of input."""
        if not self.awake:
            self.awake = True
            self._loop.call_soon(self.turn)

    def turn(self) -> None:
        """Take the turn of a node; then journal, report, and schedule what is left for another turn."""
        self.awake = False
        self._packets = self._ended = 0
        if self._gone:
            self._end_some()
        super().turn()
        node = self.node
        if self.journal is not None:
            self._hand_to_journal(self.journal)
        if node.notices:
            notices, node.notices = node.notices, []
            self.reporting.report(notices)
        if self._held and not self.is_full:
            self._go_on()
        sessions = node.sessions
        if sessions.replaying or sessions.undone or (sessions.lagging and self.commits.is_idle):
            self.wake()
        if node.federation.news and node.federation.neighbours:
            self._loop.call_later(overlay.REFRESH_SECONDS, self.wake)

    def _go_on(self) -> None:
        """Give each connection that waits its share of this turn."""
        for connection in list(self._held):
            if connection.phase >= CLOSED or self.has_room_for(connection):
                connection.go_on()
                self.wake()

    def commit(self) -> None:
        """Begin to store what has changed, unless the store is still busy; `_finish_commit` follows."""
        ledger = self.node.ledger
        if self.store is not None and self.commits.is_idle:
            if ledger.changes:
                self.commits.write(self.store, *ledger.take())
            elif ledger.deferred:
                outbox.release_deferred(self.node, ledger.take()[1])

    def _finish_commit(self, deferred: Deferred) -> None:
        """Send the packets that waited for the store, and let connections that waited for it go on."""
        outbox.release_deferred(self.node, deferred)
        self.turn()

    def _hand_to_journal(self, journal: "Journal") -> None:
        seconds = journal.turn(self.now(), self.node.stats.bytes_received)
        if seconds is not None and self._flusher is None:
            self._flusher = self._loop.call_later(seconds, self._flush)
        was_full = self.is_full
        self.is_full = journal.is_awaited = journal.is_full  # it is behind, or cannot be written
        if journal.failing != self._journal_failure:
            self._journal_failure = journal.failing
            self._sys.alarm(self.now())
            self.wake()
        if self._held and was_full and not self.is_full:
            self.wake()

    def _flush(self) -> None:
        """Hand over rows that have waited for the flush interval."""
        self._flusher = None
        if self.journal is not None:
            self._hand_to_journal(self.journal)

    # --- time

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK, self._tick)
        self.node.runtime.load = self._load.tick()
        lifecycle.tick(self.node, self.now())
        self._sys.tick(self.now())
        self.reporting.tick(self._loop.time())
        for connection in list(self.connections):
            connection.tick()
        self.wake()

    @property
    def trouble(self) -> str:
        """Return the reason why the node does not work as it should; empty if it does."""
        if not self.commits.healthy:
            return "store cannot be written"
        if self.journal is not None and self.journal.failing:
            return f"journal cannot be written: {self.journal.failing}"
        return ""


def _make_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def _make_id() -> str:
    return f"auto-{uuid.uuid4()}"
