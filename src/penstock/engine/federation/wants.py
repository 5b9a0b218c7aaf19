"""The values that two nodes exchange: wants and offers."""

from hashlib import sha256
from typing import Any, NamedTuple

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
    consumer: str = ""
    """The subscriber, where that decides whether a private event crosses the link (`contracts/subscribers.py`).
    Such a want matches no event: there is another for the topics.
    """
    is_global: bool = False
    """It is told over every link, whatever the links say."""
    needs: str = ""
    """The quality that those who want it ask for (`contracts/link_needs.py`); empty: any."""


class Offer(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """An advertisement on its way through the nodes."""

    id: str
    filter: str
    where: str = ""
    path: Path = ()
    policy: str = ""
    is_global: bool = False
    """True if events of it go over every link, whatever the links say."""


class Farewell(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """The policy that was attached to the withdrawal of a want or an offer; the withdrawal follows."""

    policy: str
    want: Want | None = None
    offer: str = ""


class Offered(NamedTuple):
    """An offer as a neighbour has told it."""

    offer: Offer
    condition: Condition | None
    policy: Policy | None = None


class NeighbourOffers:
    """The offers that a neighbour has sent, and those that it has not sent again since it is back."""

    __slots__ = ("doubted", "doubted_offers", "farewells", "offers", "rights", "subscribers")

    def __init__(self) -> None:
        self.offers: dict[str, Offered] = {}
        """The advertisements that the neighbour has told us of."""
        self.doubted: dict[str, float] = {}
        """Of its subscriptions those that a neighbour has not told again since it is back, and until when they count;
        in `doubted_offers` the same of its offers.
        """
        self.doubted_offers: dict[str, float] = {}
        self.farewells: dict[Want | str, str] = {}
        """The policies attached to withdrawals that have been announced, by want or id of an offer."""
        self.rights: dict[str, list[str]] = {}
        """The parts of access lists that have come so far, by node."""
        self.subscribers: dict[str, Any] = {}
        """Those beyond the neighbour who have subscribed to what may be private, as `Subscribed` by key."""


NOTHING_TOLD = NeighbourOffers()
"""For the sessions of clients, which share it: these dictionaries for each would be a tenth of an idle connection."""


CLIENT, OTHERS = "client", "others"
"""The kinds of offers that clients make: their policies concern the client's own events, or those of others too."""
MAX_CLIENT_ID_LENGTH = 64
"""Characters; of a longer client id the digest stands in an offer's id."""


def is_of_client(id: str) -> bool:
    """Return True if a client has advertised it itself; else the domain has, for somebody."""
    parts = id.split("/")
    return len(parts) != 4 or parts[2] in (CLIENT, OTHERS)


def owner_in(id: str) -> str:
    """Return the client whose events alone the policy of an offer concerns; empty: it concerns all."""
    owner, _, kind = id.rpartition("/")[0].rpartition("/")
    return owner if is_of_client(id) and kind != OTHERS else ""


def owner(node: str, client_id: str) -> str:
    """Return the client of a node as the ids of its offers name it."""
    if len(client_id) > MAX_CLIENT_ID_LENGTH:
        client_id = f"sha256:{sha256(client_id.encode()).hexdigest()}"
    return f"{encode_part(node)}/{encode_part(client_id)}"


def encode_part(text: str) -> str:
    """Encode a part of an id, so that ids with different parts differ."""
    return text.replace("%", "%25").replace("/", "%2F")


NODE_PREFIX = "$node/"
"""Client ids that only nodes use."""


def neighbour_in(client_id: str) -> str | None:
    """Return the node that a client id stands for, or None if it is a client's."""
    return client_id.removeprefix(NODE_PREFIX) if client_id.startswith(NODE_PREFIX) else None
