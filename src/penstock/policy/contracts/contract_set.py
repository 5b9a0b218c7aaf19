"""All contracts of a domain, with their quality, collectors, situations, and the known attributes of clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from penstock.model.quality import Catalogue
from penstock.model.topic import matches
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, ProducerContract, Subject
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.contracts.privacy_types import GivenTypes, Values
from penstock.policy.contracts.situation import Situation
from penstock.policy.quality.collectors import QualityCollector

EVERYBODY = "*"
ANYTHING = ContextWant("anything", "#")
"""The want of a consumer that states guarantees, but no topic."""


class CollectorAssignment(NamedTuple):
    """Collectors for the events of some clients on some topics."""

    filter: str
    clients: frozenset[str]
    """The clients; empty: all."""
    collectors: tuple[QualityCollector, ...]


@dataclass(frozen=True)
class Contracts:
    """The contracts of a domain."""

    catalogue: Catalogue
    producers: tuple[ProducerContract, ...] = ()
    consumers: tuple[ConsumerContract, ...] = ()
    situations: tuple[Situation, ...] = ()
    collecting: tuple[CollectorAssignment, ...] = ()
    known: Mapping[str, Subject] = field(default_factory=dict)
    """By client, the attributes that the domain gives it."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """By client, the known attributes that are not texts, for policies in XACML."""
    privacy: tuple[PrivacyPolicy, ...] = ()
    """Policies in XACML."""
    bring: frozenset[str] = frozenset()
    """Clients that may bring contracts of their own; `*`: all may."""
    attribute_types: GivenTypes = field(default_factory=dict)
    """The types of the attributes that policies in XACML of contracts get."""

    @cached_property
    def is_private(self) -> bool:
        """True if something may be private: then nodes must know who subscribes beyond a link."""
        return bool(self.privacy or self.bring) or any(contract.is_private for contract in self.producers)

    def may_bring(self, client: str) -> bool:
        return client in self.bring or EVERYBODY in self.bring

    def producing(self, client: str, topic: str) -> tuple[ProducerContract, ...]:
        """Return the contracts that bind what a client publishes on a topic."""
        return tuple(
            contract for contract in self.producers if client in contract.producers and matches(contract.filter, topic)
        )

    def named(self, name: str) -> ProducerContract | None:
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, ProducerContract]:
        return {contract.name: contract for contract in self.producers}

    def collectors(self, client: str, topic: str) -> tuple[QualityCollector, ...]:
        """Return the collectors that measure what a client publishes on a topic."""
        assignments = (
            assignment
            for assignment in self.collecting
            if (not assignment.clients or client in assignment.clients) and matches(assignment.filter, topic)
        )
        return tuple(collector for assignment in assignments for collector in assignment.collectors)

    def consuming(self, client: str, shown: Subject = ()) -> tuple[ConsumerContract, ...]:
        """Return the contracts of a consuming client, completed with all its known attributes."""
        return tuple(self.of(client, contract, shown) for contract in self._by_client.get(client, ()))

    @cached_property
    def _by_client(self) -> dict[str, list[ConsumerContract]]:
        by_client: dict[str, list[ConsumerContract]] = {}
        for contract in self.consumers:
            for client in contract.consumers:
                by_client.setdefault(client, []).append(contract)
        return by_client

    def of(self, client: str, contract: ConsumerContract, shown: Subject = ()) -> ConsumerContract:
        """Return a contract completed with the client's known attributes, and with those it has shown at its node."""
        attributes = dict(contract.attributes)
        for name, values in (*self.known.get(client, ()), *shown):
            attributes.setdefault(name, values)
        return replace(contract, attributes=tuple(attributes.items()))

    def concerns(self, topic: str) -> bool:
        """Return whether events on a topic can be of any contract, or have a measured quality."""
        needing = (want.filter for contract in self.consumers for want in contract.wants if want.asks)
        filters = (entry.filter for entries in (self.producers, self.collecting, self.privacy) for entry in entries)
        return any(matches(filter, topic) for filter in (*filters, *needing))

    def private(self, topic: str) -> tuple[PrivacyPolicy, ...]:
        """Return the policies in XACML about events on a topic."""
        return tuple(policy for policy in self.privacy if matches(policy.filter, topic))


def wants_of(contract: ConsumerContract, topic: str) -> tuple[ContextWant, ...]:
    """Return the wants of a contract about a topic (contracts §2.2); a contract without wants is about all topics."""
    return tuple(want for want in effective_wants(contract) if matches(want.filter, topic))


def effective_wants(contract: ConsumerContract) -> tuple[ContextWant, ...]:
    """Return the wants of a contract; if it has none, the want for anything."""
    return contract.wants or (ANYTHING,)


def subscription_id(client: str, contract: ConsumerContract, want: ContextWant) -> str:
    """Return the id of a client's want in the whole ensemble."""
    return f"{client}/{contract.name}/{want.name}"
