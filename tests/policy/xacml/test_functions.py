"""Each function, on both evaluators."""

from pathlib import Path
from typing import Any

import pytest

from penstock.policy.xacml.evaluation.expressions import Compiler
from penstock.policy.xacml.evaluation.reference import ReferenceEvaluator
from penstock.policy.xacml.evaluation.repository import Repository
from penstock.policy.xacml.forms.short import read_yaml
from penstock.policy.xacml.forms.short_expressions import AttributeNames, expression
from penstock.policy.xacml.functions.function import XacmlFunction
from penstock.policy.xacml.functions.table import FUNCTIONS, HIGHER, LOGICAL
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.status import Indeterminate, XacmlError
from penstock.policy.xacml.tree import Apply, Expression
from penstock.policy.xacml.values.values import DATA_TYPES, SHORT_TYPES, Type, read_value, show_value
from tests.support.cases.xacml import NOW, value_of

CASES = read_yaml((Path(__file__).parents[2] / "cases/xacml/functions.yaml").read_bytes())


def title(case: dict[str, Any]) -> str:
    return str(case.get("title", f"{case['apply']} of {case['to']}"))


def written(value: Any) -> Any:
    """A case's argument as the short form has it."""
    if isinstance(value, dict) and "bag" in value:
        members = [{"value": str(one).lower() if one is True else one, "type": value["of"]} for one in value["bag"]]
        return {"apply": f"{value['of']}-bag", "to": members}
    if isinstance(value, dict) and "apply" in value:
        return {"apply": value["apply"], "to": [written(one) for one in value["to"]]}
    return value


def tree_of(case: dict[str, Any]) -> Expression:
    return expression({"apply": case["apply"], "to": [written(one) for one in case["to"]]}, AttributeNames())


@pytest.mark.parametrize("case", CASES, ids=title)
def test_a_function(case: dict[str, Any]) -> None:
    tree = tree_of(case)
    if "refused" in case:
        with pytest.raises(XacmlError, match=case["refused"]):
            Compiler().expression(tree)
        return
    run = Compiler().expression(tree).run
    for evaluate in (run, lambda context: ReferenceEvaluator(Repository(()), context).value(tree)):
        context = Context((), NOW)
        if "fails" in case:
            with pytest.raises(Indeterminate) as failed:
                evaluate(context)
            assert failed.value.status.code.endswith(case["fails"])
        else:
            assert evaluate(context) == value_of(case["gives"]).value


def test_each_function_of_values_has_a_case() -> None:
    of_bags = ("one-and-only", "bag-size", "is-in", "bag", "intersection", "at-least-one-member-of", "union", "subset")
    shown = {case["apply"] for case in CASES}
    every = {one.rpartition(":")[2] for one in (*FUNCTIONS, *HIGHER, *LOGICAL)}
    assert {one for one in every if not one.endswith((*of_bags, "set-equals"))} <= shown


SAMPLES = {
    "string": ("a", "b"),
    "boolean": ("true", "false"),
    "integer": ("1", "2"),
    "double": ("1.5", "2.5"),
    "time": ("10:00:00Z", "11:00:00Z"),
    "date": ("2002-03-22", "2002-03-23"),
    "dateTime": ("2002-03-22T10:00:00Z", "2002-03-22T11:00:00Z"),
    "dayTimeDuration": ("P1D", "P2D"),
    "yearMonthDuration": ("P1Y", "P2Y"),
    "anyURI": ("http://a", "http://b"),
    "hexBinary": ("0A", "0B"),
    "base64Binary": ("AAAA", "BBBB"),
    "rfc822Name": ("a@b.c", "b@b.c"),
    "x500Name": ("cn=a", "cn=b"),
    "ipAddress": ("10.0.0.1", "10.0.0.2"),
    "dnsName": ("a.b", "b.b"),
    "xpathExpression": ("/a", "/b"),
}


@pytest.mark.parametrize("identifier", [one for one in FUNCTIONS if one.endswith("-one-and-only")])
def test_the_functions_of_bags_of_a_type(identifier: str) -> None:
    prefix = identifier.removesuffix("one-and-only")
    uri = FUNCTIONS[identifier].result.data
    a, b = (read_value(uri, text) for text in SAMPLES[DATA_TYPES[uri].name])

    def apply(name: str, *arguments: Any) -> Any:
        return FUNCTIONS[prefix + name].apply(*arguments)

    assert apply("one-and-only", (a,)) == a
    for wrong in ((), (a, b)):
        with pytest.raises(Indeterminate):
            apply("one-and-only", wrong)
    assert apply("bag-size", (a, a, b)) == 3
    assert apply("is-in", a, (b, a))
    assert not apply("is-in", a, (b,))
    assert apply("bag", a, b, a) == (a, b, a)
    assert apply("intersection", (a, b, a), (a,)) == (a,)
    assert apply("at-least-one-member-of", (a, b), (b,))
    assert not apply("at-least-one-member-of", (a,), (b,))
    assert apply("union", (a, a), (b, a)) == (a, b)
    assert apply("subset", (a, a), (b, a))
    assert not apply("subset", (a, b), (a,))
    assert apply("set-equals", (a, b, a), (b, a))
    assert not apply("set-equals", (a, b), (b,))


@pytest.mark.parametrize("name", SHORT_TYPES)
def test_what_is_written_of_a_value_is_read_as_the_same(name: str) -> None:
    uri = SHORT_TYPES[name]
    for text in SAMPLES[name]:
        value = read_value(uri, text)
        assert read_value(uri, show_value(uri, value)) == value
        assert hash(value) == hash(read_value(uri, text))


NOT_VALUES = {
    "boolean": ("yes", "", "True"),
    "integer": ("1.0", "", "x", "1" * 1001, "\u0661"),
    "double": ("1,5", "", "Infinity", "nan"),
    "time": ("10:00", "25:00:00", "10:60:00", "10:00:00+15:00", "24:00:01", "10:00:00.1234567891"),
    "date": ("2002-13-01", "2002-02-30", "02-01-01", "2002-1-1"),
    "dateTime": ("2002-03-22", "2002-03-22 10:00:00", "2002-03-22T10:00:00+00"),
    "dayTimeDuration": ("P", "PT", "P1Y", "1D", "P1DT", "P1.5D"),
    "yearMonthDuration": ("P", "P1D", "P1M1Y", "P1.5Y"),
    "anyURI": ("a b", "<a>"),
    "hexBinary": ("0", "0G", "0A 0B"),
    "base64Binary": ("A", "AAA", "A*==", "é"),
    "rfc822Name": ("a", "@b", "a@", "a b@c"),
    "x500Name": ("a", "cn", "=a", "cn=a,", 'cn="a'),
    "ipAddress": ("1.2.3", "1.2.3.4.5", "::1", "[::1", "1.2.3.4:99999999", "1.2.3.4/x"),
    "dnsName": ("", "a..b", "a b", "*a", "a.*.b"),
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in NOT_VALUES.items() for text in texts])
def test_what_is_not_a_value_of_a_type_is_refused(name: str, text: str) -> None:
    with pytest.raises(XacmlError, match=f"is not a value of type {name}"):
        read_value(SHORT_TYPES[name], text)


def test_white_space_around_a_value_counts_in_strings_only() -> None:
    assert read_value(SHORT_TYPES["integer"], " 1\n") == 1
    assert read_value(SHORT_TYPES["string"], " 1\n") == " 1\n"


def test_durations_have_the_functions_that_they_had_before() -> None:
    for name in ("equal", "one-and-only", "bag", "union"):
        before = FUNCTIONS[f"urn:oasis:names:tc:xacml:1.0:function:dayTimeDuration-{name}"]
        assert (
            before.parameters == FUNCTIONS[f"urn:oasis:names:tc:xacml:3.0:function:dayTimeDuration-{name}"].parameters
        )


def test_a_function_says_what_it_takes() -> None:
    function = XacmlFunction("f", (Type("a"),), Type("b"), len, rest=Type("c"))
    assert [function.parameter(at) for at in range(3)] == [Type("a"), Type("c"), Type("c")]
    assert [function.accepts(count) for count in range(3)] == [False, True, True]
    assert isinstance(tree_of(CASES[0]), Apply)
