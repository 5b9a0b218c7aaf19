"""The most that a condition can cost, as the compiler of columns adds it up, is at least what it does cost."""

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from pyspark.sql import functions as F

from penstock.language.evaluators import comparison, functions
from penstock.language.evaluators.reference import steps
from penstock.language.parser import parse
from penstock.language.values import Value
from penstock.pipeline.conditions.columns import explain_column
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native import bill
from penstock.pipeline.conditions.native.compiler import compile_native
from tests.support.generators.conditions import expressions, usual_contents
from tests.support.spark.conditions import question

MADE = 100_000
"""Longer than anything that a random expression makes."""


def values_of(content: Value) -> int:
    """How many values there are in one."""
    if not isinstance(content, list | dict):
        return 0
    inside = content.values() if isinstance(content, dict) else content
    return len(content) + sum(map(values_of, inside))


@pytest.mark.usefixtures("spark")
@given(expressions("bool", depth=4), usual_contents)
def test_no_evaluation_costs_more_than_the_bill(text: str, content: dict[str, Any]) -> None:
    asked = question(parse(text), content)
    if asked.schema is None:
        return
    bills: list[bill.Bill] = []
    with ExitStack() as stack:
        # Content as large as this one, of which every character costs a step.
        stack.enter_context(patch.object(bill, "MAX_NODES", values_of(content)))
        for module in (bill, functions, comparison):
            stack.enter_context(patch.object(module, "CHARACTERS", 1))
        stack.enter_context(patch.object(bill, "_TEXT", MADE))
        stack.enter_context(patch.object(bill.Bill, "check", lambda made: bills.append(made)))
        try:
            compile_native(asked.tree, asked.schema, F.col("content"))
        except NativeGap:
            return
        (made,) = bills
        assert steps(asked.tree, content) <= made.total


@pytest.mark.parametrize(
    ("text", "native"),
    {
        "a.exists(x, x.n >= 80.0 && x.s == 'C')": True,
        "a.exists(x, x.n > 1.0) && a.all(x, x.n < 3.0)": True,
        "a.exists(x, x.s.contains('b'))": True,
        "a.exists(x, s.contains('b'))": False,
        "a.exists(x, x.s == s)": True,
        "a.exists(x, b.exists(y, y == x.n))": False,
        "a.exists(x, x.n in b)": False,
        "1.0 in b && 2.0 in b && 3.0 in b": True,
        "s in t": True,
        "b == c": True,
        "a.exists(x, b == c)": False,
        "s.matches('^pump-[0-9]+$')": True,
        "a.exists(x, x.s.matches('^pump-[0-9]+$'))": False,
        " || ".join(f"s.contains('{number}')" for number in range(60)): True,
        " || ".join(f"s.contains('{number}')" for number in range(70)): False,
    }.items(),
)
@pytest.mark.usefixtures("spark")
def test_what_has_to_be_counted(text: str, native: bool) -> None:
    content = {"a": [{"n": 1.0, "s": "x"}], "b": [1.0], "c": [2.0], "s": "x", "t": ["x"]}
    asked = question(parse(text), content)
    found = explain_column(asked.tree, asked.schema).construct
    assert found == ("" if native else "work that has to be counted")
