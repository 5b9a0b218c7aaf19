"""Contract rules as policies in XACML (contracts §2.2): what a producer's privacy requirements are registered as.

A contract becomes a set of policies, one for each rule in their order, of which the first that applies counts; the last
one denies. The rest of a rule becomes obligations. Attributes have the names by which nodes give them (docs/xacml.md);
those of quality are of what the rule leaves of the event.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from penstock.model.errors import PolicyError
from penstock.policy.contracts.abac import AttributeCategory, AttributeName, Compare, Relation
from penstock.policy.contracts.contract import ACTION, RETAIN, ConsumerContract, PrivacyRule, ProducerContract
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.contracts.privacy import PrivacyPolicy, ReleaseRequest, quality_id
from penstock.policy.quality.needs import Constraint, Need
from penstock.policy.xacml import Pdp, names
from penstock.policy.xacml.evaluation.algorithms import algorithm_named
from penstock.policy.xacml.names import DOUBLE, FUNCTION_1, FUNCTION_3, INTEGER, SHORT_CATEGORIES, STRING
from penstock.policy.xacml.tree import (
    Apply,
    Assignment,
    Designator,
    DutyExpression,
    Expression,
    FunctionName,
    LiteralValue,
    XacmlEffect,
    XacmlPolicy,
    XacmlPolicySet,
    XacmlRule,
)

_FIRST = algorithm_named("first-applicable", "policy")
_OVERRIDES = algorithm_named("permit-overrides", "rule")
SITUATION = AttributeName(AttributeCategory.ENVIRONMENT, "situation")
"""The situations that are open."""
_SAME_OR: dict[Relation, str] = {
    Relation.AT_LEAST: "less-than-or-equal",
    Relation.AT_MOST: "greater-than-or-equal",
    Relation.ABOVE: "less-than",
    Relation.BELOW: "greater-than",
}
"""The functions that compare a bound with a number: the bound comes first."""


def to_xacml(contract: ProducerContract) -> XacmlPolicySet:
    """Return a producer's contract as a set of policies; raise `PolicyError` if XACML cannot say it."""
    if not contract.rules:
        raise PolicyError(f"contract `{contract.name}` has no privacy requirement")
    policies = [_policy(f"{contract.name}.{rule.id}", rule, _conditions(rule)) for rule in contract.rules]
    others = XacmlPolicy(f"{contract.name}: others", "1.0", _OVERRIDES, rules=(XacmlRule("deny", XacmlEffect.DENY),))
    return XacmlPolicySet(contract.name, "1.0", _FIRST, children=(*policies, others))


def permits(rule: PrivacyRule, consumer: ConsumerContract) -> bool:
    """Return whether a consumer's contract meets what a rule asks of consumers; events and times are not asked."""
    return _commitments(rule).permits(ReleaseRequest("", (), (consumer,), "", "", ()))


@lru_cache(maxsize=4_096)
def _commitments(rule: PrivacyRule) -> PrivacyPolicy:
    return PrivacyPolicy(rule.id, "#", Pdp([_policy(rule.id, rule, rule.commitments())]))


def _policy(id: str, rule: PrivacyRule, conditions: Iterable[Compare]) -> XacmlPolicy:
    expressions = tuple(map(_expression, conditions))
    permit = XacmlRule(
        rule.id, XacmlEffect.PERMIT, condition=Apply(f"{FUNCTION_1}and", expressions), obligations=tuple(_duties(rule))
    )
    return XacmlPolicy(id, "1.0", _OVERRIDES, rules=(permit,))


def _conditions(rule: PrivacyRule) -> Iterator[Compare]:
    yield from rule.commitments()
    if rule.during:
        yield Compare(SITUATION, Relation.ALL_OF, rule.during)
    if rule.outside:
        yield Compare(SITUATION, Relation.NONE_OF, rule.outside)
    is_mean = any(isinstance(degradation, Aggregate) for degradation in rule.degrade)
    constraints: tuple[Constraint, ...] = rule.quality if is_mean else (*rule.quality, *rule.guarantees)
    for need in constraints:
        if not isinstance(need, Need):
            raise PolicyError(f"rule `{rule.id}`: XACML cannot ask for the guarantee `{need}`")
        name = AttributeName(AttributeCategory.RESOURCE, quality_id(need.key))
        yield Compare(name, Relation(need.relation or Relation.KNOWN), number=need.bound)


def _expression(asked: Compare) -> Expression:
    """Return a condition on an attribute. What is not known of it never permits, and never fails."""
    is_text = bool(asked.texts)
    id = names.ACTION_ID if asked.name == ACTION else asked.name.attribute
    bag = Designator(SHORT_CATEGORIES[asked.name.category], id, STRING if is_text else DOUBLE, False)
    texts = Apply(f"{FUNCTION_1}string-bag", tuple(LiteralValue(STRING, text) for text in sorted(asked.texts)))
    match asked.relation:
        case Relation.ANY_OF:
            return Apply(f"{FUNCTION_1}string-at-least-one-member-of", (bag, texts))
        case Relation.NONE_OF:
            return Apply(f"{FUNCTION_1}not", (Apply(f"{FUNCTION_1}string-at-least-one-member-of", (bag, texts)),))
        case Relation.ALL_OF:
            return Apply(f"{FUNCTION_1}string-subset", (texts, bag))
        case Relation.ONLY:
            return Apply(f"{FUNCTION_1}and", (_is_there(bag), Apply(f"{FUNCTION_1}string-subset", (bag, texts))))
        case Relation.KNOWN:
            return _is_there(bag)
        case relation:
            compare = FunctionName(f"{FUNCTION_1}double-{_SAME_OR[relation]}")
            return Apply(f"{FUNCTION_3}any-of", (compare, LiteralValue(DOUBLE, float(asked.number)), bag))


def _is_there(bag: Designator) -> Expression:
    kind = "string" if bag.type == STRING else "double"
    size = Apply(f"{FUNCTION_1}{kind}-bag-size", (bag,))
    return Apply(f"{FUNCTION_1}integer-greater-than", (size, LiteralValue(INTEGER, 0)))


def _duties(rule: PrivacyRule) -> Iterator[DutyExpression]:
    if rule.retention is not None:
        yield _duty(RETAIN, seconds=rule.retention)
    yield from map(_degradation, rule.degrade)


def _degradation(degradation: Degradation) -> DutyExpression:
    match degradation:
        case Grid(metres, latitude, longitude, span, radius):
            return _duty("grid", metres=metres, latitude=latitude, longitude=longitude, span=span, radius=radius)
        case Step(attribute, size, span):
            return _duty("step", attribute=attribute, size=size, span=span)
        case Keep(attributes):
            return _duty("keep", attribute=attributes)
        case Delay(seconds):
            return _duty("delay", seconds=seconds)
        case Aggregate(seconds, attributes, least, events):
            return _duty("aggregate", seconds=seconds, attribute=attributes, least=least, events=events)


def _duty(id: str, **parameters: float | str | tuple[str, ...] | None) -> DutyExpression:
    assignments = [
        Assignment(name, LiteralValue(STRING, value) if isinstance(value, str) else LiteralValue(DOUBLE, float(value)))
        for name, given in parameters.items()
        for value in (given if isinstance(given, tuple) else (given,))
        if value is not None
    ]
    return DutyExpression(id, XacmlEffect.PERMIT, tuple(assignments))
