"""Checks of tokens and trust: that those who are named exist, and that each node has what it needs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from penstock.domain.finding import Entities, Finding, Said, hint
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.tokens import TokenSettings
from penstock.model.errors import PolicyError
from penstock.model.yaml.tree import Step
from penstock.policy.tokens.keys import KeySet, SigningKey
from penstock.policy.tokens.revocation import NOTHING, Revoked, why_unused


def check(domain: Domain) -> Iterator[Finding]:
    """Names that are not known, thresholds that contradict each other, trust without tokens."""
    yield from _nodes(domain)
    entities = Entities.of(domain)
    joined = {frozenset(link.between) for link in domain.links}
    tokens, trust = domain.tokens, domain.trust
    if tokens is not None:
        for index, issuer in enumerate(tokens.issuers):
            if issuer not in domain.nodes:
                yield Finding(("tokens", "issuers", index), entities.not_a_node(issuer), f"`{issuer}`")
        for index, grant in enumerate(tokens.grants):
            yield from _clients(domain, entities, ("tokens", "grants", index, "clients"), grant.clients)
        for index, one in enumerate(tokens.neighbours):
            yield from _neighbours(
                domain, entities, joined, ("tokens", "neighbours", index), ("node", one.node), one.at
            )
    if trust is not None:
        if tokens is None:
            yield Finding(("tokens",), "tokens, because of `trust`: ratings decide about them", "nothing")
        for index, begin in enumerate(trust.begin):
            yield from _neighbours(domain, entities, joined, ("trust", "begin", index), ("of", begin.of), begin.by)
        if trust.feedback is not None:
            yield from _clients(domain, entities, ("trust", "feedback", "from"), trust.feedback.from_)
        yield from _clients(domain, entities, ("trust", "operators"), trust.operators)


def warnings(domain: Domain, here: Collection[str]) -> Iterator[Said]:
    """Tokens that nobody gets, or nobody accepts; `here` are the nodes whose files are on this machine."""
    if domain.tokens is not None:
        yield from _unused_keys(domain, domain.tokens, here)
    if domain.tokens is not None and domain.tokens.required and not domain.tokens.grants:
        what = "no node issues tokens: clients need those that `penstock token issue` makes"
        yield Said(("tokens",), what)
    trust = domain.trust
    if trust is not None:
        asked = trust.sign if trust.rule == "strict" else trust.thresholds(None).theta
        if trust.base_rate < asked and not trust.begin:
            what = f"nodes begin with ratings of {trust.base_rate}, and accept nothing below {asked}: so it stays"
            yield Said(("trust", "base_rate"), what)


def _unused_keys(domain: Domain, tokens: TokenSettings, here: Collection[str]) -> Iterator[Said]:
    for name, node in domain.nodes.items():
        if name not in here or node.signing_key is None:
            continue
        try:
            key_id, keys = SigningKey.read(node.signing_key).key_id, KeySet.read(tokens.keys)
            revoked = Revoked.read(tokens.revoked) if tokens.revoked is not None else NOTHING
        except (PolicyError, OSError):
            continue  # who checks a domain may not be who runs its nodes: the node says what is wrong
        unused = why_unused(name, key_id, keys, revoked, time.time())
        if unused:
            yield Said(("nodes", name, "signing_key"), unused)


def _nodes(domain: Domain) -> Iterator[Finding]:
    for name, node in domain.nodes.items():
        if domain.tokens is not None and node.signing_key is None:
            yield Finding(("nodes", name, "signing_key"), "the node's private key, because of `tokens`", "nothing")
        if node.trust is None:
            continue
        if domain.trust is None:
            yield Finding(("trust",), f"trust, because node `{name}` says what it asks for", "nothing")
        elif node.trust.accept > domain.trust.sign:
            yield Finding(("nodes", name, "trust", "accept"), f"at most `trust.sign`, which is {domain.trust.sign}")


def _clients(
    domain: Domain, entities: Entities, where: tuple[Step, ...], clients: tuple[str, ...]
) -> Iterator[Finding]:
    """Where clients are listed, those that are named are; elsewhere anybody may come."""
    if not domain.clients or any(domain.admits_unlisted(node) for node in domain.nodes):
        return
    for index, client in enumerate(clients):
        if client != "*" and client not in domain.clients:
            kind = entities.kind(client)
            expected = f"and `{client}` is {kind}" if kind else hint(client, entities.clients)
            yield Finding((*where, index), f"a client, {expected}", f"`{client}`")


def _neighbours(
    domain: Domain,
    entities: Entities,
    joined: set[frozenset[str]],
    where: tuple[Step, ...],
    about: tuple[str, str],
    other: str,
) -> Iterator[Finding]:
    """Two nodes that a link joins."""
    key, name = about
    for step, one in ((key, name), ("by" if key == "of" else "at", other)):
        if one not in domain.nodes:
            yield Finding((*where, step), entities.not_a_node(one), f"`{one}`")
            return
    if frozenset((name, other)) not in joined:
        yield Finding((*where, key), f"a neighbour of `{other}`", f"`{name}`")
