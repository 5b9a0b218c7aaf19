"""What strangers may send: refused, or without a decision, within bounds. What cannot be evaluated never permits."""

import tracemalloc

import pytest

from penstock.policy.xacml import (
    Pdp,
    RequestCategory,
    XacmlError,
    XacmlRequest,
    read_policy,
    read_request,
    read_request_json,
)
from penstock.policy.xacml.forms.short import from_plain, read_short
from penstock.policy.xacml.forms.short_expressions import literal
from penstock.policy.xacml.limits import MAX_DEPTH, MAX_NESTING, MAX_RESULTS
from penstock.policy.xacml.names import CORE, FUNCTION_1, FUNCTION_3, INTEGER, RESOURCE, STRING, SUBJECT
from penstock.policy.xacml.request import RequestAttribute
from penstock.policy.xacml.status import Unsupported
from penstock.policy.xacml.tree import (
    Apply,
    Designator,
    DutyExpression,
    Expression,
    FunctionName,
    LiteralValue,
    PolicyReference,
    Selector,
    VariableReference,
    XacmlEffect,
    XacmlPolicy,
    XacmlPolicySet,
    XacmlRule,
)
from penstock.policy.xacml.xpath import RequestContent
from tests.support.cases.xacml import NOW, request

RULE_ALGORITHM = "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:permit-overrides"
SET_ALGORITHM = "urn:oasis:names:tc:xacml:3.0:policy-combining-algorithm:permit-overrides"
POLICY = f'<Policy xmlns="{CORE}" PolicyId="p" Version="1.0" RuleCombiningAlgId="{RULE_ALGORITHM}"><Target/>'
RULE = '<Rule RuleId="r" Effect="Permit"><Condition>'

LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10}">' for at in range(1, 12))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]>{POLICY}<Description>&l11;</Description></Policy>', "document type"),
        (f'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>{POLICY}</Policy>', "document type"),
        (f'<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">{POLICY}</Policy>', "document type"),
        (POLICY + "<a>" * 100_000, "inside each other"),
        (POLICY, "not XML"),
        ("", "not XML"),
        (f'<?xml version="1.0" encoding="no-such"?>{POLICY}</Policy>', "not XML"),
        ('<Policy xmlns="urn:oasis:names:tc:xacml:2.0:policy:schema:os"/>', "another version"),
        ("<Policy/>", "namespace"),
        (f'<Rule xmlns="{CORE}"/>', "expected a `Policy`"),
    ],
)
def test_policies_that_are_none_or_would_be_too_large(text: str, said: str) -> None:
    for read in (read_policy, read_request):
        if read is read_request and said == "expected a `Policy`":
            continue
        with pytest.raises(XacmlError, match=said):
            read(text.encode())


def test_a_request_with_entities_is_refused_in_its_content_too() -> None:
    text = f'<Request xmlns="{CORE}"><Attributes Category="{RESOURCE}"><Content>&x;</Content></Attributes></Request>'
    with pytest.raises(XacmlError, match="undefined entity"):
        read_request(text.encode())
    asks = '{"Request": {"Resource": {"Content": "<!DOCTYPE a [<!ENTITY x \\"y\\">]><a>&x;</a>"}}}'
    assert _decision(_counting("//a"), read_request_json(asks.encode())) == "Indeterminate"


def test_nesting_at_the_bound_is_still_evaluated() -> None:
    depth = MAX_DEPTH - 6
    opening = f'<Apply FunctionId="{FUNCTION_1}not">'
    text = (
        f"{POLICY}{RULE}{opening * depth}"
        f'<AttributeValue DataType="http://www.w3.org/2001/XMLSchema#boolean">{str(depth % 2 == 0).lower()}'
        f"</AttributeValue>{'</Apply>' * depth}</Condition></Rule></Policy>"
    )
    assert Pdp([read_policy(text.encode())]).decide(request({}), NOW)[0].decision == "Permit"
    deeper = text.replace(opening, opening * 2)
    with pytest.raises(XacmlError):
        read_policy(deeper.encode())


def test_yaml_with_aliases_that_multiply_is_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{at}: &b{at} [*a, *a]\n" for at in range(30))
    with pytest.raises(XacmlError, match="aliases"):
        read_short(bomb.encode())


@pytest.mark.parametrize("text", ["[" * 100_000, '{"Request":' * 100_000, "- " * 50_000, "a: 1\na: 2", "\x00", "- [}"])
def test_yaml_and_json_that_are_none_or_too_deep(text: str) -> None:
    for read in (read_short, read_request_json):
        with pytest.raises(XacmlError):
            read(text.encode())


def test_yaml_that_says_a_thing_twice_is_refused() -> None:
    with pytest.raises(XacmlError, match="line 2: rules: found a second `rules`, expected only the one at line 1"):
        read_short(b"{policy: p, rules: [],\nrules: [{permit: {}}]}")


def test_json_that_says_a_thing_twice_is_refused() -> None:
    with pytest.raises(XacmlError, match="twice"):
        read_request_json(b'{"Request": {"Action": {}, "Action": {}}}')


def test_memory_for_what_is_refused_is_bounded() -> None:
    text = f"{POLICY}{'<a/>' * 200_000}".encode()
    tracemalloc.start()
    with pytest.raises(XacmlError, match="XML elements and attributes"):
        read_request(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20


# --- circles


def test_variables_in_a_circle_are_refused() -> None:
    for variables in ({"a": {"variable": "a"}}, {"a": {"variable": "b"}, "b": {"variable": "a"}}):
        with pytest.raises(XacmlError, match="in a circle"):
            Pdp([from_plain({"policy": "p", "variables": variables})])


def test_references_in_a_circle_are_refused() -> None:
    one = XacmlPolicySet("one", "1.0", SET_ALGORITHM, children=(PolicyReference("two", True),))
    two = XacmlPolicySet("two", "1.0", SET_ALGORITHM, children=(PolicyReference("one", True),))
    with pytest.raises(XacmlError, match="in a circle: `one` -> `two` -> `one`"):
        Pdp([one], [two])
    itself = XacmlPolicySet("one", "1.0", SET_ALGORITHM, children=(PolicyReference("one", True),))
    with pytest.raises(XacmlError, match="in a circle"):
        Pdp([itself])


def _chain(length: int, times: int) -> list[XacmlPolicySet]:
    """Sets that refer to the next, each so many times; the last is empty."""
    return [
        XacmlPolicySet(
            f"s{at}",
            "1.0",
            SET_ALGORITHM,
            children=(PolicyReference(f"s{at + 1}", True),) * times if at + 1 < length else (_PERMIT,),
        )
        for at in range(length)
    ]


_PERMIT = XacmlPolicy(
    "p",
    "1.0",
    RULE_ALGORITHM,
    rules=(XacmlRule("r", XacmlEffect.DENY, obligations=(DutyExpression("o", XacmlEffect.DENY),)),),
)


def test_references_too_deep_are_refused() -> None:
    first, *others = _chain(MAX_NESTING + 2, 1)
    with pytest.raises(XacmlError, match="inside each other"):
        Pdp([first], others)


def test_references_that_multiply_cost_what_they_would_once() -> None:
    first, *others = _chain(MAX_NESTING - 1, 2)
    (result,) = Pdp([first], others).decide(request({}), NOW)
    # Two to the power of 30 obligations are too many, and so there is no decision.
    assert result.decision == "Indeterminate"
    assert "obligations" in result.status.message


def test_variables_that_multiply_cost_what_they_would_once() -> None:
    def two(name: str) -> Expression:
        return Apply(FUNCTION_1 + "integer-add", (VariableReference(name), VariableReference(name)))

    variables = (("v0", literal(1)), *((f"v{at}", two(f"v{at - 1}")) for at in range(1, 200)))
    condition = Apply(FUNCTION_1 + "integer-equal", (VariableReference("v199"), LiteralValue(INTEGER, 2**199)))
    root = XacmlPolicy(
        "p",
        "1.0",
        RULE_ALGORITHM,
        rules=(XacmlRule("r", XacmlEffect.PERMIT, condition=condition),),
        variables=variables,
    )
    assert Pdp([root]).decide(request({}), NOW)[0].decision == "Permit"


# --- what would take for ever


def _policy_if(condition: Expression, effect: XacmlEffect = XacmlEffect.PERMIT) -> XacmlPolicy:
    return XacmlPolicy("p", "1.0", RULE_ALGORITHM, rules=(XacmlRule("r", effect, condition=condition),))


def _decision(root: XacmlPolicy, asks: XacmlRequest) -> str:
    (result,) = Pdp([root]).decide(asks, NOW)
    return result.decision


def _counting(path: str) -> XacmlPolicy:
    selector = Selector(RESOURCE, path, STRING, False, None, ())
    size = Apply(FUNCTION_1 + "string-bag-size", (selector,))
    return _policy_if(Apply(FUNCTION_1 + "integer-greater-than-or-equal", (size, literal(0))))


def _with_content(xml: str) -> XacmlRequest:
    return XacmlRequest((RequestCategory(RESOURCE, (), RequestContent(xml.encode())),))


@pytest.mark.parametrize(
    "path",
    [
        "//*//*//*//*//*//*",
        "//*[count(//*[count(//*) > 0]) > 0]",
        "//a[.//a[.//a[//a = .]]]",
        "//*[contains(., /)]",
        "//*[. = //*]",
        "//a/preceding::a/following::a/preceding::a",
    ],
)
def test_xpath_that_explodes_is_not_begun(path: str) -> None:
    document = "<r>" + "<a>x</a>" * 20_000 + "</r>"
    assert _decision(_counting(path), _with_content(document)) == "Indeterminate"
    assert _decision(_counting(path), _with_content("<r><a/></r>")) == "Permit"


def test_many_paths_over_one_document_are_not_begun_either() -> None:
    document = _with_content("<r>" + "<a>x</a>" * 20_000 + "</r>")
    for count, expected in ((2, "Permit"), (400, "Indeterminate")):
        selectors = [Selector(RESOURCE, f"/r/a[{at}]/b", STRING, False, None, ()) for at in range(count)]
        sizes = tuple(Apply(FUNCTION_1 + "string-bag-size", (one,)) for one in selectors)
        condition = Apply(FUNCTION_1 + "integer-equal", (Apply(FUNCTION_1 + "integer-add", sizes), literal(0)))
        assert _decision(_policy_if(condition), document) == expected


@pytest.mark.parametrize("path", ["unknown:a", "$x", "document('file:///etc/passwd')", "a[", "a b", "?", "x" * 2_000])
def test_paths_that_are_none_are_refused_with_the_policy(path: str) -> None:
    with pytest.raises(XacmlError, match="is not an XPath expression"):
        Pdp([_counting(path)])


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_patterns_that_explode_elsewhere_do_not_here(pattern: str) -> None:
    condition = Apply(FUNCTION_1 + "string-regexp-match", (literal(pattern), literal("a" * 50_000 + "!")))
    assert _decision(_policy_if(condition), request({})) in ("NotApplicable", "Indeterminate")


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "((a{100}){100}){100}", "(" * 500, "[" * 2_000, "a" * 5_000])
def test_patterns_that_are_too_large_fail(pattern: str) -> None:
    condition = Apply(FUNCTION_1 + "string-regexp-match", (literal(pattern), literal("a")))
    assert _decision(_policy_if(condition), request({})) == "Indeterminate"


def test_functions_of_functions_count_their_steps() -> None:
    bag = Designator(SUBJECT, "x", STRING, must_be_present=False)
    condition = Apply(FUNCTION_3 + "any-of-any", (FunctionName(FUNCTION_1 + "string-equal"), bag, bag))
    asks = XacmlRequest(
        (
            RequestCategory(
                SUBJECT, (RequestAttribute("x", tuple(LiteralValue(STRING, str(at)) for at in range(1000))),)
            ),
        )
    )
    assert _decision(_policy_if(condition), asks) == "Indeterminate"


@pytest.mark.parametrize(
    ("first", "grow", "equal"),
    [
        (LiteralValue(INTEGER, 3), "urn:oasis:names:tc:xacml:1.0:function:integer-multiply", "integer-equal"),
        (literal("xx"), "urn:oasis:names:tc:xacml:2.0:function:string-concatenate", "string-equal"),
    ],
)
def test_numbers_and_texts_that_grow_fail(first: LiteralValue, grow: str, equal: str) -> None:
    variables: list[tuple[str, Expression]] = [
        ("v0", first),
        *((f"v{at}", Apply(grow, (VariableReference(f"v{at - 1}"),) * 2)) for at in range(1, 60)),
    ]
    for last, expected in ((5, "Permit"), (59, "Indeterminate")):
        condition = Apply(FUNCTION_1 + equal, (VariableReference(f"v{last}"),) * 2)
        root = XacmlPolicy(
            "p",
            "1.0",
            RULE_ALGORITHM,
            rules=(XacmlRule("r", XacmlEffect.PERMIT, condition=condition),),
            variables=tuple(variables),
        )
        assert _decision(root, request({})) == expected


def test_work_on_long_texts_is_counted() -> None:
    """Each search takes little, but there may be very many of them."""
    text = Designator(SUBJECT, "x", STRING, must_be_present=True)
    one = Apply(FUNCTION_1 + "string-one-and-only", (text,))
    for function, part in (("string-regexp-match", "(a|b|c)*d"), ("string-normalize-space", None)):
        applied = Apply(FUNCTION_1 + function, (one,) if part is None else (literal(part), one))
        test = applied if part is not None else Apply(FUNCTION_1 + "string-equal", (applied, literal("x")))
        condition = Apply(FUNCTION_1 + "or", (test,) * 10_000)
        asks = XacmlRequest((RequestCategory(SUBJECT, (RequestAttribute("x", (literal("a" * 30_000),)),)),))
        assert _decision(_policy_if(condition), asks) == "Indeterminate"


def test_times_that_go_far_away_fail() -> None:
    moment: Expression = Designator(
        "urn:oasis:names:tc:xacml:3.0:attribute-category:environment",
        "urn:oasis:names:tc:xacml:1.0:environment:current-dateTime",
        "http://www.w3.org/2001/XMLSchema#dateTime",
        must_be_present=True,
    )
    moment = Apply(FUNCTION_1 + "dateTime-one-and-only", (moment,))
    step = literal("P999999999M", "http://www.w3.org/2001/XMLSchema#yearMonthDuration")
    for _ in range(40):
        moment = Apply(FUNCTION_3 + "dateTime-add-yearMonthDuration", (moment, step))
    assert _decision(_policy_if(Apply(FUNCTION_1 + "dateTime-equal", (moment, moment))), request({})) == "Indeterminate"


def test_requests_for_too_many_decisions_are_refused() -> None:
    categories = tuple(RequestCategory(one) for one in (SUBJECT, RESOURCE) for _ in range(MAX_RESULTS // 10))
    (result,) = Pdp([_PERMIT]).decide(XacmlRequest(categories), NOW)
    assert (result.decision, "requests in one" in result.status.message) == ("Indeterminate", True)


# --- what is left out is refused, and says so


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{POLICY}<PolicyIssuer/></Policy>", "PolicyIssuer"),
        (POLICY.replace(' Version="1.0"', ' Version="1.0" MaxDelegationDepth="1"') + "</Policy>", "MaxDelegationDepth"),
        (
            f"{POLICY}<PolicyDefaults><XPathVersion>http://www.w3.org/TR/2007/REC-xpath20-20070123</XPathVersion>"
            "</PolicyDefaults></Policy>",
            "version of XPath",
        ),
        (
            f'{POLICY}{RULE}<Apply FunctionId="{FUNCTION_3}access-permitted"/></Condition></Rule></Policy>',
            "access-permitted",
        ),
    ],
)
def test_what_is_not_taken_on(text: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        Pdp([read_policy(text.encode())])


def test_hierarchies_of_resources_are_not_taken_on() -> None:
    scope = RequestAttribute("urn:oasis:names:tc:xacml:2.0:resource:scope", (literal("Descendants"),))
    (result,) = Pdp([_PERMIT]).decide(XacmlRequest((RequestCategory(RESOURCE, (scope,)),)), NOW)
    assert result.decision == "Indeterminate"


MISTAKES: list[tuple[str, str]] = [
    ("<Rule/>", "has no `RuleId`"),
    ('<Rule RuleId="r" Effect="Maybe"/>', "not Permit or Deny"),
    ('<Rule RuleId="r" Effect="Permit"><Target><AnyOf/></Target></Rule>', "has no `AllOf`"),
    ('<Rule RuleId="r" Effect="Permit"><Target><AllOf/></Target></Rule>', "expected `AnyOf`"),
    ('<Rule RuleId="r" Effect="Permit"><Condition/></Rule>', "one expression"),
    ('<Rule RuleId="r" Effect="Permit"><Colour/></Rule>', "does not belong"),
    (f"{RULE}<VariableReference/></Condition></Rule>", "has no `VariableId`"),
    (f'{RULE}<AttributeValue DataType="x:y">1</AttributeValue></Condition></Rule>', "not a data type"),
    (
        f'{RULE}<AttributeValue DataType="http://www.w3.org/2001/XMLSchema#integer">x</AttributeValue></Condition></Rule>',
        "is not a value of type integer",
    ),
    (
        f'{RULE}<AttributeDesignator Category="c" AttributeId="a" DataType="{STRING}"/></Condition></Rule>',
        "MustBePresent",
    ),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_mistakes_say_the_line(text: str, said: str) -> None:
    with pytest.raises(XacmlError, match=f"line 2: .*{said}"):
        read_policy(f"{POLICY}\n{text}\n</Policy>".encode())


def test_combiner_parameters_are_accepted() -> None:
    text = f'{POLICY}<CombinerParameters><CombinerParameter ParameterName="x"/></CombinerParameters></Policy>'
    assert isinstance(read_policy(text.encode()), XacmlPolicy)
