"""Advertisements: statements of a producer on what it will publish."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from penstock.language.condition import Condition
from penstock.policy.statements.statement import Policy

Scope = Literal["global", "local"]
"""The scope of an advertisement or subscription (contracts §2.1): `global` if all nodes are told of it, whatever their
links say, `local` if none is. Without one, each link's `forward` says whether it is told.
"""


@dataclass(frozen=True, slots=True)
class ProducerAdvertisement:
    """The events that a producer will publish: on these topics, with content that satisfies the condition, if any."""

    name: str
    """A name, unique among the producer's advertisements."""
    filter: str
    condition: Condition | None = None
    scope: Scope | None = None
    policy: Policy | None = None
    """The policy on messages that match it."""


OWN, GIVEN = "own advertisement", "advertisement"
"""The origin of an advertisement, as verdicts name it: the producer itself, or the domain."""


class AdvertisementSet(NamedTuple):
    """The advertisements of a producer of one origin; what it publishes must match one of them."""

    rule: str
    """`OWN` or `GIVEN`."""
    advertisements: tuple[ProducerAdvertisement, ...]


def claims(
    own: Iterable[ProducerAdvertisement], assigned: Iterable[ProducerAdvertisement]
) -> tuple[AdvertisementSet, ...]:
    """Return the advertisements that bind a producer: its own if it has any, and those that the domain makes for it.

    Its own come first, so that a verdict by the domain's means that its own were kept.
    """
    sets = AdvertisementSet(OWN, tuple(own)), AdvertisementSet(GIVEN, tuple(assigned))
    return tuple(claim for claim in sets if claim.advertisements)
