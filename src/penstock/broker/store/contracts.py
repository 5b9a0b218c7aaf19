"""Stored contracts: those that sessions have brought, and the events that contracts hold back."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.broker.store.rows import write_changes
from penstock.engine.contracts import client_contracts, release_recheck
from penstock.engine.contracts.delayed import read_window, write_window
from penstock.engine.contracts.held import CollectedWindow, HeldEvent, WindowKey
from penstock.engine.ledger import Changes
from penstock.engine.node import Node
from penstock.engine.sessions.session import NO_REVISION, PolicyRevision, Session
from penstock.model.errors import ContentError
from penstock.model.event import Event


class StoredContracts:
    """The tables `brought`, `held` and `collected`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def write(self, changes: Changes) -> None:
        write_changes(self._db, "brought", "session name", changes.brought, lambda key, contract: (*key, contract))
        write_changes(self._db, "held", "id", changes.held, _held_row)
        full = {key: window if window.window.inputs else None for key, window in changes.windows.items()}
        write_changes(self._db, "collected", "session about", full, _window_row)

    def load_brought(self, node: Node, sessions: Mapping[int, Session], now: float) -> None:
        for number, name, contract in self._db.execute("SELECT * FROM brought"):
            if number in sessions:
                stored = msgspec.json.decode(contract, type=client_contracts.Stored)
                client_contracts.restore(node, sessions[number], name, stored, now)

    def load_held(
        self, node: Node, sessions: Mapping[int, Session], revisions: Mapping[int, PolicyRevision], now: float
    ) -> None:
        """Load events that are held back; they are checked against contracts when their time comes."""
        rows = self._db.execute("SELECT * FROM held")
        for number, session, at, topic, payload, qos, properties, expires, *source, retain, revision in rows:
            event = event_of(topic, payload, qos, bool(retain), properties, expires, source)
            if session in sessions:
                held = HeldEvent(at, sessions[session], event, revisions.get(revision, NO_REVISION))
                release_recheck.hold_back(node, held, number)
        rows = self._db.execute("SELECT * FROM collected")
        for number, about, topic, qos, properties, origin, user, window, link_type, path in rows:
            if number not in sessions:
                continue
            event = event_of(topic, b"", qos, False, properties, None, (origin, user, link_type, "", path))
            key = msgspec.json.decode(about, type=WindowKey)
            try:
                collected = CollectedWindow(sessions[number], key, event, read_window(window, now))
            except ContentError as error:
                node.notice("contract dropped", sessions[number], topic, f"the collected events are lost: {error}")
                continue
            node.later.windows[number, key] = collected


def source_columns(event: Event) -> tuple[object, ...]:
    """Return the columns about the source of an event: the last ones of its row."""
    return (event.origin, event.user, event.link_type, event.token, ",".join(event.path))


def event_of(
    topic: str, payload: bytes, qos: int, retain: bool, properties: bytes, expires: float | None, source: Sequence[Any]
) -> Event:
    """Return the event of a row; `source`: its last columns."""
    origin, user, link_type, token, path = source
    nodes = tuple(path.split(",")) if path else ()
    return Event(topic, payload, qos, retain, properties, expires, origin, user, link_type, nodes, "", token)


def _held_row(number: int, held: HeldEvent) -> tuple[object, ...]:
    event = held.event
    head = (number, held.session.id, held.at, event.topic, event.payload, event.qos, event.properties)
    return (*head, event.expires, *source_columns(event), event.retain, held.revision.number)


def _window_row(key: tuple[int, bytes], collected: CollectedWindow) -> tuple[object, ...]:
    event, window = collected.event, write_window(collected.window)
    head = (*key, event.topic, event.qos, event.properties, event.origin, event.user)
    return (*head, window, event.link_type, ",".join(event.path))
