"""The index of conditions, against deciding each of them."""

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.engine.matching_tree import Axis, Entry, Node
from penstock.engine.predicates import Predicates
from penstock.language.condition import Condition, make_condition
from penstock.model.content import Content
from penstock.model.values import Duration, Timestamp, Uint

condition_of = lru_cache(maxsize=100_000)(make_condition)


class Given(Content):
    """Content that was decoded already, to any values: no payload holds all kinds of them at once."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__(b"")
        self._attributes = attributes


# ---------------------------------------------------------------- random conditions and contents

INTEGERS = [-1, 0, 1, 2, 3, 5, 8, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [-0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 1e300, float(2**53), float(2**63)]
STRINGS = ["", "a", "ab", "abc", "b", "ba", "c"]
SMALL = [*range(-2, 12), *(each / 2 for each in range(-4, 24))]


def literal(value: Any) -> str:
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value)


numbers = st.one_of(st.sampled_from(SMALL), st.sampled_from([*INTEGERS, *DOUBLES]))
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
conditions = st.lists(atoms, min_size=1, max_size=4).map(lambda parts: condition_of(" && ".join(parts)))

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
    st.sampled_from([*STRINGS, "ab\0", "a\U0010ffff", "d"]),
    st.sampled_from([True, False, None, math.nan, math.inf, -math.inf]),
    st.sampled_from([[], [1], [2, "a"], b"a", {}, Timestamp(1), Duration(1)]),
)
fields = st.dictionaries(st.sampled_from("xy"), values | st.fixed_dictionaries({"y": values}), max_size=2)
attributes = st.fixed_dictionaries({}, optional={"a": values, "b": values, "s": values, "o": values | fields})
contents = attributes.map(Given)


# ---------------------------------------------------------------- what must be so, whatever the history


def cells(axis: Axis) -> Iterator[Node]:
    for line in set(axis.lines.values()):
        yield from line.points.values()
        yield from line.slabs


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for axis in node.axes:
        for cell in cells(axis):
            yield from nodes(cell)


def check(node: Node, entries: set[Entry]) -> None:
    """The node holds these entries, has counted them, and keeps nothing that it needs no more."""
    assert set(node.all()) == entries
    assert node.count == len(entries)
    assert len(node.entries) == len(set(node.entries))
    for axis in node.axes:
        assert axis.count
        assert axis.refused <= entries
        for line in set(axis.lines.values()):
            assert len(line.slabs) == len(line.bounds) + 1
            assert line.bounds == sorted(set(line.bounds))
            assert all(cell.count for cell in line.points.values())
        for cell in cells(axis):
            check(cell, set(cell.all()))


class AgainstDecidingEach(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: Predicates[int] = Predicates()
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
        expected = [value for condition, value in self.stored.values() if condition.holds(content) is True]
        assert Counter(self.index.match(content)) == Counter(expected)

    @rule(a=st.integers(0, 45), b=st.integers(0, 45))
    def match_in_the_crowd(self, a: int, b: int) -> None:
        self.match(Given({"a": a, "b": b}))

    @invariant()
    def holds_what_was_stored(self) -> None:
        assert len(self.index) == len(self.stored)
        kept = {condition.text for condition, _ in self.stored.values()}
        assert self.index._by_text.keys() == kept
        filed = {entry for entry in self.index._by_text.values() if entry.where}
        check(self.index._tree, filed)
        assert self.index._loose.keys() <= kept


test_against_deciding_each = AgainstDecidingEach.TestCase


@given(st.lists(conditions, max_size=80), st.lists(contents, min_size=1, max_size=10))
def test_finds_what_holds(stored: list[Condition], given: list[Content]) -> None:
    index: Predicates[int] = Predicates()
    for key, condition in enumerate(stored):
        index.add(key, condition, key)
    for content in given:
        assert sorted(index.match(content)) == [
            key for key, condition in enumerate(stored) if condition.holds(content) is True
        ]
