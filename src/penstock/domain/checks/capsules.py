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
        if settings.runs == "node" and domain.tokens is not None and domain.tokens.required:
            what = "`spark`: the client of a capsule in a node shows no token, and this domain requires one"
            yield WrongValue(("capsules", name, "runs"), what)
        wrong = list(mistakes(domain, name))
        for loc, what in wrong:
            yield Remark(("capsules", name, *loc), what)
        if not wrong and name in _circle(domain, name):
            what = "what it makes at once comes back to it, by capsules without windows: it would never end"
            yield Remark(("capsules", name, "output", "topic"), what)
        if client is None or wrong or not client.advertises:
            continue
        filter = compiled(domain, name).output.filter
        if not any(overlaps(advertised.filter, filter) for advertised in client.advertises):
            what = f"`{settings.client}` advertises nothing on `{filter}`, so it could not publish there"
            yield Remark(("capsules", name, "output", "topic"), what)


def _circle(domain: Domain, name: str) -> set[str]:
    """Return the capsules without windows that what a capsule makes comes to, at once."""
    reached: set[str] = set()
    waiting = [name] if domain.capsules[name].window is None else []
    while waiting:
        into = domain.capsules[waiting.pop()].output.filter
        for other, settings in domain.capsules.items():
            if other not in reached and settings.window is None and any(overlaps(one, into) for one in settings.topics):
                reached.add(other)
                waiting.append(other)
    return reached
