"""The fit of a producer's and a consumer's contract: by which rule, in which situations, and why not."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import msgspec

from penstock.language.condition import Condition
from penstock.language.ranges.ranges import intersects
from penstock.model.quality import Catalogue, MetricKey
from penstock.model.topic import intersection, overlaps
from penstock.policy.contracts.contract import SHOWN, ConsumerContract, ContextWant, PrivacyRule, ProducerContract
from penstock.policy.contracts.contract_set import Contracts, effective_wants
from penstock.policy.contracts.degrade import Aggregate, caps
from penstock.policy.contracts.privacy import PrivacyPolicy, policy_in
from penstock.policy.contracts.release import PRIVACY
from penstock.policy.quality.needs import Constraint, Need, excludes, implies, range_of


class FitLevel(IntEnum):
    """The level of a fit; a greater value is better."""

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
    """The fit of one privacy rule, or of none where none is needed."""

    rule: str
    standing: FitLevel
    reasons: tuple[str, ...] = ()
    during: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()

    def is_on(self, open_situations: Collection[str]) -> bool:
        """Return whether the rule counts while exactly these situations are open."""
        return self.during <= set(open_situations) and not self.outside & set(open_situations)

    @property
    def when(self) -> str:
        """The situations in which it counts, in words; empty: all."""
        parts = [f"during {name}" for name in sorted(self.during)]
        return ", ".join(parts + [f"outside {name}" for name in sorted(self.outside)])


@dataclass(frozen=True, slots=True)
class WantFit:
    """The fit of one want of a consumer."""

    want: str
    topics: tuple[str, ...]
    """The common topics, as topic filters."""
    rules: tuple[RuleFit, ...]

    @property
    def standing(self) -> FitLevel:
        """The level in the best situations."""
        return max((rule.standing for rule in self.rules), default=FitLevel.UNRELATED)


@dataclass(frozen=True, slots=True)
class Fit:
    """The fit of a consumer's contract with a producer's."""

    producer: str
    consumer: str
    wants: tuple[WantFit, ...]

    @property
    def standing(self) -> FitLevel:
        """The level of the best want."""
        return max((want.standing for want in self.wants), default=FitLevel.UNRELATED)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All reasons, in sentences."""
        return tuple(
            f"want `{want.want}`" + (f", rule `{rule.rule}`" if rule.rule else "") + f": {reason}"
            for want in self.wants
            for rule in want.rules
            for reason in rule.reasons
        ) or ("they have no topic in common",)


class FitReport(msgspec.Struct, frozen=True):
    """One path from a producer's contract to a client's want, by one rule, and its result, as shown to people."""

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
    """The fit of a client, as a consumer by one of its contracts, with a producer's contract."""

    client: str
    fit: Fit


def way(client: str, fit: Fit, want: WantFit, rule: RuleFit) -> FitReport:
    """Return the report on one rule of a fit."""
    comes_to = rule.standing.name.lower()
    names = fit.producer, fit.consumer, client, want.want, want.topics, rule.rule
    return FitReport(*names, comes_to, rule.when, rule.reasons)


def match_all(contracts: Contracts) -> Iterator[ClientFit]:
    """Yield the fits of all pairs of a domain, with the attributes of each client; XACML decides event by event."""
    for producer in contracts.producers:
        own = policy_in(producer)
        policies = contracts.privacy if own is None else (*contracts.privacy, own)
        for consumer in contracts.consumers:
            for client in sorted(consumer.consumers):
                fit = match(producer, contracts.of(client, consumer), contracts.catalogue)
                yield ClientFit(client, _with_policies(fit, policies))
    for policy in contracts.privacy:
        for consumer in contracts.consumers:
            wants = tuple(_asked(policy, want) for want in effective_wants(consumer))
            for client in sorted(consumer.consumers):
                yield ClientFit(client, Fit(f"{PRIVACY}{policy.name}", consumer.name, wants))


def _asked(policy: PrivacyPolicy, want: ContextWant) -> WantFit:
    topics = intersection(policy.filter, want.filter)
    rules = (RuleFit(policy.name, FitLevel.DEPENDS, ("its policies are asked about each event",)),)
    return WantFit(want.name, topics, rules if topics else ())


def _with_policies(fit: Fit, policies: tuple[PrivacyPolicy, ...]) -> Fit:
    """Return the fit where policies in XACML must also permit."""
    wants = []
    for want in fit.wants:
        names = [policy.name for policy in policies if any(overlaps(policy.filter, topic) for topic in want.topics)]
        reason = tuple(f"privacy policy `{name}` is asked too" for name in names)
        rules = tuple(
            replace(rule, standing=min(rule.standing, FitLevel.DEPENDS), reasons=(*reason, *rule.reasons))
            if names
            else rule
            for rule in want.rules
        )
        wants.append(replace(want, rules=rules))
    return replace(fit, wants=tuple(wants))


def match(producer: ProducerContract, consumer: ConsumerContract, catalogue: Catalogue) -> Fit:
    """Return the fit of a consumer's contract with a producer's, for each want and each rule."""
    wants = tuple(_want(producer, consumer, want, catalogue) for want in effective_wants(consumer))
    return Fit(producer.name, consumer.name, wants)


def _want(producer: ProducerContract, consumer: ConsumerContract, want: ContextWant, catalogue: Catalogue) -> WantFit:
    topics = intersection(producer.filter, want.filter)
    if not topics:
        return WantFit(want.name, (), ())
    if not _may_meet(producer.condition, want.condition) and not any(rule.degrade for rule in producer.rules):
        return WantFit(want.name, topics, (RuleFit("", FitLevel.FAILS, ("no content is as both ask",)),))
    if not producer.rules:
        standing, reasons = _quality(producer.guarantees, want.needs)
        return WantFit(
            want.name,
            topics,
            (RuleFit("", standing, (*(() if producer.xacml else ("no privacy requirement",)), *reasons)),),
        )
    rules = (_rule(producer, rule, consumer, want, catalogue) for rule in producer.rules)
    return WantFit(want.name, topics, tuple(rules))


def _may_meet(condition: Condition | None, other: Condition | None) -> bool:
    return condition is None or other is None or intersects(condition.ranges, other.ranges) is not False


def _rule(
    producer: ProducerContract, rule: PrivacyRule, consumer: ConsumerContract, want: ContextWant, catalogue: Catalogue
) -> RuleFit:
    attributes = consumer.request_attributes()
    wrong = [(need.name, reason) for need in rule.commitments() if (reason := need.why_not(attributes))]
    shown = [name.attribute for name, _ in wrong if name not in attributes and name.attribute in SHOWN]
    refused = tuple(reason for name, reason in wrong if name.attribute not in shown)
    left = caps(rule.degrade, catalogue)
    lost = tuple(
        f"the rule takes away quality `{need.key}`, which is needed"
        for need in (*want.needs, *rule.quality, *rule.guarantees)
        if isinstance(need, Need) and _is_lost(need, rule, left, catalogue)
    )
    promised = (
        *(need for need in producer.guarantees if _survives(need, rule, left, catalogue)),
        *rule.guarantees,
        *(need for need in left.values() if need is not None),
    )
    standing, reasons = _quality((*promised, *rule.quality), want.needs)
    only = tuple(f"only for events with `{need}`" for need in rule.quality if not implies(promised, need))
    only += tuple(f"only if it shows such a `{name}` here: other nodes than its own do not know it" for name in shown)
    if refused or lost:
        standing, reasons = FitLevel.FAILS, (*refused, *lost, *(reasons if standing is FitLevel.FAILS else ()))
    elif standing is not FitLevel.FAILS and only:
        standing, reasons = FitLevel.DEPENDS, (*only, *reasons)
    elif standing is FitLevel.FITS:
        reasons = ("all that is asked is promised",)
    return RuleFit(rule.id, standing, reasons, rule.during, rule.outside)


def _is_lost(need: Need, rule: PrivacyRule, left: Mapping[MetricKey, Need | None], catalogue: Catalogue) -> bool:
    """Return whether a metric is unknown after the rule; an undefined metric is, once anything is degraded."""
    return bool(rule.degrade) and (catalogue.find(need.key) is None or left.get(need.key, need) is None)


def _survives(need: Constraint, rule: PrivacyRule, left: Mapping[MetricKey, Need | None], catalogue: Catalogue) -> bool:
    """Return whether a guarantee on events still holds after the degradations of a rule."""
    if not rule.degrade:
        return True
    if any(isinstance(degradation, Aggregate) for degradation in rule.degrade) or not isinstance(need, Need):
        return False
    return catalogue.find(need.key) is not None and need.key not in left


def _quality(constraints: tuple[Constraint, ...], needs: tuple[Constraint, ...]) -> tuple[FitLevel, tuple[str, ...]]:
    reasons = [f"nothing is as all that is said of `{key}`" for key in _contradictions(constraints)]
    standing = FitLevel.FAILS if reasons else FitLevel.FITS
    for need in needs:
        if implies(constraints, need):
            continue
        about = [
            constraint
            for constraint in constraints
            if isinstance(constraint, Need) and isinstance(need, Need) and constraint.key == need.key
        ]
        known = " and ".join(f"`{constraint}`" for constraint in about) or "nothing about it"
        if excludes(constraints, need):
            standing = FitLevel.FAILS
            reasons.append(f"`{need}` is needed, and there is at best {known}")
        else:
            standing = min(standing, FitLevel.DEPENDS)
            reasons.append(f"`{need}` is needed, and promised is {known}: each event is judged by itself")
    return standing, tuple(reasons)


def _contradictions(constraints: tuple[Constraint, ...]) -> list[MetricKey]:
    keys = dict.fromkeys(constraint.key for constraint in constraints if isinstance(constraint, Need))
    ranges = ((key, range_of(constraints, key)) for key in keys)
    return [key for key, left in ranges if left is not None and left.is_empty]
