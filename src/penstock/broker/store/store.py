"""The durable store: SQLite with a write-ahead log, one transaction for all that happened in a turn.

Statements run on the event loop (they only touch memory); the commit, which waits for the disk, runs in a thread.
While it runs the next batch is collected, so the busier the node, the larger the batches.
"""

import contextlib
import sqlite3
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.broker.store import persisted
from penstock.broker.store.contracts import StoredContracts, event_of, source_columns
from penstock.broker.store.groups import BoundGroups
from penstock.broker.store.persisted import Selection
from penstock.broker.store.schema import SCHEMA, STEPS, VERSION
from penstock.broker.store.tokens import StoredTokens
from penstock.engine import governing
from penstock.engine.contracts.situations import restore as restore_situations
from penstock.engine.events.passage import Delivery
from penstock.engine.federation.wants import neighbour_in
from penstock.engine.ledger import Changes, Persisted, Withheld
from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.advertise import changed as advertised
from penstock.engine.sessions.lifecycle import schedule
from penstock.engine.sessions.placement import settle_in
from penstock.engine.sessions.session import (
    NEVER,
    NO_REVISION,
    Outgoing,
    PolicyRevision,
    Session,
    StoredEvent,
    Subscribed,
    Will,
)
from penstock.engine.sessions.subscribe import add, condition_of
from penstock.engine.sparkplug.births import restore
from penstock.engine.statements.review import restore_advertised, restore_subscription, review
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError
from penstock.model.errors import PenstockError
from penstock.model.event import Event
from penstock.model.subject import Subject
from penstock.model.topic import parse_filter
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.policy.statements.statement import Policy

IN_MEMORY = ":memory:"
"""The path of a store that ends with its process."""


class StoreError(PenstockError):
    """The store cannot be opened or read."""


class Store:
    """One node's database file."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.path = path
        with contextlib.suppress(OSError):  # an error is reported when it is opened
            if str(path) != IN_MEMORY:
                path.touch(0o600)  # a new file is for its owner only: it has everybody's messages
        try:
            # A store that another node has open is refused after a moment: that node will not release it.
            self._db = sqlite3.connect(
                path, timeout=0.5, isolation_level=None, check_same_thread=False, cached_statements=32
            )
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")  # two nodes on one file would undo each other's work
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {synchronous}")
            self._prepare()
        except sqlite3.Error as error:
            raise StoreError(f"store `{path}` cannot be opened: {error}") from None

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif 0 < version < VERSION:
            steps = " ".join(STEPS[version - 1 :])
            self._db.executescript(f"BEGIN; {steps} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise StoreError(f"store `{self.path}` has format {version}, this version reads {VERSION}")
        self._db.execute("BEGIN IMMEDIATE")  # takes the lock now, not at the first message
        self._bound = BoundGroups(self._db)
        self._tokens = StoredTokens(self._db)
        self._contracts = StoredContracts(self._db)
        self._db.execute("COMMIT")

    # --- writing

    def write(self, changes: Changes) -> None:
        """Put one batch into an open transaction; `commit` ends it."""
        run = self._db.executemany
        self._db.execute("BEGIN IMMEDIATE")
        if changes.sessions:
            marks = ",".join("?" * 15)
            run(f"INSERT OR REPLACE INTO session VALUES ({marks})", map(_session_row, changes.sessions.values()))
            self._bound.write(changes.sessions.values())
        self._tokens.write(changes)
        self._contracts.write(changes)
        if changes.subscriptions:
            removed = [
                (number, *key.partition("\0")[::2])
                for (number, key), value in changes.subscriptions.items()
                if value is None
            ]
            run("DELETE FROM subscription WHERE session = ? AND filter = ? AND name = ?", removed)
            rows = [
                _subscription_row(key[0], subscribed)
                for key, subscribed in changes.subscriptions.items()
                if subscribed is not None
            ]
            run("INSERT OR REPLACE INTO subscription VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
        if changes.advertisements:
            taken = [key for key, value in changes.advertisements.items() if value is None]
            run("DELETE FROM advertisement WHERE session = ? AND name = ?", taken)
            advertised = [
                _advertisement_row(key[0], advertisement)
                for key, advertisement in changes.advertisements.items()
                if advertisement is not None
            ]
            run("INSERT OR REPLACE INTO advertisement VALUES (?,?,?,?,?,?)", advertised)
        if changes.retained:
            run(
                "DELETE FROM retained WHERE topic = ?",
                [(key,) for key, event in changes.retained.items() if event is None],
            )
            retained = [_retained_row(event) for event in changes.retained.values() if event is not None]
            run("INSERT OR REPLACE INTO retained VALUES (?,?,?,?,?,?,?,?,?,?)", retained)
        if changes.messages:
            run(
                "INSERT INTO message VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                [_message_row(*item) for item in changes.messages.items()],
            )
        if changes.deliveries:
            run(
                "INSERT INTO delivery VALUES (?,?,?,?,?,?,?,?,?)",
                [_delivery_row(*item) for item in changes.deliveries.items()],
            )
        if changes.updated:
            updated = [_updated_row(*item) for item in changes.updated.items()]
            run("UPDATE delivery SET message = ?, state = ?, packet_id = ?, revision = ? WHERE id = ?", updated)
        if changes.dropped_deliveries:
            run("DELETE FROM delivery WHERE id = ?", [(row,) for row in changes.dropped_deliveries])
        if changes.dropped_messages:
            run("DELETE FROM message WHERE id = ?", [(row,) for row in changes.dropped_messages])
        if changes.monitors:
            closed = [key for key, state in changes.monitors.items() if state is None]
            run("DELETE FROM monitor WHERE source = ? AND target = ? AND name = ?", closed)
            watched = [
                (*key, msgspec.json.encode(state)) for key, state in changes.monitors.items() if state is not None
            ]
            run("INSERT OR REPLACE INTO monitor VALUES (?,?,?,?)", watched)
        if changes.standings:
            run("DELETE FROM standing WHERE session = ? AND source = ?", list(changes.standings))
            owed = [
                (*key, msgspec.json.encode(withheld))
                for key, withheld in changes.standings.items()
                if withheld is not None
            ]
            run("INSERT INTO standing VALUES (?,?,?)", owed)
        if changes.revision is not None:
            revision = changes.revision
            row = (revision.number, revision.access, revision.statements)
            self._db.execute("INSERT OR REPLACE INTO revision VALUES (?,?,?)", row)
        if changes.persisted:
            run(
                "INSERT INTO persisted VALUES (?,?,?,?,?,?)",
                [(row, *message) for row, message in changes.persisted.items()],
            )
        if changes.dropped_persisted:
            oldest = "SELECT id FROM persisted ORDER BY id LIMIT ?"
            self._db.execute(f"DELETE FROM persisted WHERE id IN ({oldest})", (changes.dropped_persisted,))
        if changes.received:
            run(
                "DELETE FROM received WHERE session = ? AND packet_id = ?",
                [k for k, v in changes.received.items() if not v],
            )
            run("INSERT OR IGNORE INTO received VALUES (?,?)", [k for k, v in changes.received.items() if v])
        self._bound.drop(changes.dropped_sessions)
        for number in changes.dropped_sessions:
            self._db.execute("DELETE FROM session WHERE id = ?", (number,))
            self._db.execute("DELETE FROM subscription WHERE session = ?", (number,))
            self._db.execute("DELETE FROM advertisement WHERE session = ?", (number,))
            self._db.execute("DELETE FROM standing WHERE session = ?", (number,))
            self._db.execute("DELETE FROM received WHERE session = ?", (number,))

    def commit(self) -> None:
        """End the transaction; return when the disk has it."""
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Give the transaction up, if there is one."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()

    # --- messages that policies have persisted

    def persisted(self, selection: Selection, limit: int = -1) -> Iterator[Persisted]:
        """Return the newest `limit` of them (default: all), the oldest of these first."""
        return persisted.read(self._db, selection, limit)

    def delete_persisted(self, selection: Selection) -> int:
        """Delete them; return how many there were. Only while no node has the store open: it counts them."""
        return persisted.delete(self._db, selection)

    # --- reading

    def load(self, node: Node, now: float) -> None:
        """Fill a new node with what was stored, and continue the numbering."""
        try:
            for *key, state in self._db.execute("SELECT * FROM monitor"):
                node.monitors.stored[tuple(key)] = msgspec.json.decode(
                    state
                )  # before the sessions that continue with them
            self._tokens.load(node)
            revisions, last_revision = self._load_revisions(node)
            sessions = self._load_sessions(node, now)
            self._tokens.load_shown(sessions)
            for session_ in sessions.values():
                session_.rights = session_rights.rights_for(node, session_)
            self._bound.load(sessions)
            self._load_subscriptions(node, sessions)
            self._load_advertisements(node, sessions)
            self._load_retained(node, now)
            self._contracts.load_brought(node, sessions, now)
            restore_situations(node, now)
            restore(node, self._standings(sessions))
            self._load_deliveries(node, sessions, revisions)
            last, count = self._db.execute("SELECT max(id), count(*) FROM persisted").fetchone()
            node.ledger.persisted_before(last or 0, count)
            self._contracts.load_held(node, sessions, revisions, now)
            review(node, last_revision, now)
            for number, packet_id in self._db.execute("SELECT session, packet_id FROM received"):
                session = sessions.get(number)
                if session is not None:
                    session.received = session.received or set()
                    session.received.add(packet_id)
        except (sqlite3.Error, ValueError, TypeError, ConditionError) as error:
            raise StoreError(f"store `{self.path}` cannot be read: {error}") from None

    def _load_revisions(self, node: Node) -> tuple[dict[int, PolicyRevision], PolicyRevision]:
        """Return the policies that what waits was judged by, and the last before this start, which begins another."""
        revisions = {row[0]: PolicyRevision(*row) for row in self._db.execute("SELECT * FROM revision ORDER BY number")}
        last = list(revisions.values())[-1] if revisions else NO_REVISION
        self._db.execute(
            "DELETE FROM revision WHERE number NOT IN (SELECT revision FROM delivery UNION SELECT revision FROM held)"
        )
        governing.begin_revision(node, last)
        return revisions, last

    def _standings(self, sessions: dict[int, Session]) -> Iterator[tuple[Session, str, Withheld]]:
        for number, source, withheld in self._db.execute("SELECT * FROM standing"):
            if number in sessions:
                yield sessions[number], source, msgspec.json.decode(withheld, type=Withheld)

    def _load_sessions(self, node: Node, now: float) -> dict[int, Session]:
        sessions: dict[int, Session] = {}
        for row in self._db.execute("SELECT * FROM session ORDER BY id"):
            number, client_id, user, listener, certificate, version, expiry, ended = row[:8]
            node.sessions.last_id = max(node.sessions.last_id, number)
            session = Session(number, Subject(client_id, user, "", listener, certificate), version)
            session.neighbour = neighbour_in(client_id)
            session.connection.expiry = NEVER if expiry < 0 else expiry
            session.durable = True
            session.since = now
            session.connection.ended = now if ended is None else ended  # None: connected when the process ended
            session.connection.will = _read_will(client_id, user, row[8:])
            settle_in(node, session)
            node.sessions[client_id] = sessions[number] = session
            schedule(node, session)
        return sessions

    def _load_subscriptions(self, node: Node, sessions: dict[int, Session]) -> None:
        for number, text, name, *options, condition, is_local, policy in self._db.execute("SELECT * FROM subscription"):
            qos, no_local, retain_as_published, identifier = options
            session = sessions.get(number)
            if session is not None:
                flags = (bool(no_local), bool(retain_as_published), identifier)
                subscribed = Subscribed(session, text, qos, *flags, name, condition, bool(is_local))
                filter = parse_filter(text)
                subscribed.condition = condition_of(node, session, filter, condition)
                if restore_subscription(node, subscribed, policy):
                    add(node, subscribed, filter)

    def _load_advertisements(self, node: Node, sessions: dict[int, Session]) -> None:
        for number, name, filter, condition_text, scope, policy in self._db.execute("SELECT * FROM advertisement"):
            session = sessions.get(number)
            if session is not None:
                condition = make_condition(condition_text) if condition_text else None
                advertisement = restore_advertised(node, session, filter, policy)
                session.declared.advertisements[name] = ProducerAdvertisement(
                    name, filter, condition, scope, advertisement
                )
                advertised(node, session, name)

    def _load_retained(self, node: Node, now: float) -> None:
        for topic, payload, qos, properties, expires, *source in self._db.execute("SELECT * FROM retained"):
            if expires is None or expires > now:
                node.retained.hold(event_of(topic, payload, qos, True, properties, expires, source))
            else:
                node.ledger.retained(topic, None)

    def _load_deliveries(self, node: Node, sessions: dict[int, Session], revisions: dict[int, PolicyRevision]) -> None:
        messages: dict[int, StoredEvent] = {}
        last_message = last_row = 0
        for number, topic, payload, qos, properties, expires, *source in self._db.execute("SELECT * FROM message"):
            messages[number] = StoredEvent(number, event_of(topic, payload, qos, False, properties, expires, source))
            last_message = max(last_message, number)
        orphans: list[int] = []
        for row in self._db.execute("SELECT * FROM delivery ORDER BY id"):
            last_row = row[0]
            session, kept = sessions.get(row[1]), messages.get(row[2])
            if session is None or kept is None:
                orphans.append(row[0])
            else:
                _restore_delivery(session, kept, row, revisions.get(row[8], NO_REVISION))
        node.ledger.start_after(last_row, last_message)
        node.ledger.changes.dropped_deliveries.extend(orphans)
        unused = [number for number, kept in messages.items() if not kept.references]
        node.ledger.changes.dropped_messages.extend(unused)


def _session_row(session: Session) -> tuple[object, ...]:
    expiry = -1 if session.connection.expiry == NEVER else session.connection.expiry
    ended = None if session.outlet is not None else session.connection.ended
    subject = session.subject
    who = (session.id, session.client_id, subject.user, subject.listener, subject.certificate)
    head = (*who, session.version, expiry, ended)
    will = session.connection.will
    if will is None:
        return (*head, *(None,) * 7)
    event = will.event
    return (*head, event.topic, event.payload, event.qos, event.retain, event.properties, will.delay, will.lifetime)


def _read_will(client_id: str, user: str | None, row: tuple[object, ...]) -> Will | None:
    topic, payload, qos, retain, properties, delay, lifetime = row
    if topic is None:
        return None
    event = Event(topic, payload, qos, bool(retain), properties, None, client_id, user)  # type: ignore[arg-type]
    return Will(event, delay, lifetime)  # type: ignore[arg-type]


def _subscription_row(session: int, subscribed: Subscribed) -> tuple[object, ...]:
    options = (subscribed.qos, subscribed.no_local, subscribed.retain_as_published, subscribed.identifier)
    return (
        session,
        subscribed.filter,
        subscribed.name,
        *options,
        subscribed.asked,
        subscribed.is_local,
        _text(subscribed.policy),
    )


def _advertisement_row(session: int, advertisement: ProducerAdvertisement) -> tuple[object, ...]:
    condition = advertisement.condition.text if advertisement.condition is not None else ""
    return (
        session,
        advertisement.name,
        advertisement.filter,
        condition,
        advertisement.scope,
        _text(advertisement.policy),
    )


def _text(policy: Policy | None) -> str:
    return "" if policy is None else policy.text


def _retained_row(event: Event) -> tuple[object, ...]:
    return (event.topic, event.payload, event.qos, event.properties, event.expires, *source_columns(event))


def _message_row(number: int, event: Event) -> tuple[object, ...]:
    return (number, *_retained_row(event))


def _delivery_row(row: int, one: Outgoing) -> tuple[object, ...]:
    """`one.row` is no longer `row` if the delivery was settled while an earlier commit was tried again."""
    assert one.kept is not None
    identifiers = ",".join(map(str, one.ids)) if one.ids else ""
    about = (row, one.session.id, one.kept.id, one.qos, one.retain, identifiers)
    return (*about, one.state, one.packet_id, one.revision.number)


def _updated_row(row: int, delivery: Outgoing) -> tuple[object, ...]:
    assert delivery.kept is not None
    return (delivery.kept.id, delivery.state, delivery.packet_id, delivery.revision.number, row)


def _restore_delivery(session: Session, kept: StoredEvent, row: tuple[Any, ...], revision: PolicyRevision) -> None:
    number, _, _, qos, retain, identifiers, state, packet_id, _ = row
    ids = tuple(map(int, identifiers.split(","))) if identifiers else ()
    delivery = Delivery(session, kept.event, qos, bool(retain), ids)
    delivery.row, delivery.kept, delivery.state, delivery.packet_id = number, kept, state, packet_id
    delivery.revision = revision
    kept.references += 1
    if packet_id:
        session.outbox.inflight[packet_id] = delivery
        session.outbox.last_id = max(session.outbox.last_id, packet_id)
    else:
        if session.outbox.queue is None:
            session.outbox.queue = deque()
        session.outbox.queue.append(delivery)
        session.outbox.queued_bytes += kept.event.size()
