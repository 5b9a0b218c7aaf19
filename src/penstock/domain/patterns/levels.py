"""The pattern `levels`: labels in a partial order, in the style of Bell and LaPadula. (brokering §6.1.1)"""

from collections.abc import Iterator
from itertools import product

from penstock.domain.patterns.settings import Levels
from penstock.domain.patterns.tables import PatternTable, join_tables
from penstock.domain.problems import WrongValue
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkTypes
from penstock.domain.schema.policies import TableSettings
from penstock.domain.units import Pair


def expand(domain: Domain, pattern: Levels) -> Domain:
    """Expand: the labels become link types; allow(t1, t2) if t1 <= t2."""
    table = PatternTable(pattern.labels, "allow", pattern.below)
    return domain.model_copy(update={"brokering": join_tables(domain.brokering, table)})


def check(domain: Domain, pattern: Levels) -> Iterator[WrongValue]:
    """Check that labels only rise on the way of an event, in a domain that is expanded otherwise."""
    for name, client in domain.clients.items():
        types = {
            node: client.types_at(node) or domain.default_types(node) for node in client.node if node in domain.nodes
        }
        yield from _reads_at_most_what_it_writes(name, types, pattern)
    for loc, table in domain.tables():
        if table.default is not None and not _rises(table.default.notify, table.default.publish, pattern):
            read, write = table.default.notify, table.default.publish
            yield WrongValue((*loc, "default"), _SIDE_CONDITION, f"`notify: {read}` and `publish: {write}`")
        for source, target in sorted(_allowed(table, pattern)):
            if not _rises(source, target, pattern):
                key = "allow" if table.allow is not None else "deny"
                # An event would go down. (brokering §6.1.1: allow(t1, t2) only if t1 <= t2)
                what = f"events from `{source}` allowed to `{target}`"
                yield WrongValue((*loc, key), f"nothing allowed that is not in the order of the labels: {what}")
                break


_SIDE_CONDITION = "that what a device reads (`notify`) is at most what it writes (`publish`)"


def _reads_at_most_what_it_writes(
    name: str, types: dict[str, LinkTypes | None], pattern: Levels
) -> Iterator[WrongValue]:
    # type(x, y) <= type(y, z) whenever y is a device. (brokering §6.1.1)
    for (reads_at, reads), (writes_at, writes) in product(types.items(), repeat=2):
        if reads is None or writes is None or _rises(reads.notify, writes.publish, pattern):
            continue
        at = "" if reads_at == writes_at else f" at `{reads_at}`", "" if reads_at == writes_at else f" at `{writes_at}`"
        actual = f"the device `{name}` that reads `{reads.notify}`{at[0]} and writes `{writes.publish}`{at[1]}"
        yield WrongValue(("clients", name, "type"), _SIDE_CONDITION, actual)
        return


def _rises(low: str, high: str, pattern: Levels) -> bool:
    """Return whether the order has low <= high; types that are not labels are ignored."""
    return (low, high) in pattern.below or not {low, high} <= set(pattern.labels)


def _allowed(table: TableSettings, pattern: Levels) -> set[Pair]:
    """Return the pairs of labels that a table allows."""
    if table.listed is None:
        return set()
    key, rules = table.listed
    pairs = {pair for rule in rules for pair in rule.pairs}
    all_pairs = {(low, high) for low in pattern.labels for high in pattern.labels}
    return all_pairs & pairs if key == "allow" else all_pairs - pairs
