"""Authorisation tokens that a program shows: where they come from, and their renewal before they end."""

import asyncio
import base64
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

Token = str | bytes
Source = Token | Callable[[], Token | Awaitable[Token]]
"""A token, or a function that gets a new one: it may block, or be a coroutine function."""

_PAUSES = (1.0, 60.0)
"""Seconds: the first pause before trying again to get one, and the longest; each is twice the last."""
_PART = 0.75
"""Fraction of its lifetime after which a token is renewed."""
_log = logging.getLogger(__name__)


def as_text(token: Token) -> str:
    return (token if isinstance(token, str) else token.decode()).strip()


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a token without verifying it; empty if it cannot be read. Only the node verifies it."""
    try:
        payload = json.loads(token)["payload"]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def renewal_of(token: str) -> float:
    """Return when to renew a token, in seconds since 1970: before it ends; never if it does not end."""
    claims = claims_of(token)
    begin, end = claims.get("nbf"), claims.get("exp")
    if not isinstance(begin, int) or not isinstance(end, int):
        return float("inf")
    return begin + _PART * (end - begin)


class TokenRenewer:
    """The current token of one client. For the event loop, unless a method says otherwise."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._current = ""
        self._refused = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._last_chance = ""

    async def begin(self) -> None:
        """Get the first token; raise what the source raises."""
        self._current = await self._get()
        if callable(self._source):
            self._task = asyncio.create_task(self._renew())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def current(self) -> str:
        """Return the token to show; on any thread."""
        return self._current

    def accepted(self) -> None:
        """Note that the node has accepted the token; on any thread."""
        self._last_chance = ""

    def refused(self, token: str) -> bool:
        """Note that the node has refused a token; return whether there is, or will be, another. On any thread.

        A token that was got because the one before was refused is the last.
        """
        if not callable(self._source) or token == self._last_chance:
            return False
        if token == self._current:
            self._loop.call_soon_threadsafe(self._refused.set)
        return True

    async def _get(self) -> str:
        if not callable(self._source):
            return as_text(self._source)
        if inspect.iscoroutinefunction(self._source):
            return as_text(await self._source())
        token = await asyncio.to_thread(self._source)
        return as_text(await token if inspect.isawaitable(token) else token)

    async def _renew(self) -> None:
        pause, longest = _PAUSES
        while True:
            await self._until_due()
            try:
                token = await self._get()
            except Exception as error:  # a program's function may raise anything: the next try may succeed
                _log.warning("no new token: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
                continue
            if self._refused.is_set():
                self._last_chance = token
                self._refused.clear()
            self._current, pause = token, _PAUSES[0]
            if renewal_of(token) <= time.time():  # it has little time left from the start
                await asyncio.sleep(pause)

    async def _until_due(self) -> None:
        seconds = renewal_of(self._current) - time.time()
        try:
            async with asyncio.timeout(max(0.0, seconds) if seconds != float("inf") else None):
                await self._refused.wait()
        except TimeoutError:
            return
