"""Ports for what a starter domain listens with: those that were asked for, and others that do not get in their way."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.errors import PenstockError

LAST = 65535


class PortError(PenstockError):
    """Two are to listen on one port, or there are not ports enough."""


@dataclass(frozen=True)
class Wanted:
    """Ports one after the other: the first as it was asked for, else as it usually is."""

    option: str
    given: int | None
    usual: int
    count: int

    @property
    def wish(self) -> int:
        return self.usual if self.given is None else self.given


def placed(wanted: Sequence[Wanted]) -> dict[str, int]:
    """The first port of each, by its option. What was asked for stays; what was not gives way to it, upwards."""
    taken: dict[int, str] = {}
    found: dict[str, int] = {}
    for one in sorted(wanted, key=lambda one: one.given is None):
        first = one.wish
        while clash := _clash(first, one.count, taken):
            if one.given is not None:
                raise PortError(f"port {clash} is asked for twice, by --{taken[clash]} and --{one.option}")
            first = clash + 1
        if first + one.count - 1 > LAST:
            raise PortError(f"--{one.option}: {one.count} ports from {first} on are too many, the last is {LAST}")
        taken |= dict.fromkeys(range(first, first + one.count), one.option)
        found[one.option] = first
    return found


def _clash(first: int, count: int, taken: dict[int, str]) -> int:
    """The last port of these that is taken; 0 if none is."""
    return max((port for port in range(first, first + count) if port in taken), default=0)
