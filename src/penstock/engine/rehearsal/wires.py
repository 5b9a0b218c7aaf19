"""Wires that carry packets in a rehearsal, and the connections that have two of them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.engine.connections.connection import NodeConnection
from penstock.engine.connections.host import Transport
from penstock.engine.rehearsal.peer import Peer
from penstock.wire.framing import Framer
from penstock.wire.session import CLOSED


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

    @property
    def packets(self) -> tuple[tuple[int, bytes], ...]:
        """The packets under way, each with its sequence number."""
        return tuple(self._packets)

    def hand_over(self, number: int | None = None) -> None:
        """Let the next packet arrive, or the one with this number."""
        at = 0 if number is None else next(at for at, packet in enumerate(self._packets) if packet[0] == number)
        data = self._packets[at][1]
        del self._packets[at]
        self._arrive(data)


class RehearsedConnection(NamedTuple):
    """A node's end of a connection, what is at its other end, and the two wires between them."""

    node_end: NodeConnection
    other: NodeConnection | Peer
    wires: tuple[Wire, Wire]

    @property
    def is_over(self) -> bool:
        """True if one of the nodes has closed it."""
        return CLOSED in (self.node_end.phase, getattr(self.other, "phase", None))

    def cut(self) -> None:
        """Lose what is under way; both sides notice."""
        self.node_end.end()
        self.other.end()


Choose = Callable[[Sequence[Wire]], Wire]
"""Chooses the wire to serve next, of those with packets under way, in the order of `Wire.first`."""


def earliest(wires: Sequence[Wire]) -> Wire:
    """Choose the packet that was sent first."""
    return wires[0]
