"""Random protocols beside a matcher by derivatives, which knows no states."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.event import Event as Publication
from penstock.model.topic import matches
from penstock.policy.monitors.protocol_machine import order_states, sending_states
from penstock.policy.monitors.protocol_text import (
    EventChoice,
    EventRepeat,
    EventSequence,
    ProtocolEvent,
    Tree,
    events_of,
)
from tests.support.models.automata import automaton

pytestmark = pytest.mark.fuzz

PLAIN = ("a", "b", "c")
OVERLAPPING = ("s/x", "s/+", "s/#", "+/x", "a")
TOPICS = ("a", "b", "c", "s", "s/x", "s/y", "t/x", "s/x/y", "other")


def trees(events: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    leaf: st.SearchStrategy[Tree] = st.sampled_from(events).map(ProtocolEvent)

    def grown(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            several.map(EventSequence), several.map(EventChoice), st.builds(EventRepeat, inner, st.sampled_from("?*+"))
        )

    return st.recursive(leaf, grown, max_leaves=7)


TREES = st.one_of(trees(PLAIN), trees(OVERLAPPING))
WORDS = st.lists(st.sampled_from(TOPICS), max_size=12)


@dataclass(frozen=True)
class Rest:
    """What may still come, as a set of alternatives, each a sequence of trees. No alternative: nothing may be right."""

    options: frozenset[tuple[Tree, ...]]

    @property
    def may_end(self) -> bool:
        return any(all(map(may_be_left_out, option)) for option in self.options)

    @property
    def goes_on(self) -> bool:
        return any(self.options)

    def after(self, topic: str) -> "Rest":
        return Rest(frozenset(rest for option in self.options for rest in derived(option, topic)))

    def __or__(self, other: "Rest") -> "Rest":
        return Rest(self.options | other.options)


def may_be_left_out(tree: Tree) -> bool:
    match tree:
        case ProtocolEvent():
            return False
        case EventChoice(items):
            return any(map(may_be_left_out, items))
        case EventSequence(items):
            return all(map(may_be_left_out, items))
        case EventRepeat(item, operator):
            return operator in "?*" or may_be_left_out(item)


def derived(trees: tuple[Tree, ...], topic: str) -> set[tuple[Tree, ...]]:
    """Each way in which a sequence of trees can go on once an event of this topic has come (partial derivatives)."""
    if not trees:
        return set()
    first, rest = trees[0], trees[1:]
    found = derived(rest, topic) if may_be_left_out(first) else set()
    own: set[tuple[Tree, ...]]
    match first:
        case ProtocolEvent(filter):
            own = {()} if matches(filter, topic) else set()
        case EventChoice(items):
            own = {way for item in items for way in derived((item,), topic)}
        case EventSequence(items):
            own = derived(items, topic)
        case EventRepeat(item, "?"):
            own = derived((item,), topic)
        case EventRepeat(item, _):
            own = {(*way, EventRepeat(item, "*")) for way in derived((item,), topic)}
    return found | {(*way, *rest) for way in own}


def stepped(tree: Tree, guard: set[str], rest: Rest, topic: str) -> tuple[bool, Rest]:
    """Whether an event passes where this may still come, and what may come after it."""
    whole = Rest(frozenset({(tree,)}))
    of_protocol = [event for event in events_of(tree) if matches(event, topic)]
    is_guarded = any(event in guard for event in of_protocol)
    onward = rest.after(topic)
    anew = whole.after(topic) if rest.may_end else Rest(frozenset())
    following = onward | anew
    if following.options and (onward.options or is_guarded or not rest.goes_on):
        return True, following
    return not is_guarded, rest


def passing(tree: Tree, guard: set[str], word: list[str]) -> list[str]:
    """What a monitor that only knows the text lets pass."""
    rest = Rest(frozenset({(tree,)}))
    out = []
    for topic in word:
        passes, rest = stepped(tree, guard, rest, topic)
        out += [topic] if passes else []
    return out


def passing_from(tree: Tree, guard: set[str], own: set[str], others: set[str], word: list[str]) -> list[str]:
    """What a monitor lets pass that sees only a sender's events, and tries all that others may have sent between."""

    def between(rests: set[Rest]) -> set[Rest]:
        found, waiting = set(rests), list(rests)
        while waiting:
            rest = waiting.pop()
            for topic in TOPICS:
                if any(matches(event, topic) for event in others):
                    _, after = stepped(tree, guard, rest, topic)
                    if after not in found:
                        found.add(after)
                        waiting.append(after)
        return found

    rests = between({Rest(frozenset({(tree,)}))})
    out = []
    for topic in word:
        if any(matches(event, topic) for event in own):
            onward = {after for passes, after in (stepped(tree, guard, rest, topic) for rest in rests) if passes}
            if not onward:
                continue
            rests = between(onward)
        out.append(topic)
    return out


def run(states: dict[str, dict[str, object]], word: list[str]) -> list[str]:
    compiled = automaton(states)
    state: object = compiled.start()
    out = []
    for topic in word:
        state, events = compiled.step(state, Publication(topic, b""), 0.0)
        out += [event.topic for event in events]
    return out


@given(tree=TREES, word=WORDS)
def test_just_the_words_that_begin_runs_pass_whole(tree: Tree, word: list[str]) -> None:
    """The language: what passes unharmed is just the beginnings of sequences of runs."""
    events = events_of(tree)
    alphabet = [topic for topic in word if any(matches(event, topic) for event in events)]
    rest = Rest(frozenset({(EventRepeat(tree, "*"),)}))
    for topic in alphabet:
        rest = rest.after(topic)
    assert (run(order_states(tree, events), alphabet) == alphabet) is bool(rest.options)


@given(tree=TREES, word=WORDS, data=st.data())
def test_what_passes_is_what_the_text_says(tree: Tree, word: list[str], data: st.DataObject) -> None:
    guard = data.draw(st.sets(st.sampled_from(events_of(tree)), min_size=1))
    assert run(order_states(tree, guard), word) == passing(tree, guard, word)


@given(tree=TREES, word=WORDS, data=st.data())
def test_on_the_link_from_a_sender_passes_what_others_could_have_made_right(
    tree: Tree, word: list[str], data: st.DataObject
) -> None:
    event = st.sampled_from(events_of(tree))
    guard, own, others = data.draw(st.sets(event, min_size=1)), data.draw(st.sets(event)), data.draw(st.sets(event))
    states = sending_states(tree, guard, own, others)
    assert run(states, word) == passing_from(tree, guard, own, others, word)


@given(tree=TREES, word=WORDS, data=st.data())
def test_a_sender_that_keeps_to_the_protocol_is_never_stopped(tree: Tree, word: list[str], data: st.DataObject) -> None:
    """Of a history in order, the part of each sender passes on the link from it."""
    own = data.draw(st.sets(st.sampled_from(events_of(tree))))
    others = set(events_of(tree)) - own
    kept = passing(tree, set(events_of(tree)), word)
    part = [topic for topic in kept if any(matches(event, topic) for event in own)]
    part = [topic for topic in part if not any(matches(event, topic) for event in others)]
    if len(part) == sum(any(matches(event, topic) for event in own) for topic in kept):
        assert run(sending_states(tree, events_of(tree), own, others), part) == part


@given(tree=TREES, data=st.data())
def test_no_two_states_behave_alike(tree: Tree, data: st.DataObject) -> None:
    guard = data.draw(st.sets(st.sampled_from(events_of(tree)), min_size=1))
    compiled = automaton(order_states(tree, guard))
    names = [state.name for state in compiled.states]
    apart: set[tuple[str, str]] = set()
    changed = True
    while changed:  # mark pairs that some topic tells apart, then pairs that lead to such
        changed = False
        for one in names:
            for other in names:
                moves = [
                    (compiled.step(one, event, 0), compiled.step(other, event, 0))
                    for event in (Publication(topic, b"") for topic in TOPICS)
                ]
                told = any(a[1] != b[1] or (str(a[0]), str(b[0])) in apart for a, b in moves)
                if told and (one, other) not in apart:
                    apart.add((one, other))
                    changed = True
    assert {(one, other) for one in names for other in names if one != other} == apart
    assert compiled.warnings == ()
