"""What policies decide: cases on both evaluators, the paper's policy, requests for several decisions."""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.policy.xacml import (
    Pdp,
    RequestAttribute,
    RequestCategory,
    XacmlError,
    XacmlRequest,
    read_policy,
    read_short,
    show_policy,
)
from penstock.policy.xacml.evaluation.decision import Duty, XacmlDecision
from penstock.policy.xacml.forms.short import from_plain, read_yaml
from penstock.policy.xacml.forms.short_expressions import literal
from penstock.policy.xacml.names import (
    ACTION,
    FUNCTION_3,
    RESOURCE,
    STRING,
    SUBJECT,
    XPATH_EXPRESSION,
)
from penstock.policy.xacml.tree import Apply, Designator, LiteralValue, Selector, XacmlEffect, XacmlPolicy, XacmlRule
from penstock.policy.xacml.values.values import XPathExpression
from penstock.policy.xacml.xpath import RequestContent
from tests.support.cases.xacml import NOW, both, request, single

FOLDER = Path(__file__).parents[2] / "cases/xacml"
CASES = read_yaml((FOLDER / "decisions.yaml").read_bytes())


def told(duties: tuple[Duty, ...]) -> list[dict[str, dict[str, Any]]]:
    """Obligations as cases write them."""
    found = []
    for duty in duties:
        values: dict[str, list[Any]] = {}
        for one in duty.assigned:
            values.setdefault(one.id, []).append(one.value)
        found.append({duty.id: {name: several if len(several) > 1 else several[0] for name, several in values.items()}})
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_decision(case: dict[str, Any]) -> None:
    plain = {"policy": "p", **case["policy"]} if "policy" in case else {"policy_set": "p", **case["set"]}
    root = from_plain(plain)
    outcome = both(
        root,
        single(case.get("request", {}), case.get("content")),
        *(from_plain(one) for one in case.get("referenced", [])),
    )
    assert outcome.decision == XacmlDecision[case["gives"]]
    assert outcome.status.code.rpartition(":")[2] == case.get("status", outcome.status.code.rpartition(":")[2])
    if "INDETERMINATE" not in case["gives"]:
        assert outcome.status.code.endswith(":ok")
    if "missing" in case:
        assert [one.id for one in outcome.status.missing] == case["missing"]
    assert told(outcome.obligations) == case.get("obligations", [])
    assert told(outcome.advice) == case.get("advice", [])
    assert read_policy(show_policy(root).encode()) == root


# --- the contracts paper


GROUP = "urn:oasis:names:tc:xacml:3.0:example:attribute:group"
PURPOSE = "urn:oasis:names:tc:xacml:3.0:example:attribute:purpose"
RESOURCE_ID = "urn:oasis:names:tc:xacml:1.0:resource:resource-id"
ACTION_ID = "urn:oasis:names:tc:xacml:1.0:action:action-id"


def asked(
    group: str = "INCOME", purpose: str = "health", resource: str = "location", action: str = "access"
) -> XacmlRequest:
    def category(name: str, **attributes: str) -> RequestCategory:
        identifiers = {"group": GROUP, "purpose": PURPOSE, "resource": RESOURCE_ID, "action": ACTION_ID}
        return RequestCategory(
            name,
            tuple(
                RequestAttribute(identifiers[one], (LiteralValue(STRING, value),)) for one, value in attributes.items()
            ),
        )

    return XacmlRequest(
        (
            category(SUBJECT, group=group, purpose=purpose),
            category(RESOURCE, resource=resource),
            category(ACTION, action=action),
        )
    )


def test_the_policy_of_listing_2_permits_location_to_income_for_health_only() -> None:
    pdp = Pdp([read_policy((FOLDER / "listing-2.xml").read_bytes())])
    assert pdp.decide(asked(), NOW)[0].decision == "Permit"
    for other in ({"group": "OTHER"}, {"purpose": "advertising"}, {"resource": "heartbeat"}, {"action": "change"}):
        assert pdp.decide(asked(**other), NOW)[0].decision == "Deny", other


def test_the_policy_of_listing_2_in_the_short_form_is_the_same_tree() -> None:
    short = read_short((FOLDER / "listing-2.yaml").read_bytes())
    assert short == read_policy((FOLDER / "listing-2.xml").read_bytes())


def test_a_line_break_that_the_typesetter_put_into_a_value_counts() -> None:
    """As the listing is typeset, its first value ends with a line break: so it says in XML Schema."""
    text = (FOLDER / "listing-2.xml").read_text()
    broken = text.replace(">INCOME<", ">INCOME\n<")
    pdp = Pdp([read_policy(broken.encode())])
    assert pdp.decide(asked(), NOW)[0].decision == "Deny"
    assert pdp.decide(asked(group="INCOME\n"), NOW)[0].decision == "Permit"


# --- XPath expressions


RECORDS = '<r xmlns:m="urn:m"><m:a n="1">x</m:a><m:b><m:c/></m:b></r>'
PREFIXES = (("m", "urn:m"),)


def path(text: str) -> LiteralValue:
    return LiteralValue(XPATH_EXPRESSION, XPathExpression(text, RESOURCE, PREFIXES))


def condition_holds(tree: Apply, *attributes: RequestAttribute) -> XacmlDecision:
    root = XacmlPolicy(
        "p",
        "1.0",
        "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-overrides",
        rules=(XacmlRule("r", XacmlEffect.PERMIT, condition=tree),),
    )
    return both(root, (RequestCategory(RESOURCE, attributes, RequestContent(RECORDS.encode())),)).decision


@pytest.mark.parametrize(
    ("name", "one", "other", "expected"),
    [
        ("equal", "//m:a", "/r/*[1]", XacmlDecision.PERMIT),
        ("equal", "//m:a", "//m:b", XacmlDecision.NOT_APPLICABLE),
        ("equal", "//m:a/@n", "//@n", XacmlDecision.PERMIT),
        ("equal", "//m:a/text()", "//text()", XacmlDecision.PERMIT),
        ("match", "//m:b", "//m:c", XacmlDecision.PERMIT),
        ("match", "//m:c", "//m:b", XacmlDecision.NOT_APPLICABLE),
        ("match", "//m:a", "//@n", XacmlDecision.PERMIT),
        ("match", "/r", "//text()", XacmlDecision.PERMIT),
        ("match", "//m:b", "//m:a/text()", XacmlDecision.NOT_APPLICABLE),
    ],
)
def test_expressions_compare_nodes(name: str, one: str, other: str, expected: XacmlDecision) -> None:
    assert condition_holds(Apply(f"{FUNCTION_3}xpath-node-{name}", (path(one), path(other)))) == expected


def test_expressions_count_nodes_from_the_node_that_the_content_selector_names() -> None:
    def counts(text: str, number: int) -> Apply:
        count = Apply(FUNCTION_3 + "xpath-node-count", (path(text),))
        return Apply("urn:oasis:names:tc:xacml:1.0:function:integer-equal", (count, literal(number)))

    selector = RequestAttribute("urn:oasis:names:tc:xacml:3.0:content-selector", (path("//m:b"),))
    assert condition_holds(counts("//*", 4)) == XacmlDecision.PERMIT
    assert condition_holds(counts("r", 1)) == XacmlDecision.PERMIT
    assert condition_holds(counts("m:c", 0)) == XacmlDecision.PERMIT
    assert condition_holds(counts("m:c", 1), selector) == XacmlDecision.PERMIT


def test_a_selector_begins_at_the_node_that_an_attribute_names() -> None:
    def found(context: str) -> XacmlDecision:
        selector = Selector(RESOURCE, "@n", STRING, True, "here", PREFIXES)
        tree = Apply("urn:oasis:names:tc:xacml:1.0:function:string-is-in", (literal("1"), selector))
        return condition_holds(tree, RequestAttribute("here", (path(context),)))

    assert found("//m:a") == XacmlDecision.PERMIT
    assert found("//m:b") == XacmlDecision.INDETERMINATE_P  # there is no such attribute
    assert found("//*") == XacmlDecision.INDETERMINATE_P  # not one node


# --- several decisions in one request


PERMIT_READ = from_plain(
    {"policy": "p", "rules": [{"permit": {"action.id": "read"}}, {"deny": {"action.id": "write"}}]}
)


def test_a_category_that_is_there_twice_asks_for_two_decisions() -> None:
    both_actions = (*single({"action.id": "read"}), *single({"action.id": "write"}), *single({"subject.id": "x"}))
    response = Pdp([PERMIT_READ]).decide(XacmlRequest(both_actions), NOW)
    assert [one.decision for one in response] == ["Permit", "Deny"]


def test_references_choose_the_categories_of_each_decision() -> None:
    read, write = (single({"action.id": one})[0]._replace(id=one) for one in ("read", "write"))
    asks = XacmlRequest((read, write), references=(("write",), ("read",)))
    assert [one.decision for one in Pdp([PERMIT_READ]).decide(asks, NOW)] == ["Deny", "Permit"]
    (result,) = Pdp([PERMIT_READ]).decide(XacmlRequest((read,), references=(("other",),)), NOW)
    assert result.decision == "Indeterminate"


def test_an_expression_over_content_asks_for_a_decision_on_each_node() -> None:
    selector = "urn:oasis:names:tc:xacml:3.0:profile:multiple:content-selector"
    plain = {
        "policy": "p",
        "rules": [
            {
                "permit": {},
                "when": {
                    "apply": "string-is-in",
                    "to": ["1", {"xpath": "@n", "from": "urn:oasis:names:tc:xacml:3.0:content-selector"}],
                },
            }
        ],
    }
    category = RequestCategory(
        RESOURCE, (RequestAttribute(selector, (path("/r/*"),)),), RequestContent(RECORDS.encode())
    )
    response = Pdp([from_plain(plain)]).decide(XacmlRequest((category,)), NOW)
    assert [one.decision for one in response] == ["Permit", "NotApplicable"]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [(["read", "read"], "Permit"), (["write", "write"], "Deny"), (["read", "write"], "Indeterminate")],
)
def test_decisions_are_combined_if_they_are_the_same(actions: list[str], expected: str) -> None:
    categories = tuple(one for action in actions for one in single({"action.id": action}))
    (result,) = Pdp([PERMIT_READ]).decide(XacmlRequest(categories, is_combined=True), NOW)
    assert result.decision == expected


def test_decisions_with_obligations_are_not_combined() -> None:
    pdp = Pdp([from_plain({"policy": "p", "rules": [{"permit": {}, "obligations": [{"id": "o"}]}]})])
    (result,) = pdp.decide(request({}, is_combined=True), NOW)
    assert result.decision == "Indeterminate"


def test_the_policies_that_applied_are_told_if_that_is_asked() -> None:
    root = from_plain(
        {
            "policy_set": "s",
            "policies": [
                {"policy": "a", "rules": [{"permit": {}}]},
                {"policy": "b", "rules": [{"permit": {"action.id": "other"}}]},
                {"policy": "c", "rules": [{"deny": {}}]},
                {"policy": "d", "rules": [{"deny": {}}]},
            ],
        }
    )
    (result,) = Pdp([root]).decide(request({}, returns_policies=True), NOW)
    assert {one.id for one in result.policies} == {"s", "a", "c"}  # b does not apply, d is not asked
    assert Pdp([root]).decide(request({}), NOW)[0].policies == ()


# --- mistakes


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"policy": "p", "rules": [{"permit": {}, "when": {"variable": "x"}}]}, "no variable `x`"),
        ({"policy": "p", "rules": [{"permit": {}, "when": {"value": 1}}]}, "a condition is a boolean, not integer"),
        ({"policy": "p", "rules": [{"permit": {}, "when": "a +"}]}, "rule `permit-1`"),
        ({"policy": "p", "rules": [{"permit": {}, "when": "age > 1"}]}, "expected a category"),
        ({"policy": "p", "rules": [{"permit": {}, "deny": {}}]}, "`permit` or `deny`"),
        ({"policy": "p", "rules": [{"permit": {"age": 1}}]}, "is not an attribute"),
        ({"policy": "p", "rules": [{"permit": {"subject.x": {"~": 1}}}]}, "there is no `~`"),
        ({"policy": "p", "target": {"resource.id": {"<": 1.5}}}, "is of type string, and `1.5` is a number"),
        ({"policy": "p", "rules": [{"permit": {}, "when": {"to": []}}]}, "apply, found `to`"),
        ({"policy": "p", "rules": [{"permit": {}, "when": {"value": 1, "cel": "true"}}]}, "found `value`, `cel`"),
        ({"policy": "p", "combine": "coin"}, "is not a combining algorithm"),
        ({"policy": "p", "version": 1.0}, "in quotes"),
        ({"policy": "p", "rule": []}, "`rule` does not belong"),
        ({"policy": "p", "attributes": {"subject.x": {"type": "colour"}}}, "is not a data type"),
        ({"policy": "p", "obligations": [{"id": "o"}]}, "`with` is permit or deny"),
        ({}, "expected `policy` or `policy_set`"),
        *(
            (
                {
                    "policy": "p",
                    "attributes": {"subject.t": {"type": "string"}, "subject.r": {"required": True}},
                    **one,
                },
                said,
            )
            for one, said in (
                ({"rules": [{"permit": {"subject.t": {">=": 18}}}]}, "is of type string, and `18` is a number"),
                ({"rules": [{"permit": {"subject.t": True}}]}, "is of type string, and `True` is a boolean"),
                ({"rules": [{"permit": {"subject.id": 5}}]}, "write it in quotes"),
                ({"rules": [{"permit": {"subject.x": {"matches": 5}}}]}, "there is no `matches` for"),
                ({"rules": [{"permit": {"subject.x": {">": 5, "<": "7"}}}]}, "declare its type"),
                ({"rules": [{"permit": {"subject.x": 2**53}}]}, "declare its type"),
                ({"rules": [{"permit": {"subject.r": 5}}]}, "is required, and compared with a number"),
                ({"rules": [{"permit": {}, "when": "subject.r > 5"}]}, "is required, and compared with a number"),
                ({"rules": [{"permit": {}, "when": "subject.x == 5 || subject.x == 'a'"}]}, "as number and as text"),
                ({"rules": [{"permit": {}, "when": "subject.x in [1, 'a']"}]}, "as number and as text"),
                ({"rules": [{"permit": {}, "when": {"to": [], "aply": "not"}}]}, "apply, found `to`, `aply`"),
            )
        ),
    ],
)
def test_mistakes_in_the_short_form(plain: Any, said: str) -> None:
    with pytest.raises(XacmlError, match=re.escape(said)):
        Pdp([from_plain(plain)])


def test_keys_of_the_short_form_have_no_order() -> None:
    def policy(*pairs: dict[str, Any]) -> dict[str, Any]:
        return {"policy": "p", "rules": [{"permit": {}, "when": {"apply": "integer-equal", "to": list(pairs)}}]}

    def turned(plain: Any) -> Any:
        if isinstance(plain, list):
            return [turned(one) for one in plain]
        return {k: turned(v) for k, v in reversed(plain.items())} if isinstance(plain, dict) else plain

    plain = policy({"value": "5", "type": "integer"}, {"apply": "integer-add", "to": [{"value": 2}, {"value": 3}]})
    assert from_plain(plain) == from_plain(turned(plain))
    path = {"xpath": "//a", "category": "resource", "type": "string", "required": True}
    for when in ({"apply": "string-equal", "to": ["a", {"apply": "string-one-and-only", "to": [path]}]},):
        plain = {"policy": "p", "rules": [{"permit": {}, "when": when}]}
        assert from_plain(plain) == from_plain(turned(plain))


def test_two_policies_of_one_name_and_version_cannot_be_referred_to() -> None:
    twice = [{"policy": "r", "rules": [{one: {}}]} for one in ("permit", "deny")]
    root = from_plain({"policy_set": "s", "policies": [{"reference": "r"}]})
    outcome = both(root, (), *(from_plain(one) for one in twice))
    assert outcome.decision == XacmlDecision.INDETERMINATE_DP
    assert "two different policies" in outcome.status.message


def test_a_reference_that_leads_nowhere_matters_where_it_is_asked() -> None:
    def outcome(combine: str) -> XacmlDecision:
        policies = [{"policy": "a", "rules": [{"permit": {}}]}, {"reference": "q"}]
        return both(from_plain({"policy_set": "s", "combine": combine, "policies": policies}), ()).decision

    assert outcome("first-applicable") == XacmlDecision.PERMIT
    assert outcome("permit-overrides") == XacmlDecision.PERMIT
    assert outcome("deny-overrides") == XacmlDecision.INDETERMINATE_DP
    assert outcome("only-one-applicable") == XacmlDecision.INDETERMINATE_DP
    root = from_plain({"policy_set": "s", "policies": [{"reference": "q"}]})
    assert [str(one) for one in Pdp([root]).repository.unresolved] == ["there is no policy `q`"]


def test_a_designator_of_a_condition_must_be_a_bag() -> None:
    tree = Apply("urn:penstock:xacml:function:cel", (literal("subject.x == 'a'"), literal("subject.x"), literal("a")))
    with pytest.raises(XacmlError, match="is a bag"):
        condition_holds(tree)
    with pytest.raises(XacmlError, match="names with a bag each"):
        condition_holds(Apply("urn:penstock:xacml:function:cel", (literal("true"), literal("subject.x"))))
    assert isinstance(Designator(SUBJECT, "x", STRING, False), Designator)
