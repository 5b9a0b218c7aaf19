"""Checks of entities and links: nodes, clients, foreign brokers."""

from collections.abc import Iterator

from penstock.domain.compile.graph import graph
from penstock.domain.problems import Entities, Loc, WrongValue, join_names, unknown
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import ClientSettings, LinkSettings


def check(domain: Domain) -> Iterator[WrongValue]:
    """Find mistakes in the entities and links of a domain without patterns."""
    entities = Entities.of(domain)
    yield from _names(domain)
    yield from _links(domain, entities)
    for name, client in domain.clients.items():
        yield from _client(domain, entities, name, client)
    yield from _same_client(domain)
    yield from _roaming(domain)


def _roaming(domain: Domain) -> Iterator[WrongValue]:
    """Find clients whose sessions could not follow them: these go from node to node, by the only way there is."""
    brokers = domain.nodes.keys() | domain.foreign.keys()
    if not all(set(link.between) <= brokers for link in domain.links):
        return
    for name, client in domain.clients.items():
        loc: Loc = ("clients", name, "roams")
        if not client.roams or not client.node.keys() <= domain.nodes.keys():
            continue
        if len(client.node) < 2:
            yield WrongValue(loc, "several nodes under `node`, because of `roams`", join_names(client.node))
        elif graph(domain).is_cyclic:
            expected = "nodes and foreign brokers that are not joined in a cycle, because of `roams`"
            yield WrongValue(loc, expected, "links that form a cycle")
        elif apart := _apart(domain, client):
            first = next(iter(client.node))
            expected = "nodes that have links with each other, or with others of the client's nodes between them"
            yield WrongValue(loc, expected, f"no such way from `{first}` to {join_names(apart)}")


def _apart(domain: Domain, client: ClientSettings) -> list[str]:
    """Return the nodes of a client that cannot be reached from its first one by way of its nodes alone."""
    first, *_ = client.node
    reached = [first]
    for node in reached:
        for link in domain.links:
            if node in link.between:
                other = link.between[link.between[0] == node]
                if other in client.node and other not in reached:
                    reached.append(other)
    return [node for node in client.node if node not in reached]


def _names(domain: Domain) -> Iterator[WrongValue]:
    for key, others in (("foreign", ("nodes",)), ("clients", ("nodes", "foreign"))):
        for name in getattr(domain, key):
            for other in others:
                if name in getattr(domain, other):
                    yield WrongValue((key, name), f"a name that `{other}` does not have", f"`{name}`")


def _links(domain: Domain, entities: Entities) -> Iterator[WrongValue]:
    seen = dict[frozenset[str], int]()
    for index, link in enumerate(domain.links):
        loc: Loc = ("links", index)
        wrong = list(_ends(link, entities, (*loc, "between")))
        yield from wrong
        first = seen.setdefault(frozenset(link.between), index)
        if not wrong and first != index:
            pair = join_names(link.between, "and")
            yield WrongValue(
                (*loc, "between"), f"only one link between {pair}, the one at `links[{first}]`", "a second one"
            )
        if link.between[1] in domain.foreign:
            yield from _foreign_link(link, loc)


def _ends(link: LinkSettings, entities: Entities, loc: Loc) -> Iterator[WrongValue]:
    first, second = link.between
    for end in link.between:
        if end in entities.clients:
            expected = f"two brokers: a client is joined to its node by `clients.{end}.node`"
            yield WrongValue(loc, expected, f"the client `{end}`")
            return
        if end not in entities.brokers:
            yield unknown(loc, "a node or foreign broker", end, entities.brokers)
            return
    if first == second:
        yield WrongValue(loc, "two different ends", f"a link of `{first}` with itself")
    elif first in entities.foreign:
        yield WrongValue(loc, "a node first: a foreign broker does not dial", f"the foreign broker `{first}` first")


def _foreign_link(link: LinkSettings, loc: Loc) -> Iterator[WrongValue]:
    for key in ("address", "secret", "secret_file", "tls"):
        if getattr(link, key) is not None:
            name = link.between[1]
            yield WrongValue((*loc, key), f"no `{key}` here: how to reach `{name}` stands under `foreign.{name}`")
    for filter, mode in link.forward:
        if mode not in ("all", "subscribed"):
            expected = f"`all` or `subscribed`: a foreign broker gets what `foreign.{link.between[1]}.out` says"
            yield WrongValue((*loc, "forward", filter), expected, f"`{mode}`")


def _client(domain: Domain, entities: Entities, name: str, client: ClientSettings) -> Iterator[WrongValue]:
    loc: Loc = ("clients", name)
    if not client.node:
        yield WrongValue((*loc, "node"), f"the node that it connects to, {join_names(entities.nodes)}", "nothing")
    homes = list[str]()
    for node, types in client.node.items():
        if node in domain.nodes:
            homes.append(node)
        else:
            yield WrongValue((*loc, "node"), entities.not_a_node(node), f"`{node}`")
        if types is not None and client.type is not None:
            yield WrongValue((*loc, "type"), "no `type`: the types stand under `node`")
            return
    if len(homes) < len(client.node):
        return
    listeners = [listener for node in homes for listener in domain.nodes[node].listeners]
    addresses = [str(listener.address) for listener in listeners]
    if client.listener is not None and str(client.listener) not in addresses:
        expected = f"an address that {join_names(homes)} listens on: {join_names(dict.fromkeys(addresses))}"
        yield WrongValue((*loc, "listener"), expected)
    if client.certificate is not None and all(
        listener.tls is None or listener.tls.identity == "none" for listener in listeners
    ):
        expected = f"a listener of {join_names(homes)} that takes the identity of certificates (`tls.identity`)"
        yield WrongValue((*loc, "certificate"), expected)


def _same_client(domain: Domain) -> Iterator[WrongValue]:
    """Find entries that no client can be told apart by: another one, on the same node, asks for exactly the same."""
    seen = dict[tuple[object, ...], str]()
    for name, client in domain.clients.items():
        identity = (client.client_id(name), client.user, client.certificate, client.listener)
        for node in client.node:
            first = seen.setdefault((node, *identity), name)
            if first != name:
                expected = f"a difference from `clients.{first}`, which is identified in the same way at `{node}`"
                yield WrongValue(("clients", name), expected, f"`{name}`")
                break
