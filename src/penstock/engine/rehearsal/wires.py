"""Wires that carry packets in a rehearsal."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from penstock.engine.connections.host import Transport
from penstock.wire.framing import Framer


class Wire(Transport):
    """One direction of one connection: packets under way, in order. Whoever is at its source writes to it."""

    def __init__(self, source: str, target: str, numbers: Iterator[int], arrive: Callable[[bytes], None]) -> None:
        self.source = source
        self.target = target
        self._numbers = numbers
        self._arrive = arrive
        self._framer = Framer()
        self._packets: deque[tuple[int, bytes]] = deque()

    def __bool__(self) -> bool:
        return bool(self._packets)

    @property
    def first(self) -> int:
        """The sequence number of its next packet."""
        return self._packets[0][0]

    def write(self, data: bytes) -> None:
        """Take packets; each arrives by itself, whatever it was written with."""
        buffer, frames = self._framer.feed(data)
        position = 0
        for _, _, end in frames:
            self._packets.append((next(self._numbers), buffer[position:end]))
            position = end

    def hand_over(self) -> None:
        """Let the next packet arrive."""
        self._arrive(self._packets.popleft()[1])


Choose = Callable[[Sequence[Wire]], Wire]
"""Chooses the wire to serve next, of those with packets under way, in the order of `Wire.first`."""


def earliest(wires: Sequence[Wire]) -> Wire:
    """Choose the packet that was sent first."""
    return wires[0]
