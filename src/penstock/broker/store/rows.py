"""Writing rows of the store: changes by key, and tables with a row for some sessions only."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def write_changes(
    db: sqlite3.Connection,
    table: str,
    columns: str,
    changes: Mapping[K, V | None],
    row: Callable[[K, V], tuple[Any, ...]],
) -> None:
    """Write rows by their key `columns`: None deletes a row, any other value replaces it with `row(key, value)`."""
    if not changes:
        return
    where = " AND ".join(f"{column} = ?" for column in columns.split())
    removed = [key if isinstance(key, tuple) else (key,) for key, value in changes.items() if value is None]
    db.executemany(f"DELETE FROM {table} WHERE {where}", removed)
    rows = [row(key, value) for key, value in changes.items() if value is not None]
    if rows:
        db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)


class SessionTable:
    """A table with one value for each session that has one. Most sessions have none, and cost nothing."""

    def __init__(self, db: sqlite3.Connection, table: str) -> None:
        self._db, self._table = db, table
        self._known = {number for (number,) in db.execute(f"SELECT session FROM {table}")}

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self._db.execute(f"SELECT * FROM {self._table}")

    def write(self, values: Mapping[int, object]) -> None:
        """Write the values of sessions; an empty one, or None, deletes the row."""
        self.drop(number for number, value in values.items() if not value)
        rows = [(number, value) for number, value in values.items() if value]
        if rows:
            self._db.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?,?)", rows)
            self._known.update(number for number, _ in rows)

    def drop(self, numbers: Iterable[int]) -> None:
        removed = self._known.intersection(numbers)
        if removed:
            self._db.executemany(f"DELETE FROM {self._table} WHERE session = ?", [(number,) for number in removed])
            self._known -= removed
