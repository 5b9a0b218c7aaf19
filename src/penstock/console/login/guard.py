"""The log-in page, which needs no script, and the guard before everything else.

The browser holds a cookie that no script can read and no other site can have sent. Without it nothing is served, not
even the scripts and pictures of the page.
"""

import asyncio
from collections.abc import Collection
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.broker.http.host_names import OwnNames, is_same_site
from penstock.console.admin_client import ApiClientError
from penstock.console.login.form_limit import FormLimit
from penstock.console.login.plain import plain
from penstock.console.person import People, Person
from penstock.console.prose import prose

COOKIE = "penstock_console"
MAX_FORM = 32 * 1024
MAX_TARGET = 4 * 1024
"""Characters of the address that a log-in leads to."""
ASK_SECONDS = 30.0
"""Time limit for the node's answer to a log-in."""
_NO_NAME = "This console is not known by that name: `hosts` of `admin` in the domain file lists its names."
_OPEN = ("/login", "/logout")
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_LOGIN_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; frame-ancestors 'none';"
    " form-action 'self'; base-uri 'self'; object-src 'none'"
)
"""The page's framework compiles templates, so scripts may be evaluated; all of them come from here."""


class LoginGuard:
    """The guard before the page."""

    def __init__(self, app: ASGIApp, people: People, is_secure: bool, names: OwnNames, paths: Collection[str]) -> None:
        """`paths`: pages that a log-in may lead to."""
        self._app = app
        self._people = people
        self._is_secure = is_secure
        self._names = names
        self._paths = paths
        self._patience = FormLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_own = self._names.has(headers.getlist("host"))
        if not is_own or (scope["type"] == "websocket" and not is_same_site(headers, strict=True)):
            await _refuse(scope, receive, send, 421, _NO_NAME)
            return
        path = scope["path"]
        if scope["type"] == "http" and path in _OPEN:
            await (await self._answer(Request(scope, receive), path))(scope, receive, send)
            return
        if self._people.find(mark_of(headers)) is None:
            if scope["type"] == "http" and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
                await RedirectResponse(self._login(scope), 303, _HEADERS)(scope, receive, send)
            else:
                await _refuse(scope, receive, send, 401)
            return
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD") and not is_same_site(headers):
            await _refuse(scope, receive, send, 403)
            return
        await self._app(scope, receive, _with_headers(send))

    def _login(self, scope: Scope) -> str:
        """Return the address of the log-in page, which leads back to the requested page."""
        requested = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        way = self._way(requested)
        return f"/login?to={quote(way, safe='/')}" if way != "/" else "/login"

    def _way(self, requested: str) -> str:
        """Return where a log-in leads: to a page of the console, whatever was requested."""
        try:
            parts = urlsplit(requested[:MAX_TARGET])
        except ValueError:
            return "/"
        is_ours = not parts.scheme and not parts.netloc and parts.path in self._paths and len(requested) <= MAX_TARGET
        query = quote(parts.query, safe="=&%+/,.:")
        return parts.path + (f"?{query}" if query else "") if is_ours else "/"

    async def _answer(self, request: Request, path: str) -> Response:
        if path == "/logout":
            if request.method != "POST" or not is_same_site(request.headers):
                return PlainTextResponse("no", 405, _HEADERS)
            await self._people.log_out(mark_of(request.headers))
            answer: Response = RedirectResponse("/login", 303, _HEADERS)
            answer.delete_cookie(COOKIE, path="/")
            return answer
        if request.method == "GET":
            return _page("", to=self._way(request.query_params.get("to", "")))
        if request.method != "POST" or not is_same_site(request.headers):
            return PlainTextResponse("no", 403, _HEADERS)
        return await self._log_in(request)

    async def _log_in(self, request: Request) -> Response:
        try:
            async with self._patience.one_form(request.client.host if request.client is not None else ""):
                body = await _form(request)
        except TimeoutError:
            return _page("The form did not arrive in time.", 408)
        if len(body) > MAX_FORM:
            return _page("The form is too long.", 413)
        fields = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        user, password, token = fields.get("user", ""), fields.get("password", ""), fields.get("token", "").strip()
        way = self._way(fields.get("to", ""))
        if not token and not (user and password):
            return _page("Give your user name and password.", 400, to=way)
        try:
            address = request.client.host if request.client is not None else ""
            if not (token.isascii() and token.isprintable()):
                raise ApiClientError("no token has such characters", 401)
            async with asyncio.timeout(ASK_SECONDS):
                mark = await self._people.log_in(user, password, token, address)
        except TimeoutError:
            return _page("The node does not answer in time.", 504, bool(token), way)
        except ApiClientError as error:
            wrong = {401: "Unknown user, wrong password, or invalid token.", 0: f"The node cannot be reached: {error}"}
            return _page(wrong.get(error.status, str(error)), error.status or 502, bool(token), way)
        answer = RedirectResponse(way, 303, _HEADERS)
        answer.set_cookie(COOKIE, mark, path="/", httponly=True, samesite="strict", secure=self._is_secure)
        return answer


async def _form(request: Request) -> bytes:
    """Return the body of a form, up to a little more than the limit."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            break
    return body


def _page(wrong: str, status: int = 200, with_token: bool = False, to: str = "/") -> Response:
    alert = f'<p class="wrong" role="alert">{prose(wrong)}</p>' if wrong else ""
    text = plain("log in", "login", wrong=alert, opened=" open" if with_token else "", to=escape(to, quote=True))
    headers = {**_HEADERS, "Content-Security-Policy": _LOGIN_POLICY}
    if status in (408, 413):  # the rest of the form is not waited for
        headers["Connection"] = "close"
    return HTMLResponse(text, status, headers)


def mark_of(headers: Headers) -> str:
    """Return the session cookie of a request."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def person_of(people: People, request: Request) -> Person:
    """Return the person who looks at a page; raise `LookupError`."""
    person = people.find(mark_of(request.headers))
    if person is None:
        raise LookupError("logged out")
    return person


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str = "no") -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(why, status, _HEADERS)(scope, receive, send)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message["headers"] if name.lower() != b"cache-control"]
            more = {**_HEADERS, "Content-Security-Policy": PAGE_POLICY}
            original = Headers(raw=message["headers"])
            if "immutable" in original.get("cache-control", ""):
                more["Cache-Control"] = "private, max-age=86400"
            message["headers"] = [*headers, *((name.lower().encode(), value.encode()) for name, value in more.items())]
        await send(message)

    return sending
