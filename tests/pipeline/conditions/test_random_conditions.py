"""Random expressions and contents on which the reference, the closures and Spark agree, failures included."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.language.errors import Failure, FailureKind
from penstock.language.evaluators.closures import compile_metered
from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from tests.support.generators.conditions import contents, expressions, usual_contents
from tests.support.generators.examples import some
from tests.support.spark import conditions as on_spark
from tests.support.spark.conditions import Question, answers, question

pytestmark = pytest.mark.fuzz

OTHER_MODES = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "America/St_Johns"}

pairs = st.tuples(
    st.one_of(expressions("bool"), expressions("bool"), expressions()),
    st.one_of(contents, usual_contents, usual_contents),
)


def some_pairs() -> list[tuple[str, dict[str, Any]]]:
    """Gathered first, as each Spark job costs; a pair is small already."""
    found: list[tuple[str, dict[str, Any]]] = []

    @settings(max_examples=some(100), phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(pairs)
    def gather(pair: tuple[str, dict[str, Any]]) -> None:
        found.append(pair)

    gather()
    return found


def can_be_content(value: Any, typed: bool) -> bool:
    """No half surrogates, which UTF-8 has not; in JSON only numbers."""
    match value:
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case float():
            return typed or math.isfinite(value)
        case dict():
            return all(can_be_content(each, typed) for each in value.values())
        case list():
            return all(can_be_content(each, typed) for each in value)
        case _:
            return True


def as_kind(outcome: bool | Failure) -> bool | FailureKind:
    return outcome.kind if isinstance(outcome, Failure) else outcome


@pytest.mark.parametrize("mode", [on_spark.CODEGEN_OFF, OTHER_MODES], ids=["interpreted", "not ANSI, not UTC"])
def test_spark_finds_what_the_other_evaluators_find(spark: SparkSession, mode: dict[str, str]) -> None:
    asked: list[tuple[str, dict[str, Any], Question]] = []
    for text, content in some_pairs():
        on_columns = question(parse(text), content)
        if can_be_content(content, on_columns.schema is not None):
            asked.append((text, content, on_columns))
    with on_spark.settings(spark, mode):
        found = answers(spark, [each for _, _, each in asked])
    differences = [
        f"`{text}` with {content}: {answer.outcome}, expected {expected} ({answer.how})"
        for (text, content, _), answer in zip(asked, found, strict=True)
        if answer.outcome != (expected := as_kind(decide(parse(text), content)))
        or as_kind(compile_metered(parse(text))[0](content)) != expected
    ]
    assert not differences, "\n".join(differences)
    assert any(answer.how.native for answer in found)
    assert len(asked) > 50
