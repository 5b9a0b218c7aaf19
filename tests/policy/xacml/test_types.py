"""Numbers without a declared type: whatever the types on both sides, they are compared as numbers are."""

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.policy.contracts.privacy_types import text_of, typed
from penstock.policy.xacml import RequestAttribute, RequestCategory, XacmlError
from penstock.policy.xacml.evaluation.decision import XacmlDecision
from penstock.policy.xacml.forms.short import from_plain
from penstock.policy.xacml.names import STRING, SUBJECT
from penstock.policy.xacml.tree import LiteralValue
from tests.support.cases.xacml import both, single

OPERATORS = {"==": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
EXPECTED = {True: XacmlDecision.DENY, False: XacmlDecision.NOT_APPLICABLE}
near = st.integers(-200, 200)
numbers = near | near.map(lambda n: n / 8) | st.integers(-(2**53) + 1, 2**53 - 1)


@given(numbers, numbers, st.sampled_from(sorted(OPERATORS)))
def test_a_number_is_compared_as_a_number(had: float, bound: float, sign: str) -> None:
    expected = EXPECTED[OPERATORS[sign](had, bound)]
    as_nodes_give_it = (
        RequestCategory(SUBJECT, (RequestAttribute("x", (LiteralValue(STRING, text_of(had)), *typed(had))),)),
    )
    for rule in ({"deny": {"subject.x": {sign: bound}}}, {"deny": {}, "when": f"subject.x {sign} {bound!r}"}):
        root = from_plain({"policy": "p", "rules": [rule]})
        assert both(root, as_nodes_give_it).decision == expected
        assert both(root, single({"subject.x": had})).decision == expected


@pytest.mark.parametrize(
    "condition",
    [
        {"apply": "any-of", "to": [{"function": "integer-greater-than"}, 18, {"attribute": "subject.x"}]},
        {
            "apply": "integer-less-than",
            "to": [{"apply": "integer-one-and-only", "to": [{"attribute": "subject.x"}]}, 18],
        },
        {"apply": "string-equal", "to": ["18", 18]},
    ],
)
def test_functions_do_not_take_texts_for_numbers(condition: Any) -> None:
    with pytest.raises(XacmlError, match="string"):
        both(from_plain({"policy": "p", "rules": [{"permit": {}, "when": condition}]}), ())
