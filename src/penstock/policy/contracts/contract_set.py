"""All contracts of a domain, with what they speak of: quality, collectors, situations, and what is known of clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from penstock.model.quality import Catalogue
from penstock.model.topic import matches
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, ProducerContract, Subject
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.contracts.privacy_types import Values
from penstock.policy.contracts.situation import Situation
from penstock.policy.quality.collectors import QualityCollector

EVERYBODY = "*"
ANYTHING = ContextWant("anything", "#")
"""What a consumer wants that has said what it guarantees, and nothing of a topic."""


class CollectorAssignment(NamedTuple):
    """Collectors of the events of some clients on some topics."""

    filter: str
    clients: frozenset[str]
    """Empty: of all."""
    collectors: tuple[QualityCollector, ...]


@dataclass(frozen=True)
class Contracts:
    """What a domain says of contracts."""

    catalogue: Catalogue
    producers: tuple[ProducerContract, ...] = ()
    consumers: tuple[ConsumerContract, ...] = ()
    situations: tuple[Situation, ...] = ()
    collecting: tuple[CollectorAssignment, ...] = ()
    known: Mapping[str, Subject] = field(default_factory=dict)
    """By client, the attributes that the domain gives it."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """By client, those of them that are no texts, as policies in XACML are given them."""
    privacy: tuple[PrivacyPolicy, ...] = ()
    """Policies in XACML."""
    bring: frozenset[str] = frozenset()
    """Clients that may bring contracts of their own; `*`: all may."""

    def may_bring(self, client: str) -> bool:
        return client in self.bring or EVERYBODY in self.bring

    def producing(self, client: str, topic: str) -> tuple[ProducerContract, ...]:
        """Return the contracts that bind what a client publishes on a topic."""
        return tuple(one for one in self.producers if client in one.producers and matches(one.filter, topic))

    def named(self, name: str) -> ProducerContract | None:
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, ProducerContract]:
        return {one.name: one for one in self.producers}

    def collectors(self, client: str, topic: str) -> tuple[QualityCollector, ...]:
        """Return the collectors that measure what a client publishes on a topic."""
        found = (
            one for one in self.collecting if (not one.clients or client in one.clients) and matches(one.filter, topic)
        )
        return tuple(collector for one in found for collector in one.collectors)

    def consuming(self, client: str, shown: Subject = ()) -> tuple[ConsumerContract, ...]:
        """Return the contracts of a client that consumes, with all that is known of it."""
        return tuple(self.of(client, one, shown) for one in self.consumers if client in one.consumers)

    def of(self, client: str, contract: ConsumerContract, shown: Subject = ()) -> ConsumerContract:
        """Return a contract, with what the domain knows of the client, and what it has shown at its node."""
        given = dict(contract.attributes)
        for name, values in (*self.known.get(client, ()), *shown):
            given.setdefault(name, values)
        return replace(contract, attributes=tuple(given.items()))

    def concerns(self, topic: str) -> bool:
        """Return whether events on a topic can be of any contract, or have a quality that is measured."""
        needing = (want.filter for one in self.consumers for want in one.wants if want.asks)
        filters = (one.filter for several in (self.producers, self.collecting, self.privacy) for one in several)
        return any(matches(filter, topic) for filter in (*filters, *needing))

    def private(self, topic: str) -> tuple[PrivacyPolicy, ...]:
        """Return the policies in XACML about events on a topic."""
        return tuple(one for one in self.privacy if matches(one.filter, topic))


def wants_of(contract: ConsumerContract, topic: str) -> tuple[ContextWant, ...]:
    """Return the wants of a contract that are about a topic. What is guaranteed counts only there, as it belongs to a
    subscription (contracts §2.2); unless it says of no topic that it is wanted.
    """
    return tuple(want for want in said_wants(contract) if matches(want.filter, topic))


def said_wants(contract: ConsumerContract) -> tuple[ContextWant, ...]:
    """Return the wants of a contract; of one that has none, the one for anything."""
    return contract.wants or (ANYTHING,)


def subscription_id(client: str, contract: ConsumerContract, want: ContextWant) -> str:
    """What a want of a client is known by in the whole ensemble."""
    return f"{client}/{contract.name}/{want.name}"
