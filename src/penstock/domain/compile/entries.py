"""The entries of `clients`, compiled: which client is which entity at each node."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.domain.compile.graph import client_types
from penstock.domain.schema.contents import ListedAdvertisement
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.node_settings import NodeSettings
from penstock.domain.units import Address, Pair
from penstock.language.condition import Condition, all_of, make_condition
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
    """True if `clients` lists it; otherwise its name is its client id."""
    where: tuple[tuple[str, Condition], ...] = ()
    """By topic filter, a condition on the events that go to it."""
    advertises: tuple[ProducerAdvertisement, ...] = ()
    """The advertisements in the file."""
    edge: str = ""
    """The Sparkplug edge node that it is, as `GROUP/EDGE`."""
    groups: tuple[str, ...] = ()
    attributes: tuple[tuple[str, bool | int | float | str], ...] = ()
    homes: tuple[str, ...] = ()
    """The nodes among which its session follows it; none if each node has its own."""

    def links(self, node: str) -> tuple[Link, Link]:
        """Return the link on which it publishes to `node`, and the one on which it is notified."""
        return Link(self.name, node, self.publish), Link(node, self.name, self.notify)


@dataclass(frozen=True, slots=True)
class ClientMatch:
    """The identity that a client must show to be an entry of `clients`."""

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
        """Return a key that sorts more specific entries before less specific ones."""
        return tuple(part is None for part in (self.client_id, self.certificate, self.user, self.listener))


def matches_of(domain: Domain, contracts: Contracts | None) -> dict[str, list[ClientMatch]]:
    """Return the entries of clients at each node, the most specific first."""
    by_node: dict[str, list[ClientMatch]] = {name: [] for name in domain.nodes}
    for name, client in domain.clients.items():
        where = tuple((filter, written.compiled(domain.declared(filter))) for filter, written in client.where.items())
        advertises = tuple(advertised(domain, settings) for settings in client.advertises)
        if contracts is not None:
            advertises += tuple(
                advertisement(producer) for producer in contracts.producers if name in producer.producers
            )
        homes = tuple(client.node) if client.roams else ()
        known = (client.edge or "", client.groups, tuple(client.attributes.items()), homes)
        for node in client.node:
            types = client_types(domain, name, node)
            listener = _listener(domain.nodes[node], node, client.listener)
            entry = ClientEntry(name, types.publish, types.notify, True, where, advertises, *known)
            by_node[node].append(ClientMatch(entry, client.client_id(name), client.user, client.certificate, listener))
    return {node: sorted(matches, key=lambda match: match.rank) for node, matches in by_node.items()}


def advertised(domain: Domain, settings: ListedAdvertisement) -> ProducerAdvertisement:
    """Compile an advertisement of the domain; raise `ConditionError`."""
    declared = domain.declared(settings.filter)
    made = settings.compiled(declared)
    if settings.observable is None:
        return made
    observed = make_condition(domain.context.observable(settings.observable).condition, declared)
    return replace(made, condition=observed if made.condition is None else all_of((made.condition, observed)))


def by_client_id(matches: dict[str, list[ClientMatch]]) -> dict[Pair, tuple[ClientMatch, ...]]:
    """Return the entries that ask for a client id, by node and client id."""
    by_id = dict[Pair, tuple[ClientMatch, ...]]()
    for node, all_ in matches.items():
        for match in all_:
            if match.client_id is not None:
                by_id[node, match.client_id] = (*by_id.get((node, match.client_id), ()), match)
    return by_id


def id_owners(domain: Domain) -> dict[str, frozenset[str]]:
    """Return by client id that the domain mentions the clients that may have it: those that ask for it, or else the one
    of this name. The name of a node or of a foreign broker is nobody's.
    """
    owners: dict[str, set[str]] = {name: set() for name in (*domain.nodes, *domain.foreign)}
    for name, client in domain.clients.items():
        if (client_id := client.client_id(name)) is not None:
            owners.setdefault(client_id, set()).add(name)
    return {**{name: frozenset({name}) for name in domain.clients}, **{id: frozenset(of) for id, of in owners.items()}}


def _listener(settings: NodeSettings, node: str, address: Address | None) -> str | None:
    """Return the name of a node's listener; a name that matches none if the address is another node's."""
    if address is None:
        return None
    addresses = [listener.address for listener in settings.listeners]
    return f"{node}/{addresses.index(address) if address in addresses else '-'}"
