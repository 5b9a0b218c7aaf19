"""Failed log-ins, lately: who has too many has to wait, whatever it says now."""

import ipaddress
from collections import deque
from hashlib import blake2b

Key = tuple[str, bytes]

PERIOD = 60.0
"""Seconds for which a failed log-in counts."""
MOST_FROM, MOST_AS = 20, 100
"""Failed log-ins in a period from one address, and as one user from wherever."""
MOST_KEPT = 10_000
"""Addresses and users that are remembered; the oldest are forgotten first."""


class Attempts:
    """Log-ins by address and by user. Each counts as failed until it has succeeded, so that many at once count."""

    def __init__(self) -> None:
        self._failed: dict[Key, deque[float]] = {}

    def begin(self, address: str, user: str, now: float) -> float:
        """Seconds to wait before another try; 0 if it may be made, and then it is counted."""
        counted = [(key, self._since(key, now - PERIOD), most) for key, most in _keys(address, user)]
        wait = max((times[0] + PERIOD - now for _, times, most in counted if len(times) >= most), default=0.0)
        if wait > 0:
            return wait
        for key, times, _ in counted:
            times.append(now)
            self._failed.pop(key, None)
            while len(self._failed) >= MOST_KEPT:
                del self._failed[next(iter(self._failed))]
            self._failed[key] = times
        return 0.0

    def succeeded(self, address: str, user: str) -> None:
        """The last one was good after all. Those before it still count: an own account does not buy more guesses."""
        for key, _ in _keys(address, user):
            times = self._failed.get(key)
            if times:
                times.pop()
            if not times:
                self._failed.pop(key, None)

    def _since(self, key: Key, begin: float) -> deque[float]:
        times = self._failed.get(key, deque())
        while times and times[0] <= begin:
            times.popleft()
        return times


def _keys(address: str, user: str) -> tuple[tuple[Key, int], ...]:
    return (("from", _short(_network(address))), MOST_FROM), (("as", _short(user)), MOST_AS)


def _short(text: str) -> bytes:
    """Names may be long, and may be passwords that were typed in the wrong place."""
    return blake2b(text.encode(errors="replace"), digest_size=16).digest()


def _network(address: str) -> str:
    """One customer has as many IPv6 addresses as it likes, all of one network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
