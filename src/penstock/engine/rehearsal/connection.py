"""One connection of a rehearsal."""

from penstock.engine.rehearsal.actor import Actor
from penstock.engine.rehearsal.wires import Wire
from penstock.engine.sessions.endpoint import Endpoint
from penstock.wire.session import CLOSED


class Joint:
    """A node's endpoint, what is at its other end, and the two wires between them."""

    def __init__(self, node_end: Endpoint, other: Endpoint | Actor, wires: tuple[Wire, Wire]) -> None:
        self.node_end = node_end
        self.other = other
        self.wires = wires

    @property
    def is_over(self) -> bool:
        """Whether one of the nodes has closed it."""
        return CLOSED in (self.node_end.phase, getattr(self.other, "phase", None))

    def breaks(self) -> None:
        """What is under way is lost, and both sides notice."""
        self.node_end.close()
        if isinstance(self.other, Endpoint):
            self.other.close()
        else:
            self.other.part()
