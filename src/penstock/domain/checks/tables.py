"""Checks of link types and brokering tables."""

from collections.abc import Iterator

from penstock.domain.problems import Loc, WrongValue, join_names, unknown
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkTypes
from penstock.domain.schema.policies import TableSettings
from penstock.domain.units import Pair
from penstock.model.yaml.tree import path_text


def check(written: Domain, domain: Domain) -> Iterator[WrongValue]:
    """Find mistakes in the types of a domain; `written` is the domain before its patterns were expanded."""
    yield from _types(written)
    for loc, table in written.tables():
        yield from _rules(table, domain.types, loc)
        if table.default is not None:
            yield from _both(table.default, domain.types, (*loc, "default"))
    for index, link in enumerate(domain.links):
        for key, name in (("type", link.type), ("back", link.back)):
            yield from _known(name, domain.types, ("links", index, key))
        if link.type is None and domain.types is not None and not any(each.table for each in domain.protocols.values()):
            yield WrongValue(("links", index, "type"), f"its link type, {join_names(domain.types)}", "nothing")
    yield from _clients(domain)


def _types(domain: Domain) -> Iterator[WrongValue]:
    types = domain.types or ()
    for index, name in enumerate(types):
        if name in types[:index]:
            yield WrongValue(("brokering", "types", index), "every link type once", f"`{name}` twice")


def _rules(table: TableSettings, types: tuple[str, ...] | None, loc: Loc) -> Iterator[WrongValue]:
    if table.listed is None:
        return
    key, rules = table.listed
    if types is None and rules:
        yield WrongValue(("brokering", "types"), f"the link types that `{path_text((*loc, key))}` is about", "nothing")
        return
    seen = dict[Pair, int]()
    for index, rule in enumerate(rules):
        where = (*loc, key, index)
        for side, names in (("from", rule.from_), ("to", rule.to)):
            for name in names:
                yield from _known(name, types, (*where, side))
        for source, target in rule.pairs:
            first = seen.get((source, target))
            if first is not None:
                before = f"the one at `{key}[{first}]`" if first != index else "the one before it"
                yield WrongValue(where, f"every pair once, and this is {before}", f"`{source}` to `{target}` again")
                break
            seen[source, target] = index


def _clients(domain: Domain) -> Iterator[WrongValue]:
    given = {name for protocol in domain.protocols.values() if protocol.table for name in protocol.participants}
    for name, client in domain.clients.items():
        loc: Loc = ("clients", name)
        if client.type is not None:
            yield from _both(client.type, domain.types, (*loc, "type"))
        for node, types in client.node.items():
            if types is not None:
                yield from _both(types, domain.types, (*loc, "node", node))
            elif (
                client.type is None
                and domain.types is not None
                and domain.default_types(node) is None
                and name not in given
            ):
                expected = f"its link type, {join_names(domain.types)}, as there is no `brokering.default`"
                yield WrongValue((*loc, "type"), expected, "nothing")
                break


def _both(types: LinkTypes, declared: tuple[str, ...] | None, loc: Loc) -> Iterator[WrongValue]:
    wrong = list(_known(types.publish, declared, (*loc, "publish")))
    yield from wrong
    # One name for both directions is one mistake.
    if not wrong or types.notify != types.publish:
        yield from _known(types.notify, declared, (*loc, "notify"))


def _known(name: str | None, types: tuple[str, ...] | None, loc: Loc) -> Iterator[WrongValue]:
    if name is None:
        return
    expected = "a link type that `brokering.types` declares"
    if types is None:
        yield WrongValue(loc, f"{expected}, and there is no `brokering.types`", f"`{name}`")
    elif name not in types:
        yield unknown(loc, expected, name, types)
