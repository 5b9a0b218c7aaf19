"""Log-in and log-out of people."""

import time

import msgspec

from penstock import __version__
from penstock.broker.http.admin_tokens import IDLE_SECONDS
from penstock.broker.http.audit import AuditEntry, record
from penstock.broker.http.endpoint import ApiError, ApiRequest, Done, Endpoints
from penstock.broker.identity.logins import LoginRefused
from penstock.policy.tokens.errors import show

ENDPOINTS = Endpoints()

MAX_ADDRESS = 100
NO_USER = "(no user)"
"""The name in the log for an attempt with an unknown user."""


class Login(msgspec.Struct, frozen=True):
    """A log-in of a user of the domain's `admin`."""

    user: str
    password: str
    address: str = ""
    """The person's address, if another program asks for it: trusted only with the local token."""


class LoggedIn(msgspec.Struct, frozen=True):
    """The token to send from now on, as `Authorization: Bearer TOKEN`."""

    token: str
    user: str
    right: str
    idle_seconds: float
    """The token expires after so many seconds without a request."""


class About(msgspec.Struct, frozen=True):
    """The node that answers, and the caller."""

    version: str
    domain: str
    revision: str
    nodes: tuple[str, ...]
    """The nodes that run in this process: all of them are reported at this address."""
    user: str
    right: str
    how: str


@ENDPOINTS.add("POST /api/login", None, "log in with a password", body=Login)
async def _login(request: ApiRequest) -> LoggedIn:
    login, settings = request.parsed_body(Login), request.api.settings
    user, right, passwords = login.user, settings.users.get(login.user), request.api.passwords
    if login.address and request.caller.how == "local":
        request = request._replace(address=login.address[:MAX_ADDRESS])
    try:
        # Unlisted users are checked too, so that the time does not reveal who is listed.
        await request.api.logins.check(passwords, request.address, user, login.password.encode())
        if right is None:
            raise LoginRefused("unknown user or wrong password", 401)
    except LoginRefused as refused:
        is_known = user in settings.users or (passwords is not None and user in passwords.hashes)
        # An unknown name may be a password that was typed in the wrong place.
        _record_login(request, show(user) if is_known else NO_USER, str(refused), False)
        raise ApiError(str(refused), refused.status, refused.later) from None
    _record_login(request, show(user), "", True)
    return LoggedIn(request.api.tokens.begin(user, passwords, request.server.now()), user, right, IDLE_SECONDS)


def _record_login(request: ApiRequest, user: str, why: str, is_done: bool) -> None:
    entry = AuditEntry(time.time(), request.server.name, user, "password", request.address, "log-in", why, is_done)
    request.api.audit.record(request.server, entry)


@ENDPOINTS.add("POST /api/logout", "read", "end the session of the token")
async def _logout(request: ApiRequest) -> Done:
    request.api.tokens.end(request.token)
    record(request, "log-out", "", True)
    return Done()


@ENDPOINTS.add("GET /api/about", "read", "the node that answers, and the caller")
async def _about(request: ApiRequest) -> About:
    api = request.api
    names, caller = tuple(api.servers), request.caller
    return About(__version__, api.domain.domain, api.revision.digest, names, caller.name, caller.right, caller.how)
