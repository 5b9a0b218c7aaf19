"""Checks of contracts: that they can be read, and that those who are named exist."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.domain.contracts import compiled, mistakes
from penstock.domain.finding import Entities, Finding, Said, hint
from penstock.domain.schema import Domain
from penstock.domain.tree import Step


def check(domain: Domain) -> Iterator[Finding | Said]:
    """Contracts, situations and quality that cannot be read; clients that do not exist; situations that nobody has."""
    wrong = list(mistakes(domain))
    for path, problem in wrong:
        yield Said(path, problem)
    missing = any(not file.is_file() for one in domain.privacy for file in (*one.policies, *one.references))
    contracts = None if wrong or missing else compiled(domain)
    if contracts is None:
        return
    for producer in contracts.producers:
        yield from _clients(domain, ("contracts", "producers", producer.name, "producer"), producer.producers)
        for rule in producer.rules:
            yield from _situations(contracts.situations, producer.name, rule.id, rule.during | rule.outside)
    for consumer in contracts.consumers:
        yield from _clients(domain, ("contracts", "consumers", consumer.name, "consumer"), consumer.consumers)
    for situation in contracts.situations:
        yield from _clients(domain, ("contracts", "situations", situation.name, "sources"), situation.sources)


def _clients(domain: Domain, where: tuple[Step, ...], clients: frozenset[str]) -> Iterator[Finding]:
    if not domain.clients:
        return
    entities = Entities.of(domain)
    for client in sorted(clients):
        if client not in domain.clients:
            kind = entities.kind(client)
            expected = f"and `{client}` is {kind}" if kind else hint(client, entities.clients)
            yield Finding(where, f"a client, {expected}", f"`{client}`")


def _situations(known: object, producer: str, rule: str, named: frozenset[str]) -> Iterator[Finding]:
    names = [one.name for one in known]  # type: ignore[attr-defined]
    for name in sorted(named - set(names)):
        where = ("contracts", "producers", producer, "rules", rule, "situation")
        yield Finding(where, f"a situation, {hint(name, names)}", f"`{name}`")
