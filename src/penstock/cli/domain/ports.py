"""Ports of a starter domain: those that were asked for, and others that do not collide with them."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.errors import PenstockError

LAST = 65535


class PortError(PenstockError):
    """Two listeners ask for one port, or there are not enough ports."""


@dataclass(frozen=True)
class PortRange:
    """Consecutive ports: the first as it was asked for, else the default."""

    option: str
    given: int | None
    usual: int
    count: int

    @property
    def first(self) -> int:
        return self.usual if self.given is None else self.given


def assign_ports(ranges: Sequence[PortRange]) -> dict[str, int]:
    """Return the first port of each range, by its option. Given ports stay; default ports move up to avoid them."""
    taken: dict[int, str] = {}
    first_ports: dict[str, int] = {}
    for range_ in sorted(ranges, key=lambda range_: range_.given is None):
        first = range_.first
        while clash := _clash(first, range_.count, taken):
            if range_.given is not None:
                raise PortError(f"port {clash} is asked for twice, by --{taken[clash]} and --{range_.option}")
            first = clash + 1
        if first + range_.count - 1 > LAST:
            raise PortError(f"--{range_.option}: {range_.count} ports from {first} on are too many, the last is {LAST}")
        taken |= dict.fromkeys(range(first, first + range_.count), range_.option)
        first_ports[range_.option] = first
    return first_ports


def _clash(first: int, count: int, taken: dict[int, str]) -> int:
    """Return the last port of these that is taken; 0 if none is."""
    return max((port for port in range(first, first + count) if port in taken), default=0)
