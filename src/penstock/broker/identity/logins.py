"""Log-ins with a password over HTTP: one after the other, off the event loop, and limited after failures."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from penstock.broker.identity.attempts import Attempts
from penstock.policy.access.passwords import Passwords

MAX_WAITING = 200
"""Log-ins that are being checked at a time: a hash takes long on purpose."""


class LoginRefused(Exception):
    """A refused log-in, with its HTTP status, and the seconds to wait before another try."""

    def __init__(self, why: str, status: int, later: int = 0) -> None:
        super().__init__(why)
        self.status = status
        self.later = later


class Logins:
    """Checks passwords."""

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._checker = ThreadPoolExecutor(1, "passwords")
        self._turn = asyncio.Lock()
        self._waiting = 0

    def stop(self) -> None:
        self._checker.shutdown(wait=False, cancel_futures=True)

    async def check(self, passwords: Passwords | None, address: str, user: str, password: bytes) -> None:
        """Raise `LoginRefused` unless this is the user's password."""
        if self._waiting >= MAX_WAITING:
            raise LoginRefused("too many log-ins at once", 503, 1)
        self._waiting += 1
        try:
            async with self._turn:  # one after the other, so that each counts the failures before it
                await self._check(passwords, address, user, password)
        finally:
            self._waiting -= 1

    async def _check(self, passwords: Passwords | None, address: str, user: str, password: bytes) -> None:
        wait = self._attempts.wait(address, user, time.monotonic())
        if wait > 0:
            raise LoginRefused("too many failed log-ins", 429, int(wait) + 1)
        is_good = False
        if passwords is not None:
            loop = asyncio.get_running_loop()
            is_good = await loop.run_in_executor(self._checker, passwords.check, user, password)
        if not is_good:
            self._attempts.failed(address, user, time.monotonic())
            raise LoginRefused("unknown user or wrong password", 401)
        self._attempts.succeeded(address, user)
