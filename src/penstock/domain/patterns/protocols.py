"""Protocols to monitors, and mistakes in their text or names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.domain.compile.graph import graph
from penstock.domain.patterns.tables import PatternTable, join_tables
from penstock.domain.problems import Remark
from penstock.domain.schema.base import MAX_NAME
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkTypes
from penstock.domain.schema.policies import MonitorSettings
from penstock.domain.units import Pair
from penstock.model.errors import PolicyError
from penstock.policy.monitors.protocol import Protocol, Surroundings, compile_protocol, enforced_where
from penstock.policy.monitors.protocol_projection import ProtocolTable, local_view, table_of, turns, unaware

_KEY = re.compile(r"`(senders|receivers|protects|guard|table)`:? ")


@dataclass(frozen=True, slots=True)
class Projection:
    """A protocol as one of its participants sees it, and what of the domain that needs."""

    protocol: str
    participant: str
    view: str
    """What it sends and gets, in order."""
    links: dict[str, str]
    """The types of its links."""
    allow: tuple[str, ...]
    """What the brokering tables must allow for it, from type to type."""

    def __str__(self) -> str:
        links = ", ".join(f"{link} ({type})" for link, type in self.links.items())
        needs = f"; allow {', '.join(self.allow)}" if self.allow else ""
        return f"protocol {self.protocol}: {self.participant}: {self.view}; links {links}{needs}"


def compiled(domain: Domain, name: str) -> Protocol:
    """Return one of the protocols of a domain; raise `PolicyError`."""
    settings = domain.protocols[name]
    return Protocol(
        name, settings.protocol, settings.protects, settings.senders, settings.guard, receivers=settings.receivers
    )


def surroundings(domain: Domain) -> Surroundings:
    """Return the entities and links of a domain without patterns."""
    homes = {name: tuple(client.node) for name, client in domain.clients.items()}
    for name in domain.foreign:
        homes[name] = tuple(link.between[0] for link in domain.links if link.between[1] == name)
    joined = {link.between for link in domain.links if set(link.between) <= set(domain.nodes)}
    return Surroundings(
        nodes=frozenset(domain.nodes),
        homes=homes,
        joined=frozenset(joined | {(second, first) for first, second in joined}),
        open_nodes=frozenset(name for name in domain.nodes if domain.admits_unlisted(name)),
    )


def expand(domain: Domain, name: str) -> Domain:
    """Return the domain with the monitors of one of its protocols, and its types and table; raise `PolicyError`."""
    protocol = compiled(domain, name)
    around = surroundings(domain)
    for entity in protocol.protects:
        if around.homes.get(entity) == ():
            raise PolicyError(f"`protects`: `{entity}` has no link with a node")
    definitions = compile_protocol(protocol, around)
    table = table_of(protocol, around) if domain.protocols[name].table else None
    for made in (*(definition.name for definition in definitions), *(table.types.values() if table else ())):
        if len(made) > MAX_NAME:
            raise PolicyError(f"it makes `{made}`, and a name has at most {MAX_NAME} characters")
    monitors = {definition.name: MonitorSettings.model_validate(definition.plain()) for definition in definitions}
    domain = domain.model_copy(update={"monitors": {**domain.monitors, **monitors}})
    return domain if table is None else _with_table(domain, protocol, table)


def _with_table(domain: Domain, protocol: Protocol, table: ProtocolTable) -> Domain:
    """Return the domain with the link types of a protocol; refuse other links without a type, and its own with one."""
    types = table.types
    links = []
    for link in domain.links:
        first, second = link.between
        is_own = (first, second) in types
        if is_own is (link.type is not None):
            raise _mistyped(f"the link `{first} - {second}`", is_own)
        new = {"type": types[first, second], "back": types[second, first]} if is_own else {}
        links.append(link.model_copy(update=new))
    clients = dict(domain.clients)
    for name, client in domain.clients.items():
        is_own = name in protocol.participants
        typed = [client.types_at(node) or (not is_own and domain.default_types(node)) for node in client.node]
        if any(typed) if is_own else not all(typed):
            raise _mistyped(f"the client `{name}`", is_own)
        if is_own:
            node = {at: LinkTypes(publish=types[name, at], notify=types[at, name]) for at in client.node}
            clients[name] = client.model_copy(update={"node": node})
    names = tuple(dict.fromkeys(types.values()))
    brokering = join_tables(domain.brokering, PatternTable(names, "allow", table.allow))
    return domain.model_copy(update={"links": tuple(links), "clients": clients, "brokering": brokering})


def _mistyped(what: str, is_own: bool) -> PolicyError:
    if is_own:
        return PolicyError(f"`table`: {what} has a link type, and the protocol gives it one")
    return PolicyError(f"`table`: {what} has no part in the protocol, and needs a link type of its own")


def enforced(written: Domain, expanded: Domain) -> list[str]:
    """Return for each step of each protocol, in words, the links that enforce it."""
    lines = []
    for name in written.protocols:
        protocol = compiled(written, name)
        steps = enforced_where(protocol, compile_protocol(protocol, surroundings(expanded)))
        lines += [f"protocol {name}: {step}" for step in steps]
    return lines


def projections(written: Domain, expanded: Domain) -> list[Projection]:
    """Return each protocol as each of its participants sees it."""
    around = surroundings(expanded)
    links = graph(expanded).links
    found = []
    for name in written.protocols:
        protocol = compiled(written, name)
        for participant in protocol.participants:
            of_it = [ends for ends in links if participant in ends]
            needed = {
                (links[first].type, links[second].type) for first, second in turns(protocol, around, (participant,))
            }
            allow = () if expanded.types is None else tuple(f"{from_} -> {to}" for from_, to in sorted(needed))
            types = {f"{source} -> {target}": links[source, target].type for source, target in of_it}
            found.append(Projection(name, participant, local_view(protocol, participant), types, allow))
    return found


def warnings(written: Domain, expanded: Domain) -> Iterator[Remark]:
    """Find senders that cannot know their turn, and events that tables keep from a link on which the order is kept."""
    for name in written.protocols:
        protocol = compiled(written, name)
        for sender, after, before in unaware(protocol):
            what = f"`{sender}` sends `{after}` after `{before}`, and does not get `{before}`: it cannot know its turn"
            yield Remark(("protocols", name), what)
        definitions = compile_protocol(protocol, surroundings(expanded))
        order = next(each for each in definitions if each.keeps == "order")
        come = {sender: _by_tables(expanded, sender) for senders in protocol.senders.values() for sender in senders}
        for source, target in order.links:
            for event, senders in protocol.senders.items():
                for sender in senders:
                    if (source, target) not in come[sender]:
                        what = f"`{source} -> {target}`, which keeps the order, never sees `{event}` from `{sender}`"
                        yield Remark(("protocols", name), f"{what}: the brokering table does not let it come")


def _by_tables(domain: Domain, sender: str) -> set[Pair]:
    """Return the links that a sender's events can come to, its own included, whatever monitors do."""
    joined = graph(domain)
    seen: set[Pair] = set()
    waiting = [ends for ends in joined.links if ends[0] == sender]
    while waiting:
        ends = waiting.pop()
        if ends in seen:
            continue
        seen.add(ends)
        if ends[1] in joined.tables:
            table, link = joined.tables[ends[1]], joined.links[ends]
            waiting += [
                (other.source, other.target)
                for other in joined.links.values()
                if other.source == ends[1]
                and (other.target != ends[0] or ends[0] == sender)
                and table.allows(link.type, other.type)
            ]
    return seen


def mistake(name: str, error: PolicyError) -> Remark:
    """Return the mistake in a protocol, at the key that it concerns."""
    text = str(error).partition("\n")[0]  # the caret line below the text repeats the position
    key = _KEY.match(text)
    return Remark(("protocols", name, key[1] if key else "protocol"), text[key.end() :] if key else text)
