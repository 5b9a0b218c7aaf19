"""The values that two nodes exchange: wants and offers."""

from typing import NamedTuple

import msgspec

from penstock.language.condition import Condition
from penstock.policy.statements.statement import Policy

Path = tuple[str, ...]
"""Nodes, the first one first."""


class Want(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """The topics that a node wants to get, with a condition on the content."""

    filter: str
    where: str = ""
    path: Path = ()
    """The nodes that it has come through; empty where there are no cycles."""
    policy: str = ""
    """The text of what its subscriber wants done with what comes this way."""


class Offer(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """An advertisement on its way through the nodes."""

    id: str
    filter: str
    where: str = ""
    path: Path = ()
    policy: str = ""


class Offered(NamedTuple):
    """An offer as a neighbour has told it."""

    offer: Offer
    condition: Condition | None
    policy: Policy | None = None


class NeighbourOffers:
    """The offers that a neighbour has sent, and those that it has not sent again since it is back."""

    __slots__ = ("doubted", "doubted_offers", "offers", "rights")

    def __init__(self) -> None:
        self.offers: dict[str, Offered] = {}
        """The advertisements that the neighbour has told us of."""
        self.doubted: dict[str, float] = {}
        """Of its subscriptions those that a neighbour has not told again since it is back, and until when they count;
        in `doubted_offers` the same of its offers.
        """
        self.doubted_offers: dict[str, float] = {}
        self.rights: dict[str, list[str]] = {}
        """The parts of access lists that have come so far, by node."""


NOTHING_TOLD = NeighbourOffers()
"""For the sessions of clients, which share it: three dictionaries for each would be a tenth of an idle connection."""


def is_of_client(id: str) -> bool:
    """Return True if a client has advertised it itself; else the domain has, for somebody."""
    parts = id.split("/")
    return len(parts) != 4 or parts[2] == "client"


NODE_PREFIX = "$node/"
"""Client ids that only nodes use."""


def neighbour_in(client_id: str) -> str | None:
    """Return the node that a client id stands for, or None if it is a client's."""
    return client_id.removeprefix(NODE_PREFIX) if client_id.startswith(NODE_PREFIX) else None
