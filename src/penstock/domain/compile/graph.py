"""The links of a domain as a graph: which exist, who is whose parent, where events can flow."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product

from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkTypes
from penstock.domain.schema.policies import ANY, Direction, MonitorSettings, TableSettings
from penstock.domain.units import Address, Pair
from penstock.model.link import Link
from penstock.model.topic import overlaps
from penstock.policy.access.brokering import DEFAULT_TYPE, BrokeringTable
from penstock.policy.monitors.protocol import UNLISTED

OPEN = LinkTypes(publish=DEFAULT_TYPE, notify=DEFAULT_TYPE)


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """Links, parents and tables of a domain without patterns; made by `graph`."""

    links: dict[Pair, Link]
    """Every link of brokers and listed clients, by its ends."""
    unlisted: dict[Pair, Link]
    """For each node that admits them, the two links of an unlisted client, `?`."""
    parents: dict[str, tuple[str, ...]]
    """For each node, the nodes it dials."""
    tables: dict[str, BrokeringTable]
    """The brokering table of each node."""
    outside: tuple[Pair, ...]
    """Pairs of foreign brokers that may be joined without nodes: at one address, or what one sends the other takes."""

    @property
    def brokers(self) -> set[str]:
        """Return the nodes and the foreign brokers that they are joined to."""
        return {*self.tables, *(parent for above in self.parents.values() for parent in above)}

    @property
    def is_cyclic(self) -> bool:
        """Return whether brokers are joined in a cycle."""
        group = {name: name for name in self.brokers}

        def root(name: str) -> str:
            while group[name] != name:
                group[name] = name = group[group[name]]
            return name

        for one, other in self.outside:
            if {one, other} <= group.keys():
                group[root(one)] = root(other)
        for child, above in self.parents.items():
            for parent in above:
                first, second = root(child), root(parent)
                if first == second:
                    return True
                group[first] = second
        return False

    def carries(self, ends: Pair) -> bool:
        """Return whether events can come on a link: from a client or foreign broker, or forwarded by the node it
        leaves."""
        source, target = ends
        link = self.links.get(ends) or self.unlisted.get(ends)
        if link is None:
            return False
        table = self.tables.get(source)
        brokers = self.brokers
        return table is None or any(
            table.allows(other.type, link.type)
            for other in (*self.links.values(), *self.unlisted.values())
            # A broker does not get back what came from it; a client may subscribe to what it publishes.
            if other.target == source and (other.source != target or target not in brokers)
        )

    def matching(self, pattern: Pair) -> Iterator[Pair]:
        """Return the links that a monitor's `link` matches; `?` is an unlisted client."""
        for ends in (*self.links, *self.unlisted):
            if all(end_pattern in (ANY, end) for end_pattern, end in zip(pattern, ends, strict=True)):
                yield ends

    def monitored(self, settings: MonitorSettings) -> Iterator[Pair]:
        """Return the links that a monitor is on."""
        if settings.on is not None:
            for ends in (*self.links, *self.unlisted):
                if self._is_on(settings.on.node, settings.on.direction, ends):
                    yield ends
        for pattern in settings.link or ():
            yield from self.matching(pattern)

    def _is_on(self, node: str, direction: Direction, ends: Pair) -> bool:
        """Return whether a link is one of a node's in a direction. (brokering §7.3.2)"""
        inwards, of_parent = _DIRECTIONS[direction]
        other, here = ends if inwards else ends[::-1]
        return here == node and (other in self.parents[node]) is of_parent


_DIRECTIONS: dict[Direction, tuple[bool, bool]] = {
    "im_pub": (True, False),
    "im_sub": (False, False),
    "ex_pub": (True, True),
    "ex_sub": (False, True),
}


def graph(domain: Domain) -> LinkGraph:
    """Return the graph of a domain without patterns, whose names and types are right."""
    return LinkGraph(
        links={(link.source, link.target): link for link in _links(domain)},
        unlisted={(link.source, link.target): link for link in _unlisted(domain)},
        parents=_parents(domain),
        tables={name: _table(domain, name) for name in domain.nodes},
        outside=tuple(_outside(domain)),
    )


def brokers_of(domain: Domain) -> dict[str, str]:
    """Return for each foreign broker the first one that has its address."""
    first: dict[Address, str] = {}
    return {name: first.setdefault(_plain(settings.address), name) for name, settings in domain.foreign.items()}


def _plain(address: Address) -> Address:
    host = address.host.lower()
    return replace(address, host="127.0.0.1" if host in ("localhost", "::1") else host)


def _outside(domain: Domain) -> Iterator[Pair]:
    brokers = brokers_of(domain)
    for (one, settings), (other, others) in permutations(domain.foreign.items(), 2):
        if brokers[one] == brokers[other] or any(overlaps(*some) for some in product(settings.in_, others.out)):
            yield one, other


def _parents(domain: Domain) -> dict[str, tuple[str, ...]]:
    by_node: dict[str, list[str]] = {name: [] for name in domain.nodes}
    for link in domain.links:
        by_node[link.between[0]].append(link.between[1])
    return {name: tuple(above) for name, above in by_node.items()}


def client_types(domain: Domain, name: str, node: str) -> LinkTypes:
    """Return the types of a listed client's links with one of its nodes."""
    return domain.clients[name].types_at(node) or domain.default_types(node) or OPEN


def _links(domain: Domain) -> Iterator[Link]:
    for connection in domain.links:
        first, second = connection.between
        kind = connection.type or DEFAULT_TYPE
        yield Link(first, second, kind)
        yield Link(second, first, connection.back or kind)
    for name, client in domain.clients.items():
        for node in client.node:
            types = client_types(domain, name, node)
            yield Link(name, node, types.publish)
            yield Link(node, name, types.notify)


def _unlisted(domain: Domain) -> Iterator[Link]:
    for node in domain.nodes:
        if domain.admits_unlisted(node):
            types = domain.default_types(node) or OPEN
            yield Link(UNLISTED, node, types.publish)
            yield Link(node, UNLISTED, types.notify)


def _table(domain: Domain, node: str) -> BrokeringTable:
    settings: TableSettings | None = domain.brokering
    own = domain.nodes[node].brokering
    chosen = own if own is not None and own.listed is not None else settings
    listed = chosen.listed if chosen is not None else None
    key, rules = listed or ("deny", ())
    pairs = [pair for rule in rules for pair in rule.pairs]
    make = BrokeringTable.of_allow if key == "allow" else BrokeringTable.of_deny
    return make(pairs, domain.types or (DEFAULT_TYPE,))
