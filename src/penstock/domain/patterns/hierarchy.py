"""The pattern `hierarchy`: scopes within scopes, as types `up` and `down`. (brokering §6.1.2)"""

from collections.abc import Iterator

from penstock.domain.patterns.settings import Hierarchy
from penstock.domain.patterns.tables import PatternTable, join_tables
from penstock.domain.problems import Entities, Loc, WrongValue
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import ClientSettings, LinkSettings, LinkTypes

UP, DOWN = "up", "down"
CHILD = LinkTypes(publish=UP, notify=DOWN)
# allow(t1, t2) holds unless t1 = down and t2 = up.
TABLE = PatternTable((UP, DOWN), "deny", frozenset({(DOWN, UP)}))

Parents = dict[str, tuple[str, ...]]


def parents(domain: Domain, pattern: Hierarchy) -> Parents:
    """Return the relation *parent*: the pattern's, that of links without a type, and of clients without one."""
    above_of = {name: list(above) for name, above in pattern.parents.items()}
    for link in domain.links:
        child, parent = link.between
        if link.type is None and parent not in above_of.setdefault(child, []):
            above_of[child].append(parent)
    for name, client in domain.clients.items():
        above = above_of.setdefault(name, [])
        above += [node for node in client.node if client.types_at(node) is None and node not in above]
    return {name: tuple(above) for name, above in above_of.items() if above}


def check(domain: Domain, pattern: Hierarchy, loc: Loc) -> Iterator[WrongValue]:
    """Check the paper's conditions on *parent*, and that the rest of the file agrees with the pattern."""
    wrong = [*_names(domain, pattern, loc), *_against_links(domain, pattern)]
    yield from wrong
    # §6.1.2: parenthood chains never form a cycle, not even a loop.
    cycle = () if wrong else _cycle(parents(domain, pattern))
    if cycle:
        way = " -> ".join(f"`{name}`" for name in cycle)
        where = (*loc, "parents", cycle[0]) if cycle[0] in pattern.parents else loc
        yield WrongValue(where, "parents without a cycle", f"a cycle, {way}")
    if domain.brokering is not None and any((DOWN, UP) in rule.pairs for rule in domain.brokering.allow or ()):
        expected = f"nothing from `{DOWN}` to `{UP}`: in a hierarchy no event goes up after it has gone down"
        yield WrongValue(("brokering", "allow"), expected, f"`{DOWN}` to `{UP}`")


def _names(domain: Domain, pattern: Hierarchy, loc: Loc) -> Iterator[WrongValue]:
    entities = Entities.of(domain)
    devices = set(domain.clients) | {name for name in pattern.parents if name not in entities.brokers}
    for child, above in pattern.parents.items():
        where = (*loc, "parents", child)
        if child in domain.foreign:
            yield WrongValue(where, "a node or a client: a foreign broker does not dial", f"`{child}`")
        for parent in above:
            if above.count(parent) > 1:
                yield WrongValue(where, "every parent once", f"`{parent}` twice")
                break
            if parent in devices:
                # §6.1.2: a device is never a parent of any entity.
                yield WrongValue(where, "a node: a client is never a parent", f"the client `{parent}` as a parent")
            elif parent not in entities.brokers or (child in devices and parent in domain.foreign):
                yield WrongValue(where, entities.not_a_node(parent), f"`{parent}`")
        yield from _typed_already(domain, child, above, where)


def _typed_already(domain: Domain, child: str, above: tuple[str, ...], loc: Loc) -> Iterator[WrongValue]:
    client = domain.clients.get(child)
    if client is not None and client.type is not None:
        yield WrongValue(loc, f"no `type` under `clients.{child}`: the pattern gives it one", f"`{child}` with a type")
    for link in domain.links:
        if link.type is not None and child in link.between and set(link.between) <= {child, *above}:
            text = " - ".join(link.between)
            yield WrongValue(loc, "a link without a type: the pattern gives it one", f"the link `{text}` with a type")


def _against_links(domain: Domain, pattern: Hierarchy) -> Iterator[WrongValue]:
    for index, link in enumerate(domain.links):
        child, parent = link.between
        if link.type is None and child in pattern.parents.get(parent, ()):
            expected = f"`[{parent}, {child}]`, because `{child}` is a parent of `{parent}` and who dials is the child"
            yield WrongValue(("links", index, "between"), expected, f"`[{child}, {parent}]`")


def _cycle(above: Parents) -> tuple[str, ...]:
    """Return a chain of parents that comes back to its beginning; empty if there is none."""
    done = set[str]()
    for start in above:
        way = list[str]()
        waiting = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            way = way[:depth]
            if name in way:
                return (*way[way.index(name) :], name)
            if name in done:
                continue
            way.append(name)
            onward = [parent for parent in above.get(name, ()) if parent not in done]
            waiting += [(parent, depth + 1) for parent in onward]
            if not onward:
                done.add(name)
        done.update(way)
    return ()


def expand(domain: Domain, pattern: Hierarchy) -> Domain:
    """Expand: type(x, y) is `up` if y is a parent of x, and `down` otherwise; nothing goes from `down` to `up`."""
    relation = parents(domain, pattern)
    links = [_typed(link) if link.type is None else link for link in domain.links]
    linked = {link.between for link in links}
    clients = dict(domain.clients)
    for child, above in relation.items():
        if child in domain.nodes:
            new = [(child, parent) for parent in above if (child, parent) not in linked]
            links += [LinkSettings(between=between, type=UP, back=DOWN) for between in new]
        else:
            client = clients.get(child, ClientSettings())
            types = {node: client.types_at(node) or CHILD for node in (*client.node, *above)}
            clients[child] = client.model_copy(update=_short(types))
    brokering = join_tables(domain.brokering, TABLE)
    return domain.model_copy(update={"links": tuple(links), "clients": clients, "brokering": brokering})


def _typed(link: LinkSettings) -> LinkSettings:
    return link.model_copy(update={"type": UP, "back": DOWN})


def _short(types: dict[str, LinkTypes]) -> dict[str, object]:
    """Return the nodes of a client and their types: one for all, if they are all the same."""
    first = next(iter(types.values()))
    if all(other == first for other in types.values()):
        return {"node": dict.fromkeys(types), "type": first}
    return {"node": types, "type": None}
