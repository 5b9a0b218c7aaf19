"""Contracts as ABAC policies (contracts §2.3, Listing 2): the reference that says what release means by them.

The first rule that permits does so, with its obligations; without one, it is denied. What is not known of an attribute
never permits.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.model.quality import Quality
from penstock.policy.contracts.abac import AttributeCategory, AttributeName, Attributes, Compare, Relation
from penstock.policy.contracts.contract import RETAIN, ConsumerContract, PrivacyRule, ProducerContract
from penstock.policy.contracts.degrade import Aggregate, Delay, Grid, Keep, Step
from penstock.policy.contracts.fit import FitLevel, WantFit
from penstock.policy.quality.needs import Need

SITUATION = AttributeName(AttributeCategory.ENVIRONMENT, "situation")
"""Those that are open."""
CONTRACT = AttributeName(AttributeCategory.RESOURCE, "contract")


@dataclass(frozen=True, slots=True)
class Obligation:
    """What must be done with what is permitted, by its name and its arguments as text or number."""

    name: str
    arguments: tuple[tuple[str, str | float], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Permits if all of its conditions hold."""

    id: str
    conditions: tuple[Compare, ...]
    obligations: tuple[Obligation, ...] = ()

    def why_not(self, attributes: Attributes) -> tuple[str, ...]:
        reasons = (one.why_not(attributes) for one in self.conditions)
        return tuple(reason for reason in reasons if reason)


@dataclass(frozen=True, slots=True)
class AbacPolicy:
    """The rules about some resources, in order; the first that permits counts, and all else is denied."""

    id: str
    target: tuple[Compare, ...]
    """What it is about: on all else it says nothing."""
    rules: tuple[Rule, ...]


class Ruling(NamedTuple):
    """What a policy says of a request."""

    rule: Rule | None
    """The one that permits."""
    reasons: tuple[str, ...] = ()
    """Why none does."""


def decide(policy: AbacPolicy, attributes: Attributes) -> Ruling | None:
    """What a policy says of a request; None if it is not about it."""
    if any(one.why_not(attributes) for one in policy.target):
        return None
    reasons: list[str] = []
    for rule in policy.rules:
        wrong = rule.why_not(attributes)
        if not wrong:
            return Ruling(rule)
        reasons += [f"rule `{rule.id}`: {reason}" for reason in wrong]
    return Ruling(None, tuple(reasons) or ("no rule permits anything",))


def abac_policy(contract: ProducerContract) -> AbacPolicy:
    """The privacy requirements of a producer as an ABAC policy; raises `PolicyError` if there are none."""
    if not contract.rules:
        raise PolicyError(f"contract `{contract.name}` has no privacy requirement")
    target = (Compare(CONTRACT, Relation.ANY_OF, frozenset({contract.name})),)
    rules = (Rule(rule.id, tuple(_conditions(rule)), tuple(_obligations(rule))) for rule in contract.rules)
    return AbacPolicy(contract.name, target, tuple(rules))


def abac_attributes(
    contract: ConsumerContract, about: str, open_situations: Collection[str], quality: Quality
) -> Attributes:
    """What a request for an event of a producer's contract says, of this quality, in these situations."""
    return {
        **contract.request_attributes(),
        SITUATION: frozenset(open_situations),
        CONTRACT: frozenset({about}),
        **{quality_name(Need(one.key)): one.value for one in quality},
    }


def quality_name(need: Need) -> AttributeName:
    """The attribute that a quality metric of an event is."""
    return AttributeName(AttributeCategory.RESOURCE, f"quality:{need.key}")


def _conditions(rule: PrivacyRule) -> Iterator[Compare]:
    yield from rule.commitments()
    if rule.during:
        yield Compare(SITUATION, Relation.ALL_OF, rule.during)
    if rule.outside:
        yield Compare(SITUATION, Relation.NONE_OF, rule.outside)
    for need in rule.quality:
        yield Compare(quality_name(need), Relation(need.relation or Relation.KNOWN), number=need.bound)


def _obligations(rule: PrivacyRule) -> Iterator[Obligation]:
    if rule.retention is not None:
        yield Obligation(RETAIN, (("seconds", rule.retention),))
    for one in rule.degrade:
        match one:
            case Grid():
                place = (("latitude", one.latitude), ("longitude", one.longitude))
                yield Obligation("grid", (*place, ("metres", one.metres), *_span(one.span)))
            case Step():
                yield Obligation("step", (("attribute", one.attribute), ("size", one.size), *_span(one.span)))
            case Keep():
                yield Obligation("keep", tuple(("attribute", name) for name in one.attributes))
            case Delay():
                yield Obligation("delay", (("seconds", one.seconds),))
            case Aggregate():
                names = tuple(("attribute", name) for name in one.attributes)
                yield Obligation("aggregate", (("seconds", one.seconds), ("least", float(one.least)), *names))


def _span(span: float | None) -> tuple[tuple[str, float], ...]:
    return () if span is None else (("span", span),)


def standing_in(want: WantFit, open_situations: Collection[str]) -> FitLevel:
    """How far a want is met while just these situations are open."""
    standings = [rule.standing for rule in want.rules if rule.is_on(open_situations)]
    return max(standings, default=FitLevel.FAILS if want.topics else FitLevel.UNRELATED)
