"""A node's state about its neighbours: sessions, exchanged wants and offers, pending changes."""

from typing import NamedTuple, Protocol

from penstock.domain.schema.federation import Forward
from penstock.engine.federation.wants import Farewell, Offer, Want
from penstock.engine.mobility.state import MoveState
from penstock.engine.sessions.session import Session
from penstock.language.condition import Condition
from penstock.language.statements.statement import Message
from penstock.policy.access.acl import Acl
from penstock.policy.statements.judging import Bound
from penstock.policy.statements.statement import Policy

Source = tuple[Session, str]
"""A subscription: whose, and its key."""


class Withdrawal(NamedTuple):
    """A subscription or advertisement that is taken back, with policies that are asked as that goes on."""

    message: Message
    """`UNSUBSCRIPTION` or `UNADVERTISEMENT`."""
    session: Session
    filter: str
    condition: Condition | None
    policies: tuple[Bound, ...]
    attached: str
    """The text of the policies that were attached to it: they go with it."""


class News:
    """Changes since a node last computed its interest: subscriptions, ids of offers, or everything."""

    __slots__ = ("is_all", "offers", "subscriptions", "withdrawals")

    def __init__(self, is_all: bool) -> None:
        """While everything is news, nothing is noted by itself: a node without neighbours gathers nothing."""
        self.is_all = is_all
        self.subscriptions: dict[Source, None] = {}
        self.offers: dict[str, None] = {}
        self.withdrawals: dict[Source | str, Withdrawal] = {}
        """By subscription or id of an offer, what was taken back with policies."""

    def __bool__(self) -> bool:
        return self.is_all or bool(self.subscriptions or self.offers)

    def subscription(self, session: Session, key: str) -> None:
        if not self.is_all:
            self.subscriptions[session, key] = None

    def offer(self, *ids: str) -> None:
        if not self.is_all:
            self.offers.update(dict.fromkeys(ids))

    def everything(self) -> None:
        self.is_all = True
        self.subscriptions, self.offers = {}, {}


class Change(NamedTuple):
    """A message for a neighbour: wants and offers that are new or changed, and those that are gone."""

    add: frozenset[Want] = frozenset()
    remove: frozenset[Want] = frozenset()
    offer: tuple[Offer, ...] = ()
    withdraw: tuple[str, ...] = ()
    farewell: tuple[Farewell, ...] = ()

    def __bool__(self) -> bool:
        return any(self)


class Exchange(Protocol):
    """The exchange with a neighbour since its link is up."""

    @property
    def has_asked(self) -> bool:
        """True if the neighbour was told the wants."""

    def offer_all(self) -> tuple[Offer, ...]:
        """Return all offers, the first message to the neighbour."""

    def ask_all(self, forward: Forward) -> frozenset[Want]:
        """Return all wants."""

    def update(self, news: News, forward: Forward, linger: float) -> Change:
        """Return the change in what the neighbour must know."""

    def take_back(self, now: float) -> frozenset[Want]:
        """Remove and return the wants that have lingered long enough."""


class OwnOffer(NamedTuple):
    """An advertisement of a client here, and the type of the link that its events come by."""

    offer: Offer
    source: str
    condition: Condition | None = None
    policy: Policy | None = None
    session: Session | None = None
    """The session that offers it; None: the domain advertises it for somebody."""


class KnownRights(NamedTuple):
    """The access list of a node, as it is known here."""

    at: float
    """The time since which it is in force."""
    text: str | None
    """Its lines about publishing; None: it has none, and everything may be published there."""
    acl: Acl | None


class FederationState:
    """The neighbours of a node."""

    __slots__ = (
        "exchanges",
        "interest_due",
        "moves",
        "neighbours",
        "news",
        "own_offers",
        "refused",
        "rights",
        "secrets",
    )

    def __init__(self) -> None:
        self.neighbours: dict[str, Session] = {}
        self.secrets: dict[str, bytes] = {}
        """By neighbour, what it must show to be taken for it."""
        self.exchanges: dict[int, Exchange] = {}
        """By session, what we tell the neighbour that we want and offer, while the link is up."""
        self.news = News(is_all=True)
        """The changes of wants and offers since neighbours were last told."""
        self.moves = MoveState()
        """Sessions of clients that change their node."""
        self.interest_due = 0.0
        """The time at which they may be told again."""
        self.own_offers: dict[str, OwnOffer] = {}
        """The advertisements of clients here, by id."""
        self.refused: dict[int, set[Want]] = {}
        """By neighbour's session, the wants that policies did not let in: others may."""
        self.rights: dict[str, KnownRights] = {}
        """By node, this one included, what its access list lets clients publish."""

    @property
    def rated(self) -> list[str]:
        """The neighbours that are nodes, in a domain with tokens."""
        return [name for name, session in self.neighbours.items() if session.trust.tokens is not None]
