"""Requesting a token from a node's authorisation endpoint: OAuth 2.0 client credentials (RFC 6749 §4.4)."""

import base64
import http.client
import json
import ssl
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, quote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from penstock.model.errors import PenstockError

MAX_ANSWER_BYTES = 256 * 1024
"""Bytes of an answer."""
_SECONDS = 10.0
_IN_SCOPES = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\')


class TokenRequestError(PenstockError):
    """No token was issued: `error` is RFC 6749's error code, empty if the endpoint gave none."""

    def __init__(self, what: str, error: str = "") -> None:
        super().__init__(what)
        self.error = error


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a password goes where the user said, and nowhere else."""

    def redirect_request(self, *_arguments: Any, **_more: Any) -> None:
        return None


def request_token(
    url: str, user: str, password: str, scope: str = "", *, tls: ssl.SSLContext | None = None, timeout: float = _SECONDS
) -> str:
    """Request a token from the endpoint at `url`, the node's admin address or the full URL with the path; may block.

    `scope`: what the token is for, such as `publish:home/kitchen subscribe:home/#`; if empty, all that is granted.
    Raises `TokenRequestError`.
    """
    form = {"grant_type": "client_credentials", **({"scope": quote(scope, _IN_SCOPES)} if scope else {})}
    credentials = base64.b64encode(f"{quote_plus(user)}:{quote_plus(password)}".encode()).decode()
    request = Request(
        _endpoint(url),
        urlencode(form).encode(),
        {
            "Authorization": f"Basic {credentials}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    opener = build_opener(_NoRedirects, HTTPSHandler(context=tls), *([ProxyHandler({})] if _is_here(url) else []))
    try:
        with opener.open(request, timeout=timeout) as answer:
            body = answer.read(MAX_ANSWER_BYTES)
    except HTTPError as refused:
        with refused:
            raise _refusal(url, refused.code, refused.read(MAX_ANSWER_BYTES)) from None
    except (URLError, OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise TokenRequestError(f"cannot reach `{url}`: {getattr(reason, 'strerror', None) or reason}") from None
    token = _object(body).get("access_token")
    if not isinstance(token, str) or not token:
        raise TokenRequestError(f"`{url}` answers without a token: is it a node's admin address?")
    return token


def is_in_the_clear(url: str) -> bool:
    """Return whether a password would go over a network without TLS; raise `TokenRequestError`."""
    return urlsplit(_endpoint(url)).scheme == "http" and not _is_here(url)


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _endpoint(url: str) -> str:
    try:
        split = urlsplit(url)
        is_good = split.scheme in ("http", "https") and bool(split.hostname) and "@" not in split.netloc
        _ = split.port
    except ValueError:
        is_good = False
    if not is_good:
        raise TokenRequestError(f"`{url}` is not such as http://127.0.0.1:8080 or https://node.example/token")
    return split._replace(path="/token").geturl() if split.path in ("", "/") else url


def _refusal(url: str, status: int, body: bytes) -> TokenRequestError:
    answer = _object(body)
    error, why = answer.get("error"), answer.get("error_description", "")
    is_endpoint = status not in (404, 405)  # elsewhere a node reports errors in the same form
    if not is_endpoint or not isinstance(error, str) or not isinstance(why, str):
        return TokenRequestError(f"`{url}` answers with status {status}")
    shown = "".join(character if character.isprintable() else "?" for character in f"{error}: {why}" if character)[:500]
    return TokenRequestError(f"`{url}` gives no token: {shown}", error)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
