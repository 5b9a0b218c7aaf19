"""What carries packets in a rehearsal."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence


class Wire:
    """One direction of one connection: packets under way, in order."""

    def __init__(self, source: str, target: str, numbers: Iterator[int], arrive: Callable[[bytes], None]) -> None:
        self.source = source
        self.target = target
        self._numbers = numbers
        self._arrive = arrive
        self._packets: deque[tuple[int, bytes]] = deque()

    def __bool__(self) -> bool:
        return bool(self._packets)

    @property
    def first(self) -> int:
        """When its next packet was sent, as a number."""
        return self._packets[0][0]

    def put(self, packets: list[bytes]) -> None:
        """Take packets, and empty the list."""
        self._packets.extend((next(self._numbers), packet) for packet in packets)
        packets.clear()

    def hand_over(self) -> None:
        """Let the next packet arrive."""
        self._arrive(self._packets.popleft()[1])


Choose = Callable[[Sequence[Wire]], Wire]
"""Which of the wires that have something under way is served next; they are given in the order of `Wire.first`."""


def earliest(wires: Sequence[Wire]) -> Wire:
    """What was sent first arrives first."""
    return wires[0]
