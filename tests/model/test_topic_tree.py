"""The index of filters and the tree of topics, against brute force with `model.topic.matches`."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.model.topic import covers, matches, overlaps
from penstock.model.topic_tree import FilterIndex, TopicTree, _Branch, place_index

# Few names and few levels, so that filters, topics and their ways through the trie often meet.
NAMES = ["", "a", "b", "$x"]
topics = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.one_of(
    topics,
    st.lists(st.sampled_from([*NAMES, "+", "+"]), min_size=1, max_size=4).map("/".join).filter(bool),
    st.lists(st.sampled_from([*NAMES, "+", "+"]), max_size=3).map(lambda levels: "/".join([*levels, "#"])),
)
keys = st.integers(0, 3)


def shape(node: _Branch | str) -> object:
    """What is in a trie, to compare: superfluous nodes cannot be seen from outside."""
    if isinstance(node, str):
        return node
    return node.text, node.rest, {level: shape(child) for level, child in node.children.items()}


class IndexAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: FilterIndex[int] = FilterIndex()
        self.stored: dict[tuple[str, int], int] = {}

    @rule(filter=filters, key=keys, value=st.integers())
    def add(self, filter: str, key: int, value: int) -> None:
        self.index.add(filter, key, value)
        self.stored[filter, key] = value

    @rule(filter=filters, key=keys)
    def remove(self, filter: str, key: int) -> None:
        was_there = self.stored.pop((filter, key), None) is not None
        assert self.index.remove(filter, key) is was_there

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def remove_stored(self, data: st.DataObject) -> None:
        filter, key = data.draw(st.sampled_from(sorted(self.stored)))
        self.remove(filter, key)

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), value=st.integers())
    def replace_stored(self, data: st.DataObject, value: int) -> None:
        filter, key = data.draw(st.sampled_from(sorted(self.stored)))
        self.add(filter, key, value)

    @rule(topic=topics)
    def match(self, topic: str) -> None:
        expected = [value for (filter, _), value in self.stored.items() if matches(filter, topic)]
        assert Counter(self.index.match(topic)) == Counter(expected)

    @invariant()
    def holds_what_was_stored(self) -> None:
        assert len(self.index) == len(self.stored)
        listed = [((filter, key), value) for filter, key, value in self.index.filters()]
        assert len(listed) == len(self.stored)
        assert dict(listed) == self.stored

    @invariant()
    def has_only_the_nodes_it_needs(self) -> None:
        fresh: FilterIndex[int] = FilterIndex()
        for (filter, key), value in self.stored.items():
            fresh.add(filter, key, value)
        assert shape(self.index._wild) == shape(fresh._wild)


class TopicTreeAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree: TopicTree[int] = TopicTree()
        self.stored: dict[str, int] = {}

    @rule(topic=topics, value=st.integers())
    def set(self, topic: str, value: int) -> None:
        self.tree.set(topic, value)
        self.stored[topic] = value

    @rule(topic=topics)
    def pop(self, topic: str) -> None:
        assert self.tree.pop(topic) == self.stored.pop(topic, None)

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def pop_stored(self, data: st.DataObject) -> None:
        self.pop(data.draw(st.sampled_from(sorted(self.stored))))

    @rule(topic=topics)
    def get(self, topic: str) -> None:
        assert self.tree.get(topic) == self.stored.get(topic)

    @rule(filter=filters)
    def match(self, filter: str) -> None:
        expected = [(topic, value) for topic, value in sorted(self.stored.items()) if matches(filter, topic)]
        assert list(self.tree.match(filter)) == expected

    @invariant()
    def holds_what_was_stored(self) -> None:
        assert len(self.tree) == len(self.stored)
        assert list(self.tree) == sorted(self.stored)

    @invariant()
    def has_only_the_nodes_it_needs(self) -> None:
        fresh: TopicTree[int] = TopicTree()
        for topic, value in self.stored.items():
            fresh.set(topic, value)
        assert shape(self.tree._tree) == shape(fresh._tree)


class TreeOfFiltersAgainstDict(RuleBasedStateMachine):
    """Filters beside filters; what is stored is changed as topics are, see above."""

    def __init__(self) -> None:
        super().__init__()
        self.tree: TopicTree[str] = TopicTree()
        self.stored: set[str] = set()

    @rule(filter=filters)
    def change(self, filter: str) -> None:
        self.stored ^= {filter}
        if filter in self.stored:
            self.tree.set(filter, filter)
        else:
            assert self.tree.pop(filter) == filter

    @rule(filter=filters)
    def ask(self, filter: str) -> None:
        assert sorted(self.tree.covering(filter)) == sorted(text for text in self.stored if covers(text, filter))
        assert sorted(self.tree.covered(filter)) == sorted(text for text in self.stored if covers(filter, text))
        assert sorted(self.tree.overlapping(filter)) == sorted(text for text in self.stored if overlaps(filter, text))


test_tree_of_filters_against_dict = TreeOfFiltersAgainstDict.TestCase
test_index_against_dict = IndexAgainstDict.TestCase
test_topic_tree_against_dict = TopicTreeAgainstDict.TestCase


# ---------------------------------------------------------------- what the above says one case at a time

# title: filters in the index, topic, filters found
MATCHES = {
    "nothing": ([], "a", []),
    "exact": (["a/b", "a", "b"], "a/b", ["a/b"]),
    "exact and wild together": (["a/b", "a/+", "+/b", "#"], "a/b", ["a/b", "a/+", "+/b", "#"]),
    "a filter that ends early or goes on": (["+", "+/+/+"], "a/b", []),
    "hash and its parent level": (["a/#", "a/+/#", "#"], "a", ["a/#", "#"]),
    "hash below plus, at the parent level": (["+/#", "+"], "a", ["+/#", "+"]),
    "a filter below another": (["a/+", "a/+/c"], "a/b/c", ["a/+/c"]),
    "empty levels": (["+/+", "/+", "/#", "+"], "/", ["+/+", "/+", "/#"]),
    "dollar is not for wildcards": (["#", "+", "+/#", "+/b"], "$x/b", []),
    "dollar by name": (["$x/#", "$x/+", "$x/b", "$y/#"], "$x/b", ["$x/#", "$x/+", "$x/b"]),
    "dollar by name, parent level": (["$x/#", "$x/+"], "$x", ["$x/#"]),
    "dollar after the first level": (["a/+", "a/#", "#"], "a/$x", ["a/+", "a/#", "#"]),
}


@pytest.mark.parametrize(("stored", "topic", "expected"), MATCHES.values(), ids=MATCHES.keys())
def test_index_finds(stored: list[str], topic: str, expected: list[str]) -> None:
    index: FilterIndex[str] = FilterIndex()
    for filter in stored:
        index.add(filter, "key", filter)
    assert sorted(index.match(topic)) == sorted(expected)


# title: topics in the tree, filter, topics found
FINDS = {
    "exact": (["a", "a/b"], "a/b", ["a/b"]),
    "exact, absent": (["a/b"], "a", []),
    "plus": (["a/b", "a/c", "a/c/d", "a", "b/c"], "a/+", ["a/b", "a/c"]),
    "plus in the middle": (["a/b/c", "a/d/c", "a/b/d", "a/c"], "a/+/c", ["a/b/c", "a/d/c"]),
    "hash and its parent level": (["a", "a/b", "a/b/c", "ab"], "a/#", ["a", "a/b", "a/b/c"]),
    "all": (["b", "a/b", "/", "$x", "$x/a"], "#", ["/", "a/b", "b"]),
    "dollar is not for plus": (["$x/a", "b/a"], "+/a", ["b/a"]),
    "dollar by name": (["$x", "$x/a", "b"], "$x/#", ["$x", "$x/a"]),
    "dollar after the first level": (["a/$x"], "a/+", ["a/$x"]),
}


@pytest.mark.parametrize(("stored", "filter", "expected"), FINDS.values(), ids=FINDS.keys())
def test_topic_tree_finds(stored: list[str], filter: str, expected: list[str]) -> None:
    tree: TopicTree[str] = TopicTree()
    for topic in stored:
        tree.set(topic, topic)
    assert list(tree.match(filter)) == [(topic, topic) for topic in expected]


@given(st.permutations(["a", "a/b", "a/b/c", "b", "/a", "$x"]))
def test_order_in_the_tree_does_not_depend_on_insertion(order: list[str]) -> None:
    tree: TopicTree[None] = TopicTree()
    for topic in order:
        tree.set(topic, None)
    assert list(tree) == ["$x", "/a", "a", "a/b", "a/b/c", "b"]
    assert [topic for topic, _ in tree.match("#")] == ["/a", "a", "a/b", "a/b/c", "b"]


def test_a_match_in_the_tree_outlives_changes() -> None:
    tree: TopicTree[int] = TopicTree()
    tree.set("a/1", 1)
    tree.set("a/2", 2)
    found = tree.match("a/#")
    assert next(found) == ("a/1", 1)
    tree.pop("a/2")
    tree.set("a/3", 3)
    assert list(found) == [("a/2", 2)]


FILTERS = (
    "#",
    "+/#",
    "a",
    "a/#",
    "a/+",
    "+/b",
    "a/b",
    "/#",
    "/+/#",
    "+/+/#",
    "/+",
    "$a/b",
    "$a/#",
    "a/b/c",
    "+/+",
    "+",
)


@pytest.mark.parametrize("asked", FILTERS)
def test_filters_beside_each_other(asked: str) -> None:
    tree: TopicTree[str] = TopicTree()
    for filter in FILTERS:
        tree.set(filter, filter)
    assert sorted(tree.covering(asked)) == sorted(filter for filter in FILTERS if covers(filter, asked))
    assert sorted(tree.covered(asked)) == sorted(filter for filter in FILTERS if covers(asked, filter))
    assert sorted(tree.overlapping(asked)) == sorted(filter for filter in FILTERS if overlaps(asked, filter))


def test_places_of_filters_that_match() -> None:
    index = place_index(["a/#", "b", "a/#", *(f"plant/{number}/#" for number in range(100)), "+/7/a"])
    assert sorted(index.match("a")) == [0, 2]
    assert sorted(index.match("plant/7/a")) == [10, 103]


# ---------------------------------------------------------------- deep and wide

DEEP = 32_768  # `+/+/...` is then as long as a filter can be


def test_the_deepest_filters_and_topics_are_no_trouble() -> None:
    topic, plus = "/".join(["a"] * DEEP), "/".join(["+"] * DEEP)
    index: FilterIndex[str] = FilterIndex()
    for filter in (topic, plus, f"{plus[:-1]}#", "#"):
        index.add(filter, "key", filter)
    assert sorted(index.match(topic)) == sorted([topic, plus, f"{plus[:-1]}#", "#"])
    assert index.match(f"{topic}/a") == ["#", f"{plus[:-1]}#"]
    assert index.remove(plus, "key")
    assert len(list(index.filters())) == 3
    del index  # freeing a chain this long must not overflow the stack either


def test_the_deepest_topics_in_the_tree_are_no_trouble() -> None:
    topic, plus = "/".join(["a"] * DEEP), "/".join(["+"] * DEEP)
    tree: TopicTree[int] = TopicTree()
    tree.set(topic, 1)
    tree.set("a/a", 2)
    assert list(tree.match(plus)) == [(topic, 1)]
    assert list(tree.match("#")) == [("a/a", 2), (topic, 1)]
    assert tree.pop(topic) == 1
    assert shape(tree._tree) == (None, None, {"a": (None, None, {"a": "a/a"})})


def test_many_ways_through_the_trie() -> None:
    index: FilterIndex[int] = FilterIndex()
    for count in range(1, 200):
        index.add("/".join(["+"] * count), "key", count)
        index.add("/".join(["+"] * count + ["#"]), "key", -count)
        index.add("/".join(["a"] * count + ["+"]), "key", 1000 + count)
    assert sorted(index.match("/".join(["a"] * 100))) == [*range(-100, 0), 100, 1099]
