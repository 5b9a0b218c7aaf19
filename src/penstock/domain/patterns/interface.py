"""What a node imports from a parent and exports to it, as filters on the two links. (brokering §6.2.1)"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.domain.finding import Entities, Finding, Loc, hint
from penstock.domain.patterns.settings import Interface
from penstock.domain.schema.base import LONGEST_NAME
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.policies import MonitorSettings
from penstock.domain.units import Pair


def interfaces(domain: Domain, pattern: Interface) -> tuple[str, ...]:
    """The parents that the interface is to."""
    return pattern.parent if pattern.parent is not None else _parents(domain, pattern.node)


def _parents(domain: Domain, node: str) -> tuple[str, ...]:
    return tuple(link.between[1] for link in domain.links if link.between[0] == node)


def names(node: str, parent: str) -> Pair:
    """The names of the two monitors."""
    return f"{node}-{parent}-import", f"{node}-{parent}-export"


def check(domain: Domain, pattern: Interface, loc: Loc) -> Iterator[Finding]:
    """That the node has these parents, in a domain whose other patterns are expanded."""
    if pattern.node not in domain.nodes:
        yield Finding((*loc, "node"), Entities.of(domain).not_a_node(pattern.node))
        return
    known = _parents(domain, pattern.node)
    if pattern.parent is None and not known:
        yield Finding((*loc, "node"), f"a node with a parent, and `{pattern.node}` dials nobody")
    for parent in interfaces(domain, pattern):
        if max(map(len, names(pattern.node, parent))) > LONGEST_NAME:
            expected = f"names so short that `{pattern.node}-{parent}-import` has at most {LONGEST_NAME} characters"
            yield Finding((*loc, "node"), expected)
    for parent in pattern.parent or ():
        if parent not in known:
            yield Finding((*loc, "parent"), f"a parent of `{pattern.node}`, {hint(parent, known)}", f"`{parent}`")


def expand(domain: Domain, pattern: Interface) -> Domain:
    """Δ(x, y) = filter(export) and Δ(y, x) = filter(import), for node x and each of the parents y."""
    monitors = dict(domain.monitors)
    node = pattern.node
    for parent in interfaces(domain, pattern):
        inwards, outwards = names(node, parent)
        monitors[inwards] = MonitorSettings(link=((parent, node),), filter=pattern.import_)
        monitors[outwards] = MonitorSettings(link=((node, parent),), filter=pattern.export)
    return domain.model_copy(update={"monitors": monitors})
