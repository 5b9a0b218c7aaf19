"""Whether a domain counts on user names, and which nodes cannot check them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.domain.finding import Said
from penstock.domain.schema.node_settings import NodeSettings

if TYPE_CHECKING:
    from penstock.domain.schema.domain import Domain


def takes_any_name(node: NodeSettings) -> bool:
    """Whether a client is let in with a user name that nobody has checked: it says who it is, and may lie."""
    return node.passwords is None and any(
        node.allows_anonymous(one) and (one.tls is None or one.tls.identity == "none") for one in node.listeners
    )


def counting(domain: Domain, node: str) -> Iterator[Said]:
    """What at a node, or of the whole domain, counts on user names; access policies are checked by themselves."""
    for name, client in domain.clients.items():
        if client.user is not None and client.certificate is None and node in client.node:
            yield Said(("clients", name, "user"), f"client `{name}` is known by its user name")
    producers = domain.contracts.producers if domain.contracts is not None else {}
    for name, said in producers.items():
        for rule, written in _mapping(said.get("rules")).items():
            if "user" in _mapping(_mapping(written).get("visible_to")):
                loc = ("contracts", "producers", name, "rules", rule, "visible_to", "user")
                yield Said(loc, f"rule `{rule}` of contract `{name}` is for some user names")


def _mapping(written: object) -> dict[str, object]:
    return written if isinstance(written, dict) else {}


def unchecked(domain: Domain) -> dict[str, str]:
    """By node that takes any user name, the first that counts on these."""
    found = {name: next(counting(domain, name), None) for name, node in domain.nodes.items() if takes_any_name(node)}
    return {name: said.what for name, said in found.items() if said is not None}


def warnings(domain: Domain) -> Iterator[Said]:
    """All that counts on user names where nobody checks them."""
    told = dict[Said, list[str]]()
    for name, node in domain.nodes.items():
        if takes_any_name(node):
            for said in counting(domain, name):
                told.setdefault(said, []).append(name)
    for said, nodes in told.items():
        where = ", ".join(f"`{one}`" for one in nodes)
        what = f"{said.what}, and nobody checks these at {where}: who gives one there is refused (set `passwords`)"
        yield Said(said.loc, what)
