"""Random expressions and contents: the evaluators agree, failures included, and canonical form changes nothing."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.checker import check
from penstock.language.errors import ConditionError, Failure, FailureKind, failed
from penstock.language.evaluators.closures import compile_metered, compile_value
from penstock.language.evaluators.reference import decide, evaluate
from penstock.language.evaluators.work import Work
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.tree import walk
from penstock.language.types import BOOL, DYN, TYPE, ScalarType
from penstock.language.values import Value, type_text
from tests.support.cases.conditions import same
from tests.support.generators.conditions import contents, expressions, usual_contents

anything = st.one_of(expressions(), expressions("bool"))
some_content = st.one_of(contents, usual_contents)


def find_xpath(expression: str, work: Work) -> Value:
    raise failed(FailureKind.UNREADABLE_CONTENT, f"nothing for `{expression}`")


@given(anything, some_content)
def test_both_evaluators_find_the_same(text: str, content: dict[str, Any]) -> None:
    tree = parse(text)
    expected = evaluate(tree, content, find_xpath)
    assert same(compile_value(tree)(content, find_xpath), expected)
    assert compile_metered(tree)[0](content, find_xpath) == decide(tree, content, find_xpath)


@given(anything, usual_contents)
def test_canonical_form_means_the_same(text: str, content: dict[str, Any]) -> None:
    tree = parse(text)
    again = parse(show(tree))
    assert again == tree
    assert same(evaluate(again, content), evaluate(tree, content))


@given(expressions("bool"), usual_contents)
def test_what_the_checker_says_of_the_type_is_so(text: str, content: dict[str, Any]) -> None:
    tree = parse(text)
    try:
        expected = check(tree, text)
    except ConditionError:
        return
    found = evaluate(tree, content)
    if isinstance(found, Failure) or expected == DYN:
        return
    name = str(expected).partition("(")[0]
    assert name == {"null_type": "null"}.get(type_text(found), type_text(found))


@given(st.text(alphabet="ab1.'\"\\`()[]{}<>=!&|?:,+-*/% \nxurb_", max_size=30))
def test_any_text_is_a_condition_or_one_error_with_a_caret(text: str) -> None:
    try:
        tree = parse(text)
    except ConditionError as raised:
        error = raised
    else:
        assert parse(show(tree)) == tree
        return
    what, _, caret = str(error).split("\n")
    assert what.endswith(f", at character {error.at + 1}")
    assert caret.strip() == "^"


PIECES = ["!", "(", "[", "{1:", "a[", "-", "size(", "a ? a : ", "1 + (", "[a].map(x, ", "a.", "a || (a && ", "a.b("]


@pytest.mark.parametrize("piece", PIECES)
def test_no_depth_breaks_the_parser(piece: str) -> None:
    with pytest.raises(ConditionError):
        parse(piece * 400)


DEEP = [
    ("!(", "a", ")"),
    ("(", "a", " && b || c)"),
    ("[", "a", "]"),
    ("", "a", " + a"),
    ("", "a", ".b"),
    ("", "a", "[0]"),
]
DEEP += [
    ("a ? a : ", "a", ""),
    ("-(", "a", ")"),
    ("size(", "a", ")"),
    ("", "a", ".startsWith('b')"),
    ("{1: ", "a", "}"),
]


@pytest.mark.parametrize(("before", "middle", "after"), DEEP)
def test_what_the_parser_lets_pass_is_not_too_deep_for_the_rest(before: str, middle: str, after: str) -> None:
    text = before * 38 + middle + after * 38
    tree = parse(text)
    assert max(depth for _, depth in walk(tree)) > 20
    assert parse(show(tree)) == tree
    content = {"a": True, "b": True}
    assert same(compile_value(tree)(content), evaluate(tree, content))
    with suppress(ConditionError):
        check(tree, text)


def test_a_failure_has_no_truth() -> None:
    outcome = decide(parse("a > 1"), {})
    assert isinstance(outcome, Failure)
    with pytest.raises(TypeError, match="neither true nor false: there is no `a`"):
        bool(outcome)


def test_types_of_names() -> None:
    assert check(parse("int"), "int") == TYPE
    assert check(parse("a > 1"), "a > 1") == BOOL
    assert check(parse("1 + 1"), "1 + 1") == ScalarType("int")
