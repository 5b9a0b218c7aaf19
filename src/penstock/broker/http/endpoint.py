"""What an endpoint is: where it is, who may ask, what it takes and answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from penstock.domain.schema.admin import Right
from penstock.model.errors import PenstockError

if TYPE_CHECKING:
    from penstock.broker.http.api import Api
    from penstock.broker.server import Server


Said = TypeVar("Said")


class Refused(PenstockError):
    """An answer that is an error, with its status of HTTP."""

    def __init__(self, why: str, status: int = 400, later: int = 0) -> None:
        super().__init__(why)
        self.status = status
        self.later = later
        """Seconds to wait before another try; 0: that does not help."""


async def read_body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Return the body of a request; raises `Refused` if it is longer, or does not come in time."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise Refused(f"more than {max_bytes} bytes", 413)
    except TimeoutError:
        raise Refused("the body does not come", 408) from None
    return bytes(body)


class Who(NamedTuple):
    """Who asks."""

    name: str
    right: str
    """What it may do, the greatest of it; empty: nothing."""
    how: str
    """`local`: the system's user that runs the node; `person`: logged in; `client`: by a token; `nobody`."""


NOBODY = Who("", "", "nobody")


class Asked(NamedTuple):
    """A question, from who may ask it."""

    api: "Api"
    server: "Server"
    """The node whose address was asked."""
    who: Who
    query: QueryParams
    body: bytes
    address: str
    token: str

    def number(self, name: str, default: float, most: float) -> float:
        """A number of the query, from 0 on."""
        text = self.query.get(name)
        if text is None or text == "":
            return default
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found < float("inf"):
            raise Refused(f"`{name}`: expected a number from 0 on, found `{text:.40}`")
        return min(found, most)

    def said(self, kind: type[Said]) -> Said:
        """The body, as JSON of that type."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.MsgspecError as error:
            raise Refused(f"body: {error}") from None


class Query(NamedTuple):
    """A parameter in the address."""

    name: str
    text: str
    kind: str = "string"


class Endpoint(NamedTuple):
    """One question that a node answers."""

    method: str
    path: str
    right: Right | None
    """What the asker needs; None: nothing."""
    summary: str
    answer: Any
    """The type of the answer."""
    handler: Callable[[Asked], Awaitable[object]]
    query: tuple[Query, ...] = ()
    body: type[msgspec.Struct] | None = None
    is_given_up: bool = False
    """Whether it is ended when the asker goes: it costs much, and changes nothing."""


class Error(msgspec.Struct, frozen=True):
    """Why there is no other answer."""

    error: str


class Done(msgspec.Struct, frozen=True):
    """It is done."""

    done: bool = True
