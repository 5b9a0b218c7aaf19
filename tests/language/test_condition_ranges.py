"""The normal form beside evaluation: it says where a condition is true, and covers and intersects are exact."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.language.ranges.ranges import Ranges, covers, intersects, ranges
from penstock.language.ranges.regions import Region
from penstock.language.tree import Tree

NUMBERS = [0, 1, 2, -1, 0.5, 1.5, 1e300, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63)]
STRINGS = ["", "a", "ab", "b", "a\U0010ffff"]
MISSING = object()


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\U0010ffff", "\\U0010ffff") + "'"
    return {True: "true", False: "false", None: "null"}[value] if isinstance(value, bool | None) else repr(value)


def around(value: Any) -> Iterator[Any]:
    """A constant and its neighbours: where one set of values can begin to differ from another."""
    yield value
    if isinstance(value, str):
        yield from (value + "\0", value[:-1], value + "a", value[:-1] + "c")
        return
    beside = (math.nextafter(float(value), math.inf), math.nextafter(float(value), -math.inf))
    whole = [int(one) for one in (value, *beside) if abs(one) < 2**64]
    yield from (float(value), *beside)
    yield from (one + step for one in whole for step in (-1, 0, 1) if -(2**63) <= one + step < 2**64)


POOL: list[Any] = [each for constant in (*NUMBERS, *STRINGS) for each in around(constant)]
POOL += [True, False, None, [], {}, math.nan, math.inf, -math.inf, b"", MISSING]

constants = st.sampled_from([*NUMBERS, *STRINGS, True, False, None]).map(literal)
comparable = st.sampled_from([*NUMBERS, *STRINGS, True, False]).map(literal)


def leaves(path: str) -> st.SearchStrategy[str]:
    orders = st.sampled_from(["<", "<=", ">", ">="])
    return st.one_of(
        st.builds(lambda order, constant: f"{path} {order} {constant}", orders, comparable),
        st.builds(lambda order, constant: f"{constant} {order} {path}", orders, comparable),
        st.builds(lambda constant: f"{path} == {constant}", constants),
        st.builds(lambda constant: f"{path} != {constant}", constants),
        st.builds(lambda items: f"{path} in [{', '.join(items)}]", st.lists(constants, max_size=3)),
        st.builds(lambda text: f"{path}.startsWith({literal(text)})", st.sampled_from(STRINGS)),
        st.just(f"has({path})"),
        st.just(path),
    )


def about(path: str) -> st.SearchStrategy[str]:
    """Conditions about one attribute."""
    return st.recursive(
        leaves(path),
        lambda inner: st.one_of(
            st.builds(lambda one: f"!({one})", inner),
            st.builds(lambda one, two, sign: f"({one} {sign} {two})", inner, inner, st.sampled_from(["&&", "||"])),
        ),
        max_leaves=3,
    )


def conjunctions(*paths: str) -> st.SearchStrategy[Tree]:
    parts = st.lists(st.sampled_from(paths).flatmap(about), min_size=1, max_size=3)
    return parts.map(lambda texts: parse(" && ".join(texts)))


def normal(tree: Tree) -> Ranges:
    found = ranges(tree)
    assert found is not None
    return found


def content(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not MISSING}


def contents_of_one() -> list[dict[str, Any]]:
    return [content(x=value) for value in POOL]


SOME = [0, 1, 0.5, "a", "ab", "", True, False, None, [], MISSING]


def contents_of_fields() -> list[dict[str, Any]]:
    inside = [content(x=x, y=y) for x, y in product(SOME, repeat=2)]
    return [content(o=value) for value in [*SOME, *inside]]


@given(conjunctions("x"))
def test_it_is_true_where_the_condition_is(tree: Tree) -> None:
    found = normal(tree)
    assert [each for each in contents_of_one() if found.accepts(each) is not (decide(tree, each) is True)] == []


@given(conjunctions("o.x", "o.y", "o"))
def test_it_is_true_where_the_condition_is_with_fields(tree: Tree) -> None:
    found = normal(tree)
    assert [each for each in contents_of_fields() if found.accepts(each) is not (decide(tree, each) is True)] == []


@given(conjunctions("x"), conjunctions("x"))
def test_covers_and_intersects_one_attribute(wide: Tree, narrow: Tree) -> None:
    left, right = normal(wide), normal(narrow)
    truths = [(left.accepts(each), right.accepts(each)) for each in contents_of_one()]
    assert covers(left, right) is all(first or not second for first, second in truths)
    assert intersects(left, right) is any(first and second for first, second in truths)


@given(conjunctions("x", "y"), conjunctions("x", "y"))
def test_covers_and_intersects_two_attributes(wide: Tree, narrow: Tree) -> None:
    left, right = normal(wide), normal(narrow)
    few = POOL[::3] + POOL[-10:]
    truths = [(left.accepts(each), right.accepts(each)) for each in (content(x=x, y=y) for x, y in product(few, few))]
    if covers(left, right):
        assert all(first or not second for first, second in truths)
    if not intersects(left, right):
        assert not any(first and second for first, second in truths)


@given(conjunctions("o.x", "o.y", "o"), conjunctions("o.x", "o.y", "o"))
def test_covers_and_intersects_with_fields(wide: Tree, narrow: Tree) -> None:
    left, right = normal(wide), normal(narrow)
    truths = [(left.accepts(each), right.accepts(each)) for each in contents_of_fields()]
    if covers(left, right):
        assert all(first or not second for first, second in truths)
    if not intersects(left, right):
        assert not any(first and second for first, second in truths)


COVERS = [
    ("t > 10", "t > 20", True),
    ("t > 20", "t > 10", False),
    ("t >= 10", "t > 10", True),
    ("t > 10", "t >= 10", False),
    ("t > 10", "t > 10 && room == 'a'", True),
    ("t > 10 && room == 'a'", "t > 10", False),
    ("t > 10", "t == 11", True),
    ("t > 10", "t == 11.5", True),
    ("t > 10", "t in [11, 12]", True),
    ("t > 10", "t in [10, 12]", False),
    ("room in ['a', 'b']", "room == 'a'", True),
    ("room.startsWith('home/')", "room.startsWith('home/k')", True),
    ("room.startsWith('home/k')", "room.startsWith('home/')", False),
    ("room.startsWith('home/')", "room == 'home/kitchen'", True),
    ("room >= 'a' && room < 'b'", "room.startsWith('a')", True),
    ("room.startsWith('a')", "room >= 'a' && room < 'b'", True),
    ("has(t)", "t > 10", True),
    ("has(t)", "!t", True),
    ("t > 10", "has(t)", False),
    ("has(o)", "o.x == 1", True),
    ("has(o.x)", "o.x == 1", True),
    ("has(o.x) || !has(o.x)", "o.y == 1", True),
    ("has(o.x) || !has(o.x)", "has(o)", False),
    ("o != 1", "o.x == 1", True),
    ("o.x == 1", "o == 1", False),
    ("t > 10", "t > 20 && t < 15", True),
    ("t != 5", "t > 5", True),
    ("t != 5", "t == 'a'", True),
    ("t < 5 || t > 7", "t > 8", True),
    ("t < 5 || t > 7", "t > 6", False),
    ("!(t > 5)", "t <= 5", True),
    ("t <= 5", "!(t > 5)", False),
    ("t > 5", "t > u", None),
    ("t.contains('a')", "t == 'a'", None),
    ("t > u", "t > 1 && t < 0", True),
]


@pytest.mark.parametrize(("wide", "narrow", "expected"), COVERS)
def test_covers(wide: str, narrow: str, expected: bool | None) -> None:
    assert covers(ranges(parse(wide)), ranges(parse(narrow))) is expected


INTERSECTS = [
    ("t > 10", "t < 20", True),
    ("t > 10", "t < 10", False),
    ("t >= 10", "t <= 10", True),
    ("t > 10 && t < 11", "type(t) == int", None),
    ("t > 10", "room == 'a'", True),
    ("t == 'a'", "t == 1", False),
    ("t == 1", "t == 1.0", True),
    ("room.startsWith('a')", "room.startsWith('b')", False),
    ("room.startsWith('a')", "room > 'ab'", True),
    ("has(t)", "!has(t)", False),
    ("o == 1", "o.x == 1", False),
    ("has(o)", "o.x == 1", True),
    ("!has(o)", "o.x == 1", False),
    ("!has(o.x)", "o.y == 1", True),
    ("t", "!t", False),
    ("t > u", "t > 2 && t < 1", False),
    ("t > u", "t > 2", None),
]


@pytest.mark.parametrize(("left", "right", "expected"), INTERSECTS)
def test_intersects(left: str, right: str, expected: bool | None) -> None:
    assert intersects(ranges(parse(left)), ranges(parse(right))) is expected
    assert intersects(ranges(parse(right)), ranges(parse(left))) is expected


OUTSIDE = ["a > b", "a + 1 > 2", "a > 1 || b > 1", "size(a) > 1", "a.exists(x, x > 1)", "a.endsWith('x')", "a == [1]"]
OUTSIDE += [
    "a in b",
    "a == b'x'",
    "a < null",
    "a ? true : false",
    "xpath('//a') == '1'",
    "a == 1u",
    "true",
    "a in ['x', b]",
]


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_is_outside_the_class_has_no_normal_form(text: str) -> None:
    assert ranges(parse(text)) is None


REGIONS = [
    region
    for text in (
        *(
            "x > 1",
            "x >= 1",
            "x < 1.5",
            "x == 1",
            "x != 1",
            "x in [1, 'a', true]",
            "x > 9007199254740993.0",
            "x == 0.0",
        ),
        *("x > 'a'", "x.startsWith('ab')", "x == 'ab'", "x", "!x", "x == null", "has(x)", "!has(x)", "x > 5 || x < 2"),
        *("x > 2 && x < 1", "x >= false", "x != 'b'"),
    )
    for region in normal(parse(text)).regions.values()
]


@pytest.mark.parametrize("left", REGIONS, ids=range(len(REGIONS)))
def test_beside_and_inside_are_what_the_sets_say(left: Region) -> None:
    for right in REGIONS:
        assert (left <= right) == (not (left - right))
        assert left.meets(right) == bool(left & right)
        if left and right:
            (low, high), (first, last) = left.hull(), right.hull()
            assert not left <= right or first <= low <= high <= last
            assert not left.meets(right) or (low <= last and first <= high)
