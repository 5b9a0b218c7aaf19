"""Checks of capsules: that their clients are known and may publish what they make; and what is odd."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.domain.compile.capsules import compiled, mistakes
from penstock.domain.finding import Entities, Finding, Mistake, Said, hint
from penstock.domain.schema.domain import Domain
from penstock.model.topic import overlaps


def check(domain: Domain) -> Iterator[Mistake]:
    """What would keep capsules from being run."""
    entities, known = Entities.of(domain), dict[str, str]()
    for name, settings in domain.capsules.items():
        client = domain.clients.get(settings.client)
        if client is None:
            kind = entities.kind(settings.client)
            expected = f"and `{settings.client}` is {kind}" if kind else hint(settings.client, entities.clients)
            yield Finding(("capsules", name, "client"), f"a client, {expected}", f"`{settings.client}`")
        elif len(client.node) != 1:
            what = "a client with one node: what came in which order is known of one only"
            yield Finding(("capsules", name, "client"), what)
        if known.setdefault(settings.client, name) != name:
            what = f"a client of its own, and `{known[settings.client]}` is this one"
            yield Finding(("capsules", name, "client"), what)
        wrong = list(mistakes(domain, name))
        for loc, what in wrong:
            yield Said(("capsules", name, *loc), what)
        if client is None or wrong or not client.advertises:
            continue
        made = compiled(domain, name).output.filter
        if not any(overlaps(one.filter, made) for one in client.advertises):
            what = f"`{settings.client}` advertises nothing on `{made}`, so that it could not publish there"
            yield Said(("capsules", name, "output", "topic"), what)
