"""Log-in and log-out of people."""

import time

import msgspec

from penstock import __version__
from penstock.broker.http.audit import Audited, tell
from penstock.broker.http.endpoint import Asked, Done, Endpoint, Refused
from penstock.broker.http.guard import IDLE_SECONDS
from penstock.broker.identity.logins import LoginRefused
from penstock.policy.tokens.errors import show

MOST_ADDRESS = 100
NO_USER = "(no user)"
"""Who has tried to log in, where it is nobody."""


class Login(msgspec.Struct, frozen=True):
    """A person of the domain's `admin`."""

    user: str
    password: str
    address: str = ""
    """Where the person comes from, if somebody else asks for it: believed of who shows the local token."""


class LoggedIn(msgspec.Struct, frozen=True):
    """What to show from now on, as `Authorization: Bearer TOKEN`."""

    token: str
    user: str
    right: str
    idle_seconds: float
    """After so many without a question it no longer counts."""


class About(msgspec.Struct, frozen=True):
    """Who answers, and who asks."""

    version: str
    domain: str
    revision: str
    nodes: tuple[str, ...]
    """Those that run in this process: all of them are told of at this address."""
    user: str
    right: str
    how: str


async def _login(asked: Asked) -> LoggedIn:
    said, settings = asked.said(Login), asked.api.settings
    user, right, passwords = said.user, settings.users.get(said.user), asked.api.passwords
    if said.address and asked.who.how == "local":
        asked = asked._replace(address=said.address[:MOST_ADDRESS])
    try:
        # Who is not listed is checked too: how long it takes does not tell who is.
        await asked.api.logins.check(passwords, asked.address, user, said.password.encode())
        if right is None:
            raise LoginRefused("unknown user or wrong password", 401)
    except LoginRefused as refused:
        is_known = user in settings.users or (passwords is not None and user in passwords.hashes)
        # What is no name may be a password that was typed in the wrong place.
        _tell(asked, show(user) if is_known else NO_USER, str(refused), False)
        raise Refused(str(refused), refused.status, refused.later) from None
    _tell(asked, show(user), "", True)
    return LoggedIn(asked.api.guard.begin(user, passwords, asked.server.now()), user, right, IDLE_SECONDS)


def _tell(asked: Asked, user: str, why: str, is_done: bool) -> None:
    told = Audited(time.time(), asked.server.name, user, "password", asked.address, "log-in", why, is_done)
    asked.api.audit.tell(asked.server, told)


async def _logout(asked: Asked) -> Done:
    asked.api.guard.end(asked.token)
    tell(asked, "log-out", "", True)
    return Done()


async def _about(asked: Asked) -> About:
    api = asked.api
    names, who = tuple(api.servers), asked.who
    return About(__version__, api.domain.domain, api.revision.digest, names, who.name, who.right, who.how)


ENDPOINTS = (
    Endpoint("POST", "/api/login", None, "log in with a password", LoggedIn, _login, body=Login),
    Endpoint("POST", "/api/logout", "read", "make the token worthless that is shown", Done, _logout),
    Endpoint("GET", "/api/about", "read", "who answers, and who asks", About, _about),
)
