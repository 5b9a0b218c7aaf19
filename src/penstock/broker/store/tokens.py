"""Stored tokens of sessions and of waiting events, and evidence about neighbours.

So a restart neither gives waiting messages to clients that may no longer read them, nor forgets what a neighbour has
done.
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
            removed = [(digest,) for digest, token in changes.tokens.items() if token is None]
            self._db.executemany("DELETE FROM token WHERE digest = ?", removed)
            rows = [(digest, token.text) for digest, token in changes.tokens.items() if token is not None]
            self._db.executemany("INSERT OR REPLACE INTO token VALUES (?,?)", rows)
        if changes.evidence:
            evidence_rows = [
                (name, evidence.good, evidence.bad, evidence.at) for name, evidence in changes.evidence.items()
            ]
            self._db.executemany("INSERT OR REPLACE INTO evidence VALUES (?,?,?,?)", evidence_rows)

    def _write_shown(self, sessions: Iterable[Session]) -> None:
        shown = {session.id: session.trust.token for session in sessions}
        self.drop(number for number, token in shown.items() if token is None)
        rows = [(number, token.token.text) for number, token in shown.items() if token is not None]
        if rows:
            self._db.executemany("INSERT OR REPLACE INTO shown VALUES (?,?)", rows)
            self._known.update(number for number, _ in rows)

    def drop(self, numbers: Iterable[int]) -> None:
        removed = self._known.intersection(numbers)
        if removed:  # most sessions have none, and cost nothing
            self._db.executemany("DELETE FROM shown WHERE session = ?", [(number,) for number in removed])
            self._known -= removed

    def load_shown(self, sessions: Mapping[int, Session]) -> None:
        """Load the tokens that sessions had shown when their clients left: waiting messages are judged by them until
        they return."""
        for number, text in self._db.execute("SELECT * FROM shown"):
            token = _read(text)
            if number in sessions and token is not None:
                sessions[number].trust.token = Verified(token, (), 0.0, NEVER)

    def load(self, node: Node) -> None:
        """Load the tokens of events, and the evidence about neighbours."""
        for digest, text in self._db.execute("SELECT * FROM token"):
            token = _read(text)
            if token is not None and token.digest == digest:
                node.trust.stored_tokens.append(token)
        for name, good, bad, at in self._db.execute("SELECT * FROM evidence"):
            node.trust.stored_evidence[name] = Evidence(good, bad, at)


def _read(text: bytes) -> Token | None:
    try:
        return parse_token(text)
    except TokenError:  # of a version that accepted what this one does not
        return None
