"""What two nodes tell each other: wants, and offers."""

from typing import NamedTuple

import msgspec

from penstock.language.condition import Condition

Path = tuple[str, ...]
"""Nodes, the first one first."""


class Want(msgspec.Struct, frozen=True, order=True):
    """What a node wants to get: topics, and a condition on the content."""

    filter: str
    where: str = ""
    path: Path = ()
    """The nodes that it has come through; empty where there are no cycles."""


class Offer(msgspec.Struct, frozen=True, order=True):
    """An advertisement on its way through the nodes."""

    id: str
    filter: str
    where: str = ""
    path: Path = ()


class Offered(NamedTuple):
    """An offer as a neighbour has told it."""

    offer: Offer
    condition: Condition | None
