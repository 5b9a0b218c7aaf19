"""A node's admin HTTP, asked from a program that may block: what the command line uses."""

import json
import os
import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from penstock.client.local_token import find
from penstock.model.errors import PenstockError

SECONDS = 20.0
"""How long a node may take to answer."""
TOKEN = "PENSTOCK_ADMIN_TOKEN"
"""Environment variable with a token for nodes that another user runs."""
CA = "PENSTOCK_ADMIN_CA"
"""And with a PEM file of the authorities by which a node's certificate is checked."""
CERT = "PENSTOCK_ADMIN_CERT"
"""And with a PEM file of the certificate, and its key, that is shown to nodes which ask for one."""
_MOST_BYTES = 64 * 2**20
_NOT_LET = {
    401: f"no token that counts there: set {TOKEN}, or be the user that runs the node",
    403: "the token has not the right to this",
}


class AdminError(PenstockError):
    """A node that cannot be asked, or says no."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; 0 if there was no answer."""


class Admin:
    """The admin address of one node."""

    def __init__(self, address: str, token: str | None = None) -> None:
        """`token`, unless given, is that of the environment, else the one that the node has left for this user."""
        self.url = (address if "://" in address else f"http://{address}").rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise AdminError(f"expected the admin address of a node, as http://127.0.0.1:8080, found `{address}`")
        self._token = token or os.environ.get(TOKEN) or find(self.url)

    def get(self, path: str, **query: str) -> Any:
        """What the node says to that; raises `AdminError`."""
        return json.loads(self.ask("GET", path, query=query))

    def ask(self, method: str, path: str, body: bytes | None = None, query: Any = (), kind: str = "") -> bytes:
        """One question; the answer's body. Raises `AdminError`."""
        url = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        headers = {"Content-Type": kind or "application/json"} if body is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with urlopen(
                Request(url, body, headers, method=method), timeout=SECONDS, context=self._context()
            ) as answer:
                found: bytes = answer.read(_MOST_BYTES)
                return found
        except HTTPError as error:
            told = _told(error)
            raise AdminError(f"node at `{self.url}`: {told or _NOT_LET.get(error.code) or error}", error.code) from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise AdminError(f"node at `{self.url}` cannot be asked: {reason}") from None

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https://"):
            return None
        return with_own(ssl.create_default_context(cafile=os.environ.get(CA)))


def with_own(context: ssl.SSLContext) -> ssl.SSLContext:
    """With the certificate of who asks, if the environment names one; raises `AdminError`."""
    own = os.environ.get(CERT)
    if own:
        try:
            context.load_cert_chain(own)
        except OSError as error:
            raise AdminError(f"certificate `{own}` of {CERT} cannot be used: {error}") from None
    return context


def _told(error: HTTPError) -> str:
    """What the node says of the mistake, if it does; of tokens what to do is told here."""
    if error.code in _NOT_LET:
        return ""
    try:
        return str(json.loads(error.read(100_000))["error"])
    except (ValueError, LookupError, TypeError, OSError):
        return ""
