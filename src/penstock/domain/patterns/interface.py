"""The pattern `interface`: a node's imports from a parent and exports to it, as filters on the two links. (brokering
§6.2.1)"""

from collections.abc import Iterator

from penstock.domain.patterns.settings import Interface
from penstock.domain.problems import Entities, Loc, WrongValue, unknown
from penstock.domain.schema.base import MAX_NAME
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.policies import MonitorSettings
from penstock.domain.units import Pair


def interfaces(domain: Domain, pattern: Interface) -> tuple[str, ...]:
    """Return the parents that the interface is to."""
    return pattern.parent if pattern.parent is not None else _parents(domain, pattern.node)


def _parents(domain: Domain, node: str) -> tuple[str, ...]:
    return tuple(link.between[1] for link in domain.links if link.between[0] == node)


def names(node: str, parent: str) -> Pair:
    """Return the names of the two monitors."""
    return f"{node}-{parent}-import", f"{node}-{parent}-export"


def check(domain: Domain, pattern: Interface, loc: Loc) -> Iterator[WrongValue]:
    """Check that the node has these parents, in a domain whose other patterns are expanded."""
    if pattern.node not in domain.nodes:
        yield WrongValue((*loc, "node"), Entities.of(domain).not_a_node(pattern.node))
        return
    parents = _parents(domain, pattern.node)
    if pattern.parent is None and not parents:
        yield WrongValue((*loc, "node"), f"a node with a parent, and `{pattern.node}` dials nobody")
    for parent in interfaces(domain, pattern):
        if max(map(len, names(pattern.node, parent))) > MAX_NAME:
            expected = f"names so short that `{pattern.node}-{parent}-import` has at most {MAX_NAME} characters"
            yield WrongValue((*loc, "node"), expected)
    for parent in pattern.parent or ():
        if parent not in parents:
            yield unknown((*loc, "parent"), f"a parent of `{pattern.node}`", parent, parents)


def expand(domain: Domain, pattern: Interface) -> Domain:
    """Expand: Δ(x, y) = filter(export) and Δ(y, x) = filter(import), for node x and each of the parents y."""
    monitors = dict(domain.monitors)
    node = pattern.node
    for parent in interfaces(domain, pattern):
        inwards, outwards = names(node, parent)
        monitors[inwards] = MonitorSettings(link=((parent, node),), filter=pattern.import_)
        monitors[outwards] = MonitorSettings(link=((node, parent),), filter=pattern.export)
    return domain.model_copy(update={"monitors": monitors})
