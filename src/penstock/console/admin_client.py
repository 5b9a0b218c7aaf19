"""An async client of the nodes' admin HTTP, on behalf of one person."""

import contextlib
import json
import ssl
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
import msgspec

from penstock.broker.http.processes import CHECK_SECONDS
from penstock.client import local_token
from penstock.client.admin import AdminError, with_client_certificate

SECONDS = 20.0
LONG_SECONDS = CHECK_SECONDS + 10
"""Timeout for requests that a node computes in a separate process, at a lower priority."""
_LONG = ("/api/flows", "/api/assertions", "/api/draft", "/api/draft/check")
CLOSE_SECONDS = 5.0
OUT = "you have logged out"
Answer = TypeVar("Answer")
Parameter = str | int | list[str]
"""A query parameter; a list is repeated."""


class ApiClientError(Exception):
    """A node cannot be reached, or refused the request; the text is for people."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; 0 if there was no answer."""


class ApiClient:
    """A client of one process with nodes, by the admin address of one of them."""

    def __init__(self, url: str, ca: str | None = None, pin: str | None = None) -> None:
        """`ca`: authorities that its certificate is checked against; `pin`: the exact certificate that it must have."""
        self.url = url.rstrip("/")
        self.token = ""
        verify = _trusting(ca, pin) if self.url.startswith("https:") else _pinned(None)
        self._http = httpx.AsyncClient(base_url=self.url, verify=verify, trust_env=False)

    async def log_in(self, user: str, password: str, address: str = "") -> None:
        """Get a token for this person; raise `ApiClientError`. `address`: where the person comes from, so that the
        node can count failed attempts by it; a node of the same system user trusts it."""
        own = local_token.find_token(self.url) if address else None
        credentials = {"user": user, "password": password, **({"address": address} if own else {})}
        headers = {"Authorization": f"Bearer {own}"} if own else {}
        answer = await self._send("POST", "/api/login", json=credentials, headers=headers)
        self.token = str(json.loads(answer)["token"])

    async def get(self, path: str, kind: type[Answer], **query: str | int) -> Answer:
        """Send a GET request and return the decoded answer; raise `ApiClientError`."""
        return self._read(await self._send("GET", path, params=_parameters(query)), kind)

    async def post(self, path: str, kind: type[Answer], body: object = None, **query: Parameter) -> Answer:
        """Send a POST request with a body as JSON, or bytes as they are."""
        sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"Content-Type": "application/octet-stream" if isinstance(body, bytes) else "application/json"}
        answer = await self._send("POST", path, content=sent, params=_parameters(query), headers=headers)
        return self._read(answer, kind)

    async def close(self) -> None:
        """End the session of the token, if there is one."""
        if self.token:
            with contextlib.suppress(ApiClientError):
                await self._send("POST", "/api/logout", timeout=CLOSE_SECONDS)
        await self._http.aclose()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def _send(self, method: str, path: str, **more: Any) -> bytes:
        headers = {**self._headers, **more.pop("headers", {})}
        if self._http.is_closed:
            raise ApiClientError(OUT, 401)
        try:
            timeout = more.pop("timeout", LONG_SECONDS if path in _LONG else SECONDS)
            answer = await self._http.request(method, path, headers=headers, timeout=timeout, **more)
        except (httpx.HTTPError, RuntimeError) as error:
            raise self._connection_error(error) from None
        if answer.status_code != httpx.codes.OK:
            raise ApiClientError(_error_text(answer), answer.status_code)
        return answer.content

    def _connection_error(self, error: Exception) -> ApiClientError:
        """Return the error for a missing answer. A client that is closed meanwhile raises a `RuntimeError`."""
        if self._http.is_closed:
            return ApiClientError(OUT, 401)
        if isinstance(error, httpx.TimeoutException):
            return ApiClientError(f"{self.url} cannot be reached: it does not answer")
        return ApiClientError(f"{self.url} cannot be reached: {str(error) or type(error).__name__}")

    def _read(self, data: bytes, kind: type[Answer]) -> Answer:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise ApiClientError(f"{self.url} sent an unexpected answer: {error}") from None


def _trusting(ca: str | None, pin: str | None) -> ssl.SSLContext:
    try:
        return with_client_certificate(_pinned(pin) if pin else ssl.create_default_context(cafile=ca))
    except AdminError as error:
        raise ApiClientError(str(error)) from None


def _pinned(certificate: str | None) -> ssl.SSLContext:
    """Return a context for a node on this machine: any name, but exactly this certificate; without one, none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate is not None:
        context.load_verify_locations(certificate)
    return context


def _parameters(query: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return parameters without empty ones; `from_` is `from`."""
    return {name.rstrip("_"): value for name, value in query.items() if value not in ("", [])}


def _error_text(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, LookupError, TypeError):
        return f"HTTP {answer.status_code}"
