"""Each gap is declared, has an example, and makes no difference to the result."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DayTimeIntervalType, StringType, StructField, StructType

from penstock.language.errors import Failure
from penstock.language.evaluators.functions import FUNCTIONS, METHODS, OPERATORS
from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.language.values import Duration
from penstock.pipeline.conditions.columns import explain_column
from penstock.pipeline.conditions.gaps import GAPS
from penstock.pipeline.conditions.native.calls import TABLE, TABLE_OF_GAPS
from penstock.pipeline.conditions.native.times import CALENDAR
from tests.support.spark.conditions import Answer, Question, answers, question

EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "content without types": ("a.exists(x, x == 'b')", {"a": [1, "b"]}),
    "matches": ("a.matches('^(a+)+$')", {"a": "aaaa"}),
    "a pattern from content": ("a.matches(b)", {"a": "abc", "b": "b.$"}),
    "string of a double": ("string(a) == '1e+06'", {"a": 1e6}),
    "string of a timestamp": ("string(timestamp(a)) == a", {"a": "2009-02-13T23:31:30.123456789Z"}),
    "string of a duration": ("string(timestamp(a) - timestamp(0)) == '1.5s'", {"a": "1970-01-01T00:00:01.5Z"}),
    "duration of a string": ("duration(a) > duration('1m')", {"a": "1h30m"}),
    "duration in content": ("a > duration('1s')", {"a": Duration(1_500_000_000)}),
    "a time zone by name": ("timestamp(a).getHours('Europe/Zurich') == 1", {"a": "2026-01-01T00:00:00Z"}),
    "values of different types": ("(a ? 1 : 'x') == 1", {"a": True}),
    "times in a list": ("[timestamp(a)][b] == timestamp(0)", {"a": "1970-01-01T00:00:00Z", "b": 0}),
    "equality of maps": ("a == b", {"a": {"x": 1}, "b": {"x": 1.0}}),
    "a key from content": ("a[b] == 1", {"a": {"x": 1}, "b": "x"}),
    "work that has to be counted": ("a.exists(x, a.all(y, x >= y))", {"a": [1, 2]}),
    "a macro over a long list": (f"{list(range(60))}.exists(x, x == a)", {"a": 59}),
    "a large condition": ("a" + " + a" * 30 + " == 31", {"a": 1}),
    "names that differ in case": ("a + A == 3", {"a": 1, "A": 2}),
}
"""All are true. XPath has its own tests, in `test_payloads.py`."""


def asked(construct: str) -> Question:
    text, content = EXAMPLES[construct]
    if construct == "duration in content":
        schema = StructType([StructField("a", DayTimeIntervalType())])
        return Question(parse(text), {"a": timedelta(seconds=1.5)}, schema)
    return question(parse(text), content)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, Answer]:
    return dict(zip(EXAMPLES, answers(spark, map(asked, EXAMPLES)), strict=True))


@pytest.mark.parametrize("construct", EXAMPLES)
def test_it_is_a_gap_and_comes_to_what_it_should(construct: str, found: dict[str, Answer]) -> None:
    answer = found[construct]
    assert answer.how.construct == construct
    assert answer.outcome is True
    text, content = EXAMPLES[construct]
    assert decide(parse(text), content) is True


def test_every_gap_has_an_example() -> None:
    assert set(EXAMPLES) | {"xpath"} == set(GAPS)


@pytest.mark.usefixtures("spark")
def test_an_explanation_names_construct_place_and_reason() -> None:
    schema = StructType([StructField("a", StringType())])
    said = str(explain_column(parse("a == 'x' || a.matches('(a|b)*')"), schema))
    assert said == f"batch function, for matches at character 15: {GAPS['matches']}"
    assert str(explain_column(parse("a == 'x'"), schema)) == "native"


def test_every_function_is_native_or_a_gap_for_each_of_its_types() -> None:
    own = {("dyn", object), ("type", object), ("matches", str), ("size", list), ("size", dict), ("+", list)}
    for table in (FUNCTIONS, METHODS, OPERATORS):
        for name, overloads in table.items():
            for kinds in overloads:
                calendar = name in {*CALENDAR, "getMilliseconds"} and kinds[0].__name__ == "Timestamp"
                declared = (name, kinds) in TABLE or (name, kinds) in TABLE_OF_GAPS
                assert declared is not ((name, kinds[0]) in own or calendar), (name, kinds)


PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"


def test_the_page_has_the_gaps_and_their_reasons() -> None:
    section = PAGE.read_text("utf-8").partition("## Conditions on Spark")[2].partition("\n## ")[0]
    table = section.partition("| gap | why |")[2]
    assert dict(re.findall(r"^\| ([^|-][^|]*?) \| (.+) \|$", table, re.MULTILINE)) == dict(GAPS)


def test_what_always_fails_is_no_gap(spark: SparkSession) -> None:
    conditions = ["a + 'x' == 1", "b == 1", "1 / 0 == a", "xpath('//a') == 'x'"]
    found = answers(spark, [question(parse(text), {"a": 1}) for text in conditions])
    assert all(answer.how.native for answer in found)
    for text, answer in zip(conditions, found, strict=True):
        expected = decide(parse(text), {"a": 1})
        assert isinstance(expected, Failure)
        assert answer.outcome == expected.kind
