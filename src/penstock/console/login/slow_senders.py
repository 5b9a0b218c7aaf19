"""Patience with who is slow: a form must come within seconds, and one address may not send many of them at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FORM_SECONDS = 10.0
MOST_FORMS = 16
"""From one address at a time."""


class Patience:
    """With forms that are being sent."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Timeout]] = {}

    @asynccontextmanager
    async def with_one(self, address: str) -> AsyncIterator[None]:
        """While one comes from this address; raises `TimeoutError`.

        Of too many the oldest is given up: who sends a whole form at once is never kept out by those who do not.
        """
        waiting = self._waiting.setdefault(address, [])
        try:
            async with asyncio.timeout(FORM_SECONDS) as limit:
                waiting.append(limit)
                try:
                    if len(waiting) > MOST_FORMS:
                        waiting.pop(0).reschedule(asyncio.get_running_loop().time())
                    yield
                finally:
                    if limit in waiting:
                        waiting.remove(limit)
        finally:
            if not waiting and self._waiting.get(address) is waiting:
                del self._waiting[address]
