"""Scopes: they name filters, whatever is in them, and never give more than was granted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.topic import matches
from penstock.policy.tokens.scope import ScopeError, TokenGrant, read_scope

LEVELS = st.one_of(st.sampled_from(["a", "b", "+", " ", '"', "\\", "%41", "ü", "$x", ""]))
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]),
    st.lists(LEVELS, min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)
SETS = st.frozensets(FILTERS, max_size=4)
TOPICS = st.lists(st.sampled_from(["a", "b", " ", "$x"]), min_size=1, max_size=5).map("/".join)


@given(SETS, SETS)
def test_what_is_written_is_read_again(publish: frozenset[str], subscribe: frozenset[str]) -> None:
    grant = TokenGrant(publish, subscribe)
    if publish or subscribe:
        assert read_scope(grant.scope) == grant
        assert grant.narrowed(grant.scope) == grant


@given(SETS, SETS, TOPICS)
def test_a_scope_never_widens(granted: frozenset[str], asked: frozenset[str], topic: str) -> None:
    if not asked:
        return
    try:
        narrowed = TokenGrant(granted, frozenset()).narrowed(TokenGrant(asked, frozenset()).scope)
    except ScopeError:
        return
    assert narrowed == TokenGrant(asked, frozenset())
    if any(matches(one, topic) for one in asked):
        assert any(matches(one, topic) for one in granted)


@pytest.mark.parametrize(
    "text", ["", " ", "publish", "publish:a\tsubscribe:b", "publish:a ", "PUBLISH:a", "publish:a\n"]
)
def test_what_is_no_scope(text: str) -> None:
    with pytest.raises(ScopeError):
        read_scope(text)
