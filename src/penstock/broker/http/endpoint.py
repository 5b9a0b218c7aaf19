"""Endpoints of the admin API: path, needed right, parameters and answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from penstock.domain.schema.admin import Right
from penstock.model.errors import UNREADABLE, PenstockError

if TYPE_CHECKING:
    from penstock.broker.http.api import Api
    from penstock.broker.server import Server


Body = TypeVar("Body")


class ApiError(PenstockError):
    """An error as the answer to a request, with its HTTP status."""

    def __init__(self, why: str, status: int = 400, later: int = 0) -> None:
        super().__init__(why)
        self.status = status
        self.later = later
        """Seconds to wait before another try; 0: that does not help."""


async def read_body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Return the body of a request; raise `ApiError` if it is longer, or does not come in time."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise ApiError(f"more than {max_bytes} bytes", 413)
    except TimeoutError:
        raise ApiError("the body does not come", 408) from None
    return bytes(body)


class Caller(NamedTuple):
    """The caller of a request."""

    name: str
    right: str
    """Its highest right; empty: none."""
    how: str
    """`local`: the system user that runs the node; `person`: logged in; `client`: by a token; `nobody`."""


NOBODY = Caller("", "", "nobody")


class ApiRequest(NamedTuple):
    """A request from a caller with the needed right."""

    api: "Api"
    server: "Server"
    """The node whose address was used."""
    caller: Caller
    query: QueryParams
    body: bytes
    address: str
    token: str

    def number(self, name: str, default: float, maximum: float) -> float:
        """Return a number of the query, from 0 on and at most `maximum`."""
        text = self.query.get(name)
        if text is None or text == "":
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ApiError(f"`{name}`: expected a number from 0 on, found `{text:.40}`")
        return min(value, maximum)

    def parsed_body(self, kind: type[Body]) -> Body:
        """Return the body, as JSON of that type; raise `ApiError`."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except UNREADABLE as error:
            raise ApiError(f"body: {error}") from None


class Query(NamedTuple):
    """A query parameter."""

    name: str
    text: str
    kind: str = "string"


Handler = Callable[[ApiRequest], Awaitable[object]]


class ApiEndpoint(NamedTuple):
    """One operation of the API."""

    method: str
    path: str
    right: Right | None
    """The right the caller needs; None: none."""
    summary: str
    answer: Any
    """The type of the answer."""
    handler: Handler
    query: tuple[Query, ...] = ()
    body: type[msgspec.Struct] | None = None
    is_cancellable: bool = False
    """Cancel it when the caller disconnects: it is expensive, and changes nothing."""


class Endpoints(list[ApiEndpoint]):
    """The operations of one module, in the order of their handlers."""

    def add(
        self, operation: str, right: Right | None, summary: str, *query: Query, **more: Any
    ) -> Callable[[Handler], Handler]:
        """Decorate the handler of an operation, as `GET /api/nodes`. `more`: other fields of `ApiEndpoint`."""
        method, _, path = operation.partition(" ")

        def add(handler: Handler) -> Handler:
            fields = {"answer": handler.__annotations__["return"], **more}
            self.append(ApiEndpoint(method, path, right, summary, handler=handler, query=query, **fields))
            return handler

        return add


class Error(msgspec.Struct, frozen=True):
    """The reason why there is no other answer."""

    error: str


class Done(msgspec.Struct, frozen=True):
    """Success."""

    done: bool = True
