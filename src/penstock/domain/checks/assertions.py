"""Checks of assertions: that they make sense, not whether they hold."""

from collections.abc import Iterator

from penstock.domain.problems import Entities, Loc, WrongValue
from penstock.domain.schema.domain import Domain
from penstock.policy.monitors.protocol import UNLISTED


def check(domain: Domain) -> Iterator[WrongValue]:
    """Find mistakes in the assertions of a domain without patterns."""
    entities = Entities.of(domain)
    seen = dict[tuple[object, ...], tuple[str, int]]()
    for index, claim in enumerate(domain.assertions):
        key = "never" if claim.never is not None else "can"
        loc: Loc = ("assertions", index, key)
        unknown = [end for end in claim.flow if end not in entities.all and end != UNLISTED]
        wrong = [WrongValue(loc, entities.not_an_entity(end), f"`{end}`") for end in unknown]
        if claim.flow[0] == claim.flow[1]:
            wrong = [WrongValue(loc, "two different entities")]
        yield from wrong[:1]
        other, first = seen.setdefault((*claim.flow, claim.on, claim.routes), (key, index))
        if first != index and not wrong:
            again = "is the same" if other == key else "is the contrary"
            yield WrongValue(loc, f"another claim: `assertions[{first}]` {again}")
