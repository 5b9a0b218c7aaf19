"""What an evaluation costs: evaluators count the same, and what they do is bounded by what they count."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError, Failure, FailureKind
from penstock.language.evaluators import work
from penstock.language.evaluators.closures import compile_value
from penstock.language.evaluators.patterns import compiled
from penstock.language.evaluators.reference import evaluate, steps
from penstock.language.limits import MAX_EVENT_WORK, MAX_WORK
from penstock.language.parser import parse
from penstock.model.content.bounds import MAX_NODES
from penstock.model.content.content import Content, Format
from tests.support.cases.conditions import same
from tests.support.generators.conditions import contents, expressions, usual_contents

anything = st.one_of(expressions(depth=4), expressions("bool", depth=4))
some_content = st.one_of(contents, usual_contents)


@given(anything, some_content, st.integers(0, 60))
def test_evaluators_count_the_same(text: str, content: dict[str, Any], most: int) -> None:
    tree = parse(text)
    with patch.object(work, "MAX_WORK", most):
        assert same(compile_value(tree)(content), evaluate(tree, content))


@given(anything, some_content, st.integers(0, 60))
def test_what_is_done_is_bounded_by_what_is_counted(text: str, content: dict[str, Any], most: int) -> None:
    tree = parse(text)
    evaluator = compile_value(tree)
    with patch.object(work, "MAX_WORK", most), calls() as counted:
        evaluator(content)
    assert len(counted) <= 30 * (work.parts(tree) + most)


@contextmanager
def calls() -> Iterator[list[None]]:
    """The calls of Python functions inside."""
    made: list[None] = []

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            made.append(None)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield made
    finally:
        sys.setprofile(before)


TEXT = "x" * 640
STEPS = {
    "a > 1 && b == 'x' && has(c) && !(a in [1, 2])": 0,
    "l.exists(x, x > 1)": 5 * 3,
    "l.map(x, x > 1, x + 1)": 5 * (3 + 3),
    "m.all(k, true)": 2,
    "l.exists(x, l.exists(y, false))": 5 * 3 + 5 * 5,
    "l.all(x, x >= 0 || l.all(y, y > x))": 5 * 9,
    "7 in l": 5,
    "7 in [1, 2, 3]": 0,
    "'k' in m": 0,
    "b in t": 2,
    "s in t": 2 + 10,
    "l == l": 5,
    "l == [1]": 0,
    "[l, l] == [l, l]": 2 + 5 + 5,
    "m == m": 2 + 5,
    "s == s": 10,
    "s == b": 0,
    "s < s": 10,
    "s.contains(b)": 10,
    "s.startsWith(b)": 0,
    "b.startsWith(s)": 10,
    "size(s) + size(l) > 0": 0,
    "bytes(s) == b'x'": 10,
    "string(s) == b": 0,
    "int(s) == 1": 10,
    "s + s == b": 20,
    "l + l == l": 10,
    "s.matches('x{2}')": (640 // 8 + 1) * compiled("x{2}").programsize,
    "s.matches(b)": 1_000 + (640 // 8 + 1) * compiled("x").programsize,
    "timestamp(a).getHours('UTC') == 1": 0,
    "timestamp(a).getHours(z) == 1": 1_000,
    "false && l == l": 0,
}
CONTENT = {"a": 1, "b": "x", "c": 0, "l": [0, 1, 2, 3, 4], "m": {"k": [0, 1, 2, 3, 4], "n": 1}}
CONTENT |= {"s": TEXT, "t": ["y", TEXT], "z": "UTC"}


@pytest.mark.parametrize("text", STEPS)
def test_steps(text: str) -> None:
    assert steps(parse(text), CONTENT) == STEPS[text]


LONG = list(range(MAX_NODES * 2 // 5))
COSTLY = {
    "elements in a list": ("a.exists(x, x in b)", {"a": [-1] * 50, "b": LONG}),
    "lists that are equal": ("a.exists(x, b != c)", {"a": [1] * 50, "b": LONG, "c": LONG}),
    "macros inside each other": ("b.all(x, b.all(y, b.all(z, true)))", {"b": LONG}),
    "a large body": ("b.all(x, " + " && ".join(["x >= 0"] * 20) + ")", {"b": LONG}),
    "keys of a map": ("a.all(x, b.all(k, k != ''))", {"a": [1] * 200, "b": {f"k{each}": 1 for each in range(5000)}}),
}


@pytest.mark.parametrize("title", COSTLY)
def test_what_took_seconds_fails(title: str) -> None:
    text, content = COSTLY[title]
    found = make_condition(text).holds(Content(json.dumps(content).encode(), Format.JSON))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TOO_COSTLY


def test_several_xpaths_share_the_bound() -> None:
    document = Content(b"<r>" + b"<a><b>1</b></a>" * 9000 + b"</r>", Format.XML)
    found = "size(xpath('//a[b={}]')) == 1"
    assert make_condition(found.format(2)).holds(document) is False
    both = make_condition(" || ".join(found.format(number) for number in range(2, 30))).holds(document)
    assert isinstance(both, Failure)
    assert both.kind is FailureKind.TOO_COSTLY


def test_no_document_makes_one_xpath_cost_more_than_the_whole_bound() -> None:
    document = Content(b"<r>" + b"<a/>" * 9000 + b"</r>", Format.XML)
    found = make_condition("size(xpath('//a//b')) == 1").holds(document)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TOO_COSTLY


def test_a_pattern_that_is_too_large_is_refused_when_the_condition_is_made() -> None:
    with pytest.raises(ConditionError, match="pattern too large"):
        make_condition(f"a.matches('{'(((a{1,10}){1,10}){1,10})' * 12}')")


def test_a_simple_macro_over_the_longest_list_is_within_the_bound() -> None:
    body = parse("x.celsius >= 80.0 && x.unit == 'C'")
    assert MAX_NODES * work.parts(body) <= MAX_WORK


def test_many_conditions_on_one_content_have_one_bound_together() -> None:
    content = Content(b'{"l": [' + b",".join([b"1"] * 80_000) + b"]}", Format.JSON)
    conditions = [make_condition(f"l.exists(x, x == 1 && x == 2 && x == {n})") for n in range(2, 42)]
    outcomes = [one.holds(content) for one in conditions]
    costly = [one for one in outcomes if isinstance(one, Failure)]
    assert outcomes[0] is False
    assert {one.reason for one in costly} == {f"what is asked of this event takes more than {MAX_EVENT_WORK} steps"}
    assert content.spent <= MAX_EVENT_WORK + MAX_WORK
    assert len(costly) > 20
    assert make_condition("has(l)").holds(content) is True


def test_the_texts_of_nodes_that_xpath_finds_count_found_before_or_not() -> None:
    many, few = (Content(b"<a>" + inside * 5_000 + b"</a>") for inside in (b"<b/>", b"<c/>"))
    condition = make_condition("size(xpath('//b')) == 5000")
    assert condition.holds(many) is True
    assert condition.holds(few) is False
    assert many.spent - few.spent == 8 * 5_000
    assert condition.holds(many) is True
    assert many.spent == 2 * (few.spent + 8 * 5_000)


def test_all_nodes_of_a_large_document_can_be_asked_for_once() -> None:
    assert make_condition("size(xpath('//b')) > 0").holds(Content(b"<a>" + b"<b/>" * 99_000 + b"</a>")) is True
