"""Warnings: parts of a valid domain that are probably not what was meant."""

from collections.abc import Collection, Iterator

from penstock.domain.checks import access, contents, contracts, statements, tokens, trust_groups
from penstock.domain.compile import users
from penstock.domain.compile.expand import Expansion
from penstock.domain.compile.graph import brokers_of, graph
from penstock.domain.compile.monitors import compile_automaton
from penstock.domain.patterns import protocols
from penstock.domain.patterns.roles import inherited, members
from penstock.domain.patterns.settings import Roles
from penstock.domain.problems import Loc, Remark, join_names
from penstock.domain.schema.domain import Domain
from penstock.domain.units import Address
from penstock.model.content.content import ContentReader
from penstock.model.topic import overlaps


def warnings(written: Domain, expansion: Expansion, nodes: Collection[str] | None = None) -> Iterator[Remark]:
    """Find all warnings; `written` is the domain before its expansion, `nodes` those that run here (default: all)."""
    yield from _unused_types(written, expansion.domain)
    yield from _unreachable_states(written)
    yield from _idle(written, expansion.domain)
    yield from protocols.warnings(written, expansion.domain)
    yield from _alone(expansion.domain)
    yield from _same_address(expansion.domain)
    yield from _same_broker(expansion.domain)
    yield from contents.warnings(expansion.domain)
    yield from access.warnings(expansion.domain)
    yield from contracts.warnings(expansion.domain)
    yield from statements.warnings(expansion.domain)
    here = expansion.domain.nodes.keys() if nodes is None else nodes
    yield from users.warnings(expansion.domain)
    yield from tokens.warnings(expansion.domain, here)
    yield from trust_groups.warnings(expansion.domain, here)
    for index, pattern in enumerate(written.patterns):
        if isinstance(pattern, Roles):
            yield from _roles(written, pattern, ("patterns", index))


def _unused_types(written: Domain, domain: Domain) -> Iterator[Remark]:
    joined = graph(domain)
    used = {link.type for link in (*joined.links.values(), *joined.unlisted.values())}
    for index, name in enumerate(written.types or ()):
        if name not in used:
            yield Remark(("brokering", "types", index), f"link type `{name}` is declared, and no link has it")


def _unreachable_states(written: Domain) -> Iterator[Remark]:
    for name, settings in written.monitors.items():
        if settings.states is not None:
            for text in compile_automaton(name, settings, written.declared, ContentReader()).warnings:
                yield Remark(("monitors", name, "states"), text)


def _idle(written: Domain, domain: Domain) -> Iterator[Remark]:
    """Find monitors that can never see an event. Those of patterns are left out: a role may have no members yet."""
    joined = graph(domain)
    for name, settings in written.monitors.items():
        if not any(map(joined.carries, joined.monitored(settings))):
            key = "link" if settings.link is not None else "on"
            what = f"monitor `{name}` can never see anything: the brokering table lets no event on to its links"
            yield Remark(("monitors", name, key), what)


def _alone(domain: Domain) -> Iterator[Remark]:
    joined = {end for link in domain.links for end in link.between}
    for name in domain.foreign:
        if name not in joined:
            yield Remark(("foreign", name), f"foreign broker `{name}` is declared, and no node has a link with it")
    for name in domain.nodes if domain.links else ():
        if name not in joined:
            yield Remark(("nodes", name), f"node `{name}` has no link with the others")


def _same_address(domain: Domain) -> Iterator[Remark]:
    seen = dict[Address, str]()
    for name, node in domain.nodes.items():
        for listener in node.listeners:
            first = seen.setdefault(listener.address, name)
            if first != name and listener.address.port:
                what = f"node `{first}` listens on `{listener.address}` too: one machine cannot run both"
                yield Remark(("nodes", name, "listen"), what)


def _same_broker(domain: Domain) -> Iterator[Remark]:
    """Find foreign brokers that get or bring events by several links."""
    brokers = brokers_of(domain)
    for name, first in brokers.items():
        if name != first:
            what = f"foreign broker `{first}` has this address too: what both take (`in`) comes twice"
            yield Remark(("foreign", name, "address"), what)
    for name in domain.foreign:
        nodes = [link.between[0] for link in domain.links if link.between[1] == name]
        if len(nodes) > 1 and graph(domain).is_cyclic:
            what = f"foreign broker `{name}` has links with {join_names(nodes, 'and')}: it may get an event from each"
            yield Remark(("foreign", name), what)


def _roles(domain: Domain, pattern: Roles, loc: Loc) -> Iterator[Remark]:
    by_role = {name: members(domain, role) for name, role in pattern.roles.items()}
    for name, all_ in by_role.items():
        if not all_:
            yield Remark((*loc, "roles", name), f"role `{name}` has no members")
    subscribed = {
        name: tuple(dict.fromkeys(filter for part in inherited(pattern, name).values() for filter in part.subscribe))
        for name in pattern.roles
    }
    for member in dict.fromkeys(member for all_ in by_role.values() for member in all_):
        roles = [name for name, all_ in by_role.items() if member in all_]
        twice = _overlap([subscribed[name] for name in roles])
        if twice:
            # brokering §6.2.3: it may end up receiving the same event multiple times.
            topics = join_names(twice, "and")
            what = f"`{member}` may get events on {topics} twice, as a member of {join_names(roles, 'and')}"
            yield Remark((*loc, "roles"), what)


def _overlap(filter_sets: list[tuple[str, ...]]) -> list[str]:
    overlapping = list[str]()
    for index, filters in enumerate(filter_sets):
        for other in filter_sets[:index]:
            overlapping += [
                candidate
                for candidate in filters
                if any(overlaps(candidate, filter) for filter in other) and candidate not in overlapping
            ]
    return overlapping
