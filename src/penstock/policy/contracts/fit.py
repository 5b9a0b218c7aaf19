"""Whether a producer's and a consumer's contract fit, by which rule, in which situations, and why not."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import msgspec

from penstock.language.condition import Condition
from penstock.language.ranges.ranges import intersects
from penstock.model.quality import Catalogue, MetricKey
from penstock.model.topic import intersection, overlaps
from penstock.policy.contracts.contract import (
    SHOWN,
    ConsumerContract,
    ContextWant,
    PrivacyRule,
    ProducerContract,
    commitments,
    request_attributes,
)
from penstock.policy.contracts.contract_set import Contracts, said_wants
from penstock.policy.contracts.degrade import Aggregate, caps
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.contracts.release import PRIVACY
from penstock.policy.quality.needs import Constraint, Need, excludes, implies, range_of


class FitLevel(IntEnum):
    """How far a pair fits; the better, the greater."""

    UNRELATED = 0
    """They have no topic in common."""
    FAILS = 1
    """Nothing is ever released."""
    DEPENDS = 2
    """Events are judged by their quality, one by one."""
    FITS = 3
    """All that the producer guarantees is as the consumer needs it."""


@dataclass(frozen=True, slots=True)
class RuleFit:
    """How far one way fits: a privacy rule, or none where none is asked for."""

    rule: str
    standing: FitLevel
    reasons: tuple[str, ...] = ()
    during: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()

    def is_on(self, open_situations: Collection[str]) -> bool:
        """Return whether the rule counts while just these situations are open."""
        return self.during <= set(open_situations) and not self.outside & set(open_situations)

    @property
    def when(self) -> str:
        """The situations in which it counts, in words; empty: in all."""
        parts = [f"during {name}" for name in sorted(self.during)]
        return ", ".join(parts + [f"outside {name}" for name in sorted(self.outside)])


@dataclass(frozen=True, slots=True)
class WantFit:
    """How far one want of a consumer is met."""

    want: str
    topics: tuple[str, ...]
    """What both are about, as topic filters."""
    rules: tuple[RuleFit, ...]

    @property
    def standing(self) -> FitLevel:
        """In the situations that are best for it."""
        return max((rule.standing for rule in self.rules), default=FitLevel.UNRELATED)


@dataclass(frozen=True, slots=True)
class Fit:
    """How far a consumer's contract fits a producer's."""

    producer: str
    consumer: str
    wants: tuple[WantFit, ...]

    @property
    def standing(self) -> FitLevel:
        """That of the want that is met best."""
        return max((want.standing for want in self.wants), default=FitLevel.UNRELATED)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that was found, in sentences."""
        return tuple(
            f"want `{want.want}`" + (f", rule `{rule.rule}`" if rule.rule else "") + f": {reason}"
            for want in self.wants
            for rule in want.rules
            for reason in rule.reasons
        ) or ("they have no topic in common",)


class FitReport(msgspec.Struct, frozen=True):
    """One way from a producer's contract to a client's want, by one rule, and what it comes to: as people are told."""

    producer: str
    consumer: str
    client: str
    want: str
    topics: tuple[str, ...]
    rule: str
    comes_to: str
    when: str
    why: tuple[str, ...]


class ClientFit(NamedTuple):
    """How far a client, as a consumer by one of its contracts, fits a producer's contract."""

    client: str
    fit: Fit


def way(client: str, fit: Fit, want: WantFit, rule: RuleFit) -> FitReport:
    """One of the ways of a pair."""
    comes_to = rule.standing.name.lower()
    names = fit.producer, fit.consumer, client, want.want, want.topics, rule.rule
    return FitReport(*names, comes_to, rule.when, rule.reasons)


def match_all(contracts: Contracts) -> Iterator[ClientFit]:
    """Yield all pairs of a domain. What is known of a client counts, so its attributes may tell it from others.
    Policies in XACML are producers' contracts here, which decide event by event.
    """
    for producer in contracts.producers:
        for consumer in contracts.consumers:
            for client in sorted(consumer.consumers):
                fit = match(producer, contracts.of(client, consumer), contracts.catalogue)
                yield ClientFit(client, _with_policies(fit, contracts.privacy))
    for policy in contracts.privacy:
        for consumer in contracts.consumers:
            wants = tuple(_asked(policy, want) for want in said_wants(consumer))
            for client in sorted(consumer.consumers):
                yield ClientFit(client, Fit(f"{PRIVACY}{policy.name}", consumer.name, wants))


def _asked(policy: PrivacyPolicy, want: ContextWant) -> WantFit:
    topics = intersection(policy.filter, want.filter)
    rules = (RuleFit(policy.name, FitLevel.DEPENDS, ("its policies are asked about each event",)),)
    return WantFit(want.name, topics, rules if topics else ())


def _with_policies(fit: Fit, policies: tuple[PrivacyPolicy, ...]) -> Fit:
    """What contracts come to where policies in XACML are asked too, and may refuse."""
    wants = []
    for want in fit.wants:
        both = [one.name for one in policies if any(overlaps(one.filter, topic) for topic in want.topics)]
        reason = tuple(f"privacy policy `{name}` is asked too" for name in both)
        rules = tuple(
            replace(one, standing=min(one.standing, FitLevel.DEPENDS), reasons=(*reason, *one.reasons)) if both else one
            for one in want.rules
        )
        wants.append(replace(want, rules=rules))
    return replace(fit, wants=tuple(wants))


def match(producer: ProducerContract, consumer: ConsumerContract, catalogue: Catalogue) -> Fit:
    """How far a consumer's contract fits a producer's, for each of its wants and each of the rules."""
    return Fit(
        producer.name, consumer.name, tuple(_want(producer, consumer, want, catalogue) for want in said_wants(consumer))
    )


def _want(producer: ProducerContract, consumer: ConsumerContract, want: ContextWant, catalogue: Catalogue) -> WantFit:
    topics = intersection(producer.filter, want.filter)
    if not topics:
        return WantFit(want.name, (), ())
    if not _may_meet(producer.condition, want.condition) and not any(rule.degrade for rule in producer.rules):
        return WantFit(want.name, topics, (RuleFit("", FitLevel.FAILS, ("no content is as both ask",)),))
    if not producer.rules:
        standing, reasons = _quality(producer.guarantees, want.needs)
        return WantFit(want.name, topics, (RuleFit("", standing, ("no privacy requirement", *reasons)),))
    rules = (_rule(producer, rule, consumer, want, catalogue) for rule in producer.rules)
    return WantFit(want.name, topics, tuple(rules))


def _may_meet(one: Condition | None, other: Condition | None) -> bool:
    return one is None or other is None or intersects(one.ranges, other.ranges) is not False


def _rule(
    producer: ProducerContract, rule: PrivacyRule, consumer: ConsumerContract, want: ContextWant, catalogue: Catalogue
) -> RuleFit:
    asked = request_attributes(consumer)
    wrong = [(one, reason) for one, reason in ((one, one.why_not(asked)) for one in commitments(rule)) if reason]
    may_show = [one.name.attribute for one, _ in wrong if one.name not in asked and one.name.attribute in SHOWN]
    refused = tuple(reason for one, reason in wrong if one.name.attribute not in may_show)
    left = caps(rule.degrade, catalogue)
    lost = tuple(
        f"the rule takes away quality `{need.key}`, which is needed"
        for need in (*want.needs, *rule.quality, *rule.guarantees)
        if isinstance(need, Need) and _is_lost(need, rule, left, catalogue)
    )
    promised = (
        *(one for one in producer.guarantees if _survives(one, rule, left, catalogue)),
        *rule.guarantees,
        *(need for need in left.values() if need is not None),
    )
    standing, reasons = _quality((*promised, *rule.quality), want.needs)
    only = tuple(f"only for events with `{one}`" for one in rule.quality if not implies(promised, one))
    only += tuple(
        f"only if it shows such a `{name}` here: other nodes than its own do not know it" for name in may_show
    )
    if refused or lost:
        standing, reasons = FitLevel.FAILS, (*refused, *lost, *(reasons if standing is FitLevel.FAILS else ()))
    elif standing is not FitLevel.FAILS and only:
        standing, reasons = FitLevel.DEPENDS, (*only, *reasons)
    elif standing is FitLevel.FITS:
        reasons = ("all that is asked is promised",)
    return RuleFit(rule.id, standing, reasons, rule.during, rule.outside)


def _is_lost(need: Need, rule: PrivacyRule, left: Mapping[MetricKey, Need | None], catalogue: Catalogue) -> bool:
    """Return whether nothing is left of a metric; of one that nobody defines nothing is, once anything is degraded."""
    return bool(rule.degrade) and (catalogue.find(need.key) is None or left.get(need.key, need) is None)


def _survives(
    guarantee: Constraint, rule: PrivacyRule, left: Mapping[MetricKey, Need | None], catalogue: Catalogue
) -> bool:
    """Return whether what is guaranteed of events as they come holds of what a rule makes of them."""
    if not rule.degrade:
        return True
    if any(isinstance(one, Aggregate) for one in rule.degrade) or not isinstance(guarantee, Need):
        return False
    return catalogue.find(guarantee.key) is not None and guarantee.key not in left


def _quality(given: tuple[Constraint, ...], needs: tuple[Constraint, ...]) -> tuple[FitLevel, tuple[str, ...]]:
    reasons = [f"nothing is as all that is said of `{key}`" for key in _contradictions(given)]
    standing = FitLevel.FAILS if reasons else FitLevel.FITS
    for need in needs:
        if implies(given, need):
            continue
        about = [one for one in given if isinstance(one, Need) and isinstance(need, Need) and one.key == need.key]
        said = " and ".join(f"`{one}`" for one in about) or "nothing about it"
        if excludes(given, need):
            standing = FitLevel.FAILS
            reasons.append(f"`{need}` is needed, and there is at best {said}")
        else:
            standing = min(standing, FitLevel.DEPENDS)
            reasons.append(f"`{need}` is needed, and promised is {said}: each event is judged by itself")
    return standing, tuple(reasons)


def _contradictions(given: tuple[Constraint, ...]) -> list[MetricKey]:
    keys = dict.fromkeys(one.key for one in given if isinstance(one, Need))
    found = ((key, range_of(given, key)) for key in keys)
    return [key for key, left in found if left is not None and left.is_empty]
