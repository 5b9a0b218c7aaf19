"""The cases of conditions on Spark: as they are, and with their constants in columns."""

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from penstock.language.errors import Failure, FailureKind
from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.language.tree import Tree
from tests.support.cases.conditions import ConditionCase, cases, expected_value
from tests.support.spark.conditions import CODEGEN_OFF, Answer, Question, answers, question, settings
from tests.support.spark.lifted_conditions import as_condition, lifted

ALL = [case for case in cases() if "spark" not in case.gaps]
"""What XPath finds is in `test_payloads.py`, where there is XML."""

LIFTED = [case for case in ALL if case.file != "literals" and lifted(parse(case.expression))[1]]
"""Cases with constants; those about how constants are written have nothing else in them."""


def as_it_is(case: ConditionCase) -> Question:
    return question(_condition(case, parse(case.expression)), case.content)


def with_constants_in_columns(case: ConditionCase) -> Question:
    tree, constants = lifted(parse(case.expression))
    return question(_condition(case, tree), case.content | constants)


def _condition(case: ConditionCase, tree: Tree) -> Tree:
    """The case as a condition: if it has a value that is not a bool, whether it has this value."""
    if case.error is not None or isinstance(case.value, bool):
        return tree
    return as_condition(tree, expected_value(case.value))


def _expected(case: ConditionCase) -> bool | FailureKind:
    if case.error is not None:
        return FailureKind(case.error)
    return case.value if isinstance(case.value, bool) else True


Answers = dict[str, Answer]


def _all_answers(spark: SparkSession, cases: list[ConditionCase], form: Callable[[ConditionCase], Question]) -> Answers:
    found = dict(zip(map(str, cases), answers(spark, map(form, cases)), strict=True))
    how = Counter(answer.how.construct or "native" for answer in found.values())
    print(f"\n{form.__name__}:", ", ".join(f"{count} {name}" for name, count in how.most_common()))
    return found


@pytest.fixture(scope="module")
def plain_answers(spark: SparkSession) -> Answers:
    return _all_answers(spark, ALL, as_it_is)


@pytest.fixture(scope="module")
def lifted_answers(spark: SparkSession) -> Answers:
    """Without generated code, so that both ways of evaluating are tested; here are the larger expressions."""
    with settings(spark, CODEGEN_OFF):
        return _all_answers(spark, LIFTED, with_constants_in_columns)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_as_it_is(case: ConditionCase, plain_answers: Answers) -> None:
    assert plain_answers[str(case)].outcome == _expected(case)


@pytest.mark.parametrize("case", LIFTED, ids=str)
def test_with_its_constants_in_columns(case: ConditionCase, lifted_answers: Answers) -> None:
    assert lifted_answers[str(case)].outcome == _expected(case)


@pytest.mark.parametrize("form", [as_it_is, with_constants_in_columns])
def test_what_is_asked_is_what_the_case_says(form: Callable[[ConditionCase], Question]) -> None:
    for case in ALL:
        tree = form(case).tree
        found = decide(tree, case.content | lifted(parse(case.expression))[1])
        assert (found.kind if isinstance(found, Failure) else found) == _expected(case), str(case)


def test_nearly_all_are_native(plain_answers: Answers, lifted_answers: Answers) -> None:
    for found, least in ((plain_answers, 0.95), (lifted_answers, 0.85)):
        natives = [answer.how.native for title, answer in found.items() if not title.startswith("cost: ")]
        assert sum(natives) > least * len(natives)
