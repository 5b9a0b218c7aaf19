"""A tree of filters finds all that match."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.topic import matches
from penstock.policy.access.acl import Rights, Rule
from penstock.policy.access.filters import FilterTree

LEVELS = st.sampled_from(["a", "b", "", "$x", "+"])


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(LEVELS, min_size=1, max_size=3)) + (["#"] if draw(st.booleans()) else [])
    return "/".join(levels) or "#"


topics = st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=4).map("/".join).filter(bool)


@given(st.lists(filters(), max_size=12), topics)
def test_all_that_match_are_found_in_order(several: list[str], topic: str) -> None:
    found = FilterTree(several).find(topic)
    assert found == sorted(set(found))
    assert {at for at, filter in enumerate(several) if matches(filter, topic)} <= set(found)


def test_others_are_not_asked() -> None:
    tree = FilterTree([f"plant/{number}/#" for number in range(1000)])
    assert tree.find("plant/7/a") == [7]


@given(st.lists(st.tuples(st.sampled_from(["read", "write", "readwrite", "deny"]), filters()), max_size=20), topics)
def test_many_rules_decide_as_few_do(several: list[tuple[str, str]], topic: str) -> None:
    rules = tuple(Rule(access, filter, "") for access, filter in several)  # type: ignore[arg-type]
    never = tuple(Rule("readwrite", f"never/{number}", "") for number in range(50))
    for deed in ("may_read", "may_write"):
        assert getattr(Rights(rules + never, (), ""), deed)(topic) == getattr(Rights(rules, (), ""), deed)(topic)
