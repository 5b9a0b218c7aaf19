"""Integers that are doubles by declaration."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language import types
from penstock.language.evaluators.doubles import widening
from penstock.language.types import DYN, ListType, MapType, RecordType, Type
from penstock.language.values import Uint
from tests.support.cases.conditions import same

CASES: dict[str, tuple[Type, Any, Any]] = {
    "an int": (RecordType({"t": types.DOUBLE}), {"t": 71}, {"t": 71.0}),
    "a double": (RecordType({"t": types.DOUBLE}), {"t": 71.5}, {"t": 71.5}),
    "a uint": (RecordType({"t": types.DOUBLE}), {"t": Uint(2**63)}, {"t": 2.0**63}),
    "an int between doubles is rounded": (RecordType({"t": types.DOUBLE}), {"t": 2**53 + 1}, {"t": 2.0**53}),
    "a bool is not a number": (RecordType({"t": types.DOUBLE}), {"t": True}, {"t": True}),
    "nothing else is changed": (RecordType({"t": types.DOUBLE}), {"t": "1", "u": 1}, {"t": "1", "u": 1}),
    "no double for an int": (RecordType({"t": types.DOUBLE, "n": types.INT}), {"n": 71.5}, {"n": 71.5}),
    "in a list": (RecordType({"l": ListType(types.DOUBLE)}), {"l": [1, 2.5, None]}, {"l": [1.0, 2.5, None]}),
    "in a record": (
        RecordType({"r": RecordType({"v": types.DOUBLE})}),
        {"r": {"v": 1, "w": 1}},
        {"r": {"v": 1.0, "w": 1}},
    ),
    "in a map": (MapType(types.STRING, types.DOUBLE), {"a": 1, "b": "x"}, {"a": 1.0, "b": "x"}),
    "in all others": (RecordType({"n": types.INT}, types.DOUBLE), {"n": 1, "x": 1}, {"n": 1, "x": 1.0}),
    "of another shape": (RecordType({"l": ListType(types.DOUBLE)}), {"l": {"v": 1}}, {"l": {"v": 1}}),
}


@pytest.mark.parametrize("title", CASES)
def test_as_declared(title: str) -> None:
    declared, content, expected = CASES[title]
    widen = widening(declared)
    assert widen is not None
    assert same(widen(content), expected)


@pytest.mark.parametrize(
    "declared", [types.ANYTHING, DYN, RecordType({"n": types.INT, "l": ListType(types.STRING)})], ids=str
)
def test_without_doubles_there_is_nothing_to_do(declared: Type) -> None:
    assert widening(declared) is None


names = st.sampled_from(["a", "b", "c"])
declarations = st.recursive(
    st.sampled_from([types.DOUBLE, types.INT, types.STRING, DYN]),
    lambda inner: st.builds(ListType, inner) | st.builds(RecordType, st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
values = st.recursive(
    st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([None, True, "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(declarations, values)
def test_the_same_numbers_are_there_and_once_is_enough(declared: Type, value: Any) -> None:
    widen = widening(declared) or (lambda each: each)
    once = widen(deepcopy(value))
    assert json.loads(json.dumps(once), parse_int=float) == json.loads(json.dumps(value), parse_int=float)
    assert same(widen(deepcopy(once)), once)
