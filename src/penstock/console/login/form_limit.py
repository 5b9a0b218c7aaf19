"""Limits for slow senders of forms: a form must arrive within seconds, and one address may not send many at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FORM_SECONDS = 10.0
MAX_FORMS = 16
"""Forms from one address at a time."""


class FormLimit:
    """Limits the forms that are being sent."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Timeout]] = {}

    @asynccontextmanager
    async def one_form(self, address: str) -> AsyncIterator[None]:
        """Receive one form from this address; raise `TimeoutError`.

        If there are too many, the oldest is given up: a client that sends a whole form at once is never kept out by
        slow ones.
        """
        waiting = self._waiting.setdefault(address, [])
        try:
            async with asyncio.timeout(FORM_SECONDS) as limit:
                waiting.append(limit)
                try:
                    if len(waiting) > MAX_FORMS:
                        waiting.pop(0).reschedule(asyncio.get_running_loop().time())
                    yield
                finally:
                    if limit in waiting:
                        waiting.remove(limit)
        finally:
            if not waiting and self._waiting.get(address) is waiting:
                del self._waiting[address]
