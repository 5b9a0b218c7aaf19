"""Dependencies on user names, and the nodes that cannot check them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.domain.problems import Remark
from penstock.domain.schema.node_settings import NodeSettings

if TYPE_CHECKING:
    from penstock.domain.schema.domain import Domain


def accepts_any_user(node: NodeSettings) -> bool:
    """Return whether a client may connect with a user name that nobody has checked."""
    return node.passwords is None and any(
        node.allows_anonymous(listener) and (listener.tls is None or listener.tls.identity == "none")
        for listener in node.listeners
    )


def user_name_settings(domain: Domain, node: str) -> Iterator[Remark]:
    """Find settings of a node or of the whole domain that depend on user names; access policies have their own
    check."""
    for name, client in domain.clients.items():
        if client.user is not None and client.certificate is None and node in client.node:
            yield Remark(("clients", name, "user"), f"client `{name}` is known by its user name")
    producers = domain.contracts.producers if domain.contracts is not None else {}
    for name, contract in producers.items():
        for rule, written in _mapping(contract.get("rules")).items():
            if "user" in _mapping(_mapping(written).get("visible_to")):
                loc = ("contracts", "producers", name, "rules", rule, "visible_to", "user")
                yield Remark(loc, f"rule `{rule}` of contract `{name}` is for some user names")


def _mapping(written: object) -> dict[str, object]:
    return written if isinstance(written, dict) else {}


def unchecked_users(domain: Domain) -> dict[str, str]:
    """Return by node that accepts any user name the first setting that depends on user names."""
    first = {
        name: next(user_name_settings(domain, name), None)
        for name, node in domain.nodes.items()
        if accepts_any_user(node)
    }
    return {name: remark.what for name, remark in first.items() if remark is not None}


def warnings(domain: Domain) -> Iterator[Remark]:
    """Find settings that depend on user names where nobody checks them, and clients that any user may be."""
    nodes_of = dict[Remark, list[str]]()
    for name, node in domain.nodes.items():
        if accepts_any_user(node):
            for remark in user_name_settings(domain, name):
                nodes_of.setdefault(remark, []).append(name)
    for remark, nodes in nodes_of.items():
        where = ", ".join(f"`{node}`" for node in nodes)
        what = f"{remark.what}, and {where} does not check them: clients that give one are refused (set `passwords`)"
        yield Remark(remark.loc, what)
    for name, client in domain.clients.items():
        # Where `anonymous` is set, the domain says itself that client ids are enough.
        places = [(place, domain.nodes[place]) for place in client.node if place in domain.nodes]
        checking = [place for place, node in places if node.passwords is not None and not node.anonymous]
        if checking and client.user is None and client.certificate is None:
            what = f"every user of `{checking[0]}` may connect as `{name}`, which is known by its client id alone"
            yield Remark(("clients", name), f"{what} (set `user`)")
