"""In a store: contracts that sessions have brought, and what contracts hold back for sessions."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.engine.contracts import client_contracts, release_recheck
from penstock.engine.contracts.delayed import read_window, write_window
from penstock.engine.contracts.held import Collected, Collecting, Held
from penstock.engine.ledger import Changes
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.errors import ContentError
from penstock.model.event import Event


class StoredContracts:
    """The tables `brought`, `held` and `collected`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def write(self, changes: Changes) -> None:
        run = self._db.executemany
        if changes.brought:
            gone = [key for key, made in changes.brought.items() if made is None]
            run("DELETE FROM brought WHERE session = ? AND name = ?", gone)
            made = [(*key, one) for key, one in changes.brought.items() if one is not None]
            run("INSERT OR REPLACE INTO brought VALUES (?,?,?)", made)
        if changes.held:
            run("DELETE FROM held WHERE id = ?", [(number,) for number in changes.held])
            rows = [_held_row(number, one) for number, one in changes.held.items() if one is not None]
            run("INSERT INTO held VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
        if changes.windows:
            run("DELETE FROM collected WHERE session = ? AND about = ?", list(changes.windows))
            rows = [_window_row(*key, one) for key, one in changes.windows.items() if one.window.inputs]
            run("INSERT INTO collected VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
        for number in changes.dropped_sessions:
            for table in ("brought", "held", "collected"):
                self._db.execute(f"DELETE FROM {table} WHERE session = ?", (number,))

    def load_brought(self, node: Node, sessions: Mapping[int, Session], now: float) -> None:
        for number, name, made in self._db.execute("SELECT * FROM brought"):
            if number in sessions:
                client_contracts.restore(
                    node, sessions[number], name, msgspec.json.decode(made, type=client_contracts.Stored), now
                )

    def load_held(self, node: Node, sessions: Mapping[int, Session], now: float) -> None:
        """What is held back; it is held against contracts when its time comes."""
        rows = self._db.execute("SELECT * FROM held")
        for number, session, at, topic, payload, qos, properties, expires, *source, retain in rows:
            event = event_of(topic, payload, qos, bool(retain), properties, expires, source)
            if session in sessions:
                release_recheck.hold_back(node, at, sessions[session], event, number)
        rows = self._db.execute("SELECT * FROM collected")
        for number, about, topic, qos, properties, origin, user, window, link_type, path in rows:
            if number not in sessions:
                continue
            event = event_of(topic, b"", qos, False, properties, None, (origin, user, link_type, "", path))
            key = msgspec.json.decode(about, type=Collecting)
            try:
                one = Collected(sessions[number], key, event, read_window(window, now))
            except ContentError as error:
                node.notice("contract dropped", sessions[number], topic, f"what was collected is lost: {error}")
                continue
            node.later.windows[number, key] = one


def whence(event: Event) -> tuple[object, ...]:
    """Whom an event came from, and how: the last columns of its row."""
    return (event.origin, event.user, event.link_type, event.token, ",".join(event.path))


def event_of(
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool,
    properties: bytes,
    expires: float | None,
    source: Sequence[Any],
) -> Event:
    """The event of a row; `source`: its last columns."""
    origin, user, link_type, token, path = source
    nodes = tuple(path.split(",")) if path else ()
    return Event(topic, payload, qos, retain, properties, expires, origin, user, link_type, nodes, "", token)


def _held_row(number: int, one: Held) -> tuple[object, ...]:
    event = one.event
    head = (number, one.session.id, one.at, event.topic, event.payload, event.qos, event.properties)
    return (*head, event.expires, *whence(event), event.retain)


def _window_row(session: int, about: bytes, one: Collected) -> tuple[object, ...]:
    event = one.event
    return (
        session,
        about,
        event.topic,
        event.qos,
        event.properties,
        event.origin,
        event.user,
        write_window(one.window),
        event.link_type,
        ",".join(event.path),
    )
