"""JSON objects by the thousand are read as each is alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.content.json import read_json
from penstock.model.content.json_objects import read_objects
from penstock.model.errors import ContentError
from penstock.model.values import Value
from tests.support.cases.conditions import same
from tests.support.cases.contents import cases
from tests.support.generators.nasty_json import large_payloads, payloads

_LARGE = 100_000
_PLAIN = b'{"a": 1, "b": "x"}'


def alone(payload: bytes) -> Value:
    """What must come of a payload: None if it is to be read alone."""
    blank = payload.lstrip(b" \t\r\n")
    try:
        value = read_json(payload)
    except ContentError:
        return None
    return value if blank.startswith(b"{") and len(payload) <= _LARGE else None


def check(together: list[bytes]) -> None:
    found = list(read_objects(together))
    assert len(found) == len(together)
    for payload, value in zip(together, found, strict=True):
        assert same(value, alone(payload)), payload[:200]


def test_each_case_among_plain_ones() -> None:
    written = [case.payload for case in cases()]
    check([each for payload in written for each in (_PLAIN, payload)])
    check([_PLAIN] * 1000)
    check([])


@pytest.mark.parametrize(
    ("title", "payload"),
    [
        ("a name twice", b'{"a": 1, "a": 2}'),
        ("a name twice, once in escapes", rb'{"a": 1, "\u0061": 2}'),
        ("a name twice, and a colon in disguise", rb'{"a": 1, "a": "\u003a"}'),
        ("a name twice further in", b'{"a": {"b": 1, "b": 2}}'),
        ("a name twice in an object in a list", b'{"a": [{"b": 1, "b": 2}]}'),
        ("a number beyond the doubles", b'{"a": ' + b"9" * 400 + b"}"),
        ("an exponent beyond the doubles", b'{"a": 1e400}'),
        ("half a surrogate pair", rb'{"a": "\ud83d"}'),
        ("not UTF-8", b'{"a": "\xff"}'),
        ("not a number", b'{"a": NaN}'),
        ("too deep", b'{"a":' * 65 + b"1" + b"}" * 65),
        ("something behind it", b'{"a": 1} x'),
        ("two of them", b'{"a": 1}\n{"a": 1}'),
        ("empty", b""),
        ("a list", b"[1]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_read_does_not_hide_among_others(title: str, payload: bytes) -> None:
    found = list(read_objects([_PLAIN, payload, _PLAIN]))
    assert found == [read_json(_PLAIN), None, read_json(_PLAIN)]


@given(st.lists(payloads, max_size=12))
def test_random_payloads(together: list[bytes]) -> None:
    check(together)


@given(st.lists(st.sampled_from([_PLAIN, b'{"a": {"b": [1, "12:00"]}}']), max_size=3), large_payloads)
def test_large_payloads(together: list[bytes], large: bytes) -> None:
    check([*together, large])
