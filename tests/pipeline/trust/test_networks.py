"""A simulated network decides by the code that nodes run; what is simulated is what its nodes do."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.trust.state import Ratings
from penstock.pipeline.trust.network_run import BAD, HONEST, RULES, Ground, Network, Play, Setting, lay_out
from penstock.pipeline.trust.networks import TOPOLOGIES, make_links
from penstock.policy.trust.feedback import FeedbackLimits
from penstock.policy.trust.rating import Evidence, hops_beyond

SMALL = Ground(size=20, publishers=6, rounds=4, reach=3)
CHAIN = {"0": ("1",), "1": ("0", "2"), "2": ("1", "3"), "3": ("2",)}


def chain(setting: Setting, **profiles: int) -> Play:
    """Four nodes in a line, the first with a publisher."""
    beyond = {(node, other): hops_beyond(CHAIN, node, other) for node, others in CHAIN.items() for other in others}
    play = Play(Ground(size=4, publishers=1), replace(setting, bad=0.0), Network(CHAIN, ("0",), beyond), 1)
    play.profile.update({name.removeprefix("n"): profile for name, profile in profiles.items()})
    play.component = play._components()
    for _ in range(4):
        play.exchange(0)
    return play


def test_its_nodes_have_what_live_nodes_have() -> None:
    play = Play(SMALL, Setting(), lay_out(SMALL, 1), 1)
    assert {type(ratings) for ratings in play.ratings.values()} == {Ratings}
    assert {type(limits) for limits in play.limits.values()} == {FeedbackLimits}


@pytest.mark.parametrize("rule", RULES)
def test_where_all_are_trusted_everything_arrives(rule: str) -> None:
    setting = Setting(rule, 0.0, 0.0, bad=0.0)
    rounds = list(Play(SMALL, setting, lay_out(SMALL, 1), 1).rounds())
    assert all(one.good_refused == 0 < one.good for one in rounds)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_arrives_where_nobody_is_trusted_enough_to_begin_with(rule: str) -> None:
    """A base rate below both thresholds: there is no evidence, and there never will be."""
    rounds = list(Play(SMALL, Setting(rule, 0.9, 0.9, base_rate=0.5, bad=0.0), lay_out(SMALL, 1), 1).rounds())
    assert all(one.good_refused == one.good > 0 for one in rounds)


@pytest.mark.parametrize("signers", [1, 2, 3])
def test_a_chain_works_with_several_signers(signers: int) -> None:
    flow = chain(Setting("path", 0.5, 0.5, signers=signers)).flow("0", False, 0)
    assert set(flow.accepted) == {(node, False) for node in CHAIN}


def test_signatures_that_are_taken_away_are_missed_where_several_are_asked_for() -> None:
    for signers, reached in ((1, {"0", "1", "2", "3"}), (2, {"0", "1"})):
        play = chain(Setting("path", 0.5, 0.5, signers=signers, attack="stripping"), n1=BAD)
        assert {node for node, _ in play.flow("0", False, 0).accepted} == reached


def test_what_is_changed_on_the_way_is_false_beyond_and_its_sender_is_blamed() -> None:
    play = chain(Setting(attack="tampering", least=1), n1=BAD)
    flow = play.flow("0", False, 0)
    assert (flow.is_altered, set(flow.accepted)) == (True, {("0", False), ("1", False), ("2", True), ("3", True)})
    before = play.ratings["2"].rating("1", 0)
    for number in range(5):
        play._rate(number, 0, False, flow)
    assert play.ratings["2"].rating("1", 0) < before
    play.exchange(5)
    assert set(play.flow("0", False, 5).accepted) == {("0", False), ("1", False)}, "it is refused, and 3 gets none"


def test_the_bounds_of_feedback_are_those_of_nodes() -> None:
    """One client alone brings nobody down, and is heard so often only."""
    play = chain(Setting(least=2, most=3))
    for number in range(9):
        play._hear("1", "0", 0, ("t", str(number)), 1, False)
    assert play.ratings["1"].of("0", 0).bad == 0
    play._hear("1", "0", 0, ("t", "0"), 2, False)
    assert play.ratings["1"].of("0", 0).bad == 3
    for number in range(9):
        play._hear("1", "0", 0, ("t", str(number)), 3, True)
    assert play.ratings["1"].of("0", 0).good == 3


def test_liars_tell_the_most_that_is_believed() -> None:
    play = chain(Setting("path", 0.5, 0.5, base_rate=0.7, attack="mouthing"), n1=BAD)
    play.ratings["1"].table.resend_whole("2")  # type: ignore[union-attr]
    play.exchange(0)
    assert play.ratings["2"].least["0"].rating == pytest.approx(0.35), "0 of what 1 tells, 0.7 of our own"


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_networks_are_joined_without_loops_and_doubles(topology: str) -> None:
    links = make_links(topology, 500, np.random.default_rng(1))
    pairs = list(zip(links.rated.tolist(), links.rater.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert all(one != other for one, other in pairs)
    assert {(other, one) for one, other in pairs} == set(pairs)


def test_one_that_whitewashes_is_rated_like_a_newcomer_again() -> None:
    play = chain(Setting(attack="whitewashing", base_rate=0.7), n0=BAD)
    play.ratings["1"].evidence["0"] = Evidence(0, 30)
    play.exchange(0)
    play._whitewash()
    assert play.ratings["1"].rating("0", 0) == pytest.approx(0.7)


def test_one_that_is_on_and_off_is_good_half_of_the_time() -> None:
    play = chain(Setting(attack="on-off"), n0=BAD)
    assert (play.falsehood(0), play.falsehood(5)) == ([0.02], [0.8])


def test_what_only_comes_through_bad_nodes_is_not_asked_for() -> None:
    play = chain(Setting(attack="malicious"), n1=BAD)
    assert play.component["2"] == play.component["3"] != play.component["0"]
    assert play.profile["3"] == HONEST
