"""A node's state about its neighbours: sessions, exchanged wants and offers, pending changes."""

from typing import NamedTuple, Protocol

from penstock.domain.schema.federation import Forward
from penstock.engine.federation.pending import News
from penstock.engine.federation.wants import Offer, Want


class Change(NamedTuple):
    """A message for a neighbour: wants and offers that are new or changed, and those that are gone."""

    add: frozenset[Want] = frozenset()
    remove: frozenset[Want] = frozenset()
    offer: tuple[Offer, ...] = ()
    withdraw: tuple[str, ...] = ()

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
