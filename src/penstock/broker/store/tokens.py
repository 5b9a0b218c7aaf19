"""Stored tokens of sessions and of waiting events, and evidence about neighbours.

So a restart neither gives waiting messages to clients that may no longer read them, nor forgets what a neighbour has
done.
"""

import sqlite3
from collections.abc import Mapping

from penstock.broker.store.rows import SessionTable, write_changes
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
        self._shown = SessionTable(db, "shown")

    def write(self, changes: Changes) -> None:
        tokens = ((session.id, session.trust.token) for session in changes.sessions.values())
        self._shown.drop(changes.dropped_sessions)
        self._shown.write({number: None if token is None else token.token.text for number, token in tokens})
        write_changes(self._db, "token", "digest", changes.tokens, lambda digest, token: (digest, token.text))
        write_changes(
            self._db, "evidence", "neighbour", changes.evidence, lambda name, seen: (name, seen.good, seen.bad, seen.at)
        )

    def load_shown(self, sessions: Mapping[int, Session]) -> None:
        """Load the tokens of sessions whose clients have left: waiting messages are judged by them."""
        for number, text in self._shown:
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
