"""The index of conditions, against deciding each of them."""

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.engine.matching.block import Entry
from penstock.engine.matching.matching_tree import TreeNode
from penstock.engine.matching.predicates import Predicates
from penstock.language.condition import Condition, make_condition
from penstock.model.content.content import Content, Format
from penstock.model.values import Duration, Timestamp, Uint

condition_of = lru_cache(maxsize=100_000)(make_condition)


class Given(Content):
    """Content that was decoded already, to any values: no payload holds all kinds of them at once."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__(b"")
        self._attributes = attributes


# ---------------------------------------------------------------- random conditions and contents

SMALL = [-1, 0, 0.5, 1, 1.0, 1.5, 2, 3, 5]
LARGE = [2**53, 2**53 + 1, 2**53 + 2, float(2**53), 2**63 - 1, -(2**63), float(2**63), 1e300]
STRINGS = ["", "a", "ab", "abc", "b"]


def literal(value: Any) -> str:
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value)


numbers = st.one_of(st.sampled_from(SMALL), st.sampled_from(SMALL), st.sampled_from(LARGE))
constants = st.one_of(numbers, numbers, st.sampled_from([*STRINGS, True, False, None]))
paths = st.sampled_from(["a", "a", "b", "s", "o.x", "o.x.y", "o"])
orders = st.sampled_from(["<", "<=", ">", ">="])
texts = st.sampled_from(STRINGS)


@st.composite
def between(draw: st.DrawFn) -> str:
    path, low = draw(paths), draw(st.sampled_from(SMALL))
    return f"{path} >= {low!r} && {path} < {low + draw(st.sampled_from([1, 2, 0.5, 5]))!r}"


atoms = st.one_of(
    between(),
    st.builds(lambda path, constant: f"{path} == {literal(constant)}", paths, constants),
    st.builds(lambda path, text: f"{path} == {text!r}", paths, texts),
    st.builds(lambda path, order, number: f"{path} {order} {number!r}", paths, orders, numbers),
    st.builds(lambda path, order, text: f"{path} {order} {text!r}", paths, orders, texts),
    st.builds(lambda path, prefix: f"{path}.startsWith({prefix!r})", paths, texts),
    st.builds(
        lambda path, items: f"{path} in [{', '.join(map(literal, items))}]",
        paths,
        st.lists(constants, min_size=1, max_size=12),
    ),
    st.builds(lambda path, constant: f"{path} != {literal(constant)}", paths, constants),
    st.builds(lambda path, order, number: f"!({path} {order} {number!r})", paths, orders, numbers),
    st.builds(lambda path, low, high: f"({path} < {low!r} || {path} > {high!r})", paths, numbers, numbers),
    st.builds(lambda path, number: f"({path} == null || {path} > {number!r})", paths, numbers),
    st.builds(lambda path, sign: f"{sign}{path}", paths, st.sampled_from(["", "!"])),
    st.builds(lambda path, sign: f"{sign}has({path})", paths, st.sampled_from(["", "!"])),
    st.sampled_from(["a > b", "s.contains('a')", "a + 1 > 2", "(a > 1 || b > 1)", "a.exists(x, x > 1)", "1 < 2"]),
)
either = st.lists(atoms, min_size=2, max_size=4).map(lambda parts: f"({' || '.join(parts)})")
conditions = st.lists(st.one_of(atoms, atoms, either), min_size=1, max_size=4).map(
    lambda parts: condition_of(" && ".join(parts))
)

ranges_of_two = st.builds(
    lambda a, width, b, height: condition_of(f"a >= {a} && a < {a + width} && b >= {b} && b < {b + height}"),
    st.integers(0, 40),
    st.integers(1, 6),
    st.integers(0, 40),
    st.integers(1, 20),
)
"""Conditions that crowd together, so that nodes are divided in several ways."""

values = st.one_of(
    numbers,
    numbers,
    st.integers(-5, 50),
    st.sampled_from([0, 1, 3, 2**53, 2**63, 2**64 - 1]).map(Uint),
    st.sampled_from(STRINGS),
    st.sampled_from([*STRINGS, "ab\0", "a\U0010ffff", "c"]),
    st.sampled_from([True, False, None, math.nan, math.inf, -math.inf]),
    st.sampled_from([[], [1], [2, "a"], b"a", {}, Timestamp(1), Duration(1)]),
)
fields = st.dictionaries(st.sampled_from("xy"), values | st.fixed_dictionaries({"y": values}), max_size=2)
named = {"a": values, "b": values, "s": values, "o": values | fields}
contents = (st.fixed_dictionaries(named) | st.fixed_dictionaries({}, optional=named)).map(Given)


# ---------------------------------------------------------------- what must be so, whatever the history


def nodes(node: TreeNode) -> Iterator[TreeNode]:
    yield node
    for axis in node.axes:
        for cell in axis.cells():
            yield from nodes(cell)


def check(node: TreeNode, entries: set[Entry]) -> None:
    """The node holds these entries, has counted them, and keeps nothing that it needs no more."""
    assert set(node.all()) == entries
    assert node.count == len(entries)
    assert len(node.block) == len(set(node.block))
    for axis in node.axes:
        assert axis.count
        assert axis.refused <= entries
        for line in set(axis.lines.values()):
            assert len(line.slabs) == len(line.bounds) + 1
            assert line.bounds == sorted(set(line.bounds))
            assert all(cell.count for cell in line.points.values())
        for cell in axis.cells():
            check(cell, set(cell.all()))


SORTS = 6
"""Blocks are sorted by being asked, so everything is asked so often."""


class AgainstDecidingEach(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: Predicates[int] = Predicates(crowd=6)
        self.stored: dict[int, tuple[Condition, int]] = {}
        self.next = 0

    def _add(self, key: int, condition: Condition) -> None:
        self.next += 1
        self.index.add(key, condition, self.next)
        self.stored[key] = condition, self.next

    @initialize(many=st.lists(conditions | ranges_of_two, max_size=60))
    def add_many(self, many: list[Condition]) -> None:
        for condition in many:
            self._add(self.next, condition)

    @rule(many=st.lists(ranges_of_two, min_size=10, max_size=40))
    def add_crowd(self, many: list[Condition]) -> None:
        self.add_many(many)

    @rule(key=st.integers(0, 80), condition=conditions)
    def add(self, key: int, condition: Condition) -> None:
        self._add(key, condition)

    @rule(key=st.integers(0, 80))
    def remove(self, key: int) -> None:
        assert self.index.remove(key) is (self.stored.pop(key, None) is not None)

    @precondition(lambda self: self.stored)
    @rule(kept=st.integers(0, 3))
    def remove_most(self, kept: int) -> None:
        for key in sorted(self.stored)[kept:]:
            self.remove(key)

    @rule(content=contents)
    def match(self, content: Content) -> None:
        expected = Counter(value for condition, value in self.stored.values() if condition.holds(content) is True)
        for _ in range(SORTS):
            assert Counter(self.index.match(content)) == expected

    @rule(a=st.integers(0, 45), b=st.integers(0, 45))
    def match_in_the_crowd(self, a: int, b: int) -> None:
        self.match(Given({"a": a, "b": b}))

    @invariant()
    def holds_what_was_stored(self) -> None:
        assert len(self.index) == len(self.stored)
        kept = {condition.text for condition, _ in self.stored.values()}
        assert self.index._by_text.keys() == kept
        for name, tree in self.index._trees.items():
            assert tree.count
            check(tree, {entry for entry in self.index._by_text.values() if entry.name == name})
        assert self.index._loose.keys() <= kept


test_against_deciding_each = AgainstDecidingEach.TestCase
test_against_deciding_each.settings = settings(stateful_step_count=25)


@given(
    st.lists(conditions, min_size=8, max_size=80),
    st.lists(contents, min_size=1, max_size=10),
    st.sampled_from([4, 20, 1000]),
)
def test_finds_what_holds(stored: list[Condition], given: list[Content], crowd: int) -> None:
    index: Predicates[int] = Predicates(crowd)
    for key, condition in enumerate(stored):
        index.add(key, condition, key)
    for content in given * SORTS:
        assert sorted(index.match(content)) == [
            key for key, condition in enumerate(stored) if condition.holds(content) is True
        ]


# ---------------------------------------------------------------- one case at a time


def json(text: str) -> Content:
    return Content(text.encode(), Format.JSON)


# title: conditions in the index, content, those found
MATCHES = {
    "nothing in it": ([], json('{"a": 1}'), []),
    "content without attributes": (["a > 1", "!has(a)", "has(a)"], json("{}"), ["!has(a)"]),
    "a number equal to an int and to a double": (
        ["a == 1", "a == 1.0", "a == 2"],
        json('{"a": 1.0}'),
        ["a == 1", "a == 1.0"],
    ),
    "true is not 1": (["a == 1", "a == true", "a"], json('{"a": true}'), ["a == true", "a"]),
    "1 is not true": (["a == 1", "a == true", "a"], json('{"a": 1}'), ["a == 1"]),
    "null": (["a == null", "a == 0", "has(a)"], json('{"a": null}'), ["a == null", "has(a)"]),
    "a failure is no match": (["a > 1", "a + 1 > 2", "!(a > 1)"], json('{"a": "x"}'), []),
    "a failure beside what is true": (["a > 1 || b == 2", "b == 2 && a > 1"], json('{"b": 2}'), ["a > 1 || b == 2"]),
    "bounds are in or out": (["a > 1", "a >= 1", "a < 1", "a <= 1"], json('{"a": 1}'), ["a >= 1", "a <= 1"]),
    "a prefix": (["s.startsWith('a')", "s.startsWith('ab')"], json('{"s": "aa"}'), ["s.startsWith('a')"]),
    "fields": (["o.x == 1", "o.x.y == 1", "o == 1"], json('{"o": {"x": 1}}'), ["o.x == 1"]),
    "fields of what has none": (["o.x == 1", "o == 1"], json('{"o": 1}'), ["o == 1"]),
    "infinity is not what is not a number": (
        [*(f"!(a > {number})" for number in range(-1, 8)), "a > 5"],
        Given({"a": math.inf}),
        ["a > 5"],
    ),
    "what is not a number is neither more nor less": (
        [*(f"!(a > {number})" for number in range(-1, 8)), "a > 5", "a < 5"],
        Given({"a": math.nan}),
        [f"!(a > {number})" for number in range(-1, 8)],
    ),
    "never true": (["a > 2 && a < 1", "a > 2 && a.b == 1"], json('{"a": 3}'), []),
    "without a normal form": (
        ["a < b", "a > b", "a == 1 && s.contains('x')", "a == 2 && s.contains('x')", "a == 1 && s.contains('y')"],
        json('{"a": 1, "b": 2, "s": "x"}'),
        ["a < b", "a == 1 && s.contains('x')"],
    ),
    "a part that may be anything": (
        ["a == 1 && s != 'x'", "a == 1 && s != 'y'"],
        json('{"a": 1, "s": "x"}'),
        ["a == 1 && s != 'y'"],
    ),
    "integers beyond what doubles tell apart": (
        ["a == 9007199254740992", "a == 9007199254740993", "a == 9007199254740992.0", "a >= 9007199254740993"],
        json('{"a": 9007199254740992}'),
        ["a == 9007199254740992", "a == 9007199254740992.0"],
    ),
    "a double that integers are rounded to": (
        ["a == 9007199254740992", "a == 9007199254740993", "a == 9007199254740994", "a >= 9007199254740993"],
        json('{"a": 9007199254740992.0}'),
        ["a == 9007199254740992", "a == 9007199254740993", "a >= 9007199254740993"],
    ),
    "a double that is left out between integers that are not": (
        ["a != 0.5 && a > -9", "a > 0 && a != 0.5", "a != 1.0 && a > -9"],
        json('{"a": 0.5}'),
        ["a != 1.0 && a > -9"],
    ),
    "a double between integers that are listed": (
        ["a in [1, 2, 3, 4, 5, 6, 7, 8, 9]", "a in [1.5, 2, 3, 4, 5, 6, 7, 8, 9]"],
        json('{"a": 1.5}'),
        ["a in [1.5, 2, 3, 4, 5, 6, 7, 8, 9]"],
    ),
    "a field that is broken": (["o.x == 1 || !has(o.x)", "!has(o.x)"], json('{"o": 1}'), []),
    "not a number": (
        ["a > 1.0", "a < 1.0", "!(a > 1.0)", "a != 1.0"],
        Given({"a": math.nan}),
        ["!(a > 1.0)", "a != 1.0"],
    ),
    "unreadable content": (["a > 1", "!has(a)", "1 < 2", "xpath('//a') == '1'"], json("{"), ["1 < 2"]),
    "XML": (
        [
            "xpath('//b') == ['1']",
            "a.b == '1' && size(xpath('//b')) == 1",
            "a.b == '2' && size(xpath('//b')) == 1",
        ],
        Content(b"<a><b>1</b></a>", Format.XML),
        ["xpath('//b') == ['1']", "a.b == '1' && size(xpath('//b')) == 1"],
    ),
    "opaque content": (["has(a)", "!has(a)", "a == 1"], Content(b"\xff"), ["!has(a)"]),
}


@pytest.mark.parametrize("crowd", [1, 1000])
@pytest.mark.parametrize(("stored", "content", "expected"), MATCHES.values(), ids=MATCHES.keys())
def test_index_finds(stored: list[str], content: Content, expected: list[str], crowd: int) -> None:
    index: Predicates[str] = Predicates(crowd)
    for text in stored:
        index.add(text, make_condition(text), text)
    for number in range(10):  # so that there is something to sort
        index.add(number, make_condition(f"a == 'other {number}'"), "other")
    for _ in range(SORTS):
        assert sorted(index.match(content)) == sorted(expected)


def test_equal_conditions_are_decided_once_and_found_for_each_key() -> None:
    index: Predicates[str] = Predicates()
    for key in "xyz":
        index.add(key, make_condition("a  >  1"), key)
    assert len(index._by_text) == 1
    assert sorted(index.match(json('{"a": 2}'))) == ["x", "y", "z"]
    assert index.remove("y")
    assert sorted(index.match(json('{"a": 2}'))) == ["x", "z"]


def test_a_key_has_one_condition() -> None:
    index: Predicates[str] = Predicates()
    index.add("key", make_condition("a > 1"), "old")
    index.add("key", make_condition("a > 1"), "newer")
    assert index.match(json('{"a": 2}')) == ["newer"]
    index.add("key", make_condition("a < 1"), "newest")
    assert index.match(json('{"a": 2}')) == []
    assert index.match(json('{"a": 0}')) == ["newest"]
    assert len(index) == 1


def test_nothing_is_left_when_all_are_removed() -> None:
    index: Predicates[int] = Predicates(crowd=6)
    for number in range(100):
        index.add(number, condition_of(f"a > {number} && a < {number + 3} && s == 'x{number % 7}'"), number)
        index.add(-number - 1, condition_of(f"s.contains('{number}')"), number)
    for content in [Given({"a": number, "s": "x1"}) for number in range(100)]:
        index.match(content)
    for number in range(100):
        assert index.remove(number)
        assert index.remove(-number - 1)
    assert not index.remove(0)
    assert (index._by_key, index._by_text, index._trees, index._loose) == ({}, {}, {}, {})


# ---------------------------------------------------------------- cost, in cells and entries that content meets


def met(index: Predicates[int], attributes: dict[str, Any]) -> int:
    """How many entries are in the blocks that content is looked up in."""
    trees = [tree for name, tree in index._trees.items() if name in attributes]
    return sum(len(block) for tree in trees for block in tree.blocks(attributes))


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_content_meets_few_of_many_ranges_in_whatever_order_they_came(order: str) -> None:
    starts = {"rising": range(1000), "falling": range(999, -1, -1), "mixed": [at * 379 % 1000 for at in range(1000)]}
    index: Predicates[int] = Predicates(crowd=20)
    for start in starts[order]:
        index.add(start, condition_of(f"a >= {start} && a < {start + 3}"), start)
    assert sorted(index.match(Given({"a": 500}))) == [498, 499, 500]
    assert max(met(index, {"a": value}) for value in range(1000)) <= 20
    assert max(node.depth for node in nodes(index._trees["a"])) == 1


def test_wide_ranges_do_not_crowd_the_cells_of_narrow_ones() -> None:
    index: Predicates[int] = Predicates(crowd=20)
    for start in range(500):
        index.add(start, condition_of(f"a >= {start} && a < {start + 3}"), start)
    for width in range(100):
        index.add(-width, condition_of(f"a >= {width} && a < {width + 300} && s == 'x{width}'"), width)
    cells = sum(len(node.block) for node in nodes(index._trees["a"]))
    assert cells <= 3 * len(index)
    assert met(index, {"a": 250, "s": "x7"}) <= 50


def test_names_that_content_does_not_have_cost_nothing() -> None:
    index: Predicates[int] = Predicates()
    for number in range(300):
        index.add(number, condition_of(f"a{number} > 1"), number)
    assert met(index, {"a7": 2, "b": 1}) == 1
    assert index.match(Given({"a7": 2, "b": 1})) == [7]


def test_coming_and_going_leaves_no_garbage() -> None:
    index: Predicates[int] = Predicates(crowd=10)
    for number in range(1500):
        index.add(number, condition_of(f"a >= {number} && a < {number + 5} && s == 'x{number % 50}'"), number)
        index.match(Given({"a": number, "s": f"x{number % 50}"}))
        if number >= 100:
            assert index.remove(number - 100)
    assert len(index) == 100
    tree = index._trees["a"]
    check(tree, set(index._by_text.values()))
    assert sum(1 for _ in nodes(tree)) <= 100
    assert sum(len(node.block._sorted) for node in nodes(tree)) <= 400


# ---------------------------------------------------------------- XPath

SENSORS = [f"""xpath("//o[uri='#pollution' and sensor[@id='{at}']]") != []""" for at in range(30)]
FINDING = [
    *SENSORS,
    """size(xpath("//o[uri='#noise']")) > 0""",
    """xpath("//o[uri='#noise']").size() >= 1 && xpath("//sensor[@id='7']") != []""",
    """xpath("//o[contains(uri, 'noise')]") != []""",
    """xpath("//o[uri='#noise']") == []""",
    """size(xpath("//o[uri='#noise']")) >= 0""",
    """xpath("string(//uri)") != []""",
    """xpath("//o[sensor='']") != []""",
]
DOCUMENTS = {
    "one sensor": b"<o><uri>#pollution</uri><sensor id='7'/></o>",
    "another topic": b"<o><uri>#noise</uri><sensor id='7'/></o>",
    "two sensors": b"<o><uri>#<!-- -->pollution</uri><sensor id='7'/><sensor id='29'/></o>",
    "an unknown one": b"<o><uri>#pollution</uri><sensor id='30'/></o>",
    "nothing of it": b"<x/>",
    "so many elements that looking for texts takes longer": b"<o><uri>#pollution</uri><sensor id='7'/>"
    + b"<x/>" * 2_000
    + b"</o>",
    "not XML": b'{"uri": "#pollution"}',
    "unreadable": b"<!DOCTYPE a><a/>",
}


@pytest.mark.parametrize("payload", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("count", [3, len(FINDING)])
def test_xpath_is_found_as_if_each_were_asked(payload: bytes, count: int) -> None:
    some = [*FINDING[5:8], *FINDING[-6:]] if count == 3 else FINDING
    index: Predicates[str] = Predicates()
    for text in [*some, *some[:2]]:
        index.add((text, len(index)), condition_of(text), text)
    asked = [text for text in [*some, *some[:2]] if condition_of(text).holds(Content(payload)) is True]
    assert Counter(index.match(Content(payload))) == Counter(asked)
    for number, text in enumerate([*some, *some[:2]]):
        assert index.remove((text, number))
    assert index.match(Content(payload)) == []
    assert not index._finding


def test_xpath_that_cannot_hold_is_not_asked() -> None:
    index: Predicates[str] = Predicates()
    for text in SENSORS:
        index.add(text, condition_of(text), text)
    content = Content(DOCUMENTS["one sensor"])
    assert index.match(content) == [SENSORS[7]]
    assert len(content._found) <= 3
