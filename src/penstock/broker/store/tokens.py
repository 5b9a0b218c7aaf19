"""In a store: the tokens that sessions have shown, those of events that may wait, and what is held of neighbours.

So a restart neither gives what waits to who may no longer read it, nor forgets what a neighbour has done.
"""

import sqlite3
from collections.abc import Iterable, Mapping

from penstock.engine.ledger import Changes
from penstock.engine.node import Node
from penstock.engine.sessions.session import NEVER, Session
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.token import Token, parse_token
from penstock.policy.tokens.verification import Verified
from penstock.policy.trust.rating import Evidence


class StoredTokens:
    """The tables `shown`, `token` and `evidence`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known = {number for (number,) in db.execute("SELECT session FROM shown")}

    def write(self, changes: Changes) -> None:
        self._write_shown(changes.sessions.values())
        self.drop(changes.dropped_sessions)
        if changes.tokens:
            gone = [(digest,) for digest, token in changes.tokens.items() if token is None]
            self._db.executemany("DELETE FROM token WHERE digest = ?", gone)
            rows = [(digest, token.text) for digest, token in changes.tokens.items() if token is not None]
            self._db.executemany("INSERT OR REPLACE INTO token VALUES (?,?)", rows)
        if changes.evidence:
            held = [(name, one.good, one.bad, one.at) for name, one in changes.evidence.items()]
            self._db.executemany("INSERT OR REPLACE INTO evidence VALUES (?,?,?,?)", held)

    def _write_shown(self, sessions: Iterable[Session]) -> None:
        shown = {session.id: session.token for session in sessions}
        self.drop(number for number, token in shown.items() if token is None)
        rows = [(number, token.token.text) for number, token in shown.items() if token is not None]
        if rows:
            self._db.executemany("INSERT OR REPLACE INTO shown VALUES (?,?)", rows)
            self._known.update(number for number, _ in rows)

    def drop(self, numbers: Iterable[int]) -> None:
        gone = self._known.intersection(numbers)
        if gone:  # most sessions have none, and cost nothing
            self._db.executemany("DELETE FROM shown WHERE session = ?", [(number,) for number in gone])
            self._known -= gone

    def load_shown(self, sessions: Mapping[int, Session]) -> None:
        """What sessions had shown when their clients went: what waits for them is judged by it until they are back."""
        for number, text in self._db.execute("SELECT * FROM shown"):
            token = _read(text)
            if number in sessions and token is not None:
                sessions[number].token = Verified(token, (), 0.0, NEVER)

    def load(self, node: Node) -> None:
        """The tokens of events, and what is held of neighbours."""
        for digest, text in self._db.execute("SELECT * FROM token"):
            token = _read(text)
            if token is not None and token.digest == digest:
                node.stored_tokens.append(token)
        for name, good, bad, at in self._db.execute("SELECT * FROM evidence"):
            node.stored_evidence[name] = Evidence(good, bad, at)


def _read(text: bytes) -> Token | None:
    try:
        return parse_token(text)
    except TokenError:  # of a version that took what this one does not
        return None
