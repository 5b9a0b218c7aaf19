"""Checks of trust groups: that members exist, and that secrets can be read here."""

from collections.abc import Collection, Iterator

from penstock.domain.problems import Entities, Remark, WrongValue
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.trust import SecretError


def check(domain: Domain) -> Iterator[WrongValue]:
    """Find unknown members."""
    entities = Entities.of(domain)
    for name, group in domain.trust_groups.items():
        for index, node in enumerate(group.nodes):
            if node not in domain.nodes:
                yield WrongValue(("trust_groups", name, "nodes", index), entities.not_a_node(node), f"`{node}`")
        for index, client in enumerate(group.clients):
            if client not in domain.clients:
                yield WrongValue(("trust_groups", name, "clients", index), entities.not_a_client(client), f"`{client}`")


def warnings(domain: Domain, nodes: Collection[str]) -> Iterator[Remark]:
    """Find secrets that `nodes` cannot read, and groups that no node can ask for."""
    for name, group in domain.trust_groups.items():
        if not group.nodes:
            what = f"trust group `{name}` has no nodes: nobody can ask for a proof of it"
            yield Remark(("trust_groups", name), what)
        for node in [node for node in group.nodes if node in nodes]:
            try:
                for secret in (group.secret, *group.earlier):
                    secret.read(node=node)
            except SecretError as error:
                yield Remark(("trust_groups", name, "secret"), f"its nodes cannot start here: {error}")
                break
