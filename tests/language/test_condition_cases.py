"""The cases of conditions on the reference evaluator and on the closures."""

import re
from collections import Counter
from pathlib import Path

import pytest

from penstock.language.checker import check
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError, Failure, FailureKind
from penstock.language.evaluators.closures import compile_metered, compile_value
from penstock.language.evaluators.reference import decide, evaluate
from penstock.language.parser import parse
from penstock.language.printer import show
from tests.support.cases.conditions import EXECUTORS, ConditionCase, cases

ALL = cases()


@pytest.mark.parametrize("case", ALL, ids=str)
def test_reference(case: ConditionCase) -> None:
    found = evaluate(parse(case.expression), case.content, case.find_xpath)
    assert case.accepts(found), found


@pytest.mark.parametrize("case", ALL, ids=str)
def test_closures(case: ConditionCase) -> None:
    found = compile_value(parse(case.expression))(case.content, case.find_xpath)
    assert case.accepts(found), found


@pytest.mark.parametrize("case", ALL, ids=str)
def test_as_policy_it_is_true_false_or_a_failure(case: ConditionCase) -> None:
    tree = parse(case.expression)
    outcome = compile_metered(tree)[0](case.content, case.find_xpath)
    assert outcome == decide(tree, case.content, case.find_xpath)
    if case.error is None and isinstance(case.value, bool):
        assert outcome is case.value
    else:
        assert isinstance(outcome, Failure)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_checker_lets_it_pass_unless_the_case_says_otherwise(case: ConditionCase) -> None:
    tree = parse(case.expression)
    if case.unchecked:
        with pytest.raises(ConditionError):
            check(tree, case.expression)
    else:
        check(tree, case.expression)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_canonical_form_is_the_same_condition(case: ConditionCase) -> None:
    tree = parse(case.expression)
    assert parse(show(tree)) == tree
    assert show(parse(show(tree))) == show(tree)


def test_the_cases_are_as_they_should_be() -> None:
    assert len(ALL) >= 400
    assert [title for title, count in Counter(case.title for case in ALL).items() if count > 1] == []
    assert {case.error for case in ALL if case.error} == set(FailureKind)
    assert [case.title for case in ALL if case.gaps.keys() - set(EXECUTORS)] == []


PAGE = Path(__file__).parent.parent.parent / "docs" / "conditions.md"


def test_what_the_page_says_of_the_meaning_are_cases() -> None:
    named = re.findall(r"(?<!\*)\*([^*|\n]+)\*(?!\*)", PAGE.read_text("utf-8").partition("## How it is calculated")[2])
    assert sorted(set(named) - {case.title for case in ALL} - {"covers"}) == []
    assert len(named) > 30


def test_the_examples_of_the_page_are_conditions() -> None:
    (block,) = re.findall(r"```cel\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines():
        assert make_condition(line).text == line
