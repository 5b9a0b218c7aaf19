"""The authorisation endpoint of a node: tokens for clients with a password (OAuth 2.0 client credentials).

`POST /token` (RFC 6749 §4.4), `GET /keys` (RFC 7517), `GET /.well-known/oauth-authorization-server` (RFC 8414).
"""

import base64
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.broker.http.endpoint import ApiError, read_body
from penstock.broker.identity.logins import LoginRefused, Logins
from penstock.engine.trust.tokens import OWN, Tokens
from penstock.policy.tokens.errors import TokenError, show
from penstock.policy.tokens.keys import as_jwk
from penstock.policy.tokens.scope import ScopeError, TokenGrant
from penstock.policy.tokens.token import Party, Token

if TYPE_CHECKING:
    from penstock.broker.server import Server

MAX_BODY = 16 * 1024
"""Bytes of a request's body."""
BODY_SECONDS = 10.0
"""Time limit for the body."""
MAX_LOGGED, LOGGED_SECONDS = 40, 10.0
"""Refusals that are logged in so many seconds."""
_MAX_PARAMETERS = 32
_FORM = "application/x-www-form-urlencoded"
_BASIC = {"WWW-Authenticate": 'Basic realm="penstock", charset="UTF-8"'}
_NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}  # RFC 6749 §5.1


class TokenRefusal(Exception):
    """An error response of RFC 6749 §5.2."""

    def __init__(self, error: str, why: str, status: int = 400, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.error = error
        self.status = status
        self.headers = dict(headers or {})

    @property
    def answer(self) -> Response:
        # The RFC allows neither quotes nor backslashes nor anything beyond ASCII in a description.
        description = "".join(letter if " " <= letter <= "~" and letter not in '"\\' else "?" for letter in str(self))
        body = {"error": self.error, "error_description": description}
        return JSONResponse(body, self.status, {**_NOT_KEPT, **self.headers})


class TokenRequest(NamedTuple):
    """A well-formed request for a token."""

    user: str
    password: bytes
    scope: str


class Authorisation:
    """The endpoint of one node. Without tokens in the domain it answers 404."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._logins = Logins()
        self._logged: list[float] = []

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/token", self._token, methods=["POST"]),
            Route("/keys", self._keys),
            Route("/.well-known/oauth-authorization-server", self._metadata),
        ]

    @property
    def paths(self) -> set[str]:
        return {route.path for route in self.routes}

    def stop(self) -> None:
        self._logins.stop()

    async def _token(self, request: Request) -> Response:
        if self._server.node.trust.tokens is None:
            return _nothing()
        address = request.client.host if request.client is not None else "unknown"
        user = ""
        try:
            token_request = read_request(request, await _body(request))
            user = token_request.user
            await self._log_in(address, token_request)
            token, granted = self._issue(token_request)
        except TokenRefusal as refusal:
            self._log_refusal(address, user, refusal)
            return refusal.answer
        except ClientDisconnect:
            return Response(status_code=400)  # the client has gone
        claims = token.claims
        extra = {"address": address, "user": show(user), "holder": str(claims.subject), "token": claims.id}
        self._server.log.info("token issued", extra=extra)
        body = {
            "access_token": token.text.decode(),
            "token_type": "Bearer",
            "expires_in": claims.expiry - claims.issued,
            "scope": granted.scope,
        }
        return JSONResponse(body, headers=_NOT_KEPT)

    def _log_refusal(self, address: str, user: str, refusal: TokenRefusal) -> None:
        """Log a refusal, unless there are too many: a flood of bad requests does not flood the log."""
        now = time.monotonic()
        self._logged = [at for at in self._logged if at > now - LOGGED_SECONDS]
        if len(self._logged) < MAX_LOGGED:
            self._logged.append(now)
            extra = {"address": address, "user": show(user), "cause": f"{refusal.error}: {refusal}"}
            self._server.log.warning("token not issued", extra=extra)

    async def _log_in(self, address: str, token_request: TokenRequest) -> None:
        try:
            passwords = self._server.node.admission.passwords
            await self._logins.check(passwords, address, token_request.user, token_request.password)
        except LoginRefused as refused:
            if refused.status == 401:
                raise TokenRefusal("invalid_client", str(refused), 401, _BASIC) from None
            later = {"Retry-After": str(refused.later)}
            raise TokenRefusal("temporarily_unavailable", str(refused), refused.status, later) from None

    def _issue(self, token_request: TokenRequest) -> tuple[Token, TokenGrant]:
        node = self._server.node
        tokens = self._tokens()
        unused = tokens.keys.why_unused(node.name, self._server.now())
        if unused:
            raise TokenRefusal("temporarily_unavailable", unused, 503)
        holder = node.ensemble.holder(token_request.user)
        if holder is None or holder.startswith(OWN):
            raise TokenRefusal("unauthorized_client", "the user is not that of one client of the domain")
        granted = TokenGrant(*(tokens.settings.granted(holder) or ()))
        if not (granted.publish or granted.subscribe):
            raise TokenRefusal("unauthorized_client", f"nothing is granted to client `{show(holder)}`")
        try:
            granted = granted.narrowed(token_request.scope) if token_request.scope else granted
        except ScopeError as error:
            raise TokenRefusal("invalid_scope", str(error)) from None
        try:
            return tokens.issue(Party("client", holder), *granted, self._server.now()), granted
        except TokenError as error:  # a name or filters that do not fit into one token
            raise TokenRefusal("invalid_scope", f"no token for this: {error}") from None

    def _tokens(self) -> Tokens:
        tokens = self._server.node.trust.tokens
        if tokens is None:  # a reload has come in between
            raise TokenRefusal("invalid_request", "this node no longer issues tokens", 404)
        return tokens

    async def _keys(self, _request: Request) -> Response:
        tokens = self._server.node.trust.tokens
        if tokens is None:
            return _nothing()
        now, revoked = self._server.now(), tokens.keys.revoked.keys
        valid = [key for key in tokens.keys.public.keys.values() if key.key_id not in revoked]
        usable = [as_jwk(key) for key in valid if key.retired is None or now < key.retired]
        return JSONResponse({"keys": usable}, media_type="application/jwk-set+json")

    async def _metadata(self, request: Request) -> Response:
        if self._server.node.trust.tokens is None:
            return _nothing()
        base = str(request.base_url).rstrip("/")
        body = {
            "issuer": base,
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/keys",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }
        return JSONResponse(body, headers=_NOT_KEPT)


def _nothing() -> Response:
    return JSONResponse({"error": "the domain has no `tokens`"}, 404)


async def _body(request: Request) -> bytes:
    try:
        return await read_body(request, MAX_BODY, BODY_SECONDS)
    except ApiError as error:
        raise TokenRefusal("invalid_request", str(error), error.status, {"Connection": "close"}) from None


def read_request(request: Request, body: bytes) -> TokenRequest:
    if request.url.query:
        raise TokenRefusal("invalid_request", "parameters belong into the body")  # RFC 6749 §2.3.1
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise TokenRefusal("invalid_request", f"content type `{show(kind)}`: expected {_FORM}")
    parameters = _parameters(body)
    if "grant_type" not in parameters:
        raise TokenRefusal("invalid_request", "grant_type is missing")
    if parameters["grant_type"] != "client_credentials":
        raise TokenRefusal("unsupported_grant_type", "expected client_credentials")
    headers = request.headers.getlist("authorization")
    if len(headers) > 1 or (headers and "client_secret" in parameters):
        raise TokenRefusal("invalid_request", "more than one client authentication")
    if headers:
        user, password = _basic(headers[0])
        if parameters.get("client_id", user) != user:
            raise TokenRefusal("invalid_request", "client_id is another than that of the authentication")
    else:
        user, password = parameters.get("client_id", ""), parameters.get("client_secret", "")
    if not user or not password:
        raise TokenRefusal("invalid_client", "no client authentication", 401, _BASIC)
    return TokenRequest(user, password.encode(), parameters.get("scope", ""))


def _parameters(body: bytes) -> dict[str, str]:
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, True, strict_parsing=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise TokenRefusal("invalid_request", "the body is not a form") from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise TokenRefusal("invalid_request", "a parameter is there twice")  # RFC 6749 §3.2
    return {name: value for name, value in parameters.items() if value}  # parameters without a value count as left out


def _basic(header: str) -> tuple[str, str]:
    """Return user and password; both are form-encoded before they are put into base64 (RFC 6749 §2.3.1)."""
    scheme, _, rest = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        user, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        if not colon:
            raise ValueError
        return unquote_plus(user, errors="strict"), unquote_plus(password, errors="strict")
    except ValueError:  # of base64 and of UTF-8 too
        raise TokenRefusal("invalid_client", "expected Basic authentication", 401, _BASIC) from None
