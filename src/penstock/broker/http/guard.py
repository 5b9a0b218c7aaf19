"""Who asks: the local token, people who have logged in, clients with an authorisation token."""

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.http.endpoint import NOBODY, Who
from penstock.domain.schema.admin import AdminSettings
from penstock.policy.access.passwords import Passwords
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.revocation import CARRIED

if TYPE_CHECKING:
    from penstock.broker.server import Server

MOST_SESSIONS = 1_000
"""People that are logged in at a time; who logged in first goes first."""
IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3600.0


class _Session(NamedTuple):
    user: str
    password: str
    """Stands for the password that it was begun with: with another it is over."""
    ends: float
    idle: float


class Guard:
    """Tokens by which people and programs are known."""

    def __init__(self) -> None:
        self.local = secrets.token_urlsafe(32)
        """For the system's user that runs the node."""
        self._sessions: dict[bytes, _Session] = {}

    def who(
        self, server: "Server", settings: AdminSettings, passwords: Passwords | None, token: str, now: float
    ) -> Who:
        """Who has this token; what it may do is as the domain and the password file say now."""
        if not token:
            return NOBODY
        if hmac.compare_digest(token.encode(errors="replace"), self.local.encode()):
            return Who("local", "change", "local")
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
        return Who(session.user, right, "person")

    def begin(self, user: str, passwords: Passwords | None, now: float) -> str:
        """A token for a person who has logged in."""
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(32)
        self._sessions[_digest(token)] = _Session(
            user, _password(passwords, user), now + LONGEST_SECONDS, now + IDLE_SECONDS
        )
        return token

    def end(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)


def _password(passwords: Passwords | None, user: str) -> str:
    known = passwords.hashes.get(user) if passwords is not None else None
    return "" if known is None else _digest(str(known)).hex()


def _digest(token: str) -> bytes:
    """Of tokens only this is kept."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _client(server: "Server", settings: AdminSettings, token: str, now: float) -> Who:
    """A client, by an authorisation token of this very node: others do not say who may look at it."""
    tokens = server.node.tokens
    if tokens is None or not settings.clients:
        return NOBODY
    try:
        claims = tokens.verifier.verify(token.encode(errors="replace"), now).token.claims
    except TokenError:
        return NOBODY
    right = settings.clients.get(claims.subject.name)
    if claims.subject.kind != "client" or claims.issuer != server.name or right is None:
        return NOBODY
    if claims.id.startswith(CARRIED):  # what a node says of a client to its neighbours, who could say it here
        return NOBODY
    return Who(claims.subject.name, right, "client")
