"""Topics, filters, and the algebra of filters against a small definition of what a filter matches."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import TopicError
from penstock.model.topic import (
    MAX_BYTES,
    check_topic,
    covers,
    intersection,
    is_wild,
    matches,
    overlaps,
    parse_filter,
)

# ---------------------------------------------------------------- text


GOOD_TOPICS = ["a", "/", "//", "a/b", "a//b", " ", "$SYS/x", "é/温度", "a" * MAX_BYTES, "/" * MAX_BYTES]


@pytest.mark.parametrize("text", GOOD_TOPICS, ids=lambda text: text[:9])
def test_a_good_topic_is_returned(text: str) -> None:
    assert check_topic(text) == text


BAD_TOPICS = {
    "empty": ("", "topic is empty"),
    "plus": ("a/+/c", "wildcard `+` at character 3 of topic `a/+/c`"),
    "hash": ("a/b#", "wildcard `#` at character 4 of topic `a/b#`"),
    "the first of two wildcards": ("#/+", "wildcard `#` at character 1 of topic `#/+`"),
    "null": ("a\0b", r"U+0000 at character 2 of topic `a\x00b`"),
    "surrogate": ("ab\ud800", r"surrogate at character 3 of topic `ab\ud800`"),
    "one byte too long": ("a" * (MAX_BYTES + 1), f"topic has 65536 bytes, more than 65535: `{'a' * 80}...`"),
    "few characters, many bytes": ("é" * 40_000, f"topic has 80000 bytes, more than 65535: `{'é' * 80}...`"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TOPICS.values(), ids=BAD_TOPICS.keys())
def test_a_bad_topic_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(TopicError) as error:
        check_topic(text)
    assert str(error.value) == message


# title: text -> group, filter, levels, whether wild, prefix
GOOD_FILTERS = {
    "no wildcard": ("a/b", None, "a/b", ("a", "b"), False, "a/b"),
    "empty levels": ("/a//", None, "/a//", ("", "a", "", ""), False, "/a//"),
    "plus": ("a/+/b", None, "a/+/b", ("a", "+", "b"), True, "a/"),
    "plus alone": ("+", None, "+", ("+",), True, ""),
    "hash": ("a/b/#", None, "a/b/#", ("a", "b", "#"), True, "a/b/"),
    "hash alone": ("#", None, "#", ("#",), True, ""),
    "plus before hash": ("a/+/#", None, "a/+/#", ("a", "+", "#"), True, "a/"),
    "dollar": ("$SYS/#", None, "$SYS/#", ("$SYS", "#"), True, "$SYS/"),
    "shared": ("$share/g/a/b", "g", "a/b", ("a", "b"), False, "a/b"),
    "shared, wild": ("$share/g/a/+", "g", "a/+", ("a", "+"), True, "a/"),
    "shared, first level empty": ("$share/g//a", "g", "/a", ("", "a"), False, "/a"),
    "shared, within it the text of a shared one": (
        "$share/g/$share/h/a",
        "g",
        "$share/h/a",
        ("$share", "h", "a"),
        False,
        "$share/h/a",
    ),
    "the word alone is not one": ("$share", None, "$share", ("$share",), False, "$share"),
    "a longer word is not one": ("$shares/g", None, "$shares/g", ("$shares", "g"), False, "$shares/g"),
}


@pytest.mark.parametrize(
    ("text", "group", "filter", "levels", "wild", "prefix"), GOOD_FILTERS.values(), ids=GOOD_FILTERS.keys()
)
def test_a_good_filter_is_taken_apart(
    text: str, group: str | None, filter: str, levels: tuple[str, ...], wild: bool, prefix: str
) -> None:
    parsed = parse_filter(text)
    assert parsed.text == text
    assert (parsed.group, parsed.filter, parsed.levels) == (group, filter, levels)
    assert (parsed.is_wild, parsed.prefix) == (wild, prefix)


BAD_FILTERS = {
    "empty": ("", "topic filter is empty"),
    "null": ("\0", r"U+0000 at character 1 of topic filter `\x00`"),
    "surrogate": ("a/\udfff", r"surrogate at character 3 of topic filter `a/\udfff`"),
    "too long": ("+/" * 32_768, f"topic filter has 65536 bytes, more than 65535: `{'+/' * 40}...`"),
    "plus after text": ("a/b+", "wildcard `+` does not fill level 2 of topic filter `a/b+`"),
    "plus before text": ("+a", "wildcard `+` does not fill level 1 of topic filter `+a`"),
    "two plus in a level": ("++", "wildcard `+` does not fill level 1 of topic filter `++`"),
    "hash after text": ("a/b#", "wildcard `#` does not fill level 2 of topic filter `a/b#`"),
    "hash and plus in a level": ("a/#+", "wildcard `+` does not fill level 2 of topic filter `a/#+`"),
    "hash before the end": ("a/#/b", "wildcard `#` at level 2, not the last, of topic filter `a/#/b`"),
    "hash before an empty level": ("#/", "wildcard `#` at level 1, not the last, of topic filter `#/`"),
    "shared, nothing more": ("$share/", "no group name after `$share/` in topic filter `$share/`"),
    "shared, empty group": ("$share//a", "no group name after `$share/` in topic filter `$share//a`"),
    "shared, group only": ("$share/g", "no filter after group `g` in topic filter `$share/g`"),
    "shared, empty filter": ("$share/g/", "no filter after group `g` in topic filter `$share/g/`"),
    "shared, plus in group": ("$share/g+/a", "wildcard in group name `g+` of topic filter `$share/g+/a`"),
    "shared, hash for group": ("$share/#", "wildcard in group name `#` of topic filter `$share/#`"),
    "shared, bad filter": (
        "$share/g/#/a",
        "wildcard `#` at level 1, not the last, of topic filter `$share/g/#/a`",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILTERS.values(), ids=BAD_FILTERS.keys())
def test_a_bad_filter_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(TopicError) as error:
        parse_filter(text)
    assert str(error.value) == message


@given(st.text("a+#/$\0\ud800", max_size=8) | st.text())
def test_any_text_is_a_filter_or_a_topic_error(text: str) -> None:
    try:
        parsed = parse_filter(text)
    except TopicError:
        return
    if not parsed.is_wild:
        check_topic(parsed.filter)
    assert parsed.filter.startswith(parsed.prefix)
    assert "/".join(parsed.levels) == parsed.filter


# ---------------------------------------------------------------- small filters, all of them


def meant(filter: str, topic: str) -> bool:
    """The definition, level by level; slow, recursive, and written without a look at the code under test."""

    def rest(f: tuple[str, ...], t: tuple[str, ...]) -> bool:
        if f == ("#",):
            return True  # any number of levels, none (the parent level) included
        if not f or not t:
            return f == t
        return f[0] in ("+", t[0]) and rest(f[1:], t[1:])

    if filter[0] in "+#" and topic[0] == "$":
        return False
    return rest(tuple(filter.split("/")), tuple(topic.split("/")))


def texts(names: tuple[str, ...], depth: int) -> list[str]:
    joined = ("/".join(levels) for count in range(1, depth + 1) for levels in product(names, repeat=count))
    return [text for text in joined if text]


# Why these few topics are enough to tell filters apart. A filter compares a level of a topic only with its
# own level there, so a name that neither filter has stands for every other such name: here `b`. At the
# first level it matters also whether a name begins with `$`, but such a name that neither filter has is
# matched by neither. And of the levels past its last a filter asks only whether there are any, so one level
# more than the longest filter has stands for all.
NAMES = ("", "a", "$x")
TOPICS = texts((*NAMES, "b"), depth=4)
FILTERS = [
    *texts((*NAMES, "+"), depth=3),
    *(f"{'/'.join(levels)}/#" for count in (1, 2, 3) for levels in product((*NAMES, "+"), repeat=count)),
    "#",
]
MEANT = {filter: frozenset(topic for topic in TOPICS if meant(filter, topic)) for filter in FILTERS}


CASES = [
    ("a/b", "a/b", True),
    ("a/b", "a/b/", False),
    ("a/b", "/a/b", False),
    ("+", "a", True),
    ("+", "/a", False),
    ("/+", "/a", True),
    ("+/+", "/a", True),
    ("a/+", "a", False),
    ("a/+", "a/", True),
    ("a/+/c", "a//c", True),
    ("#", "a", True),
    ("#", "/", True),
    ("a/#", "a", True),
    ("a/#", "a/", True),
    ("a/#", "a/b/c", True),
    ("a/#", "ab", False),
    ("+/#", "a", True),
    ("a/+/#", "a", False),
    ("a/+/#", "a/b", True),
    ("#", "$SYS/x", False),
    ("+/x", "$SYS/x", False),
    ("#", "$", False),
    ("$SYS/#", "$SYS/x", True),
    ("$SYS/#", "$SYS", True),
    ("$SYS/+", "$SYS/x", True),
    ("a/+", "a/$x", True),
    ("a/#", "a/$x", True),
    ("A", "a", False),
]


@pytest.mark.parametrize(("filter", "topic", "expected"), CASES)
def test_matches_and_its_definition_follow_the_standard(filter: str, topic: str, expected: bool) -> None:
    assert matches(filter, topic) is expected
    assert meant(filter, topic) is expected


def test_matches_is_as_defined_for_every_small_filter_and_topic() -> None:
    wrong = [(f, t) for f in FILTERS for t in TOPICS if matches(f, t) is not (t in MEANT[f])]
    assert wrong == []


def test_covers_is_exact_for_every_two_small_filters() -> None:
    wrong = [(a, b) for a in FILTERS for b in FILTERS if covers(a, b) is not (MEANT[b] <= MEANT[a])]
    assert wrong == []


def test_overlaps_is_exact_for_every_two_small_filters() -> None:
    wrong = [(a, b) for a in FILTERS for b in FILTERS if overlaps(a, b) is MEANT[a].isdisjoint(MEANT[b])]
    assert wrong == []


def test_intersection_is_exact_for_every_two_small_filters() -> None:
    wrong = [
        (a, b, found)
        for a in FILTERS
        for b in FILTERS
        for found in [intersection(a, b)]
        if frozenset[str]().union(*(MEANT[filter] for filter in found)) != MEANT[a] & MEANT[b]
    ]
    assert wrong == []


def test_intersection_is_the_shortest_filter_for_its_topics() -> None:
    shortest: dict[frozenset[str], int] = {}
    for filter, topics in MEANT.items():
        shortest[topics] = min(len(filter), shortest.get(topics, len(filter)))
    longer = [(a, b) for a in FILTERS for b in FILTERS for f in intersection(a, b) if len(f) != shortest[MEANT[f]]]
    assert longer == []


INTERSECTIONS = [
    ("a/#", "+", ("a",)),
    ("#", "+/#", ("#",)),
    ("/#", "+", ()),  # would be the empty topic
    ("/#", "+/#", ("/#",)),
    ("/+/#", "/#", ("/#",)),
    ("+/b/#", "a/+/c", ("a/b/c",)),
    ("+/b/#", "a/#", ("a/b/#",)),
    ("a/+", "a/b/#", ("a/b",)),
    ("#", "$SYS/#", ()),
    ("+/x", "$SYS/x", ()),
    ("a/b", "a/c", ()),
    ("a", "a/+", ()),
]


@pytest.mark.parametrize(("a", "b", "expected"), INTERSECTIONS)
def test_intersection_of(a: str, b: str, expected: tuple[str, ...]) -> None:
    assert intersection(a, b) == expected
    assert intersection(b, a) == expected


# ---------------------------------------------------------------- any filters: more names, more levels

names = st.sampled_from(["", "a", "b", "ab", "$", "$x", "a$", "é"]) | st.text(
    st.characters(exclude_characters="/+#\0", exclude_categories=["Cs"]), max_size=3
)
topics = st.lists(names, min_size=1, max_size=12).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(names | st.just("+"), max_size=12)) + draw(st.sampled_from([[], ["#"]]))
    return "/".join(levels) or "#"


@st.composite
def filters_of(draw: st.DrawFn, topic: str) -> str:
    """A filter that probably matches the topic: some levels made `+`, perhaps the end made `#`."""
    levels = [draw(st.sampled_from([level, level, "+"])) for level in topic.split("/")]
    kept = draw(st.integers(0, len(levels)))
    return draw(st.sampled_from(["/".join(levels), "/".join([*levels[:kept], "#"])]))


@st.composite
def filters_and_topic(draw: st.DrawFn) -> tuple[str, str, str]:
    topic = draw(topics)
    near = filters_of(topic)
    return draw(near | filters()), draw(near | filters()), draw(st.just(topic) | topics)


@given(filters_and_topic())
def test_generated_filters_are_filters_and_match_as_defined(case: tuple[str, str, str]) -> None:
    a, b, topic = case
    for filter in (a, b):
        assert parse_filter(filter).is_wild is is_wild(filter)
        assert matches(filter, topic) is meant(filter, topic)


@given(filters_and_topic())
def test_a_topic_is_in_the_intersection_just_if_both_match(case: tuple[str, str, str]) -> None:
    a, b, topic = case
    both = meant(a, topic) and meant(b, topic)
    assert any(meant(filter, topic) for filter in intersection(a, b)) is both
    if both:
        assert overlaps(a, b)


@given(filters_and_topic())
def test_a_cover_matches_what_the_covered_matches(case: tuple[str, str, str]) -> None:
    a, b, topic = case
    if covers(a, b) and meant(b, topic):
        assert meant(a, topic)
    assert all(covers(a, filter) and covers(b, filter) for filter in intersection(a, b))


@given(filters_and_topic())
def test_what_is_not_covered_has_a_witness(case: tuple[str, str, str]) -> None:
    """Topics that `b` matches, with fresh names for wildcards, decide whether `a` covers it."""
    a, b, _ = case
    longest = max(a.count("/"), b.count("/")) + 2
    levels = b.split("/")
    tails = [[]] if levels[-1] != "#" else [["fresh"] * count for count in range(longest + 1)]
    fixed = ["fresh" if level == "+" else level for level in levels if level != "#"]
    witnesses = [topic for tail in tails if (topic := "/".join(fixed + tail))]
    assert all(meant(b, topic) for topic in witnesses)
    assert covers(a, b) is all(meant(a, topic) for topic in witnesses)


@given(filters_and_topic())
def test_the_algebra_does_not_depend_on_the_order(case: tuple[str, str, str]) -> None:
    a, b, _ = case
    assert intersection(a, b) == intersection(b, a)
    assert overlaps(a, b) is overlaps(b, a) is bool(intersection(a, b))


def test_the_longest_filters_are_no_trouble() -> None:
    topic = "/".join("a" for _ in range(32_768))
    wild = topic.replace("a", "+")
    assert matches(wild, topic)
    assert covers(wild, topic)
    assert intersection(wild, topic) == (topic,)
    assert not overlaps(wild, f"{topic}/a")
