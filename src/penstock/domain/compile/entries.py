"""Who comes to each node, as `clients` says, compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.compile.graph import client_types
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.node_settings import NodeSettings
from penstock.domain.units import Address, Pair
from penstock.language.condition import Condition
from penstock.model.link import Link
from penstock.policy.contracts.contract import advertisement
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.statements.advertisement import ProducerAdvertisement


class ClientEntry(NamedTuple):
    """A client as the domain knows it: the entity's name, and the types of its two links with the node."""

    name: str
    publish: str
    notify: str
    listed: bool = True
    """Whether `clients` has it; otherwise its name is its client id."""
    where: tuple[tuple[str, Condition], ...] = ()
    """By topic filter, a condition on what goes to it."""
    advertises: tuple[ProducerAdvertisement, ...] = ()
    """What the file says that it will publish."""
    edge: str = ""
    """The Sparkplug edge node that it is, as `GROUP/EDGE`."""
    groups: tuple[str, ...] = ()
    attributes: tuple[tuple[str, bool | int | float | str], ...] = ()

    def links(self, node: str) -> tuple[Link, Link]:
        """The link on which it publishes to `node`, and the one on which it is notified."""
        return Link(self.name, node, self.publish), Link(node, self.name, self.notify)


@dataclass(frozen=True, slots=True)
class Match:
    """What a client must show to be an entry of `clients`."""

    entry: ClientEntry
    client_id: str | None
    user: str | None
    certificate: str | None
    listener: str | None

    def fits(self, client_id: str, user: str | None, listener: str, certificate: str | None) -> bool:
        return (
            self.client_id in (None, client_id)
            and self.user in (None, user)
            and self.certificate in (None, certificate)
            and self.listener in (None, listener)
        )

    @property
    def rank(self) -> tuple[bool, ...]:
        """Sorts what says more about a client before what says less."""
        return tuple(part is None for part in (self.client_id, self.certificate, self.user, self.listener))


def matches_of(domain: Domain, contracts: Contracts | None) -> dict[str, list[Match]]:
    """What `clients` says about who comes to each node, what says most first."""
    found: dict[str, list[Match]] = {name: [] for name in domain.nodes}
    for name, client in domain.clients.items():
        where = tuple((filter, one.compiled(domain.declared(filter))) for filter, one in client.where.items())
        advertises = tuple(one.compiled(domain.declared(one.filter)) for one in client.advertises)
        if contracts is not None:
            advertises += tuple(advertisement(one) for one in contracts.producers if name in one.producers)
        for node in client.node:
            types = client_types(domain, name, node)
            listener = _listener(domain.nodes[node], node, client.listener)
            entry = ClientEntry(
                name,
                types.publish,
                types.notify,
                where=where,
                advertises=advertises,
                edge=client.edge or "",
                groups=client.groups,
                attributes=tuple(client.attributes.items()),
            )
            found[node].append(Match(entry, client.client_id(name), client.user, client.certificate, listener))
    return {node: sorted(several, key=lambda match: match.rank) for node, several in found.items()}


def by_client_id(matches: dict[str, list[Match]]) -> dict[Pair, tuple[Match, ...]]:
    """Of these, those that ask for a client id, by node and client id."""
    found = dict[Pair, tuple[Match, ...]]()
    for node, all_ in matches.items():
        for match in all_:
            if match.client_id is not None:
                found[node, match.client_id] = (*found.get((node, match.client_id), ()), match)
    return found


def reserved_ids(domain: Domain) -> frozenset[str]:
    """Client ids that a client which is not listed may not have."""
    ids = (client.client_id(name) for name, client in domain.clients.items())
    return frozenset({*domain.nodes, *domain.clients, *domain.foreign, *(one for one in ids if one is not None)})


def _listener(settings: NodeSettings, node: str, address: Address | None) -> str | None:
    """The name of a node's listener; one that fits none if the address is that of another node."""
    if address is None:
        return None
    addresses = [listener.address for listener in settings.listeners]
    return f"{node}/{addresses.index(address) if address in addresses else '-'}"
