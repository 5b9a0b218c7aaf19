"""Combining algorithms: what the norm says of them, and all short sequences on both evaluators."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.policy.xacml.evaluation.algorithms import POLICY_ALGORITHMS, RULE_ALGORITHMS
from penstock.policy.xacml.evaluation.decision import XacmlDecision
from penstock.policy.xacml.forms.short import read_yaml
from penstock.policy.xacml.forms.short_expressions import literal
from penstock.policy.xacml.names import FUNCTION_1, FUNCTION_3
from penstock.policy.xacml.tree import Apply, DutyExpression, XacmlEffect, XacmlPolicy, XacmlPolicySet, XacmlRule
from tests.support.cases.xacml import both

CASES = read_yaml((Path(__file__).parents[2] / "cases/xacml/algorithms.yaml").read_bytes())
DENY_OVERRIDES = "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-overrides"
DECISIONS = {
    "P": XacmlDecision.PERMIT,
    "D": XacmlDecision.DENY,
    "N": XacmlDecision.NOT_APPLICABLE,
    "IP": XacmlDecision.INDETERMINATE_P,
    "ID": XacmlDecision.INDETERMINATE_D,
    "IDP": XacmlDecision.INDETERMINATE_DP,
}

FAILS = Apply(FUNCTION_3 + "boolean-from-string", (literal("x"),))
FALSE = literal(False)
RULES = {
    "P": XacmlRule("p", XacmlEffect.PERMIT),
    "D": XacmlRule("d", XacmlEffect.DENY),
    "IP": XacmlRule("ip", XacmlEffect.PERMIT, condition=FAILS),
    "ID": XacmlRule("id", XacmlEffect.DENY, condition=FAILS),
}


def rule(word: str) -> XacmlRule:
    return RULES.get(word) or XacmlRule("n", XacmlEffect.PERMIT, condition=FALSE)


NEVER = literal("never")


def policy(word: str, at: int) -> XacmlPolicy:
    """A policy that comes to this decision, by its rules; not applicable, by its target."""
    if word == "N":
        return _never(at)
    rules = ("IP", "ID") if word == "IDP" else (word,)
    return XacmlPolicy(f"{word}-{at}", "1.0", DENY_OVERRIDES, rules=tuple(rule(one) for one in rules))


def _never(at: int) -> XacmlPolicy:
    from penstock.policy.xacml.forms.short_expressions import AttributeNames, target

    return XacmlPolicy(
        f"N-{at}", "1.0", DENY_OVERRIDES, target({"subject.x": "never"}, AttributeNames()), (RULES["P"],)
    )


def combined(algorithm: str, words: tuple[str, ...]) -> XacmlDecision:
    if algorithm in RULE_ALGORITHMS:
        root: XacmlPolicy | XacmlPolicySet = XacmlPolicy(
            "all", "1.0", algorithm, rules=tuple(rule(word) for word in words)
        )
    else:
        children = tuple(policy(word, at) for at, word in enumerate(words))
        root = XacmlPolicySet("all", "1.0", algorithm, children=children)
    return both(root, ()).decision


def identifiers(case: dict[str, Any]) -> list[str]:
    version, _, name = case["algorithm"].rpartition(":")
    return [
        one
        for kind, table in (("rule", RULE_ALGORITHMS), ("policy", POLICY_ALGORITHMS))
        if case.get("kind", kind) == kind
        for one in table
        if one.endswith(f":{name}") and (f":{version}:" in one if version else not _is_old(one))
    ]


def _is_old(identifier: str) -> bool:
    return ("1.0:" in identifier or "1.1:" in identifier) and "overrides" in identifier


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['algorithm']} of {case['of']} is {case['gives']}")
def test_an_algorithm_as_the_norm_has_it(case: dict[str, Any]) -> None:
    found = identifiers(case)
    assert found
    for identifier in found:
        assert combined(identifier, tuple(case["of"])) == DECISIONS[case["gives"]]


def test_each_algorithm_has_a_case() -> None:
    shown = {identifier for case in CASES for identifier in identifiers(case)}
    missing = {one for one in (*RULE_ALGORITHMS, *POLICY_ALGORITHMS) if one not in shown}
    assert {one.partition("-combining-algorithm:")[2] for one in missing} <= {
        "ordered-deny-overrides",
        "ordered-permit-overrides",
    }


@pytest.mark.parametrize("identifier", [*RULE_ALGORITHMS, *POLICY_ALGORITHMS])
def test_both_evaluators_agree_on_all_sequences_of_three(identifier: str) -> None:
    words = ["P", "D", "N", "IP", "ID"] if identifier in RULE_ALGORITHMS else list(DECISIONS)
    for several in product(words, repeat=3):
        combined(identifier, several)


def test_the_old_policy_deny_overrides_stops_at_what_fails() -> None:
    obliging = replace(policy("D", 1), obligations=(DutyExpression("o", XacmlEffect.DENY),))
    (identifier,) = identifiers({"algorithm": "1.0:deny-overrides", "kind": "policy"})
    outcome = both(XacmlPolicySet("all", "1.0", identifier, children=(policy("IP", 0), obliging)), ())
    assert (outcome.decision, outcome.obligations) == (XacmlDecision.DENY, ())


def test_unknown_and_misplaced_algorithms_are_refused() -> None:
    for algorithm, said in ((FUNCTION_1 + "or", "not a combining"), (next(iter(POLICY_ALGORITHMS)), "combine rules")):
        with pytest.raises(Exception, match=said):
            both(XacmlPolicy("p", "1.0", algorithm), ())
