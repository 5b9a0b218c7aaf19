"""Contracts written out, as plain mappings that `contract_text.py` reads: to show them, and to tell other nodes.

A global advertisement takes its producer's contract with it to other nodes, a global subscription what its consumer
guarantees.
"""

from typing import Any

from penstock.policy.contracts.contract import ConsumerContract, ContextWant, PrivacyRule, ProducerContract, Subject
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.quality.needs import Constraint, Need

Plain = dict[str, Any]


def plain_producer(contract: ProducerContract) -> Plain:
    """Return a producer's contract, without its name; JSON can say it."""
    return _said(
        producer=sorted(contract.producers),
        filter=contract.filter,
        where=None if contract.condition is None else contract.condition.text,
        scope=contract.scope,
        guarantees=_constraints(contract.guarantees),
        rules={rule.id: plain_rule(rule) for rule in contract.rules},
    )


def plain_consumer(contract: ConsumerContract) -> Plain:
    """Return a consumer's contract, without its name; JSON can say it."""
    return _said(
        consumer=sorted(contract.consumers),
        purpose=sorted(contract.purposes),
        situation=sorted(contract.situations),
        retention=contract.retention,
        attributes=_subject(contract.attributes),
    ) | {"wants": {want.name: _want(want) for want in contract.wants}}


def plain_rule(rule: PrivacyRule) -> Plain:
    """Return a privacy rule, without its id."""
    outside = [{"not": sorted(rule.outside)}] if rule.outside else []
    return _said(
        purpose=None if rule.purposes is None else sorted(rule.purposes),
        visible_to=_subject(rule.visibility),
        retention=rule.retention,
        situation=[*sorted(rule.during), *outside],
        quality=_constraints(rule.quality),
        degrade=[plain_degradation(one) for one in rule.degrade],
        guarantees=_constraints(rule.guarantees),
    )


def plain_degradation(one: Degradation) -> Plain:
    """Return a degradation, by its name."""
    match one:
        case Grid():
            place = {"metres": one.metres, "latitude": one.latitude, "longitude": one.longitude}
            return {"grid": place | _said(span=one.span)}
        case Step():
            return {"step": {"attribute": one.attribute, "size": one.size} | _said(span=one.span)}
        case Keep():
            return {"keep": list(one.attributes)}
        case Delay():
            return {"delay": one.seconds}
        case Aggregate():
            return {"aggregate": {"seconds": one.seconds, "attributes": list(one.attributes), "least": one.least}}


def _want(want: ContextWant) -> Plain:
    condition = None if want.condition is None else want.condition.text
    return _said(filter=want.filter, where=condition, needs=_constraints(want.needs), scope=want.scope)


def _constraints(constraints: tuple[Constraint, ...]) -> list[Any]:
    return [str(one) if isinstance(one, Need) else {"xpath": one.expression} for one in constraints]


def _subject(subject: Subject) -> dict[str, list[str]]:
    return {name: sorted(values) for name, values in subject}


def _said(**parts: Any) -> Plain:
    """Return those parts that say something."""
    return {name: part for name, part in parts.items() if part is not None and part not in ([], {})}
