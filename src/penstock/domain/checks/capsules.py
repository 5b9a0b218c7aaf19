"""Checks of capsules: that their clients exist and may publish the results."""

from collections.abc import Iterator

from penstock.domain.compile.capsules import compiled, mistakes
from penstock.domain.problems import Entities, Mistake, Remark, WrongValue
from penstock.domain.schema.domain import Domain
from penstock.model.topic import overlaps


def check(domain: Domain) -> Iterator[Mistake]:
    """Find mistakes that would keep capsules from running."""
    entities, capsule_of = Entities.of(domain), dict[str, str]()
    for name, settings in domain.capsules.items():
        client = domain.clients.get(settings.client)
        if client is None:
            expected = entities.not_a_client(settings.client)
            yield WrongValue(("capsules", name, "client"), expected, f"`{settings.client}`")
        elif len(client.node) != 1:
            what = "a client with one node: what came in which order is known of one only"
            yield WrongValue(("capsules", name, "client"), what)
        if capsule_of.setdefault(settings.client, name) != name:
            what = f"a client of its own, and `{capsule_of[settings.client]}` is this one"
            yield WrongValue(("capsules", name, "client"), what)
        wrong = list(mistakes(domain, name))
        for loc, what in wrong:
            yield Remark(("capsules", name, *loc), what)
        if client is None or wrong or not client.advertises:
            continue
        filter = compiled(domain, name).output.filter
        if not any(overlaps(advertised.filter, filter) for advertised in client.advertises):
            what = f"`{settings.client}` advertises nothing on `{filter}`, so it could not publish there"
            yield Remark(("capsules", name, "output", "topic"), what)
