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
from penstock.broker.store.persisted import Selection
from penstock.broker.store.rows import SessionTable, write_changes
from penstock.broker.store.schema import SCHEMA, STEPS, VERSION
from penstock.broker.store.tokens import StoredTokens
from penstock.engine import governing
from penstock.engine.contracts import subscribers
from penstock.engine.contracts.situations import restore as restore_situations
from penstock.engine.events.passage import Delivery
from penstock.engine.federation import write_rights
from penstock.engine.federation.wants import neighbour_in
from penstock.engine.ledger import Changes, Persisted, Withheld
from penstock.engine.mobility import newest
from penstock.engine.mobility import receive as moving
from penstock.engine.node import Node
from penstock.engine.sessions import advertise, lifecycle, placement, session_rights, subscribe
from penstock.engine.sessions.refusal import RefusedPublish
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
from penstock.engine.sparkplug.births import restore
from penstock.engine.statements import review
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError
from penstock.model.errors import PenstockError
from penstock.model.event import Event
from penstock.model.subject import Subject
from penstock.model.topic import parse_filter
from penstock.policy.statements.advertisement import ProducerAdvertisement, Scope
from penstock.policy.statements.statement import Policy
from penstock.wire.reason import Reason

_OF_SESSIONS = ("subscription", "advertisement", "standing", "received", "refused", "brought", "held", "collected")
"""Tables whose rows end with their session."""
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
        self._bound = SessionTable(self._db, "bound")  # names of groups, which have no blanks
        self._moving = SessionTable(self._db, "moving")
        self._tokens = StoredTokens(self._db)
        self._contracts = StoredContracts(self._db)
        self._db.execute("COMMIT")

    # --- writing

    def write(self, changes: Changes) -> None:
        """Put one batch into an open transaction; `commit` ends it."""
        db, run = self._db, self._db.executemany
        db.execute("BEGIN IMMEDIATE")
        self._tokens.write(changes)
        self._contracts.write(changes)
        items = changes.subscriptions.items()
        subscriptions = {(number, *key.partition("\0")[::2]): subscribed for (number, key), subscribed in items}
        write_changes(db, "subscription", "session filter name", subscriptions, _subscription_row)
        write_changes(db, "advertisement", "session name", changes.advertisements, _advertisement_row)
        write_changes(db, "retained", "topic", changes.retained, lambda _, event: _retained_row(event))
        if changes.messages:
            rows = [(number, *_retained_row(event)) for number, event in changes.messages.items()]
            run("INSERT INTO message VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
        if changes.deliveries:
            rows = [_delivery_row(*item) for item in changes.deliveries.items()]
            run("INSERT INTO delivery VALUES (?,?,?,?,?,?,?,?,?)", rows)
        if changes.updated:
            rows = [_updated_row(*item) for item in changes.updated.items()]
            run("UPDATE delivery SET message = ?, state = ?, packet_id = ?, revision = ? WHERE id = ?", rows)
        if changes.dropped_deliveries:
            run("DELETE FROM delivery WHERE id = ?", [(row,) for row in changes.dropped_deliveries])
        if changes.dropped_messages:
            run("DELETE FROM message WHERE id = ?", [(row,) for row in changes.dropped_messages])
        encode = msgspec.json.encode
        write_changes(db, "monitor", "source target name", changes.monitors, lambda key, state: (*key, encode(state)))
        write_changes(db, "standing", "session source", changes.standings, lambda key, owed: (*key, encode(owed)))
        if (revision := changes.revision) is not None:
            row = (revision.number, revision.access, revision.statements, revision.monitors)
            db.execute("INSERT OR REPLACE INTO revision VALUES (?,?,?,?)", row)
        if changes.capsules:
            remembered = {(name, encode(key)): value for (name, key), value in changes.capsules.items()}
            write_changes(db, "capsule", "name key", remembered, lambda key, value: (*key, encode(value)))
        write_changes(db, "rights", "node", changes.rights, lambda name, rights: (name, *rights))
        write_changes(db, "persisted", "id", changes.persisted, lambda row, message: (row, *message))
        if changes.dropped_persisted:
            oldest = "SELECT id FROM persisted ORDER BY id LIMIT ?"
            db.execute(f"DELETE FROM persisted WHERE id IN ({oldest})", (changes.dropped_persisted,))
        received = {key: is_open or None for key, is_open in changes.received.items()}
        write_changes(db, "received", "session packet_id", received, lambda key, _: key)
        write_changes(db, "refused", "session packet_id", changes.refused, lambda key, refused: (*key, *refused))
        self._moving.write(changes.moving)
        self._moving.drop(changes.dropped_sessions)
        self._bound.drop(changes.dropped_sessions)
        for number in changes.dropped_sessions:
            db.execute("DELETE FROM session WHERE id = ?", (number,))
            for table in _OF_SESSIONS:
                db.execute(f"DELETE FROM {table} WHERE session = ?", (number,))
        # Behind all that: one that no longer is durable, but has a will, is removed and stored anew.
        write_changes(db, "session", "id", changes.sessions, lambda _, session: _session_row(session))
        self._bound.write({session.id: " ".join(sorted(session.trust.bound)) for session in changes.sessions.values()})

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
                # Before the sessions that continue with them.
                node.monitors.stored[tuple(key)] = msgspec.json.decode(state)
            self._tokens.load(node)
            revisions, last_revision = self._load_revisions(node)
            for name, entry, value in self._db.execute("SELECT * FROM capsule"):
                known = node.capsules.stored.setdefault(name, {})
                known[tuple(msgspec.json.decode(entry))] = msgspec.json.decode(value)
            for row in self._db.execute("SELECT * FROM rights"):
                write_rights.restore(node, *row)
            sessions = self._load_sessions(node, now)
            self._tokens.load_shown(sessions)
            for session_ in sessions.values():
                session_.rights = session_rights.rights_for(node, session_)
            for number, groups in self._bound:
                if number in sessions:
                    sessions[number].trust.bound = frozenset(groups.split())
            for number, state in self._moving:
                if number in sessions:
                    moving.restore(node, sessions[number], state)
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
            review.review(node, last_revision, now)
            for number, packet_id in self._db.execute("SELECT session, packet_id FROM received"):
                session = sessions.get(number)
                if session is not None:
                    session.received = session.received or set()
                    session.received.add(packet_id)
            for number, packet_id, reason, *rest in self._db.execute("SELECT * FROM refused"):
                session = sessions.get(number)
                if session is not None:
                    session.refused = session.refused or {}
                    session.refused[packet_id] = RefusedPublish(Reason(reason), *rest)
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
            session.durable = expiry != 0
            session.connection.is_stored = True
            session.since = now
            session.connection.ended = now if ended is None else ended  # None: connected when the process ended
            session.connection.began = row[15]
            session.connection.will = _read_will(client_id, user, row[8:15])
            placement.settle_in(node, session)
            if session.place.entry is not None and session.place.entry.homes:
                session.outbox.last_id = newest.first_id(node, client_id, session.connection.began)
            node.sessions[client_id] = sessions[number] = session
            lifecycle.schedule(node, session)
        return sessions

    def _load_subscriptions(self, node: Node, sessions: dict[int, Session]) -> None:
        for number, text, name, *options, condition, scope, policy in self._db.execute("SELECT * FROM subscription"):
            qos, no_local, retain_as_published, identifier = options
            session = sessions.get(number)
            if session is not None:
                flags = (bool(no_local), bool(retain_as_published), identifier)
                subscribed = Subscribed(session, text, qos, *flags, name, condition, _SCOPES[scope])
                if subscribers.consumer_in(name):
                    subscribers.keep(node, subscribed)
                    continue
                filter = parse_filter(text)
                subscribed.condition = subscribe.condition_of(node, session, filter, condition)
                if review.restore_subscription(node, subscribed, policy):
                    subscribe.add(node, subscribed, filter)

    def _load_advertisements(self, node: Node, sessions: dict[int, Session]) -> None:
        for number, name, filter, condition_text, scope, policy in self._db.execute("SELECT * FROM advertisement"):
            session = sessions.get(number)
            if session is not None:
                condition = make_condition(condition_text) if condition_text else None
                own = review.restore_advertised(node, session, filter, policy)
                session.declared.advertisements[name] = ProducerAdvertisement(
                    name, filter, condition, scope or None, own
                )
                advertise.changed(node, session, name)

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
        return (*head, *(None,) * 7, session.connection.began)
    event = will.event
    left = (event.topic, event.payload, event.qos, event.retain, event.properties, will.delay, will.lifetime)
    return (*head, *left, session.connection.began)


def _read_will(client_id: str, user: str | None, row: tuple[object, ...]) -> Will | None:
    topic, payload, qos, retain, properties, delay, lifetime = row
    if topic is None:
        return None
    event = Event(topic, payload, qos, bool(retain), properties, None, client_id, user)  # type: ignore[arg-type]
    return Will(event, delay, lifetime)  # type: ignore[arg-type]


_SCOPES: tuple[Scope | None, ...] = (None, "local", "global")
"""Scopes of subscriptions by the number in the column `is_local`, which had just the first two."""


def _subscription_row(key: tuple[int, str, str], subscribed: Subscribed) -> tuple[object, ...]:
    options = (subscribed.qos, subscribed.no_local, subscribed.retain_as_published, subscribed.identifier)
    return (*key, *options, subscribed.asked, _SCOPES.index(subscribed.scope), _text(subscribed.policy))


def _advertisement_row(key: tuple[int, str], advertisement: ProducerAdvertisement) -> tuple[object, ...]:
    condition = advertisement.condition.text if advertisement.condition is not None else ""
    return (*key, advertisement.filter, condition, advertisement.scope or "", _text(advertisement.policy))


def _text(policy: Policy | None) -> str:
    return "" if policy is None else policy.text


def _retained_row(event: Event) -> tuple[object, ...]:
    return (event.topic, event.payload, event.qos, event.properties, event.expires, *source_columns(event))


def _delivery_row(row: int, delivery: Outgoing) -> tuple[object, ...]:
    """`delivery.row` is no longer `row` if it was settled while an earlier commit was tried again."""
    assert delivery.kept is not None
    identifiers = ",".join(map(str, delivery.ids)) if delivery.ids else ""
    head = (row, delivery.session.id, delivery.kept.id, delivery.qos, delivery.retain, identifiers)
    return (*head, delivery.state, delivery.packet_id, delivery.revision.number)


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
