"""The nodes' admin HTTP, asked on behalf of one person."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import httpx
import msgspec

from penstock.broker.http.processes import CHECK_SECONDS
from penstock.client import local_token
from penstock.client.admin import AdminError, with_client_certificate

SECONDS = 20.0
LONG_SECONDS = CHECK_SECONDS + 10
"""For what a node has a process of its own work out, behind it in the queue for the processor."""
CLOSE_SECONDS = 5.0
OUT = "you have logged out"
Said = TypeVar("Said")
Asked = str | int | list[str]
"""A parameter of a question; a list is said again and again."""


class AskError(Exception):
    """A node that cannot be asked, or says no; the text is for people."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; 0 if there was no answer."""


class Asking:
    """One process with nodes, by the address of one of them."""

    def __init__(self, url: str, ca: str | None = None, pin: str | None = None) -> None:
        """`ca`: authorities by which its certificate is checked; `pin`: the very certificate that it must have."""
        self.url = url.rstrip("/")
        self.token = ""
        verify = _trusting(ca, pin) if self.url.startswith("https:") else _pinned(None)
        self._http = httpx.AsyncClient(base_url=self.url, timeout=SECONDS, verify=verify, trust_env=False)

    async def log_in(self, user: str, password: str, address: str = "") -> None:
        """Get a token for this person; raises `AskError`. `address`: where it comes from, for the node to count its
        tries by; a node of the same user believes that.
        """
        own = local_token.find(self.url) if address else None
        said = {"user": user, "password": password, **({"address": address} if own else {})}
        headers = {"Authorization": f"Bearer {own}"} if own else {}
        told = await self._send("POST", "/api/login", json=said, headers=headers)
        self.token = str(json.loads(told)["token"])

    async def get(self, path: str, kind: type[Said], **query: str | int) -> Said:
        """What the node says to that; raises `AskError`."""
        return self._read(await self._send("GET", path, params=_given(query)), kind)

    async def post(self, path: str, kind: type[Said], body: object = None, **query: Asked) -> Said:
        """With a body as JSON, or bytes as they are."""
        sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"Content-Type": "application/octet-stream" if isinstance(body, bytes) else "application/json"}
        return self._read(await self._send("POST", path, content=sent, params=_given(query), headers=headers), kind)

    async def get_long(self, path: str, kind: type[Said], **query: str | int) -> Said:
        """What the node has worked out for it."""
        return self._read(await self._send("GET", path, params=_given(query), timeout=LONG_SECONDS), kind)

    async def post_long(self, path: str, kind: type[Said], body: object) -> Said:
        headers = {"Content-Type": "application/json"}
        sent = msgspec.json.encode(body)
        return self._read(await self._send("POST", path, content=sent, headers=headers, timeout=LONG_SECONDS), kind)

    async def lines(self, path: str, kind: type[Said], **query: str | int) -> AsyncIterator[Said]:
        """A stream of JSON, line by line; ends when the node does. Raises `AskError`."""
        if self._http.is_closed:
            raise AskError(OUT, 401)
        try:
            timeout = httpx.Timeout(SECONDS, read=60.0)
            async with self._http.stream(
                "GET", path, params=_given(query), headers=self._headers, timeout=timeout
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise AskError(f"{self.url}: HTTP {answer.status_code}", answer.status_code)
                async for line in answer.aiter_lines():
                    if line.strip():
                        yield self._read(line.encode(), kind)
        except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
            raise self._unheard(error) from None

    async def close(self) -> None:
        """Make the token worthless, if there is one."""
        if self.token:
            with contextlib.suppress(AskError):
                await self._send("POST", "/api/logout", timeout=CLOSE_SECONDS)
        await self._http.aclose()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def _send(self, method: str, path: str, **more: Any) -> bytes:
        headers = {**self._headers, **more.pop("headers", {})}
        if self._http.is_closed:
            raise AskError(OUT, 401)
        try:
            answer = await self._http.request(method, path, headers=headers, **more)
        except (httpx.HTTPError, RuntimeError) as error:
            raise self._unheard(error) from None
        if answer.status_code != httpx.codes.OK:
            raise AskError(_told(answer), answer.status_code)
        return answer.content

    def _unheard(self, error: Exception) -> AskError:
        """No answer, and why. One that is closed meanwhile says so by a `RuntimeError`."""
        if self._http.is_closed:
            return AskError(OUT, 401)
        if isinstance(error, httpx.TimeoutException):
            return AskError(f"{self.url} cannot be asked: it does not answer")
        return AskError(f"{self.url} cannot be asked: {str(error) or type(error).__name__}")

    def _read(self, data: bytes, kind: type[Said]) -> Said:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise AskError(f"{self.url} says something that is not understood: {error}") from None


def _trusting(ca: str | None, pin: str | None) -> ssl.SSLContext:
    try:
        return with_client_certificate(_pinned(pin) if pin else ssl.create_default_context(cafile=ca))
    except AdminError as error:
        raise AskError(str(error)) from None


def _pinned(certificate: str | None) -> ssl.SSLContext:
    """Of a node on this machine: by whatever name, but with this certificate; without one nothing is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate is not None:
        context.load_verify_locations(certificate)
    return context


def _given(query: Mapping[str, Asked]) -> dict[str, Asked]:
    """Parameters without those that say nothing; `from_` is `from`."""
    return {name.rstrip("_"): value for name, value in query.items() if value not in ("", [])}


def _told(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, LookupError, TypeError):
        return f"HTTP {answer.status_code}"
