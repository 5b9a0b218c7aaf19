"""Messages that policies have had persisted, as a store has them."""

import base64
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from penstock.engine.ledger import Persisted


class Selection(NamedTuple):
    """Which of them: of one collection (None: of all), from a time on, and before another (seconds since 1970)."""

    collection: str | None = None
    since: float = float("-inf")
    until: float = float("inf")


_WHERE = "(?1 IS NULL OR collection = ?1) AND time >= ?2 AND time < ?3"


def read(db: sqlite3.Connection, wanted: Selection, most: int = -1) -> Iterator[Persisted]:
    """The newest `most` of them (all), the oldest of these first."""
    newest = f"SELECT * FROM persisted WHERE {_WHERE} ORDER BY id DESC LIMIT ?4"
    rows = db.execute(f"SELECT * FROM ({newest}) ORDER BY id", (*wanted, most))
    return (Persisted(*row) for _, *row in rows)


def delete(db: sqlite3.Connection, wanted: Selection) -> int:
    """Forget them; returns how many there were."""
    return db.execute(f"DELETE FROM persisted WHERE {_WHERE}", wanted).rowcount


def plain(row: Persisted) -> dict[str, object]:
    """A message as JSON can say it: a payload that is not text is in base64."""
    told = {"time": row.time, "collection": row.collection, "policy": row.policy, "topic": row.topic}
    try:
        return {**told, "payload": row.payload.decode()}
    except UnicodeDecodeError:
        return {**told, "payload_base64": base64.b64encode(row.payload).decode()}
