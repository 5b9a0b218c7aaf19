"""One connection of a rehearsal."""

from penstock.engine.connections.connection import NodeConnection
from penstock.engine.rehearsal.peer import Peer
from penstock.engine.rehearsal.wires import Wire
from penstock.wire.session import CLOSED


class RehearsedConnection:
    """A node's end, what is at its other end, and the two wires between them."""

    def __init__(self, node_end: NodeConnection, other: NodeConnection | Peer, wires: tuple[Wire, Wire]) -> None:
        self.node_end = node_end
        self.other = other
        self.wires = wires

    @property
    def is_over(self) -> bool:
        """True if one of the nodes has closed it."""
        return CLOSED in (self.node_end.phase, getattr(self.other, "phase", None))

    def cut(self) -> None:
        """Lose what is under way; both sides notice."""
        self.node_end.end()
        if isinstance(self.other, NodeConnection):
            self.other.end()
        else:
            self.other.part()
