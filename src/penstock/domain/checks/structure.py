"""Checks of who is there and what joins them: entities, links, clients, foreign brokers."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.domain.finding import Entities, Finding, Loc, hint, listed
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import ClientSettings, LinkSettings


def check(domain: Domain) -> Iterator[Finding]:
    """What is wrong with the entities and links of a domain without patterns."""
    entities = Entities.of(domain)
    yield from _names(domain)
    yield from _links(domain, entities)
    for name, client in domain.clients.items():
        yield from _client(domain, entities, name, client)
    yield from _same_client(domain)


def _names(domain: Domain) -> Iterator[Finding]:
    for key, others in (("foreign", ("nodes",)), ("clients", ("nodes", "foreign"))):
        for name in getattr(domain, key):
            for other in others:
                if name in getattr(domain, other):
                    yield Finding((key, name), f"a name that `{other}` does not have", f"`{name}`")


def _links(domain: Domain, entities: Entities) -> Iterator[Finding]:
    seen = dict[frozenset[str], int]()
    for index, link in enumerate(domain.links):
        loc: Loc = ("links", index)
        wrong = list(_ends(link, entities, (*loc, "between")))
        yield from wrong
        first = seen.setdefault(frozenset(link.between), index)
        if not wrong and first != index:
            pair = listed(link.between, "and")
            yield Finding(
                (*loc, "between"), f"only one link between {pair}, the one at `links[{first}]`", "a second one"
            )
        if link.between[1] in domain.foreign:
            yield from _foreign_link(link, loc)


def _ends(link: LinkSettings, entities: Entities, loc: Loc) -> Iterator[Finding]:
    first, second = link.between
    for end in link.between:
        if end in entities.clients:
            expected = f"two brokers: a client is joined to its node by `clients.{end}.node`"
            yield Finding(loc, expected, f"the client `{end}`")
            return
        if end not in entities.brokers:
            yield Finding(loc, f"a node or foreign broker, {hint(end, entities.brokers)}", f"`{end}`")
            return
    if first == second:
        yield Finding(loc, "two different ends", f"a link of `{first}` with itself")
    elif first in entities.foreign:
        yield Finding(loc, "a node first: a foreign broker does not dial", f"the foreign broker `{first}` first")


def _foreign_link(link: LinkSettings, loc: Loc) -> Iterator[Finding]:
    for key in ("address", "secret", "secret_file", "tls"):
        if getattr(link, key) is not None:
            name = link.between[1]
            yield Finding((*loc, key), f"no `{key}` here: how to reach `{name}` stands under `foreign.{name}`")
    for filter, mode in link.forward:
        if mode not in ("all", "subscribed"):
            expected = f"`all` or `subscribed`: a foreign broker gets what `foreign.{link.between[1]}.out` says"
            yield Finding((*loc, "forward", filter), expected, f"`{mode}`")


def _client(domain: Domain, entities: Entities, name: str, client: ClientSettings) -> Iterator[Finding]:
    loc: Loc = ("clients", name)
    if not client.node:
        yield Finding((*loc, "node"), f"the node that it connects to, {listed(entities.nodes)}", "nothing")
    homes = list[str]()
    for node, types in client.node.items():
        if node in domain.nodes:
            homes.append(node)
        else:
            yield Finding((*loc, "node"), entities.not_a_node(node), f"`{node}`")
        if types is not None and client.type is not None:
            yield Finding((*loc, "type"), "no `type`: the types stand under `node`")
            return
    if len(homes) < len(client.node):
        return
    listeners = [listener for node in homes for listener in domain.nodes[node].listeners]
    addresses = [str(listener.address) for listener in listeners]
    if client.listener is not None and str(client.listener) not in addresses:
        expected = f"an address that {listed(homes)} listens on: {listed(dict.fromkeys(addresses))}"
        yield Finding((*loc, "listener"), expected)
    if client.certificate is not None and all(one.tls is None or one.tls.identity == "none" for one in listeners):
        expected = f"a listener of {listed(homes)} that takes the identity of certificates (`tls.identity`)"
        yield Finding((*loc, "certificate"), expected)


def _same_client(domain: Domain) -> Iterator[Finding]:
    """Entries that no client can be told by: another one, on the same node, asks for just the same."""
    seen = dict[tuple[object, ...], str]()
    for name, client in domain.clients.items():
        asked = (client.client_id(name), client.user, client.certificate, client.listener)
        for node in client.node:
            first = seen.setdefault((node, *asked), name)
            if first != name:
                expected = f"what tells it from `clients.{first}`, which is known by just the same at `{node}`"
                yield Finding(("clients", name), expected, f"`{name}`")
                break
