"""Advertisements: what a producer says that it will publish."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from penstock.language.condition import Condition
from penstock.policy.statements.statement import Policy

Scope = Literal["global", "local"]
"""True if other nodes are told of an advertisement or subscription."""


@dataclass(frozen=True, slots=True)
class ProducerAdvertisement:
    """What its producer will publish: events on these topics whose content satisfies the condition (None: any)."""

    name: str
    """Tells it from the producer's other advertisements."""
    filter: str
    condition: Condition | None = None
    scope: Scope = "global"
    policy: Policy | None = None
    """What is done with messages that match it."""


OWN, GIVEN = "own advertisement", "advertisement"
"""Who binds a producer, as verdicts name it: the producer itself, or the domain."""


class AdvertisementSet(NamedTuple):
    """Advertisements of a producer that one side has made; what it publishes must be as one of them says."""

    rule: str
    """`OWN` or `GIVEN`."""
    advertisements: tuple[ProducerAdvertisement, ...]


def claims(
    own: Iterable[ProducerAdvertisement], given: Iterable[ProducerAdvertisement]
) -> tuple[AdvertisementSet, ...]:
    """What binds a producer: its own advertisements if it has any, and those that the domain makes for it.

    Its own come first, so that a verdict by the domain's says that its own were kept.
    """
    both = AdvertisementSet(OWN, tuple(own)), AdvertisementSet(GIVEN, tuple(given))
    return tuple(claim for claim in both if claim.advertisements)
