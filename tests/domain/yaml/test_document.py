"""YAML text to values and lines."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Problem
from penstock.model.yaml.document import compose, scalar
from penstock.model.yaml.tree import locate, path_text, plain

PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | PRINTABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
    max_leaves=20,
)


def composed(text: str) -> object:
    problems = list[Problem]()
    value = plain(compose(text, "t.yaml", Path(), problems).node)
    assert problems == []
    return value


@given(JSON.filter(lambda value: value not in (float("inf"), float("-inf"))))
def test_json_is_read_as_json_reads_it(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    if "Infinity" not in text:
        assert composed(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("true", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("off", "off"),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("1.2.3", "1.2.3"),
        ("9" * 41, float("9" * 41)),
        ("\u0663", "\u0663"),
    ],
)
def test_plain_words_are_read_as_in_yaml_1_2(text: str, value: object) -> None:
    read = scalar(text)
    assert (type(read.value), read.value, read.text) == (type(value), value, text)


def test_not_a_number_is_a_number() -> None:
    value = scalar(".nan").value
    assert isinstance(value, float)
    assert value != value


def test_quotes_make_a_text() -> None:
    assert composed("['1', \"true\", !!str 2, ! 3]") == ["1", "true", "2", "3"]


def test_a_merge_key_in_quotes_is_a_key() -> None:
    assert composed("{'<<': 1}") == {"<<": 1}


def test_what_a_mapping_says_itself_goes_before_what_it_merges() -> None:
    assert composed("[&a {x: 1, y: 2}, {x: 3, <<: *a}, {<<: [{y: 4}, *a]}]") == [
        {"x": 1, "y": 2},
        {"x": 3, "y": 2},
        {"y": 4, "x": 1},
    ]


def test_every_value_has_the_line_of_its_key() -> None:
    text = "a:\n  b:\n    - 1\n    - c: 2\n      d:\n        3\n"
    root = compose(text, "t.yaml", Path(), [])
    lines = {
        path_text(path): locate(root, path).entry.place.line
        for path in [(), ("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("a", "b", 1, "c"), ("a", "b", 1, "d")]
    }
    assert lines == {"": 1, "a": 1, "a.b": 2, "a.b[0]": 3, "a.b[1]": 4, "a.b[1].c": 4, "a.b[1].d": 5}


def test_steps_that_are_not_there_are_left_out() -> None:
    root = compose("listen: {address: x}", "t.yaml", Path(), [])
    assert locate(root, ("listen", 0, "address", "host")).path == ("listen", "address")
