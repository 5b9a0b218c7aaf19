"""Messages that policies have persisted, in a store."""

import base64
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from penstock.engine.ledger import Persisted


class Selection(NamedTuple):
    """A selection: one collection (None: all), from a time on, and before another (seconds since 1970)."""

    collection: str | None = None
    since: float = float("-inf")
    until: float = float("inf")


_WHERE = "(?1 IS NULL OR collection = ?1) AND time >= ?2 AND time < ?3"


def read(db: sqlite3.Connection, selection: Selection, limit: int = -1) -> Iterator[Persisted]:
    """Return the newest `limit` of them (default: all), the oldest of these first."""
    newest = f"SELECT * FROM persisted WHERE {_WHERE} ORDER BY id DESC LIMIT ?4"
    rows = db.execute(f"SELECT * FROM ({newest}) ORDER BY id", (*selection, limit))
    return (Persisted(*row) for _, *row in rows)


def delete(db: sqlite3.Connection, selection: Selection) -> int:
    """Delete them; return how many there were."""
    return db.execute(f"DELETE FROM persisted WHERE {_WHERE}", selection).rowcount


def plain(row: Persisted) -> dict[str, object]:
    """Return a message as JSON values: a payload that is not text is in base64."""
    values = {"time": row.time, "collection": row.collection, "policy": row.policy, "topic": row.topic}
    try:
        return {**values, "payload": row.payload.decode()}
    except UnicodeDecodeError:
        return {**values, "payload_base64": base64.b64encode(row.payload).decode()}
