import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.policy.trust.rating import (
    UNIT,
    Average,
    Evidence,
    ReceivedToken,
    Thresholds,
    TokenRuling,
    Weights,
    by_introducer,
    by_path,
    may_sign,
    strict,
)
from tests.support.models.trust_graphs import FIGURE_4, exhaustive

PLAIN = Weights(penalty=3)


@pytest.mark.parametrize(
    ("good", "bad", "opinion", "rating"),
    [
        pytest.param(0, 0, (0, 0, 1), 0.5, id="nothing is known"),
        pytest.param(2, 0, (0.5, 0, 0.5), 0.75, id="two good messages"),
        pytest.param(0, 3, (0, 0.6, 0.4), 0.2, id="one bad message"),
        pytest.param(5, 3, (0.5, 0.3, 0.2), 0.6, id="both"),
    ],
)
def test_opinion_and_rating(good: float, bad: float, opinion: tuple[float, float, float], rating: float) -> None:
    evidence = Evidence(good, bad)
    found = evidence.opinion
    assert (found.belief, found.disbelief, found.uncertainty) == pytest.approx(opinion)
    assert evidence.rating(PLAIN, 0) == pytest.approx(rating)


def test_a_bad_message_weighs_as_much_as_the_penalty_says() -> None:
    evidence = Evidence().with_message(True, PLAIN, 1).with_message(False, PLAIN, 2)
    assert (evidence.good, evidence.bad) == (1, 3)


def test_evidence_counts_half_after_its_half_life_and_the_rating_goes_back_to_the_base_rate() -> None:
    weights = Weights(penalty=2, base_rate=0.7, half_life=10)
    evidence = Evidence(8, 4, at=100)
    aged = evidence.aged(weights, 110)
    assert (aged.good, aged.bad) == (4, 2)
    assert evidence.rating(weights, 100_000) == pytest.approx(0.7)


def test_a_clock_that_was_set_back_ages_nothing_and_does_not_age_twice_later() -> None:
    weights = Weights(half_life=10)
    evidence = Evidence(8, 4, at=100)
    assert evidence.aged(weights, 50) == evidence
    assert evidence.aged(weights, 50).aged(weights, 110).good == 4


@given(st.lists(st.booleans(), max_size=30), st.floats(0, 1))
def test_a_rating_is_between_0_and_1_good_raises_it_and_bad_lowers_it(votes: list[bool], base_rate: float) -> None:
    weights = Weights(base_rate=base_rate)
    evidence = Evidence()
    for vote in votes:
        after = evidence.with_message(vote, weights, 0)
        assert 0 <= after.rating(weights, 0) <= 1
        before, now = evidence.rating(weights, 0), after.rating(weights, 0)
        assert now >= before - 1e-12 if vote else now <= before + 1e-12
        evidence = after


@pytest.mark.parametrize(
    ("make", "what"),
    [
        pytest.param(lambda: Weights(penalty=1), "above 1", id="a penalty of 1"),
        pytest.param(lambda: Weights(base_rate=1.1), "base rate", id="a base rate above 1"),
        pytest.param(lambda: Weights(half_life=0), "half-life", id="no half-life"),
        pytest.param(lambda: Evidence(-1, 0), "evidence", id="less than nothing"),
        pytest.param(lambda: Evidence(math.nan, 0), "evidence", id="not a number"),
        pytest.param(lambda: Thresholds(0.5, 0.6), "at most", id="theta above pi"),
        pytest.param(lambda: Thresholds(math.nan), "between 0 and 1", id="pi is not a number"),
        pytest.param(lambda: Thresholds(0.5, signers=0), "signer", id="no signers"),
        pytest.param(lambda: Average(UNIT + 1, 1), "sum", id="a path better than 1"),
        pytest.param(lambda: Average(0, 0), "edges", id="a path of no edges"),
    ],
)
def test_values_that_cannot_be_are_refused(make: object, what: str) -> None:
    assert callable(make)
    with pytest.raises(PolicyError, match=what):
        make()


def test_averages_are_compared_exactly() -> None:
    third = Average(333_333, 1)
    assert third < Average(1_000_000, 3)
    assert Average(500_000, 1) == Average(1_500_000, 3)
    assert Average(1_500_000, 3).reaches(0.5)
    assert not Average(1_499_999, 3).reaches(0.5)


STRICT = [
    pytest.param({"b2"}, "b2", {"b2": 0.6}, True, "the neighbour `b2` has signed", id="a trusted neighbour"),
    pytest.param(
        {"b2"}, "b2", {"b2": 0.59}, False, "`b2` is rated 0.59, below 0.6", id="a neighbour not trusted enough"
    ),
    pytest.param({"b1"}, "b2", {"b2": 0.9}, False, "`b1` is no neighbour", id="a signer that is no neighbour"),
    pytest.param(set(), "b2", {"b2": 0.9}, False, "nobody has signed", id="no signature"),
    pytest.param({"b2"}, "b2", {"b2": math.nan}, False, "no trusted neighbour", id="a rating that is not a number"),
    pytest.param({"b2"}, "b2", {"b2": 7.0}, False, "no trusted neighbour", id="a rating that cannot be"),
    pytest.param({"b1", "b2", "b3"}, "b3", {"b2": 0.1, "b3": 0.8}, True, "`b3`", id="one of several"),
    pytest.param(
        {"b3"}, "b2", {"b2": 0.01, "b3": 0.99}, False, "`b2`, which sends it, is rated 0.01", id="a distrusted sender"
    ),
    pytest.param({"b3"}, "b2", {"b2": 0.6, "b3": 0.99}, True, "`b3` has signed", id="a trusted sender"),
    pytest.param({"b3"}, "b2", {"b3": 0.99}, False, "`b2`, which sends it, is no neighbour", id="an unknown sender"),
]


@pytest.mark.parametrize(("signers", "sender", "ratings", "accepts", "reason"), STRICT)
def test_strict(signers: set[str], sender: str, ratings: dict[str, float], accepts: bool, reason: str) -> None:
    found = strict(ReceivedToken(signers, sender, (), 1), ratings, {}, Thresholds(0.6))
    assert found.accepts is accepts
    assert reason in found.reason


def test_introducer_is_strict_without_the_question_who_sends() -> None:
    for case in STRICT:
        signers, sender, ratings, accepts, reason = case.values
        found = by_introducer(ReceivedToken(signers, sender, (), 1), ratings, {}, Thresholds(0.6))  # type: ignore[arg-type]
        assert found.accepts is (accepts or "which sends it" in str(reason)), case.id


@pytest.mark.parametrize(
    ("signers", "accepts", "reason"),
    [
        pytest.param({"b2"}, False, "from `b2` is rated 0.45, below 0.5", id="b2 alone: 0.45"),
        pytest.param({"b3"}, False, "from `b3` is rated 0.4, below 0.5", id="b3 alone: 0.4"),
        pytest.param({"b1", "b2", "b3"}, True, "from `b1` (0.5)", id="b1 as well: 0.5"),
    ],
)
def test_the_worked_example_of_the_paper(signers: set[str], accepts: bool, reason: str) -> None:
    """§II-D: b6 with the ratings of Fig. 4 and θ = 0.5."""
    found = by_path(
        ReceivedToken(signers, "b4", {"b1", "b2", "b3", "b4"}, 3), {}, exhaustive(FIGURE_4, "b6"), Thresholds(0.6, 0.5)
    )
    assert found.accepts is accepts
    assert reason in found.reason


def test_as_many_signers_as_asked_for_need_trusted_paths() -> None:
    least = {"a": Average(600_000, 1), "b": Average(1_200_000, 2), "c": Average(100_000, 1)}
    assert by_path(
        ReceivedToken({"a", "b", "c"}, "a", set(least), 3), {}, least, Thresholds(0.6, 0.5, signers=2)
    ).accepts
    found = by_path(ReceivedToken({"a", "c"}, "a", set(least), 3), {}, least, Thresholds(0.6, 0.5, signers=2))
    assert found == TokenRuling(
        False, "1 of 2 signers have trusted paths only: the least trustworthy path from `c` is rated 0.1, below 0.5"
    )


def test_a_signer_without_a_path_counts_for_nothing() -> None:
    found = by_path(ReceivedToken({"far"}, "a", (), 1), {}, {}, Thresholds(0.5))
    assert found == TokenRuling(False, "no signer has trusted paths only: no path from `far` is known")


def test_a_signer_without_a_path_through_the_sender_counts_for_nothing() -> None:
    found = by_path(ReceivedToken({"b3"}, "b2", {"b2"}, 2), {}, {"b3": Average(990_000, 1)}, Thresholds(0.5))
    why = "no path from `b3` through `b2`, which sends it, is known"
    assert found == TokenRuling(False, f"no signer has trusted paths only: {why}")


def test_a_reason_names_only_a_few_of_many_signers() -> None:
    found = by_path(ReceivedToken({f"n{at}" for at in range(100)}, "a", (), 1), {}, {}, Thresholds(0.5))
    assert found.reason.endswith("and 95 more")


def test_a_token_is_signed_if_its_sender_is_trusted() -> None:
    thresholds = Thresholds(0.6, 0.4)
    assert may_sign("b", {"b": 0.6}, thresholds)
    assert not may_sign("b", {"b": 0.5}, thresholds)
    assert not may_sign("b", {}, thresholds)
