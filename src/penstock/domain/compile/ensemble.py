"""What a domain says of entities and links, compiled: who is there, which links there are, what governs each.

In the words of brokering §5.1: `nodes` are the brokers, `devices` the clients; `links` is the relation *link* with
the function *type*; `table` is *allow*; `monitors` are the edit automata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from penstock.domain.compile.entries import ClientEntry, Match, by_client_id, matches_of, reserved_ids
from penstock.domain.compile.expand import expand
from penstock.domain.compile.graph import OPEN, Graph, graph
from penstock.domain.compile.monitors import compile_monitor
from penstock.domain.compile.users import unchecked
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
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.monitors.protocol import UNLISTED
from penstock.policy.sparkplug.policies import Access
from penstock.policy.statements.assignments import Statements
from penstock.policy.trust.evaluation import Evaluate, load_evaluation
from penstock.policy.trust.rating import Thresholds


class Assertion(NamedTuple):
    """A claim about the flows of the ensemble."""

    kind: Literal["never", "can"]
    source: str
    target: str
    topics: str | None
    """Filter of the topics it is about; None: of any topic."""
    routes: bool
    """Whether it is about flow routes (brokers only on the way) and not about flow paths."""

    def __str__(self) -> str:
        about = f" on {self.topics}" if self.topics is not None else ""
        return f"{self.kind}: {self.source} to {self.target}{about}{' by routes' if self.routes else ''}"


@dataclass(frozen=True)
class Ensemble:
    """All entities and links of a domain. Made by `ensemble`."""

    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    """The clients that are listed."""
    foreign: tuple[str, ...]
    sent: dict[str, tuple[str, ...]]
    """For each foreign broker filters of the events that are sent to it."""
    taken: dict[str, tuple[str, ...]]
    """For each foreign broker filters of the events that are taken from it."""
    links: dict[Pair, Link]
    """Every link by (source, target): both directions of each connection, those of listed clients included."""
    connections: tuple[LinkSettings, ...]
    """The connections between nodes, and with foreign brokers; the first of `between` dials."""
    assertions: tuple[Assertion, ...]
    reader: ContentReader
    """Reads payloads as the domain says."""
    access: Access | None
    """Who may read and write which Sparkplug messages; None: nothing is said of it."""
    certificates: bool
    """Whether births are kept for those who may read them."""
    edges: dict[str, str]
    """Edge nodes (`GROUP/EDGE`) that are clients of the domain, by the name of the client."""
    statements: Statements
    """Policy statements that the domain gives to messages, and who may set others."""
    overlays: dict[str, str]
    """For each node the part of the domain that it belongs to."""
    is_cyclic: bool
    """Whether nodes and foreign brokers are joined in a cycle, so that an event may come back."""
    trust_groups: dict[str, TrustGroup]
    domain: str
    """The domain's name."""
    contracts: Contracts | None
    """What producers and consumers guarantee and ask for; None: nothing is said of it."""
    tokens: TokenSettings | None
    trust: TrustSettings | None
    evaluate: Evaluate | None
    """The deployment's own function of what is good evidence and what is bad."""
    thresholds: dict[str, Thresholds]
    """By node, what trust it asks for."""
    unchecked: dict[str, str]
    """By node that cannot check user names, what of the domain counts on these."""
    _rules: tuple[ContentRule, ...] = field(repr=False)
    _parents: dict[str, tuple[str, ...]] = field(repr=False)
    _tables: dict[str, BrokeringTable] = field(repr=False)
    _defaults: dict[str, LinkTypes | None] = field(repr=False)
    _matches: dict[str, tuple[Match, ...]] = field(repr=False)
    _by_id: dict[Pair, tuple[Match, ...]] = field(repr=False)
    _reserved: frozenset[str] = field(repr=False)
    _monitors: dict[Pair, tuple[Monitor, ...]] = field(repr=False)

    def beyond(self, node: str, neighbour: str) -> frozenset[str]:
        """The nodes from which events may come to a node by a neighbour: those that it joins without this one."""
        known = self._beyond.get((node, neighbour))
        if known is None:
            found, waiting = {neighbour}, [neighbour]
            while waiting:
                more = self._joined.get(waiting.pop(), set()) - found - {node}
                found |= more
                waiting += more
            known = self._beyond[node, neighbour] = frozenset(found)
        return known

    @cached_property
    def _beyond(self) -> dict[Pair, frozenset[str]]:
        return {}

    @cached_property
    def _joined(self) -> dict[str, set[str]]:
        """For each node, the nodes that a link leads to."""
        joined: dict[str, set[str]] = {name: set() for name in self.nodes}
        for source, target in self.links:
            if source in joined and target in joined:
                joined[source].add(target)
        return joined

    def parents(self, node: str) -> tuple[str, ...]:
        """Whom the node dials: the nodes and foreign brokers above it. (brokering §7.1)"""
        return self._parents.get(node, ())

    def children(self, node: str) -> tuple[str, ...]:
        """The nodes that dial this one."""
        return tuple(child for child, parents in self._parents.items() if node in parents)

    def dials(self, node: str) -> tuple[LinkSettings, ...]:
        """The connections that the node makes itself."""
        return tuple(link for link in self.connections if link.between[0] == node)

    def accepts(self, node: str) -> tuple[LinkSettings, ...]:
        """The connections that other nodes make to it."""
        return tuple(link for link in self.connections if link.between[1] == node)

    def declared(self, filter: str) -> RecordType:
        """The attributes that events matched by a topic filter have, as the domain declares them."""
        return declared(self._rules, filter)

    def table(self, node: str) -> BrokeringTable:
        """The brokering table in force at a node."""
        return self._tables[node]

    @property
    def has_monitors(self) -> bool:
        """Whether any link has a monitor."""
        return any(self._monitors.values())

    def monitors(self, link: Link) -> tuple[Monitor, ...]:
        """The monitors on a link, in the order in which they are applied.

        One end of the link may be a client that is not listed: then these are the monitors on any entity.
        """
        ends = (link.source, link.target)
        found = self._monitors.get(ends)
        if found is not None:
            return found
        unlisted = (UNLISTED, ends[1]) if ends[1] in self._tables else (ends[0], UNLISTED)
        return self._monitors.get(unlisted, ())

    def client(
        self, node: str, client_id: str, user: str | None = None, listener: str = "", certificate: str | None = None
    ) -> ClientEntry | None:
        """Who a client is at a node; None if it is refused there.

        `listener` is the name of the listener, `<node>/<index>`; `certificate` the identity that the listener took
        from a client certificate. Of several entries that fit, the one that says most about the client counts: its
        client id, then its certificate, its user, its listener.
        """
        for match in self._candidates(node, client_id):
            if match.fits(client_id, user, listener, certificate):
                return match.entry
        return self._unlisted(node, client_id)

    def publisher(self, node: str, client_id: str, user: str | None) -> ClientEntry | None:
        """As `client`, of whom only this is known: a certificate's identity is the user, the listener may be any."""
        for match in self._candidates(node, client_id):
            if match.fits(client_id, user, match.listener or "", user):
                return match.entry
        return self._unlisted(node, client_id)

    def _candidates(self, node: str, client_id: str) -> Iterator[Match]:
        yield from self._by_id.get((node, client_id), ())
        yield from self._matches[node]

    def _unlisted(self, node: str, client_id: str) -> ClientEntry | None:
        default = self._defaults[node]
        # An entity's name is kept for the entity: otherwise anybody could come under it as an unlisted client.
        if default is None or client_id in self._reserved:
            return None
        return ClientEntry(client_id, default.publish, default.notify, listed=False)

    def holder(self, user: str) -> str | None:
        """Whose tokens a user gets: those of the client that `clients` lists with this user, or else of its own name.

        None if there are several, or if that name is of a client that somebody else is.
        """
        names = self._users.get(user, frozenset({user}))
        return next(iter(names)) if len(names) == 1 and (user in self._users or user not in self._others) else None

    def user_of(self, client: str) -> str:
        """The user that a client must be, or is if nobody says: its name."""
        return self._user_of.get(client, client)

    @cached_property
    def _user_of(self) -> dict[str, str]:
        return {match.entry.name: match.user for match in self._all_matches() if match.user is not None}

    @cached_property
    def _users(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for match in self._all_matches():
            if match.user is not None:
                found.setdefault(match.user, set()).add(match.entry.name)
        return {user: frozenset(names) for user, names in found.items()}

    @cached_property
    def _others(self) -> frozenset[str]:
        """Clients that a user of the same name is not: another one, or who has a certificate."""
        asks = (match for match in self._all_matches() if match.user is not None or match.certificate is not None)
        return frozenset(match.entry.name for match in asks)

    def _all_matches(self) -> Iterator[Match]:
        for several in (*self._by_id.values(), *self._matches.values()):
            yield from several

    def is_own_id(self, node: str, entity: str, client_id: str) -> bool:
        """Whether policies about a client id are about who comes with it: not if it is that of another entity."""
        bound = {match.entry.name for match in self._by_id.get((node, client_id), ())}
        return entity in bound or entity == client_id or client_id not in self._reserved

    @cached_property
    def access_digest(self) -> str:
        """Stands for all that decides about access to Sparkplug messages: policies, and who is who."""
        if self.access is None:
            return ""
        made = sha256()
        for policy in self.access.policies:
            when = policy.condition.text if policy.condition is not None else None
            made.update(repr((policy.subject, policy.filter, policy.exceptions, policy.privilege, when)).encode())
        by_id = ((node, match) for (node, _), several in self._by_id.items() for match in several)
        for node, match in (*by_id, *((node, one) for node, several in self._matches.items() for one in several)):
            shown = (match.client_id, match.user, match.certificate, match.listener)
            said = (match.entry.name, match.entry.edge, match.entry.groups, match.entry.attributes)
            made.update(repr((node, shown, said)).encode())
        return made.hexdigest()

    @cached_property
    def statements_digest(self) -> str:
        """Stands for the policy statements that the domain gives, and what they ask of it."""
        if not self.statements.given:
            return ""
        made = sha256(repr((sorted(self.overlays.items()), sorted(self.trust_groups))).encode())
        for group in self.trust_groups.values():
            made.update(repr((group.name, sorted(group.nodes), sorted(group.clients))).encode())
        for one in self.statements.given:
            clients = None if one.clients is None else sorted(one.clients)
            when = None if one.condition is None else one.condition.text
            said = (one.name, one.policy.text, str(one.to), clients, sorted(one.nodes), one.filter, when)
            made.update(repr(said).encode())
        return made.hexdigest()

    def listed(self, node: str) -> Iterator[ClientEntry]:
        """The clients that the domain lists at a node."""
        yield from (match.entry for match in self._at[node])

    def shown(self, node: str, name: str, any_id: str | None = None) -> Subject | None:
        """What a listed client shows at a node, so as to be known there; None if it has no place there.

        `any_id`: the client id of one that may have any; unless it is given, its name.
        """
        match = self._named[node].get(name)
        if match is None:
            return None
        listener = match.listener or f"{node}/0"
        client_id = match.client_id or (name if any_id is None else any_id)
        return Subject(client_id, match.user, "", listener, match.certificate)

    @cached_property
    def _at(self) -> dict[str, list[Match]]:
        """By node, how clients are known there: by their ids, then by what else they show."""
        found: dict[str, list[Match]] = {node: [] for node in self._matches}
        for (node, _), several in self._by_id.items():
            found[node] += several
        for node, others in self._matches.items():
            found[node] += others
        return found

    @cached_property
    def _named(self) -> dict[str, dict[str, Match]]:
        """The first of these for each client."""
        return {node: {one.entry.name: one for one in reversed(several)} for node, several in self._at.items()}


def ensemble(domain: Domain, folder: Path | None = None) -> Ensemble:
    """Compile a domain, its patterns and protocols expanded.

    Python monitors are looked for in `folder`, that of the domain file, and then as Python imports them.
    Raises `DomainError` if a pattern or protocol is wrong, `PolicyError` if a monitor cannot be made,
    `ConditionError` if a condition is about attributes that the domain does not declare.
    """
    domain = expand(domain)
    joined = graph(domain)
    contracts = compile_contracts(domain)
    matches = matches_of(domain, contracts)
    reader = content_reader(domain.content)
    governed = domain.types is not None or bool(domain.clients or domain.links or domain.foreign)
    return Ensemble(
        nodes=tuple(domain.nodes),
        devices=tuple(domain.clients),
        foreign=tuple(domain.foreign),
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
        tokens=domain.tokens,
        trust=domain.trust,
        evaluate=_evaluate(domain, folder),
        thresholds={name: domain.trust.thresholds(node.trust) for name, node in domain.nodes.items()}
        if domain.trust is not None
        else {},
        unchecked=unchecked(domain),
        _rules=domain.content,
        _parents=joined.parents,
        _tables=joined.tables,
        _defaults={
            name: domain.default_types(name) or (OPEN if domain.admits_unlisted(name) else None)
            for name in domain.nodes
        },
        _matches={name: tuple(match for match in all_ if match.client_id is None) for name, all_ in matches.items()},
        _by_id=by_client_id(matches),
        _reserved=reserved_ids(domain) if governed else frozenset(),
        _monitors=_monitors(domain, joined, folder, reader),
    )


def _evaluate(domain: Domain, folder: Path | None) -> Evaluate | None:
    where = domain.trust.evidence.evaluate if domain.trust is not None else None
    return load_evaluation(where, folder) if where is not None else None


def _assertions(domain: Domain) -> Iterator[Assertion]:
    for settings in domain.assertions:
        source, target = settings.flow
        kind: Literal["never", "can"] = "never" if settings.never is not None else "can"
        yield Assertion(kind, source, target, settings.on, settings.routes)


def _monitors(
    domain: Domain, joined: Graph, folder: Path | None, reader: ContentReader
) -> dict[Pair, tuple[Monitor, ...]]:
    """The monitors of each link, and of the links of clients that are not listed (`?`)."""
    found: dict[Pair, list[Monitor]] = {ends: [] for ends in (*joined.links, *joined.unlisted)}
    for name, settings in domain.monitors.items():
        monitor = compile_monitor(name, settings, folder, domain.declared, reader)
        for ends in dict.fromkeys(joined.monitored(settings)):
            found[ends].append(monitor)
    return {ends: tuple(several) for ends, several in found.items()}
