"""Failed log-ins, lately: who has too many has to wait, whatever it says now."""

import ipaddress
from collections import deque
from hashlib import blake2b

Key = tuple[str, bytes]

PERIOD = 60.0
"""Seconds for which a failed log-in counts."""
MOST_FROM, MOST_HERE, MOST_AS = 20, 200, 100
"""Failed log-ins in a period from one address (on this machine: as one user), from this machine as whomever, and as one
user from wherever.
"""
MOST_KEPT = 10_000
"""Addresses and users that are remembered; the oldest are forgotten first."""


class Attempts:
    """Counts failed log-ins by address and by user."""

    def __init__(self) -> None:
        self._failed: dict[Key, deque[float]] = {}
        self._good: dict[bytes, None] = {}
        """Users and the networks that they have logged in from."""

    def wait(self, address: str, user: str, now: float) -> float:
        """Seconds to wait before another try; 0 if it may be made. Where a user has logged in from before, what others
        do elsewhere does not lock it out.
        """
        is_known = _place(address, user) in self._good
        keys = ((key, most) for key, most in _keys(address, user) if not (is_known and key[0] == "as"))
        counted = [(self._since(key, now - PERIOD), most) for key, most in keys]
        return max((times[0] + PERIOD - now for times, most in counted if len(times) >= most), default=0.0)

    def failed(self, address: str, user: str, now: float) -> None:
        """One more has failed. Good ones in between change nothing: an own account does not buy more guesses."""
        for key, _ in _keys(address, user):
            times = self._since(key, now - PERIOD)
            times.append(now)
            self._failed.pop(key, None)
            while len(self._failed) >= MOST_KEPT:
                del self._failed[next(iter(self._failed))]
            self._failed[key] = times

    def succeeded(self, address: str, user: str) -> None:
        """It is the user, and there it may be again."""
        self._good[_place(address, user)] = None
        while len(self._good) > MOST_KEPT:
            del self._good[next(iter(self._good))]

    def _since(self, key: Key, begin: float) -> deque[float]:
        times = self._failed.get(key, deque())
        while times and times[0] <= begin:
            times.popleft()
        return times


def _keys(address: str, user: str) -> tuple[tuple[Key, int], ...]:
    network, whoever = _network(address), (("as", _short(user)), MOST_AS)
    if not _is_here(network):
        return (("from", _short(network)), MOST_FROM), whoever
    # Many may come by a proxy on this machine, and have its address: one's guesses do not lock the others out.
    return (("from", _place(address, user)), MOST_FROM), (("here", _short(network)), MOST_HERE), whoever


def _place(address: str, user: str) -> bytes:
    return _short(f"{_network(address)} {user}")


def _is_here(address: str) -> bool:
    try:
        return ipaddress.ip_network(address, strict=False).is_loopback
    except ValueError:
        return False


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
