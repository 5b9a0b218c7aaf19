"""Failed log-ins of the last minute: an address or user with too many has to wait, whatever it sends now."""

import ipaddress
from collections import deque
from hashlib import blake2b

Key = tuple[str, bytes]

PERIOD = 60.0
"""Seconds for which a failed log-in counts."""
MAX_FROM_ADDRESS, MAX_FROM_THIS_MACHINE, MAX_AS_USER = 20, 200, 100
"""Failed log-ins in a period from one address (on this machine: as one user), from this machine as any user, and as
one user from any address."""
MAX_KEPT = 10_000
"""Addresses and users that are remembered; the oldest are forgotten first."""


class Attempts:
    """Counts failed log-ins by address and by user."""

    def __init__(self) -> None:
        self._failed: dict[Key, deque[float]] = {}
        self._good: dict[bytes, None] = {}
        """Users and the networks that they have logged in from."""

    def wait(self, address: str, user: str, now: float) -> float:
        """Return seconds to wait; 0: none. Attempts elsewhere do not lock out a user who has logged in from here."""
        is_known = _place(address, user) in self._good
        keys = ((key, limit) for key, limit in _keys(address, user) if not (is_known and key[0] == "as"))
        counted = [(self._since(key, now - PERIOD), limit) for key, limit in keys]
        return max((times[0] + PERIOD - now for times, limit in counted if len(times) >= limit), default=0.0)

    def failed(self, address: str, user: str, now: float) -> None:
        """Count a failed attempt. Successes change nothing: an account of your own does not buy more guesses."""
        for key, _ in _keys(address, user):
            times = self._since(key, now - PERIOD)
            times.append(now)
            self._failed.pop(key, None)
            while len(self._failed) >= MAX_KEPT:
                del self._failed[next(iter(self._failed))]
            self._failed[key] = times

    def succeeded(self, address: str, user: str) -> None:
        """Remember that the user has logged in from there."""
        self._good[_place(address, user)] = None
        while len(self._good) > MAX_KEPT:
            del self._good[next(iter(self._good))]

    def _since(self, key: Key, begin: float) -> deque[float]:
        times = self._failed.get(key, deque())
        while times and times[0] <= begin:
            times.popleft()
        return times


def _keys(address: str, user: str) -> tuple[tuple[Key, int], ...]:
    network, whoever = _network(address), (("as", _short(user)), MAX_AS_USER)
    if not _is_here(network):
        return (("from", _short(network)), MAX_FROM_ADDRESS), whoever
    # Many clients of a proxy on this machine have its address: one client's guesses do not lock the others out.
    return (
        (("from", _place(address, user)), MAX_FROM_ADDRESS),
        (("here", _short(network)), MAX_FROM_THIS_MACHINE),
        whoever,
    )


def _place(address: str, user: str) -> bytes:
    return _short(f"{_network(address)} {user}")


def _is_here(address: str) -> bool:
    try:
        return ipaddress.ip_network(address, strict=False).is_loopback
    except ValueError:
        return False


def _short(text: str) -> bytes:
    """Return a digest: names may be long, and may be passwords that were typed in the wrong place."""
    return blake2b(text.encode(errors="replace"), digest_size=16).digest()


def _network(address: str) -> str:
    """Return the network of an address: one customer has many IPv6 addresses, all of one network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else str(parsed)
