"""Random policies and requests: the compiled, indexed evaluator beside the norm as it is transcribed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.policy.xacml import Pdp, RequestAttribute, RequestCategory, read_policy, show_policy
from penstock.policy.xacml.evaluation.algorithms import RULE_ALGORITHMS
from penstock.policy.xacml.evaluation.decision import XacmlDecision
from penstock.policy.xacml.evaluation.evaluate import compile_target
from penstock.policy.xacml.evaluation.index import TargetIndex
from penstock.policy.xacml.names import FUNCTION_1, STRING, SUBJECT
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.tree import (
    Apply,
    Designator,
    DutyExpression,
    LiteralValue,
    TargetMatch,
    XacmlEffect,
    XacmlPolicy,
    XacmlRule,
)
from tests.support.cases.xacml import NOW, both
from tests.support.generators.xacml import EQUAL, Maker

X = Designator(SUBJECT, "x", STRING, must_be_present=True)
SHARED = XacmlPolicy(
    "shared",
    "2.1",
    next(iter(RULE_ALGORITHMS)),
    rules=(
        XacmlRule(
            "r",
            XacmlEffect.DENY,
            condition=Apply(FUNCTION_1 + "string-is-in", (LiteralValue(STRING, "a"), X)),
            obligations=(DutyExpression("o", XacmlEffect.DENY),),
        ),
    ),
)
seeds = st.integers(0, 2**40)


@given(seeds)
def test_both_evaluators_come_to_the_same(seed: int) -> None:
    make = Maker(seed)
    root = make.root()
    for _ in range(3):
        both(root, make.request(), SHARED)


def test_random_policies_come_to_every_decision() -> None:
    found = Counter(both(make.root(), make.request(), SHARED).decision for make in map(Maker, range(120)))
    assert found.keys() == set(XacmlDecision) | {XacmlDecision.NOT_APPLICABLE}
    assert min(found.values()) >= 3


@given(seeds)
def test_a_policy_is_the_same_printed_and_read_again(seed: int) -> None:
    root = Maker(seed).root()
    assert read_policy(show_policy(root).encode()) == root


@given(seeds, st.integers(0, 60))
def test_the_index_leaves_out_only_what_cannot_match(seed: int, count: int) -> None:
    make = Maker(seed)
    several = [make.target() for _ in range(count)]
    index = TargetIndex(several)
    for _ in range(5):
        context = Context(make.request(), NOW)
        candidates = index.candidates(context)
        assert list(candidates) == sorted(set(candidates))
        for at, target in enumerate(several):
            if at not in candidates:
                assert compile_target(target)(context) is False


def test_policies_that_cannot_match_are_not_candidates() -> None:
    index = TargetIndex([(((TargetMatch(EQUAL, LiteralValue(STRING, f"v{at}"), X),),),) for at in range(1000)])
    request = (
        RequestCategory(SUBJECT, (RequestAttribute("x", (LiteralValue(STRING, "v7"), LiteralValue(STRING, "v9"))),)),
    )
    assert index.candidates(Context(request, NOW)) == [7, 9]
    assert len(index.candidates(Context((), NOW))) == 1000  # each fails, as the attribute must be present


def test_policies_that_ask_for_different_attributes_are_found_by_them() -> None:
    def asks(at: int) -> TargetMatch:
        return TargetMatch(
            EQUAL, LiteralValue(STRING, f"v{at}"), Designator(SUBJECT, f"x{at % 10}", STRING, must_be_present=False)
        )

    index = TargetIndex([(((asks(at),),),) for at in range(1000)])
    request = (RequestCategory(SUBJECT, (RequestAttribute("x7", (LiteralValue(STRING, "v37"),)),)),)
    assert index.candidates(Context(request, NOW)) == [37]
    assert index.candidates(Context((), NOW)) == []


def test_targets_of_very_many_attributes_are_indexed_within_bounds() -> None:
    def asks(at: int, part: int) -> tuple[tuple[TargetMatch, ...], ...]:
        designator = Designator(SUBJECT, f"x{part}", STRING, must_be_present=True)
        return ((TargetMatch(EQUAL, LiteralValue(STRING, f"v{at % 2}"), designator),),)

    index = TargetIndex([tuple(asks(at, part) for part in range(50)) for at in range(200)])
    assert len(index.candidates(Context((), NOW))) == 200
    distinct = TargetIndex([(asks(0, at),) for at in range(3000)])
    assert len(distinct.candidates(Context((), NOW))) == 3000


def test_where_an_attribute_is_missing_the_others_still_choose() -> None:
    def asks(name: str, value: str) -> tuple[tuple[TargetMatch, ...], ...]:
        return (
            (TargetMatch(EQUAL, LiteralValue(STRING, value), Designator(SUBJECT, name, STRING, must_be_present=True)),),
        )

    index = TargetIndex([(asks("x", f"v{at}"), asks("y", f"w{at}")) for at in range(1000)])
    request = (RequestCategory(SUBJECT, (RequestAttribute("y", (LiteralValue(STRING, "w3"),)),)),)
    assert index.candidates(Context(request, NOW)) == [3]


def test_several_policies_are_combined_as_asked() -> None:
    permit, deny = (
        XacmlPolicy(str(one), "1.0", next(iter(RULE_ALGORITHMS)), rules=(XacmlRule("r", one),)) for one in XacmlEffect
    )
    for algorithm, expected in (("deny-overrides", "Deny"), ("permit-overrides", "Permit")):
        pdp = Pdp([permit, deny], algorithm=algorithm)
        assert pdp.evaluate(Context((), NOW)).decision.shown == expected
