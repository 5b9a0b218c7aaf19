"""The pattern `roles`: roles as protection domains, after RBAC. (brokering §6.2.3)

For each role *r* there are two nodes, `r-pub` (the publication broker) and `r-sub` (the subscription broker); all
are joined by the bus. Role hierarchies: a senior role has the events of its juniors beside its own, by its filters or,
nested, by links to the brokers of its juniors.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.domain.patterns.settings import MembersByCondition, Role, Roles
from penstock.domain.patterns.tables import PatternTable, join_tables
from penstock.domain.problems import Entities, Loc, WrongValue, unknown
from penstock.domain.schema.base import MAX_NAME, MEMORY
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import ClientSettings, LinkSettings, LinkTypes
from penstock.domain.schema.node_settings import Listener, NodeSettings
from penstock.domain.schema.policies import MonitorSettings
from penstock.domain.units import Address, Pair
from penstock.language.types import ANYTHING
from penstock.model.content.content import Content, Format

TYPES = ("SubUp", "SubDown", "PubUp", "PubDown", "DevUp", "DevDown")
ALLOW = frozenset({("PubUp", "SubDown"), ("DevUp", "PubUp"), ("SubDown", "DevDown")})
NESTED = frozenset({("PubUp", "PubUp"), ("SubDown", "SubDown")})
"""What is allowed beside it where brokers are nested: to a junior role's to publish, from it to be notified."""
DEVICE = LinkTypes(publish="DevUp", notify="DevDown")


def pub(role: str) -> str:
    """Return the publication broker of a role."""
    return f"{role}-pub"


def sub(role: str) -> str:
    """Return the subscription broker of a role."""
    return f"{role}-sub"


def nodes(pattern: Roles) -> tuple[str, ...]:
    """Return the nodes of the pattern: the bus, then two for each role."""
    return (pattern.bus, *(name for role in pattern.roles for name in (pub(role), sub(role))))


def inherited(pattern: Roles, name: str) -> dict[str, Role]:
    """Return a role and all that it inherits from, each once."""
    roles, waiting = dict[str, Role](), [name]
    while waiting:
        role = waiting.pop(0)
        if role not in roles and role in pattern.roles:
            roles[role] = pattern.roles[role]
            waiting += pattern.roles[role].inherits
    return roles


def joined(pattern: Roles) -> dict[Pair, Pair]:
    """Return the links of the pattern's nodes with each other, with their types up and down."""
    links = dict[Pair, Pair]()
    for name, role in pattern.roles.items():
        above = [(pub(junior), sub(junior)) for junior in role.inherits if pattern.nested]
        for pub_above, sub_above in [(pattern.bus, pattern.bus), *above]:
            links[pub(name), pub_above] = ("PubUp", "PubDown")
            links[sub(name), sub_above] = ("SubUp", "SubDown")
    return links


def members(domain: Domain, role: Role) -> tuple[str, ...]:
    """Return the members of a role: those that it names, or listed clients of which its condition is true."""
    if not isinstance(role.members, MembersByCondition):
        return role.members
    condition = role.members.when.compiled(ANYTHING)
    return tuple(name for name, client in domain.clients.items() if condition.holds(_subject(name, client)) is True)


def _subject(name: str, client: ClientSettings) -> Content:
    subject = {"name": name, "groups": list(client.groups), "attributes": dict(client.attributes)}
    return Content(msgspec.json.encode({"subject": subject}), Format.JSON)


def check(domain: Domain, pattern: Roles, loc: Loc) -> Iterator[WrongValue]:
    missing = [name for name in nodes(pattern) if name not in domain.nodes]
    entities = Entities.of(domain)
    if missing and pattern.listen is None:
        expected = f"an address for the nodes that are made, the first of them `{missing[0]}`"
        yield WrongValue((*loc, "listen"), expected, "nothing")
    elif pattern.listen is not None and pattern.listen.port and pattern.listen.port + len(missing) - 1 > 65535:
        yield WrongValue(
            (*loc, "listen"), f"a port with {len(missing) - 1} more above it, one for each node that is made"
        )
    for name in missing:
        if entities.kind(name):
            yield WrongValue((*loc, "roles"), f"no other entity with the name of the node `{name}`", f"`{name}`")
    for index, link in enumerate(domain.links):
        if link.type is not None and {link.between, link.between[::-1]} & joined(pattern).keys():
            yield WrongValue(("links", index, "type"), "no type: the pattern gives it one")
    for name, role in pattern.roles.items():
        cyclic = [junior for junior in role.inherits if name in inherited(pattern, junior)]
        if cyclic:
            expected = f"no cycle of roles: `{cyclic[0]}` inherits from `{name}`"
            yield WrongValue((*loc, "roles", name, "inherits"), expected, f"`{cyclic[0]}`")
            break  # the other roles of the cycle are the same mistake
    for name, role in pattern.roles.items():
        yield from _check_role(domain, pattern, name, role, (*loc, "roles", name))


def _check_role(domain: Domain, pattern: Roles, name: str, role: Role, loc: Loc) -> Iterator[WrongValue]:
    if len(pub(name)) > MAX_NAME:
        yield WrongValue(loc, f"a name of at most {MAX_NAME - 4} characters, as `-pub` is added", f"`{name}`")
    if pattern.bus in (pub(name), sub(name)):
        yield WrongValue((*loc[:-2], "bus"), f"another name: role `{name}` has a node of this one")
    for junior in role.inherits:
        if junior not in pattern.roles:
            yield unknown((*loc, "inherits"), "a role", junior, pattern.roles)
    for member in members(domain, role):
        client = domain.clients.get(member)
        if member in domain.nodes or member in domain.foreign or member in nodes(pattern):
            yield WrongValue((*loc, "members"), "a client, and this is a broker", f"`{member}`")
        elif members(domain, role).count(member) > 1:
            yield WrongValue((*loc, "members"), "every member once", f"`{member}` twice")
            break
        elif client is not None and client.type not in (None, DEVICE):
            expected = f"no `type` under `clients.{member}`: the role gives it one"
            yield WrongValue((*loc, "members"), expected, f"`{member}` with a type")


def expand(domain: Domain, pattern: Roles) -> Domain:
    """Expand to the nodes, links, table and filters of the paper's construction."""
    monitors = dict(domain.monitors)
    allow = ALLOW | NESTED if pattern.nested else ALLOW
    for name in pattern.roles:
        roles = [pattern.roles[name]] if pattern.nested else inherited(pattern, name).values()
        published = tuple(dict.fromkeys(filter for role in roles for filter in role.publish))
        subscribed = tuple(dict.fromkeys(filter for role in roles for filter in role.subscribe))
        monitors[pub(name)] = MonitorSettings(link=((pub(name), pattern.bus),), filter=published)
        monitors[sub(name)] = MonitorSettings(link=((pattern.bus, sub(name)),), filter=subscribed)
    return domain.model_copy(
        update={
            "nodes": {**domain.nodes, **_new_nodes(domain, pattern)},
            "links": _links(domain, pattern),
            "clients": _clients(domain, pattern),
            "brokering": join_tables(domain.brokering, PatternTable(TYPES, "allow", allow)),
            "monitors": monitors,
        }
    )


def _links(domain: Domain, pattern: Roles) -> tuple[LinkSettings, ...]:
    """Return a link of every other node with the bus, and nested with its juniors' nodes; the file's settings of a
    link, except the types, stay.
    """
    links = {link.between: link for link in domain.links}
    for ends, (up, down) in joined(pattern).items():
        link = links.get(ends) or LinkSettings(between=ends)
        links[ends] = link.model_copy(update={"type": up, "back": down})
    return tuple(links.values())


def _new_nodes(domain: Domain, pattern: Roles) -> dict[str, NodeSettings]:
    """Return the nodes that the file does not have, at consecutive ports."""
    nodes_made = dict[str, NodeSettings]()
    for name in nodes(pattern):
        if name not in domain.nodes:
            assert pattern.listen is not None
            port = pattern.listen.port + len(nodes_made) if pattern.listen.port else 0
            listener = Listener(address=Address(pattern.listen.host, port))
            store = MEMORY if pattern.store == MEMORY else str(Path(pattern.store) / f"{name}.db")
            nodes_made[name] = NodeSettings(listen=(listener,), store=store)
    return nodes_made


def _clients(domain: Domain, pattern: Roles) -> dict[str, ClientSettings]:
    """Return every member with links to the two nodes of each of its roles."""
    clients = dict(domain.clients)
    by_role = {name: members(domain, role) for name, role in pattern.roles.items()}
    for member in dict.fromkeys(member for names in by_role.values() for member in names):
        roles = [name for name, names in by_role.items() if member in names]
        own = clients.get(member, ClientSettings())
        new = [node for role in roles for node in (pub(role), sub(role))]
        if own.node:
            node = {**own.node, **dict.fromkeys(new, DEVICE)}
            clients[member] = own.model_copy(update={"node": node})
        else:
            clients[member] = own.model_copy(update={"node": dict.fromkeys(new), "type": DEVICE})
    return clients
