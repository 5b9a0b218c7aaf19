"""Contracts as plain mappings that `text_form.py` reads: to show them, and to send them to other nodes.

A global advertisement takes its producer's contract with it to other nodes, a global subscription what its consumer
guarantees.
"""

from dataclasses import asdict
from typing import Any

from penstock.policy.contracts.contract import ConsumerContract, ContextWant, PrivacyRule, ProducerContract, Subject
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.quality.needs import Constraint, Need

Plain = dict[str, Any]


def plain_producer(contract: ProducerContract) -> Plain:
    """Return a producer's contract as JSON values, without its name."""
    return _present(
        producer=sorted(contract.producers),
        filter=contract.filter,
        where=None if contract.condition is None else contract.condition.text,
        scope=contract.scope,
        guarantees=_constraints(contract.guarantees),
        rules={rule.id: plain_rule(rule) for rule in contract.rules},
        xacml=contract.xacml or None,
    )


def plain_consumer(contract: ConsumerContract) -> Plain:
    """Return a consumer's contract as JSON values, without its name."""
    return _present(
        consumer=sorted(contract.consumers),
        purpose=sorted(contract.purposes),
        situation=sorted(contract.situations),
        retention=contract.retention,
        attributes=_subject(contract.attributes),
    ) | {"wants": {want.name: plain_want(want) for want in contract.wants}}


def plain_rule(rule: PrivacyRule) -> Plain:
    """Return a privacy rule, without its id."""
    outside = [{"not": sorted(rule.outside)}] if rule.outside else []
    return _present(
        purpose=None if rule.purposes is None else sorted(rule.purposes),
        visible_to=_subject(rule.visibility),
        retention=rule.retention,
        situation=[*sorted(rule.during), *outside],
        quality=_constraints(rule.quality),
        degrade=[plain_degradation(degradation) for degradation in rule.degrade],
        guarantees=_constraints(rule.guarantees),
    )


def plain_degradation(degradation: Degradation) -> Plain:
    """Return a degradation, by its name."""
    match degradation:
        case Keep():
            return {"keep": list(degradation.attributes)}
        case Delay():
            return {"delay": degradation.seconds}
        case Grid() | Step() | Aggregate():
            settings = {
                name: list(value) if isinstance(value, tuple) else value for name, value in asdict(degradation).items()
            }
            return {type(degradation).__name__.lower(): _present(**settings)}


def plain_want(want: ContextWant) -> Plain:
    """Return a want, without its name."""
    condition = None if want.condition is None else want.condition.text
    return _present(filter=want.filter, where=condition, needs=_constraints(want.needs), scope=want.scope)


def _constraints(constraints: tuple[Constraint, ...]) -> list[Any]:
    return [
        str(constraint) if isinstance(constraint, Need) else {"xpath": constraint.expression}
        for constraint in constraints
    ]


def _subject(subject: Subject) -> dict[str, list[str]]:
    return {name: sorted(values) for name, values in subject}


def _present(**parts: Any) -> Plain:
    """Return the parts that are not empty."""
    return {name: part for name, part in parts.items() if part is not None and part not in ([], {})}
