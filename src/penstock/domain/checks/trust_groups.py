"""Checks of trust groups: that their members exist; and whether secrets can be read here."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from penstock.domain.finding import Entities, Finding, Said, hint
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.trust import SecretError


def check(domain: Domain) -> Iterator[Finding]:
    """Members that do not exist."""
    entities = Entities.of(domain)
    for name, group in domain.trust_groups.items():
        for index, node in enumerate(group.nodes):
            if node not in domain.nodes:
                yield Finding(("trust_groups", name, "nodes", index), entities.not_a_node(node), f"`{node}`")
        for index, client in enumerate(group.clients):
            if client not in domain.clients:
                kind = entities.kind(client)
                expected = f"and `{client}` is {kind}" if kind else hint(client, entities.clients)
                yield Finding(("trust_groups", name, "clients", index), f"a client, {expected}", f"`{client}`")


def warnings(domain: Domain, nodes: Collection[str]) -> Iterator[Said]:
    """Secrets with which none of `nodes` could start; and groups that nobody can prove to anybody."""
    for name, group in domain.trust_groups.items():
        if not group.nodes:
            what = f"trust group `{name}` has no nodes: nobody can ask for a proof of it"
            yield Said(("trust_groups", name), what)
        elif any(node in nodes for node in group.nodes):
            try:
                group.secret.read()
            except SecretError as error:
                yield Said(("trust_groups", name, "secret"), f"its nodes cannot start here: {error}")
