"""Where privacy filters are evaluated: every combination, against a direct reading of the paper's predicate."""

import json
from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import ContentError
from penstock.policy.contracts.release_place import (
    MAX_ACE,
    Circumstance,
    FilterPlace,
    ace_digest,
    must_evaluate,
    place,
    read_ace,
    write_ace,
)

ALL = [Circumstance(*flags) for flags in product([False, True], repeat=4)]


def knows_both_first(private: bool, la: bool, ls: bool, s1: bool) -> bool:
    """In words: a private publication is at the first node that knows advertisement and subscription.

    The producer's node knows the advertisement always, and the subscription if that is global or made there; other
    nodes know the advertisement only if it is global. With a global advertisement and a local subscription it is
    the consumer's node, wherever it is.
    """
    if not private:
        return False
    if ls:
        return s1 if la else True
    return s1


@pytest.mark.parametrize("at", ALL, ids=str)
def test_the_predicate_is_the_first_node_that_knows_both(at: Circumstance) -> None:
    p, la, ls, s1 = at
    predicate = p and ((s1 and (la or not ls)) or (not la and ls))
    assert must_evaluate(at) == predicate == knows_both_first(*at)
    assert (place(at) is FilterPlace.EVALUATE) == predicate


class SimpleFilter(NamedTuple):
    """A simple filter of a subscription, which is the conjunction of such."""

    id: str
    is_privacy: bool
    holds: Callable[[], bool]


def evaluate(filters: Sequence[SimpleFilter], at: Circumstance, ace: Collection[str]) -> tuple[bool, str]:
    """Return whether a publication satisfies a subscription (Algorithm 1) where nodes do what `place` says."""
    found = not at.is_private
    for one in filters:
        if one.is_privacy:
            found = True
            match place(at):
                case FilterPlace.SKIP:
                    continue
                case FilterPlace.REFUSE:
                    return False, "no node knows both the advertisement and the subscription: both are local"
                case FilterPlace.ENABLED:
                    if one.id not in ace:
                        return False, "the producer's node has not enabled access for this subscription"
                    continue
        if not one.holds():
            return False, f"`{one.id}` does not hold"
    return (True, "") if found else (False, "the publication is private, and the subscription guarantees nothing")


def paper(filters: list[SimpleFilter], at: Circumstance, ace: set[str]) -> bool:
    """Algorithm 1, line by line, with the predicate bracketed as in the text."""
    p, la, ls, s1 = at
    found = not p  # (2), (3)
    for f in filters:  # (4)
        if f.is_privacy:  # (5)
            found = True  # (6)
            if p and not ls and not s1 and f.id not in ace:  # (7)
                return False  # (8)
            if not (p and ((s1 and (la or not ls)) or (not la and ls))):  # (9)
                continue  # (10)
        if not f.holds():  # (11)
            return False
    return found  # (12)


@pytest.mark.parametrize("at", ALL, ids=str)
@pytest.mark.parametrize("is_enabled", [False, True], ids=["not in ACE", "in ACE"])
@pytest.mark.parametrize("has_privacy_filter", [False, True], ids=["no privacy filter", "a privacy filter"])
def test_algorithm_1(at: Circumstance, is_enabled: bool, has_privacy_filter: bool) -> None:
    ace = {"privacy"} if is_enabled else set[str]()
    no_node_knows_both = (
        at.is_private and at.is_advertised_locally and at.is_subscribed_locally and not at.is_at_first_node
    )
    for permits, matches in product([False, True], repeat=2):
        asked: list[str] = []

        def privacy(permits: bool = permits, asked: list[str] = asked) -> bool:
            asked.append("privacy")
            return permits

        filters = [SimpleFilter("content", False, lambda matches=matches: matches)]  # type: ignore[misc]
        if has_privacy_filter:
            filters.insert(0, SimpleFilter("privacy", True, privacy))
        passes, reason = evaluate(filters, at, ace)
        if no_node_knows_both:
            assert not passes, "the paper's algorithm lets it pass; ours refuses"
        else:
            assert passes == paper(filters, at, ace)
        assert bool(reason) is not passes
        assert not asked or must_evaluate(at), "the policy is asked only where it must be"


def test_there_is_one_combination_that_is_other_than_in_the_paper() -> None:
    filters = [SimpleFilter("privacy", True, lambda: False)]
    differ = [at for at in ALL if evaluate(filters, at, {"privacy"})[0] != paper(filters, at, {"privacy"})]
    assert differ == [Circumstance(True, True, True, False)]


@pytest.mark.parametrize("la", [True, False], ids=["local advertisement", "global advertisement"])
@pytest.mark.parametrize("ls", [True, False], ids=["local subscription", "global subscription"])
@pytest.mark.parametrize("permits", [True, False], ids=["permitted", "denied"])
def test_a_consumer_gets_a_private_publication_only_if_its_policy_was_asked_once(
    la: bool, ls: bool, permits: bool
) -> None:
    """The publication goes from the producer's node to the consumer's, with the ACE set that the first has made."""
    asked = 0

    def policy() -> bool:
        nonlocal asked
        asked += 1
        return permits

    filters = [SimpleFilter("subscription", True, policy)]
    ace = set[str]()
    first = Circumstance(True, la, ls, True)
    is_known_there = not ls
    forwarded = not la or not ls
    if is_known_there:
        forwarded = evaluate(filters, first, ace)[0]
        ace |= {"subscription"} if forwarded else set()
    arrives = forwarded and evaluate(filters, first._replace(is_at_first_node=False), ace)[0]
    assert arrives == (permits and not (la and ls))
    assert asked == (0 if la and ls else 1)


@given(st.dictionaries(st.text(max_size=20), st.sampled_from(["", "rule-1", "rule-2"]), max_size=20))
def test_the_ace_set_is_carried_with_the_rules_that_permit(subscriptions: dict[str, str]) -> None:
    enabled = {ace_digest(one): rule for one, rule in subscriptions.items()}
    (text,) = write_ace(enabled)
    assert read_ace(text) == enabled


def test_a_set_of_many_subscriptions_is_carried_in_several_properties() -> None:
    enabled = {ace_digest(str(n)): f"{'r' * 79}{n % 64:02}" for n in range(MAX_ACE + 10)}
    texts = write_ace(enabled)
    assert all(len(text) < 65_536 for text in texts)
    assert {digest: rule for text in texts for digest, rule in read_ace(text).items()} == enabled


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"r": 1}',
        '{"r": "x"}',
        json.dumps({"r": "é" * 16}),
        "[" * 1000,
        json.dumps({"r": "a" * 65_536}),
        "\ud800",
    ],
    ids=["empty", "a list", "a number", "short", "not ASCII", "deep", "long", "not Unicode"],
)
def test_what_is_no_ace_set_is_refused(text: str) -> None:
    with pytest.raises(ContentError):
        read_ace(text)
