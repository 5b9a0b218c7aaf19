"""Checks of tokens and trust: that names exist, and that each node has what it needs."""

import time
from collections.abc import Collection, Iterator

from penstock.domain.problems import Entities, Loc, Remark, WrongValue
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.tokens import TokenSettings
from penstock.model.errors import PolicyError
from penstock.policy.tokens.keys import KeySet, SigningKey
from penstock.policy.tokens.revocation import NOTHING, Revoked, why_unused
from penstock.policy.trust.rating import BY_PATHS


def check(domain: Domain) -> Iterator[WrongValue]:
    """Find unknown names, contradictory thresholds, trust without tokens."""
    yield from _nodes(domain)
    entities = Entities.of(domain)
    joined = {frozenset(link.between) for link in domain.links}
    tokens, trust = domain.tokens, domain.trust
    if tokens is not None:
        for index, issuer in enumerate(tokens.issuers):
            if issuer not in domain.nodes:
                yield WrongValue(("tokens", "issuers", index), entities.not_a_node(issuer), f"`{issuer}`")
        for index, grant in enumerate(tokens.grants):
            yield from _clients(domain, entities, ("tokens", "grants", index, "clients"), grant.clients)
        for index, neighbour in enumerate(tokens.neighbours):
            yield from _neighbours(
                domain, entities, joined, ("tokens", "neighbours", index), ("node", neighbour.node), neighbour.at
            )
    if trust is not None:
        if tokens is None:
            yield WrongValue(("tokens",), "tokens, because of `trust`: ratings decide about them", "nothing")
        for index, begin in enumerate(trust.begin):
            yield from _neighbours(domain, entities, joined, ("trust", "begin", index), ("of", begin.of), begin.by)
        if trust.feedback is not None:
            yield from _clients(domain, entities, ("trust", "feedback", "from"), trust.feedback.from_)
        yield from _clients(domain, entities, ("trust", "operators"), trust.operators)


def warnings(domain: Domain, here: Collection[str]) -> Iterator[Remark]:
    """Find tokens that no client gets, or no node accepts; `here` are the nodes whose files are on this machine."""
    if domain.tokens is not None:
        yield from _unused_keys(domain, domain.tokens, here)
    if domain.tokens is not None and domain.tokens.required and not domain.tokens.grants:
        what = "no node issues tokens: clients need those that `penstock token issue` makes"
        yield Remark(("tokens",), what)
    trust = domain.trust
    if trust is not None:
        threshold = trust.thresholds(None).theta if trust.rule in BY_PATHS else trust.sign
        if trust.base_rate < threshold and not trust.begin:
            what = (
                f"ratings begin at {trust.base_rate} and nodes accept nothing below {threshold}: no token is accepted"
            )
            yield Remark(("trust", "base_rate"), what)


def _unused_keys(domain: Domain, tokens: TokenSettings, here: Collection[str]) -> Iterator[Remark]:
    for name, node in domain.nodes.items():
        if name not in here or node.signing_key is None:
            continue
        try:
            key_id, keys = SigningKey.read(node.signing_key).key_id, KeySet.read(tokens.keys)
            revoked = Revoked.read(tokens.revoked) if tokens.revoked is not None else NOTHING
        except (PolicyError, OSError):
            continue  # this user may not be the one that runs the node: the node reports what is wrong
        unused = why_unused(name, key_id, keys, revoked, time.time())
        if unused:
            yield Remark(("nodes", name, "signing_key"), unused)


def _nodes(domain: Domain) -> Iterator[WrongValue]:
    for name, node in domain.nodes.items():
        if domain.tokens is not None and node.signing_key is None:
            yield WrongValue(("nodes", name, "signing_key"), "the node's private key, because of `tokens`", "nothing")
        if node.trust is None:
            continue
        if domain.trust is None:
            yield WrongValue(("trust",), f"trust, because node `{name}` says what it asks for", "nothing")
            continue
        if node.trust.accept is not None and node.trust.accept > domain.trust.sign:
            yield WrongValue(("nodes", name, "trust", "accept"), f"at most `trust.sign`, which is {domain.trust.sign}")
        if (node.trust.signers or 1) > domain.trust.most_signers:
            yield WrongValue(("nodes", name, "trust", "signers"), domain.trust.too_many_signers)


def _clients(domain: Domain, entities: Entities, where: Loc, clients: tuple[str, ...]) -> Iterator[WrongValue]:
    """Find named clients that are not listed, where clients must be listed."""
    if not domain.clients or any(domain.admits_unlisted(node) for node in domain.nodes):
        return
    for index, client in enumerate(clients):
        if client != "*" and client not in domain.clients:
            yield WrongValue((*where, index), entities.not_a_client(client), f"`{client}`")


def _neighbours(
    domain: Domain, entities: Entities, joined: set[frozenset[str]], where: Loc, about: tuple[str, str], other: str
) -> Iterator[WrongValue]:
    """Find pairs of nodes that no link joins."""
    key, name = about
    for step, node in ((key, name), ("by" if key == "of" else "at", other)):
        if node not in domain.nodes:
            yield WrongValue((*where, step), entities.not_a_node(node), f"`{node}`")
            return
    if frozenset((name, other)) not in joined:
        yield WrongValue((*where, key), f"a neighbour of `{other}`", f"`{name}`")
