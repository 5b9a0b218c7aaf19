"""A blocking client of a node's admin HTTP, used by the command line."""

import json
import os
import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from penstock.client.local_token import find_token
from penstock.model.errors import PenstockError

SECONDS = 20.0
"""The time a node may take to answer."""
TOKEN = "PENSTOCK_ADMIN_TOKEN"
"""Environment variable with a token for nodes that another user runs."""
CA = "PENSTOCK_ADMIN_CA"
"""Environment variable with a PEM file of the authorities that node certificates are checked against."""
CERT = "PENSTOCK_ADMIN_CERT"
"""Environment variable with a PEM file of the client certificate and its key, for nodes that ask for one."""
_MAX_BYTES = 64 * 2**20
_HINTS = {
    401: f"no valid token: set {TOKEN}, or run the command as the user that runs the node",
    403: "the token does not have the right to do this",
}


class AdminError(PenstockError):
    """The node cannot be reached, or refused the request."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; 0 if there was no answer."""


class AdminClient:
    """A client of the admin address of one node."""

    def __init__(self, address: str, token: str | None = None) -> None:
        """`token` defaults to the one in the environment, then to the one the node has left for this user."""
        self.url = (address if "://" in address else f"http://{address}").rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise AdminError(f"expected the admin address of a node, as http://127.0.0.1:8080, found `{address}`")
        self._token = token or os.environ.get(TOKEN) or find_token(self.url)

    def get(self, path: str, **query: str) -> Any:
        """Return the node's answer as JSON; raise `AdminError`."""
        return json.loads(self.ask("GET", path, query=query))

    def ask(self, method: str, path: str, body: bytes | None = None, query: Any = (), kind: str = "") -> bytes:
        """Send one request and return the answer's body; raise `AdminError`."""
        url = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        headers = {"Content-Type": kind or "application/json"} if body is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with urlopen(
                Request(url, body, headers, method=method), timeout=SECONDS, context=self._context()
            ) as answer:
                content: bytes = answer.read(_MAX_BYTES)
                return content
        except HTTPError as error:
            message = _error_message(error)
            raise AdminError(
                f"node at `{self.url}`: {message or _HINTS.get(error.code) or error}", error.code
            ) from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise AdminError(f"node at `{self.url}` cannot be reached: {reason}") from None

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https://"):
            return None
        return with_client_certificate(ssl.create_default_context(cafile=os.environ.get(CA)))


def with_client_certificate(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return the context with the client certificate that the environment names, if any; raise `AdminError`."""
    own = os.environ.get(CERT)
    if own:
        try:
            context.load_cert_chain(own)
        except OSError as error:
            raise AdminError(f"certificate `{own}` of {CERT} cannot be used: {error}") from None
    return context


def _error_message(error: HTTPError) -> str:
    """Return the node's error message, if any. For tokens, the hint in `_HINTS` is used instead."""
    if error.code in _HINTS:
        return ""
    try:
        return str(json.loads(error.read(100_000))["error"])
    except (ValueError, LookupError, TypeError, OSError):
        return ""
