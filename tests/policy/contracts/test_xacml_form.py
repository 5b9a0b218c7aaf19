"""Contract rules as XACML: the policies decide what the rules say, by each evaluator, and are read again as XML."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.model.quality import Quality
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, ProducerContract
from penstock.policy.contracts.degrade import Aggregate, Delay, Grid, Keep, Step, degraded_once
from penstock.policy.contracts.privacy import Permitted, PrivacyPolicy, ReleaseRequest, wrong_duties
from penstock.policy.contracts.release import Releaser
from penstock.policy.contracts.text_form import read_producer
from penstock.policy.contracts.xacml_form import to_xacml
from penstock.policy.quality.criteria import LIBRARY
from penstock.policy.quality.needs import Need
from penstock.policy.xacml import Pdp, read_policy, show_policy
from tests.policy.contracts.test_contract import NOW, SITUATIONS, WHOLE, consumers, producers, quality, texts
from tests.support.generators.examples import some
from tests.support.models.abac import abac_attributes, abac_policy, decide

CONTENT = Content(b'{"lat": 48.1, "lon": 2.1}')
PRECISIONS = (None, 10.0, 50.0, 90.0)


def by_xacml(
    contract: ProducerContract, consumer: ConsumerContract, opened: frozenset[str], measured: Quality
) -> Permitted | str:
    """What nodes find by the contract's policies in XACML, read again from their XML."""
    root = to_xacml(contract)
    again = read_policy(show_policy(root).encode())
    assert again == root
    assert not list(wrong_duties([again]))
    policy = PrivacyPolicy("p", "#", Pdp([again]))
    return policy.decide(ReleaseRequest("c", (), (consumer,), "bob/x", "p", opened, (), measured), CONTENT, NOW)


@given(producers, consumers, texts)
@settings(max_examples=some(100))
def test_releaser_oracle_and_policy_in_xacml_agree(
    contract: ProducerContract, consumer: ConsumerContract, opened: frozenset[str]
) -> None:
    """Rule by rule: the quality that a policy is asked about is that of what the rule leaves."""
    consumer = replace(consumer, wants=(ContextWant("w", "bob/+"),))
    for rule in contract.rules:
        single = replace(contract, rules=(rule,))
        releaser = Releaser(single, consumer, consumer.wants[0], LIBRARY, SITUATIONS)
        for precision in PRECISIONS:
            left = degraded_once(rule.degrade, CONTENT, quality(precision), LIBRARY, NOW).quality
            release = releaser.decide(CONTENT, quality(precision), opened, NOW)
            guarantees = (need for need in rule.guarantees if isinstance(need, Need))  # which the oracle does not know
            asked = replace(rule, quality=(*rule.quality, *guarantees))
            ruling = decide(
                abac_policy(replace(single, rules=(asked,))), abac_attributes(consumer, "bob", opened, left)
            )
            found = by_xacml(single, consumer, opened, left)
            assert ruling is not None
            assert release.is_released is (ruling.rule is not None) is isinstance(found, Permitted), (release, found)
            if isinstance(found, Permitted):
                assert found == Permitted(rule.degrade, rule.retention)


@given(producers, consumers, texts)
@settings(max_examples=some(100))
def test_the_first_rule_that_permits_counts_in_xacml_too(
    contract: ProducerContract, consumer: ConsumerContract, opened: frozenset[str]
) -> None:
    consumer = replace(consumer, wants=(ContextWant("w", "bob/+"),))
    bare = tuple(replace(rule, quality=(), guarantees=()) for rule in contract.rules)
    contract = replace(contract, rules=bare)
    release = Releaser(contract, consumer, consumer.wants[0], LIBRARY, SITUATIONS).decide(
        CONTENT, quality(50.0), opened, NOW
    )
    found = by_xacml(contract, consumer, opened, quality(50.0))
    assert release.is_released is isinstance(found, Permitted)
    if isinstance(found, Permitted):
        rule = next(rule for rule in contract.rules if rule.id == release.rule)
        assert found == Permitted(rule.degrade, rule.retention)


def test_a_contract_with_all_that_there_is_keeps_its_obligations() -> None:
    contract = read_producer("bob", WHOLE, LIBRARY)
    about = (frozenset({"health"}), frozenset({"hazard"}), 60.0)
    subject = (("group", frozenset({"INCOME"})), ("country", frozenset({"fr"})))
    consumer = ConsumerContract("app", frozenset({"c"}), (), *about, subject)
    found = by_xacml(contract, consumer, frozenset({"hazard"}), quality(60.0))
    assert found == Permitted(
        (Grid(500, "la", "lo", 1000), Step("t", 5), Keep(("la", "lo", "t")), Delay(60), Aggregate(3600, ("t",), 5)),
        30 * 86_400.0,
    )
    assert isinstance(by_xacml(contract, consumer, frozenset({"hazard", "war"}), quality(60.0)), str)
    assert isinstance(by_xacml(contract, consumer, frozenset({"hazard"}), quality(61.0)), str)


def test_what_xacml_cannot_say_is_refused() -> None:
    rules = {"r": {"guarantees": [{"xpath": "count(//a) > 1"}]}}
    with pytest.raises(PolicyError, match="XACML cannot ask for the guarantee"):
        to_xacml(read_producer("bob", {"producer": "p", "filter": "a", "rules": rules}, LIBRARY))
    with pytest.raises(PolicyError, match="no privacy requirement"):
        to_xacml(read_producer("bob", {"producer": "p", "filter": "a"}, LIBRARY))
