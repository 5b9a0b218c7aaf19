"""Payloads before and after: what is marked as gone, changed and new."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.console.decisions.payload_diff import CHANGED, GONE, MAX_LINES, NEW, MetricDiff, compare, metrics
from penstock.engine.explain.report import EventAccount


def event(payload: str | bytes) -> EventAccount:
    if isinstance(payload, bytes):
        return EventAccount("t", b64encode(payload).decode(), "base64", 0, False)
    return EventAccount("t", payload, "utf-8", 0, False)


def marked(before: str | bytes, after: str | bytes | None) -> tuple[str, list[str], list[str]]:
    """The kind, and the lines of each side that are marked."""
    diff = compare(event(before), None if after is None else event(after))
    signs = {GONE: "-", CHANGED: "~", NEW: "+"}
    before_lines, after_lines = (
        [signs[line.mark] + line.text.strip() for line in side if line.mark] for side in (diff.before, diff.after)
    )
    return diff.kind, before_lines, after_lines


CASES: list[tuple[str, str | bytes, str | bytes | None, tuple[str, list[str], list[str]]]] = [
    ("nothing changed", '{"a": 1}', '{"a": 1}', ("JSON", [], [])),
    ("nothing goes on", '{"a": 1}', None, ("JSON", [], [])),
    ("an attribute is removed", '{"a": 1, "b": 2}', '{"a": 1}', ("JSON", ['-"b": 2'], [])),
    ("an object is removed whole", '{"a": {"b": 1}}', "{}", ("JSON", ['-"a": {', '-"b": 1', "-}"], [])),
    ("an object in place of a list", '{"a": [1]}', '{"a": {}}', ("JSON", ['~"a": [', "~1", "~]"], ['~"a": {}'])),
    ("inside an object", '{"a": {"b": 1, "c": 2}}', '{"a": {"c": 2}}', ("JSON", ['-"b": 1,'], [])),
    ("a value is another", '{"a": 1}', '{"a": 2}', ("JSON", ['~"a": 1'], ['~"a": 2'])),
    ("1 is not 1.0", '{"a": 1}', '{"a": 1.0}', ("JSON", ['~"a": 1'], ['~"a": 1.0'])),
    ("1 is not a text", '{"a": 1}', '{"a": "1"}', ("JSON", ['~"a": 1'], ['~"a": "1"'])),
    ("an item of a list", "[1, 2, 3]", "[1, 3]", ("JSON", ["-2,"], [])),
    ("an attribute comes", '{"a": 1}', '{"a": 1, "b": [2]}', ("JSON", [], ['+"b": [', "+2", "+]"])),
    ("order does not count", '{"a": 1, "b": 2}', '{"b": 2, "a": 1}', ("JSON", [], [])),
    ("XML", "<a><b>1</b><c/></a>", "<a><c/></a>", ("XML", ["-<b>1</b>"], [])),
    ("XML with a document type is text", "<!DOCTYPE a><a/>", "<!DOCTYPE a><a/>", ("text", [], [])),
    ("text", "one\ntwo", "one\nthree", ("text", ["~two"], ["~three"])),
    ("no payload any more", "one", "", ("text", ["-one"], [])),
    ("no payload at all", "", "", ("empty", [], [])),
    ("what is nearly JSON", "{a: 1}", "{a: 1}", ("text", [], [])),
    ("bytes", b"\xff\x00ab", b"\xff\x00ab", ("binary", [], [])),
]


@pytest.mark.parametrize(("before", "after", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_marks(before: str | bytes, after: str | bytes | None, expected: tuple[str, list[str], list[str]]) -> None:
    assert marked(before, after) == expected


def test_bytes_are_shown_with_their_letters() -> None:
    line = compare(event(b"\xff\x00ab<"), None).before[0].text
    assert line.split()[:6] == ["0000", "ff", "00", "61", "62", "3c"]
    assert line.endswith("..ab<")


@pytest.mark.parametrize(
    "payload",
    ["[" * 30_000, "[" * 500 + "]" * 500, "[" + "1," * 30_000 + "1]", "a\n" * 30_000, "x" * 200_000, b"\xff" * 9_000],
    ids=["open brackets", "deep", "a long list", "many lines", "a long line", "many bytes"],
)
def test_what_is_shown_is_bounded(payload: str | bytes) -> None:
    diff = compare(event(payload), event(payload[:-2]))
    for side in (diff.before, diff.after):
        assert len(side) <= MAX_LINES + 1
        assert sum(len(line.text) for line in side) < 150_000


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
BOXES = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


@given(BOXES, BOXES)
def test_each_side_is_the_whole_payload(before: Any, after: Any) -> None:
    diff = compare(event(json.dumps(before)), event(json.dumps(after)))
    for side, payload in ((diff.before, before), (diff.after, after)):
        assert json.loads("\n".join(line.text for line in side)) == payload
    is_same = json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert is_same is not any(line.mark for line in (*diff.before, *diff.after))


def test_metrics() -> None:
    diffs = metrics({"Torque": 3, "Recipe": "x", "Gone": None}, {"Torque": 3, "Recipe": "y", "Back": 1})
    assert [(diff.name, diff.mark) for diff in diffs] == [
        ("Torque", ""),
        ("Recipe", CHANGED),
        ("Gone", GONE),
        ("Back", NEW),
    ]
    assert diffs[2] == MetricDiff("Gone", "null", None)
