"""The compiled entities and links of a domain: who is there, which links exist, which policies apply to each.

In the words of brokering §5.1: `nodes` are the brokers, `devices` the clients; `links` is the relation *link* with
the function *type*; `table` is *allow*; `monitors` are the edit automata.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from penstock.domain.compile.capsules import of_node
from penstock.domain.compile.entries import ClientEntry, ClientMatch, by_client_id, id_owners, matches_of
from penstock.domain.compile.expand import expand
from penstock.domain.compile.graph import OPEN, brokers_of, graph
from penstock.domain.compile.monitors import link_monitors
from penstock.domain.compile.users import accepts_any_user, unchecked_users
from penstock.domain.schema.contents import ContentRule, declared
from penstock.domain.schema.contents import reader as content_reader
from penstock.domain.schema.contracts import compiled as compile_contracts
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkSettings, LinkTypes
from penstock.domain.schema.tokens import TokenSettings
from penstock.domain.schema.trust import TrustGroup, TrustSettings
from penstock.domain.units import Pair
from penstock.language.types import RecordType
from penstock.model.content.content import ContentReader
from penstock.model.link import Link
from penstock.model.subject import Subject
from penstock.policy.access.brokering import BrokeringTable
from penstock.policy.capsules.capsule import Capsule
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.monitors.placing import Placing, place
from penstock.policy.monitors.protocol import UNLISTED
from penstock.policy.sparkplug.policies import Access
from penstock.policy.statements.assignments import Statements
from penstock.policy.trust.evaluation import Evaluate, load_evaluation
from penstock.policy.trust.rating import Thresholds, hops_beyond


class Assertion(NamedTuple):
    """A claim about the flows of the ensemble."""

    kind: Literal["never", "can"]
    source: str
    target: str
    topics: str | None
    """Filter of the topics it is about; None: of any topic."""
    routes: bool
    """True: about flow routes (brokers only on the way). False: about flow paths."""

    def __str__(self) -> str:
        about = f" on {self.topics}" if self.topics is not None else ""
        return f"{self.kind}: {self.source} to {self.target}{about}{' by routes' if self.routes else ''}"


@dataclass(frozen=True)
class Ensemble:
    """All entities and links of a domain. Made by `ensemble`."""

    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    """The listed clients."""
    foreign: tuple[str, ...]
    brokers: dict[str, str]
    """For each foreign broker, the first name that its address has in the domain."""
    shared_brokers: frozenset[str]
    """Of these, those that several links lead to."""
    sent: dict[str, tuple[str, ...]]
    """For each foreign broker, filters of the events that are sent to it."""
    taken: dict[str, tuple[str, ...]]
    """For each foreign broker, filters of the events that are taken from it."""
    links: dict[Pair, Link]
    """Every link by (source, target): both directions of each connection, those of listed clients included."""
    connections: tuple[LinkSettings, ...]
    """The connections between nodes, and with foreign brokers; the first of `between` dials."""
    assertions: tuple[Assertion, ...]
    reader: ContentReader
    """Reads payloads by the domain's content rules."""
    access: Access | None
    """Access policies for Sparkplug messages; None: there are none."""
    certificates: bool
    """Births are retained for clients that may read them."""
    edges: dict[str, str]
    """Edge nodes (`GROUP/EDGE`) that are clients of the domain, by the name of the client."""
    statements: Statements
    """Policy statements that the domain applies to messages, and grants to set others."""
    overlays: dict[str, str]
    """For each node, the overlay it belongs to."""
    is_cyclic: bool
    """Nodes and foreign brokers are joined in a cycle, so an event may come back."""
    trust_groups: dict[str, TrustGroup]
    domain: str
    """The domain's name."""
    contracts: Contracts | None
    """Contracts of producers and consumers; None: there are none."""
    capsules: dict[str, tuple[Capsule, ...]]
    """By node, the capsules that it runs."""
    tokens: TokenSettings | None
    trust: TrustSettings | None
    evaluate: Evaluate | None
    """The deployment's own function that rates interactions as good or bad evidence."""
    thresholds: dict[str, Thresholds]
    """By node, the trust thresholds."""
    unchecked: dict[str, str]
    """By node that cannot check user names, the first setting that depends on them."""
    takes_any_user: frozenset[str]
    """The nodes where a client may give a user name that nobody has checked."""
    _rules: tuple[ContentRule, ...] = field(repr=False)
    _parents: dict[str, tuple[str, ...]] = field(repr=False)
    _tables: dict[str, BrokeringTable] = field(repr=False)
    _defaults: dict[str, LinkTypes | None] = field(repr=False)
    _matches: dict[str, tuple[ClientMatch, ...]] = field(repr=False)
    _by_id: dict[Pair, tuple[ClientMatch, ...]] = field(repr=False)
    _owners: dict[str, frozenset[str]] = field(repr=False)
    """By client id that belongs to somebody, the clients that may have it."""
    _monitors: dict[Pair, tuple[Monitor, ...]] = field(repr=False)
    _placings: dict[Pair, Placing] = field(repr=False)
    _beyond: dict[Pair, dict[str, int]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def beyond(self, node: str, neighbour: str) -> Mapping[str, int]:
        """Return the nodes from which events may reach a node through a neighbour, those it joins without passing
        this node, and how many links there are at least between each and the node."""
        cached = self._beyond.get((node, neighbour))
        if cached is None:
            cached = self._beyond[node, neighbour] = hops_beyond(self._joined, node, neighbour)
        return cached

    def is_only_way(self, node: str, neighbour: str) -> bool:
        """Return whether the link to a neighbour is the only way from a node to those beyond it."""
        beyond = self.beyond(node, neighbour).keys()
        others = (self.beyond(node, other).keys() for other in self._joined[node] if other != neighbour)
        return all(beyond.isdisjoint(other) for other in others)

    @cached_property
    def _joined(self) -> dict[str, set[str]]:
        """Return for each node the nodes that a link leads to."""
        joined: dict[str, set[str]] = {name: set() for name in self.nodes}
        for source, target in self.links:
            if source in joined and target in joined:
                joined[source].add(target)
        return joined

    def way(self, begin: str, end: str) -> tuple[str, ...]:
        """Return the nodes on a shortest way from one node to another; none if they are not joined."""
        ways: dict[str, tuple[str, ...]] = {begin: (begin,)}
        waiting = [begin]
        for node in waiting:
            if node == end:
                return ways[end]
            for joined in sorted(self._joined.get(node, set()) - ways.keys()):
                ways[joined] = (*ways[node], joined)
                waiting.append(joined)
        return ()

    def parents(self, node: str) -> tuple[str, ...]:
        """Return the nodes and foreign brokers that the node dials: its parents. (brokering §7.1)"""
        return self._parents.get(node, ())

    def children(self, node: str) -> tuple[str, ...]:
        """Return the nodes that dial this one."""
        return tuple(child for child, parents in self._parents.items() if node in parents)

    def dials(self, node: str) -> tuple[LinkSettings, ...]:
        """Return the connections that the node makes itself."""
        return tuple(link for link in self.connections if link.between[0] == node)

    def accepts(self, node: str) -> tuple[LinkSettings, ...]:
        """Return the connections that other nodes make to it."""
        return tuple(link for link in self.connections if link.between[1] == node)

    def declared(self, filter: str) -> RecordType:
        """Return the declared attributes of all events that a topic filter matches."""
        return declared(self._rules, filter)

    def table(self, node: str) -> BrokeringTable:
        """Return the brokering table in force at a node."""
        return self._tables[node]

    @cached_property
    def has_monitors(self) -> bool:
        """Return whether any link has a monitor."""
        return any(self._monitors.values())

    def monitors(self, link: Link) -> tuple[Monitor, ...]:
        """Return the monitors on a link, in the order in which they are applied.

        One end of the link may be an unlisted client: then these are the monitors on any entity.
        """
        ends = (link.source, link.target)
        monitors = self._monitors.get(ends)
        if monitors is not None:
            return monitors
        unlisted = (UNLISTED, ends[1]) if ends[1] in self._tables else (ends[0], UNLISTED)
        return self._monitors.get(unlisted, ())

    def placing(self, link: Link) -> Placing | None:
        """Return the places of the monitors on a link between nodes; None if it is another link, or has none."""
        return self._placings.get((link.source, link.target))

    def monitors_at(self, node: str, link: Link) -> tuple[Monitor, ...]:
        """Return the monitors on a link that a node at one of its ends asks."""
        placing = self.placing(link) if link.source == node else None
        return self.monitors(link) if placing is None else placing.sending

    def client(
        self, node: str, client_id: str, user: str | None = None, listener: str = "", certificate: str | None = None
    ) -> ClientEntry | None:
        """Return the entry of a client at a node; None if it is refused there.

        `listener` is the name of the listener, `<node>/<index>`; `certificate` the identity that the listener took
        from a client certificate. Of several entries that match, the most specific counts: by client id, then
        certificate, user, listener.
        """
        for match in self._candidates(node, client_id):
            if match.fits(client_id, user, listener, certificate):
                return match.entry
        return self._unlisted(node, client_id)

    def publisher(self, node: str, client_id: str, user: str | None) -> ClientEntry | None:
        """Return the entry of a client known only by this: a certificate's identity is the user, the listener may be
        any."""
        for match in self._candidates(node, client_id):
            if match.fits(client_id, user, match.listener or "", user):
                return match.entry
        return self._unlisted(node, client_id)

    def may_have_id(self, entity: str, client_id: str) -> bool:
        """Return whether a client id is free, or this client's: rights that hang on an id are for its owner only."""
        owners = self._owners.get(client_id)
        return owners is None or entity in owners

    def _candidates(self, node: str, client_id: str) -> Iterator[ClientMatch]:
        yield from self._by_id.get((node, client_id), ())
        yield from (match for match in self._matches[node] if self.may_have_id(match.entry.name, client_id))

    def _unlisted(self, node: str, client_id: str) -> ClientEntry | None:
        default = self._defaults[node]
        if default is None or client_id in self._owners:
            return None
        return ClientEntry(client_id, default.publish, default.notify, listed=False)

    def holder(self, user: str) -> str | None:
        """Return the client whose tokens a user gets: the one that `clients` lists with this user, or else of the
        user's own name.

        None if there are several, or if the name belongs to a client of another user.
        """
        names = self._users.get(user, frozenset({user}))
        return next(iter(names)) if len(names) == 1 and (user in self._users or user not in self._others) else None

    def user_of(self, client: str) -> str:
        """Return the user that a client must be; its name, if that is not set."""
        return self._user_of.get(client, client)

    @cached_property
    def _user_of(self) -> dict[str, str]:
        return {match.entry.name: match.user for match in self._all_matches() if match.user is not None}

    @cached_property
    def _users(self) -> dict[str, frozenset[str]]:
        by_name: dict[str, set[str]] = {}
        for match in self._all_matches():
            if match.user is not None:
                by_name.setdefault(match.user, set()).add(match.entry.name)
        return {user: frozenset(names) for user, names in by_name.items()}

    @cached_property
    def _others(self) -> frozenset[str]:
        """Return the clients that a user of the same name is not: those of another user, or with a certificate."""
        asks = (match for match in self._all_matches() if match.user is not None or match.certificate is not None)
        return frozenset(match.entry.name for match in asks)

    def _all_matches(self) -> Iterator[ClientMatch]:
        for matches in (*self._by_id.values(), *self._matches.values()):
            yield from matches

    @cached_property
    def access_digest(self) -> str:
        """Return a digest of everything that decides access to Sparkplug messages: policies and identities."""
        if self.access is None:
            return ""
        digest = sha256()
        for policy in self.access.policies:
            when = policy.condition.text if policy.condition is not None else None
            about = (policy.subject, policy.filter, policy.exceptions, policy.privilege, when)
            digest.update(repr(about if policy.valid is None else (*about, policy.valid)).encode())
        by_id = ((node, match) for (node, _), matches in self._by_id.items() for match in matches)
        for node, match in (*by_id, *((node, match_) for node, matches in self._matches.items() for match_ in matches)):
            shown = (match.client_id, match.user, match.certificate, match.listener)
            parts = (match.entry.name, match.entry.edge, match.entry.groups, match.entry.attributes)
            digest.update(repr((node, shown, parts)).encode())
        return digest.hexdigest()

    @cached_property
    def monitors_digest(self) -> str:
        """Return a digest of the monitors on all links; of Python monitors, of their names."""
        monitors = ((ends, [_shown(monitor) for monitor in all_]) for ends, all_ in sorted(self._monitors.items()))
        return sha256(repr([pair for pair in monitors if pair[1]]).encode()).hexdigest()

    @cached_property
    def uncached_groups(self) -> dict[str, frozenset[str]]:
        """The trust groups that each publication has to prove, with their nodes."""
        return {name: group.nodes for name, group in self.trust_groups.items() if not group.expiry}

    @cached_property
    def statements_digest(self) -> str:
        """Return a digest of the policy statements that the domain applies and everything they depend on."""
        if not self.statements.given:
            return ""
        digest = sha256(repr((sorted(self.overlays.items()), sorted(self.trust_groups))).encode())
        for group in self.trust_groups.values():
            digest.update(repr((group.name, sorted(group.nodes), sorted(group.clients))).encode())
        for applied in self.statements.given:
            clients = None if applied.clients is None else sorted(applied.clients)
            when = None if applied.condition is None else applied.condition.text
            parts = (applied.name, applied.policy.text, str(applied.to), clients, sorted(applied.nodes))
            digest.update(repr((*parts, applied.filter, when)).encode())
        return digest.hexdigest()

    def matches(self, node: str) -> tuple[ClientMatch, ...]:
        """Return the identities by which the domain lists clients at a node."""
        return tuple(self._at[node])

    def admits_unlisted(self, node: str) -> bool:
        """Return whether a client that the domain does not list may connect to a node."""
        return self._defaults[node] is not None

    def reads_content(self, nodes: Collection[str], filters: Sequence[str]) -> bool:
        """Return whether a monitor on a link by which events on such topics go on from these nodes, or come to them
        from another node, does more than pass or suppress them by their topic."""
        return any(
            (source in nodes or (source in self.nodes and target in nodes))
            and not all(isinstance(monitor, Automaton) and monitor.goes_by_topic(filters) for monitor in monitors)
            for (source, target), monitors in self._monitors.items()
        )

    def listed(self, node: str) -> Iterator[ClientEntry]:
        """Return the clients that the domain lists at a node."""
        yield from (match.entry for match in self._at[node])

    def shown(self, node: str, name: str, any_id: str | None = None) -> Subject | None:
        """Return the identity that a listed client shows at a node; None if it may not connect there.

        `any_id`: the client id for a client that may have any; default: its name.
        """
        match = self._named[node].get(name)
        if match is None:
            return None
        listener = match.listener or f"{node}/0"
        client_id = match.client_id or (name if any_id is None else any_id)
        return Subject(client_id, match.user, "", listener, match.certificate)

    def entry(self, node: str, name: str) -> ClientEntry | None:
        """Return the entry of a listed client at a node; None if it is not listed there."""
        match = self._named[node].get(name)
        return None if match is None else match.entry

    @cached_property
    def _at(self) -> dict[str, list[ClientMatch]]:
        """Return by node the entries of clients there: those by client id first."""
        by_node: dict[str, list[ClientMatch]] = {node: [] for node in self._matches}
        for (node, _), matches in self._by_id.items():
            by_node[node] += matches
        for node, matches in self._matches.items():
            by_node[node] += matches
        return by_node

    @cached_property
    def _named(self) -> dict[str, dict[str, ClientMatch]]:
        """Return the first entry of each client, by node and name."""
        return {node: {match_.entry.name: match_ for match_ in reversed(matches)} for node, matches in self._at.items()}


def ensemble(domain: Domain, folder: Path | None = None) -> Ensemble:
    """Compile a domain; patterns and protocols are expanded.

    Python monitors are imported from `folder`, that of the domain file, and then from Python's path. Raises
    `DomainError` if a pattern or protocol is wrong, `PolicyError` if a monitor cannot be made, `ConditionError` if a
    condition is about attributes that the domain does not declare.
    """
    domain = expand(domain)
    joined = graph(domain)
    brokers = brokers_of(domain)
    led_to = Counter(brokers[end] for link in domain.links for end in link.between if end in brokers)
    contracts = compile_contracts(domain)
    matches = matches_of(domain, contracts)
    reader = content_reader(domain.content)
    function = None if domain.trust is None else domain.trust.evidence.evaluate
    governed = domain.types is not None or bool(domain.clients or domain.links or domain.foreign)
    monitors = link_monitors(domain, joined, folder, reader)
    return Ensemble(
        nodes=tuple(domain.nodes),
        devices=tuple(domain.clients),
        foreign=tuple(domain.foreign),
        brokers=brokers,
        shared_brokers=frozenset(name for name, links in led_to.items() if links > 1),
        sent={name: settings.out for name, settings in domain.foreign.items()},
        taken={name: settings.in_ for name, settings in domain.foreign.items()},
        links=joined.links,
        connections=domain.links,
        assertions=tuple(_assertions(domain)),
        reader=reader,
        access=None if domain.access is None else Access(domain.access.compiled()),
        certificates=domain.access is not None and (domain.access.certificates or bool(domain.links)),
        edges={client.edge: name for name, client in domain.clients.items() if client.edge is not None},
        statements=Statements() if domain.statements is None else domain.statements.compiled(),
        overlays={name: node.overlay or "" for name, node in domain.nodes.items()},
        is_cyclic=joined.is_cyclic,
        trust_groups={
            name: TrustGroup(name, frozenset(group.nodes), frozenset(group.clients), group.expiry)
            for name, group in domain.trust_groups.items()
        },
        domain=domain.domain,
        contracts=contracts,
        capsules={name: tuple(of_node(domain, name)) for name in domain.nodes},
        tokens=domain.tokens,
        trust=domain.trust,
        evaluate=None if function is None else load_evaluation(function, folder),
        thresholds={name: domain.trust.thresholds(node.trust) for name, node in domain.nodes.items()}
        if domain.trust is not None
        else {},
        unchecked=unchecked_users(domain),
        takes_any_user=frozenset(name for name, node in domain.nodes.items() if accepts_any_user(node)),
        _rules=domain.content,
        _parents=joined.parents,
        _tables=joined.tables,
        _defaults={
            name: domain.default_types(name) or (OPEN if domain.admits_unlisted(name) else None)
            for name in domain.nodes
        },
        _matches={name: tuple(match for match in all_ if match.client_id is None) for name, all_ in matches.items()},
        _by_id=by_client_id(matches),
        _owners=id_owners(domain) if governed else {},
        _monitors={ends: tuple(monitor for monitor, _ in all_) for ends, all_ in monitors.items()},
        _placings={
            ends: place(all_, *ends) for ends, all_ in monitors.items() if all_ and domain.nodes.keys() >= set(ends)
        },
    )


def _assertions(domain: Domain) -> Iterator[Assertion]:
    for settings in domain.assertions:
        source, target = settings.flow
        kind: Literal["never", "can"] = "never" if settings.never is not None else "can"
        yield Assertion(kind, source, target, settings.on, settings.routes)


def _shown(monitor: Monitor) -> tuple[str, str]:
    return monitor.name, repr(monitor.states) if isinstance(monitor, Automaton) else ""
