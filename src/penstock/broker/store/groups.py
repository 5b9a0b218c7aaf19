"""Stored trust groups of sessions, so that a restart does not give waiting messages to others."""

import sqlite3
from collections.abc import Iterable, Mapping

from penstock.engine.sessions.session import Session


class BoundGroups:
    """The table `bound`: a row for each session that has proven groups. A group's name has no blanks."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known = {number for (number,) in db.execute("SELECT session FROM bound")}

    def write(self, sessions: Iterable[Session]) -> None:
        rows = {session.id: " ".join(sorted(session.trust.bound)) for session in sessions}
        self.drop(number for number, groups in rows.items() if not groups)
        bound = [(number, groups) for number, groups in rows.items() if groups]
        if bound:
            self._db.executemany("INSERT OR REPLACE INTO bound VALUES (?,?)", bound)
            self._known.update(number for number, _ in bound)

    def drop(self, numbers: Iterable[int]) -> None:
        removed = self._known.intersection(numbers)
        if removed:  # most sessions have none, and cost nothing
            self._db.executemany("DELETE FROM bound WHERE session = ?", [(number,) for number in removed])

    def load(self, sessions: Mapping[int, Session]) -> None:
        for number, groups in self._db.execute("SELECT * FROM bound"):
            if number in sessions:
                sessions[number].trust.bound = frozenset(groups.split())
