"""A simulated network decides as the rules of `policy.trust` do, message by message."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from penstock.pipeline.trust.network_run import BAD, HONEST, RULES, Ground, Play, RoundFlow, Setting, lay_out
from penstock.pipeline.trust.networks import TOPOLOGIES, Routes, make_links, make_routes
from penstock.policy.trust.rating import RULES as POLICIES
from penstock.policy.trust.rating import Average, Evidence, ReceivedToken, Thresholds, Weights, in_millionths, may_sign

SMALL = Ground(size=40, publishers=6, rounds=4, reach=3)


def _before(routes: Routes) -> dict[int, list[tuple[int, int]]]:
    """Of each place, the places that copies come from, and by which copy; in the order in which they are asked."""
    found = defaultdict(list)
    targets = np.repeat(np.arange(routes.bounds[1], len(routes.node)), np.diff([*routes.starts, len(routes.edge)]))
    for copy, (source, target) in enumerate(zip(routes.source.tolist(), targets.tolist(), strict=True)):
        found[target].append((source, copy))
    return found


def _least(play: Play, place: int) -> dict[str, Average]:
    """By walking back every path of the publisher's graph that is not too long."""
    told, routes, before = play.announced(), play.routes, _before(play.routes)
    found: dict[str, Average] = {}
    paths = [(place, 0, 0)]
    while paths:
        at, total, edges = paths.pop()
        for source, copy in before[at] if edges < play.ground.reach else []:
            longer = (source, total + in_millionths(told[routes.edge[copy]]), edges + 1)
            name, average = str(routes.node[source]), Average(*longer[1:])
            found[name] = min(found.get(name, average), average)
            paths.append(longer)
    return found


def _by_policy(play: Play) -> RoundFlow:
    """The flow of a round, as the pure rules have it: one token, one node at a time."""
    setting, routes, before = play.setting, play.routes, _before(play.routes)
    ratings, links = play.ratings(), play.routes.links
    thresholds = Thresholds(setting.sign, setting.accept, setting.signers)
    count = len(routes.node)
    flow = RoundFlow(np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.int64))
    tokens: dict[int, set[str]] = {}
    for place in range(count):
        node = int(routes.node[place])
        if place < routes.bounds[1]:
            tokens[place] = {str(node)}
            flow.has[place] = flow.signed[place] = True
            continue
        mine = {str(links.rated[edge]): float(ratings[edge]) for edge in np.flatnonzero(links.rater == node)}
        least = _least(play, place)
        for source, copy in before[place]:
            sender = str(routes.node[source])
            if source not in tokens:
                continue
            came = ReceivedToken(tokens[source], sender, {sender, *_least(play, source)})
            ruling = POLICIES[setting.rule](came, mine, least, thresholds)
            if play.is_lax[node] or ruling.accepts:
                signs = bool(play.is_lax[node]) or may_sign(sender, mine, thresholds)
                tokens[place] = tokens[source] | ({str(node)} if signs else set())
                flow.has[place], flow.signed[place], flow.chosen[place] = True, signs, copy
                break
    return flow


@pytest.mark.parametrize("attack", ["malicious", "stuffing", "collusion"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(("rule", "signers"), [("strict", 1), ("path", 1), ("path", 2)])
def test_it_decides_as_the_policy_does(rule: str, signers: int, topology: str, attack: str) -> None:
    ground = replace(SMALL, topology=topology)
    setting = Setting(rule, 0.6, 0.5, penalty=2, signers=signers, base_rate=0.7, half_life=2, attack=attack)
    play = Play(ground, setting, lay_out(ground, 3), 3)
    seen = set()
    for _ in play.rounds():
        found, expected = play.flow(), _by_policy(play)
        assert (found.has == expected.has).all()
        assert (found.signed == expected.signed).all()
        assert (found.chosen[found.has][ground.publishers :] == expected.chosen[found.has][ground.publishers :]).all()
        seen |= set(found.has.tolist())
    assert seen == {True, False}, "some messages are accepted and some refused"


def test_ratings_are_those_of_the_policy() -> None:
    ground, setting = SMALL, Setting(base_rate=0.8)
    play = Play(ground, setting, lay_out(ground, 1), 1)
    list(play.rounds())
    weights = Weights(setting.penalty, setting.base_rate)
    expected = [Evidence(r, s).rating(weights, 0) for r, s in zip(play.good, play.bad, strict=True)]
    assert play.ratings() == pytest.approx(expected)
    assert len(set(play.ratings())) > 5


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_networks_are_joined_without_loops_and_doubles(topology: str) -> None:
    links = make_links(topology, 500, np.random.default_rng(1))
    pairs = list(zip(links.rated.tolist(), links.rater.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert all(one != other for one, other in pairs)
    assert {(other, one) for one, other in pairs} == set(pairs)
    routes = make_routes(links, np.array([0]), 2)
    assert sorted(routes.node.tolist()) == list(range(500))
    assert routes.node[0] == 0


def test_without_trust_in_the_way_everything_arrives() -> None:
    ground = SMALL
    rounds = list(Play(ground, Setting(sign=0.0, accept=0.0), lay_out(ground, 1), 1).rounds())
    assert all(one.false_accepted == one.false and one.good_refused == 0 for one in rounds)
    assert sum(one.false for one in rounds) > 0


@pytest.mark.parametrize("rule", RULES)
def test_nothing_arrives_where_nobody_is_trusted_enough_to_begin_with(rule: str) -> None:
    """A base rate below both thresholds: there is no evidence, and there never will be."""
    ground = SMALL
    rounds = list(
        Play(ground, Setting(rule, 0.9, 0.9, base_rate=0.5, bad=0, careless=0), lay_out(ground, 1), 1).rounds()
    )
    assert all(one.good_refused == one.good > 0 for one in rounds)


def test_one_that_whitewashes_is_rated_like_a_newcomer_again() -> None:
    ground = Ground(size=40, publishers=12, rounds=5)
    play = Play(ground, Setting("path", 0.6, 0.3, attack="whitewashing"), lay_out(ground, 1), 1)
    other = Play(ground, Setting("path", 0.6, 0.3, attack="malicious"), lay_out(ground, 1), 1)
    list(play.rounds())
    list(other.rounds())
    links = play.routes.links
    of_bad = (play.profile[links.rated] == BAD) & (play.profile[links.rater] == HONEST)
    washed = of_bad & (other.bad > 0) & (play.bad == 0)
    assert washed.any()
    assert play.ratings()[washed] == pytest.approx(play.setting.base_rate)
    assert (play.bad[~of_bad] == other.bad[~of_bad]).all()


def test_one_that_is_on_and_off_is_good_half_of_the_time() -> None:
    ground = SMALL
    play = Play(ground, Setting(attack="on-off"), lay_out(ground, 1), 1)
    is_bad = play.profile[play.routes.origins] == BAD
    assert set(play.falsehood(0)[is_bad]) == {0.02}
    assert set(play.falsehood(5)[is_bad]) == {0.8}
