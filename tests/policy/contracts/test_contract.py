"""Contracts: how they are written, what they compile to, and that all of it says the same."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.model.content.content import Content
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import MetricValue, Quality, moment
from penstock.policy.contracts.abac import AttributeCategory, AttributeName, Compare, Relation
from penstock.policy.contracts.aggregate import Mean
from penstock.policy.contracts.contract import (
    ConsumerContract,
    ContextWant,
    PrivacyRule,
    ProducerContract,
    advertisement,
)
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.contracts.fit import FitLevel, match
from penstock.policy.contracts.plain_form import plain_consumer, plain_producer
from penstock.policy.contracts.release import Releaser, read_retain, retain_property
from penstock.policy.contracts.text_form import bring_consumer, bring_producer, read_consumer, read_producer
from penstock.policy.quality.criteria import LIBRARY
from penstock.policy.quality.needs import Need, why_not
from penstock.policy.statements.advertisement import ProducerAdvertisement
from tests.support.models.abac import Obligation, abac_attributes, abac_policy, decide, standing_in

NOW = 1000.0
PRECISION = LIBRARY.key("precision")


def quality(precision: float | None) -> Quality:
    return Quality(() if precision is None else [MetricValue(PRECISION, precision, moment(NOW))])


WHOLE = {
    "producer": ["phone", "watch"],
    "filter": "bob/#",
    "where": "has(lat)",
    "scope": "local",
    "guarantees": "precision",
    "rules": {
        "near": {
            "purpose": ["health", "research"],
            "visible_to": {"group": ["INCOME"], "country": "fr"},
            "retention": "30d",
            "situation": ["hazard", {"not": ["war", "test"]}],
            "quality": ["precision <= 60"],
            "degrade": [
                {"grid": {"metres": 500, "latitude": "la", "longitude": "lo", "span": 1000}},
                {"step": {"attribute": "t", "size": 5}},
                {"keep": ["la", "lo", "t"]},
                {"delay": "1m"},
                {"aggregate": {"seconds": "1h", "attributes": "t", "least": 5}},
            ],
            "guarantees": "precision >= medium",
        }
    },
}


def test_a_producer_s_contract_as_it_is_written() -> None:
    rule = PrivacyRule(
        "near",
        frozenset({"health", "research"}),
        (("group", frozenset({"INCOME"})), ("country", frozenset({"fr"}))),
        30 * 86_400.0,
        frozenset({"hazard"}),
        frozenset({"war", "test"}),
        (Need(PRECISION, "<=", 60),),
        (
            Grid(500, "la", "lo", 1000),
            Step("t", 5),
            Keep(("la", "lo", "t")),
            Delay(60),
            Aggregate(3600, ("t",), 5),
        ),
        (Need(PRECISION, ">=", 50),),
    )
    expected = ProducerContract(
        "bob", frozenset({"phone", "watch"}), "bob/#", make_condition("has(lat)"), (rule,), (Need(PRECISION),), "local"
    )
    contract = read_producer("bob", WHOLE, LIBRARY)
    assert contract == expected
    assert advertisement(contract) == ProducerAdvertisement(
        "contract bob", "bob/#", make_condition("has(lat)"), "local"
    )


def test_a_producer_s_contract_as_an_abac_policy() -> None:
    (rule,) = abac_policy(read_producer("bob", WHOLE, LIBRARY)).rules
    subject, environment = (
        partial(AttributeName, AttributeCategory.SUBJECT),
        partial(AttributeName, AttributeCategory.ENVIRONMENT),
    )
    assert set(rule.conditions) == {
        Compare(AttributeName(AttributeCategory.ACTION, "action"), Relation.ONLY, frozenset({"access"})),
        Compare(subject("purpose"), Relation.ONLY, frozenset({"health", "research"})),
        Compare(subject("group"), Relation.ANY_OF, frozenset({"INCOME"})),
        Compare(subject("country"), Relation.ANY_OF, frozenset({"fr"})),
        Compare(subject("retention"), Relation.AT_MOST, number=30 * 86_400.0),
        Compare(subject("situation"), Relation.ALL_OF, frozenset({"hazard"})),
        Compare(subject("situation"), Relation.NONE_OF, frozenset({"war", "test"})),
        Compare(environment("situation"), Relation.ALL_OF, frozenset({"hazard"})),
        Compare(environment("situation"), Relation.NONE_OF, frozenset({"war", "test"})),
        Compare(
            AttributeName(AttributeCategory.RESOURCE, "quality:precision/precision/precision"),
            Relation.AT_MOST,
            number=60,
        ),
    }
    assert [one.name for one in rule.obligations] == ["retain", "grid", "step", "keep", "delay", "aggregate"]
    assert rule.obligations[2] == Obligation("step", (("attribute", "t"), ("size", 5.0)))


def test_a_consumer_s_contract_as_it_is_written() -> None:
    said = {
        "consumer": "app",
        "purpose": "health",
        "situation": "hazard",
        "retention": "1d",
        "attributes": {"group": ["INCOME", "staff"]},
        "wants": {
            "where": {"filter": "+/location", "where": "lat > 0.0", "needs": ["precision >= 40"], "scope": "local"}
        },
    }
    want = ContextWant("where", "+/location", make_condition("lat > 0.0"), (Need(PRECISION, ">=", 40),), "local")
    assert read_consumer("app", said, LIBRARY) == ConsumerContract(
        "app",
        frozenset({"app"}),
        (want,),
        frozenset({"health"}),
        frozenset({"hazard"}),
        86_400.0,
        (("group", frozenset({"INCOME", "staff"})),),
    )


def test_a_client_brings_a_contract_but_cannot_say_what_it_is() -> None:
    said: dict[str, Any] = {"purpose": "health", "wants": {"all": {"filter": "#", "needs": ["precision >= 40"]}}}
    assert bring_consumer("own", "app", json.dumps(said), LIBRARY).consumers == {"app"}
    for key, value in (("attributes", {"group": "INCOME"}), ("consumer", "other")):
        with pytest.raises(PolicyError, match=f"unknown key `{key}`"):
            bring_consumer("own", "app", json.dumps(said | {key: value}), LIBRARY)
    offered = {name: value for name, value in WHOLE.items() if name != "producer"}
    assert bring_producer("own", "phone", json.dumps(offered), LIBRARY).producers == {"phone"}
    with pytest.raises(PolicyError, match="unknown key `producer`"):
        bring_producer("own", "phone", json.dumps(WHOLE), LIBRARY)


MANY = {f"w{n}": {"filter": "#"} for n in range(65)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "not JSON", id="nothing"),
        pytest.param("[]", "unknown key `value`", id="a list"),
        pytest.param('{"wants": {}, "wants": {}}', "two members", id="the same twice"),
        pytest.param('{"wants": ' + "[" * 100 + "]" * 100 + "}", "inside each other", id="deep"),
        pytest.param(" " * 20_001, "at most 20000", id="long"),
        pytest.param("\ud800", "surrogates not allowed", id="not Unicode"),
        pytest.param(json.dumps({"wants": MANY}), "more than 64 wants", id="many wants"),
        pytest.param(
            json.dumps({"wants": {"w": {"filter": "#", "needs": ["precision"] * 65}}}), "too many", id="many needs"
        ),
        pytest.param(json.dumps({"wants": {}, "purpose": ["p"] * 257}), "too many", id="many purposes"),
    ],
)
def test_contracts_of_strangers_are_refused(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        bring_consumer("own", "app", text, LIBRARY)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"producer": []}, "nobody's", id="nobody's contract"),
        pytest.param({"filter": "a/#/b"}, "#", id="not a filter"),
        pytest.param({"filter": "$share/g/a"}, "shared", id="a shared subscription"),
        pytest.param({"where": "("}, "where: ", id="no condition"),
        pytest.param({"scope": "here"}, "scope", id="no scope"),
        pytest.param({"colour": 1}, "unknown key `colour`", id="an unknown key"),
        pytest.param({"guarantees": ["sharp"]}, "guarantees: there is no quality indicator", id="an unknown indicator"),
        pytest.param({"rules": ["r"]}, "expected a mapping", id="a list of rules"),
        pytest.param({"rules": {"r": {"purpose": []}}}, "allows no purpose", id="a rule for nothing"),
        pytest.param({"rules": {"r": {"purpose": 7}}}, "list of names", id="a number for a purpose"),
        pytest.param({"rules": {"r": {"visible_to": {"group": []}}}}, "visible to nobody", id="a rule for nobody"),
        pytest.param({"rules": {"r": {"retention": "soon"}}}, "retention: `soon`", id="no length of time"),
        pytest.param({"rules": {"r": {"situation": ["a", {"not": "a"}]}}}, "both during and outside", id="never"),
        pytest.param({"rules": {"r": {"quality": ["//a"]}}}, "takes no XPath", id="XPath in a rule"),
        pytest.param({"rules": {"r": {"degrade": [{"blur": 3}]}}}, "unknown key `blur`", id="an unknown degradation"),
        pytest.param({"rules": {"r": {"degrade": [{"grid": 0}]}}}, "degrade: `grid`", id="a grid of nothing"),
        pytest.param({"rules": {"r": {"degrade": [{"step": {"size": 1}}]}}}, "`step`: expected", id="a step of what"),
        pytest.param({"rules": {"r": {"degrade": [{"delay": 1, "keep": "a"}]}}}, "found 2", id="two in one"),
        pytest.param({"rules": {"a b": {}}}, "not an id", id="a name with a blank"),
    ],
)
def test_contracts_that_are_wrong_say_where(change: dict[str, object], says: str) -> None:
    good: dict[str, object] = {"producer": "p", "filter": "a"}
    with pytest.raises(PolicyError, match=says.replace("$", "[$]")):
        read_producer("c", good | change, LIBRARY)


def producer(rule: dict[str, Any], **more: Any) -> ProducerContract:
    said = {"producer": "p", "filter": "bob/#", "rules": {"r": rule}, **more}
    return read_producer("bob", said, LIBRARY)


def consumer(needs: Any = (), filter: str = "bob/location", **more: Any) -> ConsumerContract:
    said = {"consumer": "c", "purpose": "health", "wants": {"w": {"filter": filter, "needs": needs}}, **more}
    return read_consumer("app", said, LIBRARY)


@pytest.mark.parametrize(
    ("one", "other", "standing", "says"),
    [
        pytest.param(producer({}), consumer(), "FITS", "all that is asked is promised", id="nothing is asked"),
        pytest.param(producer({}), consumer(filter="ann/#"), "UNRELATED", "no topic in common", id="other topics"),
        pytest.param(
            producer({"visible_to": {"group": "INCOME"}}), consumer(), "FAILS", "group is not known", id="no group"
        ),
        pytest.param(
            producer({"visible_to": {"group": "INCOME"}}), consumer(attributes={"group": ["a", "INCOME"]}), "FITS", "",
            id="one of its groups",
        ),
        pytest.param(producer({"retention": "1d"}), consumer(), "FAILS", "retention is not known", id="no retention"),
        pytest.param(producer({"retention": "1d"}), consumer(retention="2d"), "FAILS", "172800", id="kept too long"),
        pytest.param(producer({"retention": "1d"}), consumer(retention="1d"), "FITS", "", id="kept as long as it may"),
        pytest.param(
            producer({"situation": "hazard"}), consumer(), "FAILS", "subject situation is none", id="not committed"
        ),
        pytest.param(
            producer({"situation": {"not": "hazard"}}), consumer(situation="hazard"), "FAILS", "none of `hazard`",
            id="committed to the contrary",
        ),
        pytest.param(producer({}), consumer("precision >= 40"), "DEPENDS", "nothing about it", id="nothing promised"),
        pytest.param(
            producer({"guarantees": "precision >= 30"}), consumer("precision >= 40"), "DEPENDS", "judged by itself",
            id="less promised than needed",
        ),
        pytest.param(
            producer({"guarantees": "precision >= 50"}), consumer("precision >= 40"), "FITS", "", id="more promised"
        ),
        pytest.param(
            producer({}, guarantees=["precision >= 50"]), consumer("precision >= 40"), "FITS", "", id="by the contract"
        ),
        pytest.param(
            producer({"quality": "precision <= 30"}), consumer("precision >= 40"), "FAILS", "at best", id="never good"
        ),
        pytest.param(
            producer({"degrade": [{"grid": {"metres": 2000, "span": 1000}}]}), consumer("precision >= 40"), "FAILS",
            "at best", id="degraded too far",
        ),
        pytest.param(
            producer({"degrade": [{"grid": 500}]}, guarantees=["precision >= 90"]), consumer("precision >= 40"),
            "FAILS", "takes away quality", id="after a degradation the contract's guarantee does not hold",
        ),
        pytest.param(
            producer({"degrade": [{"delay": 60}]}, guarantees=["1/2/3 >= 4"]), consumer("1/2/3 >= 3"),
            "FAILS", "takes away quality", id="nor does one on a metric that nobody defines",
        ),
        pytest.param(
            producer({"degrade": [{"delay": 60}], "quality": "1/2/3 >= 4"}, guarantees=["1/2/3 >= 4"]), consumer(),
            "FAILS", "takes away quality", id="a rule that takes away what it asks for",
        ),
        pytest.param(
            producer({"quality": "precision <= 60"}), consumer(), "DEPENDS", "only for events with", id="not the best"
        ),
        pytest.param(
            producer({"quality": "precision <= 60", "guarantees": "precision <= 50"}), consumer(), "FITS", "",
            id="what is promised is what the rule is for",
        ),
        pytest.param(
            producer({"degrade": [{"grid": {"metres": 2000, "span": 1000}}], "guarantees": "precision >= 90"}),
            consumer(), "FAILS", "nothing is as all that is said", id="a rule that cannot keep its promise",
        ),
        pytest.param(
            producer({"degrade": [{"aggregate": {"seconds": 60, "attributes": "t"}}]}, guarantees=["precision >= 90"]),
            consumer("precision >= 40"), "DEPENDS", "judged by itself", id="of aggregates nothing is known before",
        ),
        pytest.param(
            producer({}, where="lat > 5.0"),
            read_consumer("app", {"consumer": "c", "wants": {"w": {"filter": "#", "where": "lat < 4.0"}}}, LIBRARY),
            "FAILS", "no content is as both ask", id="contents that never meet",
        ),
    ],
)  # fmt: skip
def test_match(one: ProducerContract, other: ConsumerContract, standing: str, says: str) -> None:
    fit = match(one, other, LIBRARY)
    assert fit.standing is FitLevel[standing], fit.reasons
    assert any(says in reason for reason in fit.reasons), fit.reasons


LISTING_2: dict[str, str] = {"group": "INCOME", "purpose": "health", "contract": "location", "action": "access"}


@pytest.mark.parametrize("wrong", [None, *LISTING_2])
def test_the_policy_of_listing_2(wrong: str | None) -> None:
    """People from "INCOME" with purpose "health" can access data "location"; all else is denied."""
    rule = {"visible_to": {"group": "INCOME"}, "purpose": "health"}
    policy = abac_policy(read_producer("location", {"producer": "p", "filter": "a", "rules": {"r": rule}}, LIBRARY))
    categories = (
        AttributeCategory.SUBJECT,
        AttributeCategory.SUBJECT,
        AttributeCategory.RESOURCE,
        AttributeCategory.ACTION,
    )
    asked = {
        AttributeName(category, attribute): frozenset({"other" if attribute == wrong else value})
        for category, (attribute, value) in zip(categories, LISTING_2.items(), strict=True)
    }
    ruling = decide(policy, asked)
    assert (ruling is None) == (wrong == "contract")
    assert (ruling is not None and ruling.rule is not None) == (wrong is None)
    missing = {name: value for name, value in asked.items() if name.attribute != (wrong or "purpose")}
    without = decide(policy, missing)
    assert without is None or without.rule is None


SITUATIONS = ("a", "b")
texts = st.frozensets(st.sampled_from(SITUATIONS), max_size=2)
needs = st.lists(
    st.builds(Need, st.just(PRECISION), st.sampled_from([">=", "<=", None]), st.sampled_from([20.0, 50.0, 80.0])),
    max_size=1,
).map(tuple)
SOME: list[Degradation] = [Grid(500, span=1000.0), Grid(500), Delay(60)]
degradations = st.lists(st.sampled_from(SOME), max_size=1).map(tuple)


@st.composite
def rules(draw: st.DrawFn, id: str) -> PrivacyRule:
    during = draw(texts)
    return PrivacyRule(
        id,
        draw(texts) or None,
        draw(st.sampled_from([(), (("group", frozenset({"x"})),)])),
        draw(st.sampled_from([None, 10.0])),
        during,
        draw(texts) - during,
        draw(needs),
        draw(degradations),
        draw(needs),
    )


producers = st.builds(
    lambda rules, guarantees: ProducerContract("bob", frozenset({"p"}), "bob/#", None, tuple(rules), guarantees),
    st.tuples(rules("r1"), rules("r2")),
    needs,
)
consumers = st.builds(
    lambda needs, purposes, situations, retention, groups: ConsumerContract(
        "app", frozenset({"c"}), (ContextWant("w", "bob/+", None, needs),), purposes, situations, retention, groups
    ),
    needs,
    texts,
    texts,
    st.sampled_from([None, 5.0, 20.0]),
    st.sampled_from([(), (("group", frozenset({"x", "y"})),)]),
)


@given(producers, consumers, st.none() | st.sampled_from([10.0, 50.0, 90.0]), texts)
def test_match_abac_and_release_agree(
    contract: ProducerContract, other: ConsumerContract, precision: float | None, opened: frozenset[str]
) -> None:
    event = quality(precision)
    content = Content(b'{"lat": 48.1, "lon": 2.1}')
    (want,) = match(contract, other, LIBRARY).wants
    releaser = Releaser(contract, other, other.wants[0], LIBRARY, SITUATIONS)
    release = releaser.decide(content, event, opened, NOW)
    standing = standing_in(want, opened)
    if release.is_released:
        assert not why_not(other.wants[0].needs, release.quality)
        fits = {fit.rule: fit for fit in want.rules}
        # A contract may break its own guarantees; conform is there to see that.
        if not why_not(contract.guarantees, event):
            assert fits[release.rule].standing > FitLevel.FAILS
            assert standing > FitLevel.FAILS
        ruling = decide(abac_policy(contract), abac_attributes(other, "bob", opened, release.quality))
        assert ruling is not None
        assert ruling.rule is not None
        rule = next(one for one in contract.rules if one.id == release.rule)
        assert (release.retain_until is None) == (rule.retention is None)
    else:
        assert release.reasons
        assert not release.payload
    if contract.rules and not any(releaser.permits(rule.id) for rule in contract.rules):
        assert want.standing is FitLevel.FAILS


@given(producers, consumers)
def test_what_is_written_out_is_read_again(contract: ProducerContract, other: ConsumerContract) -> None:
    said, wanted = (json.loads(json.dumps(one)) for one in (plain_producer(contract), plain_consumer(other)))
    assert read_producer(contract.name, said, LIBRARY) == contract
    assert read_consumer(other.name, wanted, LIBRARY) == other


def test_a_contract_with_all_that_there_is_is_read_again() -> None:
    contract = read_producer("bob", WHOLE, LIBRARY)
    assert read_producer("bob", plain_producer(contract), LIBRARY) == contract
    wants = {
        "w": {"filter": "a", "where": "b > 1", "needs": [{"xpath": "count(//a)>1"}, "precision"], "scope": "local"}
    }
    other = read_consumer("app", {"consumer": "c", "wants": wants, "attributes": {"group": ["x", "y"]}}, LIBRARY)
    assert read_consumer("app", plain_consumer(other), LIBRARY) == other


@given(producers, consumers, texts)
def test_without_quality_match_abac_and_release_are_one(
    contract: ProducerContract, other: ConsumerContract, opened: frozenset[str]
) -> None:
    bare = tuple(replace(rule, quality=(), degrade=(), guarantees=()) for rule in contract.rules)
    contract = replace(contract, rules=bare, guarantees=())
    other = replace(other, wants=(ContextWant("w", "bob/+"),))
    (want,) = match(contract, other, LIBRARY).wants
    ruling = decide(abac_policy(contract), abac_attributes(other, "bob", opened, Quality()))
    release = Releaser(contract, other, other.wants[0], LIBRARY, SITUATIONS).decide(
        Content(b"{}"), Quality(), opened, NOW
    )
    assert ruling is not None
    assert release.is_released == (ruling.rule is not None) == (standing_in(want, opened) is FitLevel.FITS)
    assert release.rule == (ruling.rule.id if ruling.rule else "")


def test_the_first_rule_that_permits_and_is_good_enough_counts() -> None:
    contract = read_producer(
        "bob",
        {
            "producer": "p",
            "filter": "bob/#",
            "rules": {"coarse": {"degrade": [{"grid": {"metres": 2000, "span": 1000}}]}, "fine": {"purpose": "health"}},
        },
        LIBRARY,
    )
    content = Content(b'{"lat": 48.1, "lon": 2.1}')
    modest, demanding = consumer(), consumer("precision >= 80")
    rules = []
    for one in (modest, demanding):
        rules.append(
            Releaser(contract, one, one.wants[0], LIBRARY, SITUATIONS).decide(content, quality(90), (), NOW).rule
        )
    assert rules == ["coarse", "fine"]


@pytest.mark.parametrize(
    ("rule", "precision", "is_released"),
    [
        pytest.param({"quality": "precision <= 60"}, 60, True, id="not better than it may be"),
        pytest.param({"quality": "precision <= 60"}, 61, False, id="better than it may be"),
        pytest.param({"guarantees": "precision >= 50"}, 50, True, id="as good as is guaranteed"),
        pytest.param({"guarantees": "precision >= 50"}, 49, False, id="not as good as is guaranteed"),
        pytest.param(
            {"quality": "precision <= 60", "degrade": [{"grid": {"metres": 1000, "span": 1000}}]}, 90, True,
            id="degraded, it is not better than it may be",
        ),
    ],
)  # fmt: skip
def test_what_a_rule_says_of_quality_holds_of_what_it_releases(
    rule: dict[str, Any], precision: float, is_released: bool
) -> None:
    one = consumer()
    releaser = Releaser(producer(rule), one, one.wants[0], LIBRARY, SITUATIONS)
    release = releaser.decide(Content(b'{"lat": 1, "lon": 1}'), quality(precision), (), NOW)
    assert release.is_released is is_released
    assert is_released or "precision" in release.reasons[0]


def test_of_what_is_aggregated_the_mean_is_judged() -> None:
    means = producer({"degrade": [{"aggregate": {"seconds": 60, "attributes": "t"}}], "guarantees": "precision >= 70"})
    one = consumer("precision >= 80")
    releaser = Releaser(means, one, one.wants[0], LIBRARY, SITUATIONS)
    release = releaser.decide(Content(b'{"t": 1}'), quality(60), (), NOW)
    assert release.is_released
    assert release.aggregate == Aggregate(60, ("t",))
    reasons = {n: releaser.why_not("r", Mean(b"{}", quality(n), 2, 60.0)) for n in (80, 79, 69)}
    assert [len(reasons[n]) for n in (80, 79, 69)] == [0, 1, 2]
    assert releaser.why_not("other", Mean(b"{}", quality(100), 2, 60.0)) == ("rule `other` does not permit it",)


def test_a_released_event_says_when_it_is_to_be_deleted() -> None:
    one = consumer(retention="1h")
    release = Releaser(
        producer({"retention": "1d", "degrade": [{"delay": 60}]}), one, one.wants[0], LIBRARY, SITUATIONS
    ).decide(Content(b"{}"), quality(90), (), NOW)
    assert (release.not_before, release.retain_until) == (NOW + 60, NOW + 60 + 3600)
    assert release.retain_until is not None
    name, text = retain_property(release.retain_until)
    assert (name, text, read_retain(text)) == ("penstock-retain-until", "1970-01-01T01:17:40Z", release.retain_until)
    with pytest.raises(ContentError):
        read_retain("tomorrow")


def test_what_is_not_private_is_released_if_it_is_good_enough() -> None:
    contract = read_producer("air", {"producer": "p", "filter": "bob/#"}, LIBRARY)
    one = consumer("precision >= 80")
    releaser = Releaser(contract, one, one.wants[0], LIBRARY, SITUATIONS)
    assert releaser.decide(Content(b"x"), quality(80), (), NOW).payload == b"x"
    assert not releaser.decide(Content(b"x"), quality(79), (), NOW).is_released
    with pytest.raises(PolicyError, match="no privacy requirement"):
        abac_policy(contract)


def test_an_event_that_waited_is_judged_by_its_age_now() -> None:
    contract = read_producer("air", {"producer": "p", "filter": "bob/#"}, LIBRARY)
    one = consumer("freshness <= 60")
    releaser = Releaser(contract, one, one.wants[0], LIBRARY, SITUATIONS)
    event = Quality([MetricValue(LIBRARY.key("freshness"), 10, moment(NOW))])
    assert releaser.decide(Content(b"x"), event, (), NOW + 50).is_released
    assert not releaser.decide(Content(b"x"), event, (), NOW + 51).is_released


def test_an_attribute_that_a_contract_may_not_give_itself() -> None:
    with pytest.raises(PolicyError, match="`purpose` is a reserved attribute"):
        consumer(attributes={"purpose": "health"})


@pytest.mark.parametrize(
    ("said", "acts_in"),
    [
        pytest.param("other", "other", id="during it"),
        pytest.param({"not": "other"}, "a", id="outside of it"),
        pytest.param(["a", {"not": ["b", "other"]}], "a", id="outside of it and of another"),
        pytest.param([{"not": "b"}, "other"], "other", id="during it and outside of another"),
    ],
)
def test_a_rule_for_a_situation_that_there_is_not_permits_nothing(said: Any, acts_in: str) -> None:
    one = consumer(situation=acts_in)
    for known, is_permitted in (("a", "b"), False), (("a", "b", "other"), True):
        releaser = Releaser(producer({"situation": said}), one, one.wants[0], LIBRARY, known)
        found = releaser.decide(Content(b"{}"), quality(90), (acts_in,), NOW)
        assert (found.is_released, releaser.permits("r")) == (is_permitted, is_permitted)
        assert is_permitted or "rule `r`: there is no situation `other`" in found.reasons
