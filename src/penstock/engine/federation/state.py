"""What a node keeps of its neighbours: their sessions, what they were told, what has changed since."""

from typing import NamedTuple, Protocol

from penstock.domain.schema.federation import Forward
from penstock.engine.federation.pending import News
from penstock.engine.federation.wants import Offer, Want


class Change(NamedTuple):
    """What a neighbour is to be told: wants and offers that are new or other, and those that are gone."""

    add: frozenset[Want] = frozenset()
    remove: frozenset[Want] = frozenset()
    offer: tuple[Offer, ...] = ()
    withdraw: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self)


class Exchange(Protocol):
    """What a neighbour has been told since its link is up."""

    @property
    def has_asked(self) -> bool:
        """Whether it was told what is wanted of it."""

    def offer_all(self) -> tuple[Offer, ...]:
        """All that it is offered, as the first thing that it is told."""

    def ask_all(self, forward: Forward) -> frozenset[Want]:
        """All that is wanted of it."""

    def update(self, news: News, forward: Forward, linger: float) -> Change:
        """What the news change in what it knows."""

    def take_back(self, now: float) -> frozenset[Want]:
        """What has lingered for long enough."""
