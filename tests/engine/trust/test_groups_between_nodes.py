"""Trust groups in a rehearsal of whole domains: what nodes and clients prove to each other, as on live nodes."""

from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.schema.tests import PolicyTest
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions.session import Session
from penstock.engine.trust import group_proofs, groups
from penstock.engine.trust.groups import is_member
from penstock.engine.trust.state import NOT_PROVEN, GroupSecrets
from penstock.model.group_proof import RETRY_SECONDS
from tests.support.scenes.domains import nodes


def rehearsal(**more: Any) -> Rehearsal:
    plain = {
        "nodes": nodes("a", "b", "c"),
        "links": [{"between": ["a", "b"]}, {"between": ["b", "c"]}, {"between": ["a", "x"]}],
        "foreign": {"x": {"address": "127.0.0.1:1"}},
        "clients": {"ann": {"node": "a"}, "bob": {"node": "b"}},
        "trust_groups": {
            "inner": {"secret": {"env": "A"}, "nodes": ["a", "b"], "expiry": 100},
            "wide": {"secret": {"env": "B"}, "nodes": ["a", "b", "c"], "clients": ["bob"], "expiry": 50},
        },
    }
    domain = Domain.model_validate({**plain, **more})
    return Rehearsal(domain, ensemble(domain))


def known(play: Rehearsal, node: str, other: str) -> set[str]:
    """The groups that a node knows a neighbour to be in."""
    session = play.nodes[node].federation.neighbours[other]
    return {group for group in ("inner", "wide") if is_member(play.nodes[node], session, group, play.now)}


def session(play: Rehearsal, node: str, client: str) -> Session:
    return play.nodes[node].sessions[client]


def test_neighbours_know_each_other_s_groups_when_the_link_is_up() -> None:
    play = rehearsal()
    assert known(play, "a", "b") == known(play, "b", "a") == {"inner", "wide"}
    assert known(play, "b", "c") == known(play, "c", "b") == {"wide"}
    assert known(play, "a", "x") == set()
    assert play.notices == ()


@pytest.mark.parametrize("seconds", [25, 49, 51, 1000])
def test_neighbours_prove_anew_in_time(seconds: float) -> None:
    play = rehearsal()
    for _ in range(3):
        play.wait(seconds)
        assert known(play, "a", "b") == known(play, "b", "a") == {"inner", "wide"}


def test_a_link_that_is_down_is_trusted_until_the_proof_expires_and_proven_again() -> None:
    play = rehearsal()
    play.cut("a", "b")
    play.wait(99)
    assert known(play, "a", "b") == known(play, "b", "a") == {"inner"}
    play.wait(1)
    assert known(play, "a", "b") == known(play, "b", "a") == set()
    play.restore("a", "b")
    assert known(play, "a", "b") == known(play, "b", "a") == {"inner", "wide"}


def test_what_a_neighbour_has_proven_is_news_when_it_changes() -> None:
    play = rehearsal()
    node, neighbour = play.nodes["a"], play.nodes["a"].federation.neighbours["b"]
    assert not node.federation.news.is_all
    proven = dict(neighbour.trust.proven)
    groups.set_proven(node, neighbour, {group: until + 1 for group, until in proven.items()})
    assert not node.federation.news.is_all, "only the time is another"
    groups.set_proven(node, neighbour, {"inner": proven["inner"]})
    assert node.federation.news.is_all
    play.run()
    assert not node.federation.news.is_all
    groups.expire(node, proven["inner"] + 1)
    assert node.federation.news.is_all
    assert neighbour.trust.proven == {}


def test_what_a_client_has_proven_is_no_news_to_neighbours() -> None:
    play = rehearsal()
    play.connect("ann")
    play.prove("ann", ["inner"])
    assert session(play, "a", "ann").trust.proven.keys() == {"inner"}
    assert not play.nodes["a"].federation.news.is_all


def test_a_node_with_another_secret_proves_nothing_until_it_has_the_right_one() -> None:
    play = rehearsal()
    right, wrong = ({"inner": secret, "wide": b"the same for both"} for secret in (b"right" * 8, b"wrong" * 8))
    group_proofs.hold(play.nodes["a"], GroupSecrets(right), play.now)
    group_proofs.hold(play.nodes["b"], GroupSecrets(wrong), play.now)
    assert known(play, "a", "b") == known(play, "b", "a") == set()
    play.wait(1)
    assert known(play, "a", "b") == known(play, "b", "a") == {"wide"}
    assert {notice.kind for notice in play.notices} == {NOT_PROVEN}
    group_proofs.hold(play.nodes["b"], GroupSecrets(right), play.now)
    play.wait(RETRY_SECONDS)
    assert known(play, "a", "b") == known(play, "b", "a") == {"inner", "wide"}


def test_a_client_proves_what_it_is_told_to_prove() -> None:
    play = rehearsal()
    for name in ("ann", "bob"):
        play.connect(name)
    play.prove("ann", ["inner", "wide"])
    play.prove("bob", ["inner"])
    assert session(play, "a", "ann").trust.proven.keys() == {"inner", "wide"}
    assert is_member(play.nodes["b"], session(play, "b", "bob"), "wide", play.now), "the domain vouches for it"
    play.restart("a")
    assert session(play, "a", "ann").trust.proven.keys() == {"inner", "wide"}, "it has proven them again"
    play.prove("ann", [])
    assert session(play, "a", "ann").trust.proven == {}


def test_a_policy_test_can_have_a_client_prove_groups() -> None:
    step = PolicyTest.model_validate({"steps": [{"prove": {"ann": "inner", "bob": ["inner", "wide"]}}]}).steps[0]
    assert step.actions == ["prove"]
    assert step.prove == {"ann": ("inner",), "bob": ("inner", "wide")}
