"""Sentences on the page: code for what stands in backticks, and never HTML from outside."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.console.prose import prose


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("needs the right `change`", "needs the right <code>change</code>"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("nothing", "nothing"),
        ("", ""),
        ("one ` alone", "one ` alone"),
        ("none in ``", "none in ``"),
        ("`<img src=x>` & <b>", "<code>&lt;img src=x&gt;</code> &amp; &lt;b&gt;"),
        ("`a`<code>`", "<code>a</code>&lt;code&gt;`"),
    ],
)
def test_code(text: str, markup: str) -> None:
    assert prose(text) == markup


@given(st.text(alphabet="ab`<>&\"'/ code"))
def test_nothing_of_a_text_is_a_tag(text: str) -> None:
    rest = re.sub("<code>[^<>`]*</code>", "", prose(text))
    assert "<" not in rest
    assert ">" not in rest
