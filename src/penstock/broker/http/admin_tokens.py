"""Authentication of admin callers: the local token, logged-in people, clients with an authorisation token."""

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.http.endpoint import NOBODY, Caller
from penstock.domain.schema.admin import AdminSettings
from penstock.policy.access.passwords import Passwords
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.revocation import CARRIED

if TYPE_CHECKING:
    from penstock.broker.server import Server

MAX_SESSIONS = 1_000
"""People that are logged in at a time; the oldest log-in ends first."""
IDLE_SECONDS = 30 * 60.0
MAX_SECONDS = 12 * 3600.0


class _Session(NamedTuple):
    user: str
    password: str
    """A digest of the password it was begun with: a new password ends the session."""
    ends: float
    idle: float


class AdminTokens:
    """The tokens by which people and programs are authenticated."""

    def __init__(self) -> None:
        self.local = secrets.token_urlsafe(32)
        """The token for the system user that runs the node."""
        self._sessions: dict[bytes, _Session] = {}

    def caller(
        self, server: "Server", settings: AdminSettings, passwords: Passwords | None, token: str, now: float
    ) -> Caller:
        """Return the caller with this token; its right is that of the present domain and password file."""
        if not token:
            return NOBODY
        if hmac.compare_digest(token.encode(errors="replace"), self.local.encode()):
            return Caller("local", "change", "local")
        if token.lstrip().startswith("{"):
            return _client(server, settings, token, now)
        key = _digest(token)
        session = self._sessions.get(key)
        if session is None:
            return NOBODY
        right = settings.users.get(session.user)
        is_same = session.password == _password(passwords, session.user)
        if now >= min(session.ends, session.idle) or right is None or not is_same:
            del self._sessions[key]
            return NOBODY
        self._sessions[key] = session._replace(idle=now + IDLE_SECONDS)
        return Caller(session.user, right, "person")

    def begin(self, user: str, passwords: Passwords | None, now: float) -> str:
        """Return a token for a person who has logged in."""
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(32)
        session = _Session(user, _password(passwords, user), now + MAX_SECONDS, now + IDLE_SECONDS)
        self._sessions[_digest(token)] = session
        return token

    def end(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)


def _password(passwords: Passwords | None, user: str) -> str:
    hash = passwords.hashes.get(user) if passwords is not None else None
    return "" if hash is None else _digest(str(hash)).hex()


def _digest(token: str) -> bytes:
    """Return the digest of a token; only digests are kept."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _client(server: "Server", settings: AdminSettings, token: str, now: float) -> Caller:
    """Return a client by an authorisation token of this very node: other nodes do not decide who may read it."""
    tokens = server.node.trust.tokens
    if tokens is None or not settings.clients:
        return NOBODY
    try:
        claims = tokens.verifier.verify(token.encode(errors="replace"), now).token.claims
    except TokenError:
        return NOBODY
    right = settings.clients.get(claims.subject.name)
    is_ours = claims.subject.kind == "client" and claims.issuer == server.name
    if not is_ours or right is None or claims.id.startswith(CARRIED):  # CARRIED: neighbours could present it here
        return NOBODY
    return Caller(claims.subject.name, right, "client")
