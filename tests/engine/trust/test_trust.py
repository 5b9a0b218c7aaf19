"""Tokens and trust on rehearsed nodes: who may publish and subscribe, whose events go on, and why not (trust §II)."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.contracts.state import renewed_contracts
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.trust import client_tokens, token_exchange
from penstock.policy.contracts.contract_set import CollectorAssignment
from penstock.policy.quality.collectors import make_collector
from penstock.policy.tokens.verification import Verified

FIG_4 = {
    ("b1", "b2"): 0.6,
    ("b1", "b3"): 0.7,
    ("b2", "b4"): 0.5,
    ("b3", "b4"): 0.4,
    ("b3", "b5"): 0.55,
    ("b4", "b6"): 0.4,
    ("b5", "b6"): 0.9,
}
"""The ratings of Fig. 4 that the text's averages imply: of the first by the second."""


def begin(of: str, by: str, rating: float) -> dict[str, Any]:
    """Evidence of 18 events that is rated so."""
    return {"of": of, "by": by, "good": 20 * rating - 1, "bad": 19 - 20 * rating}


def play(pairs: list[tuple[str, str]], trust: dict[str, Any] | None = None, **more: Any) -> Rehearsal:
    names = sorted({name for pair in pairs for name in pair})
    domain = Domain.model_validate(
        {
            "nodes": {
                name: {"listen": "127.0.0.1:0", "signing_key": f"{name}.pem", **more.get("nodes", {}).get(name, {})}
                for name in names
            },
            "links": [{"between": pair} for pair in pairs],
            "brokering": {"default": "default", "types": ["default"]},
            "tokens": {
                "keys": "keys.json",
                "grants": [{"clients": "*", "publish": "home/#", "subscribe": "home/#"}],
                **more.get("tokens", {}),
            },
            "trust": trust,
            "monitors": more.get("monitors", {}),
            "quality": more.get("quality"),
            "contracts": more.get("contracts"),
        }
    )
    return Rehearsal(domain, ensemble(domain))


def line(count: int, trust: dict[str, Any] | None = None, **more: Any) -> Rehearsal:
    """Nodes `b1 - b2 - ...`."""
    return play(list(pairwise(f"b{number}" for number in range(1, count + 1))), trust, **more)


def fig_4(theta: float, rule: str = "path") -> Rehearsal:
    rated = [begin(of, by, rating) for (of, by), rating in FIG_4.items()]
    back = [{"of": by, "by": of, "good": 1000} for of, by in FIG_4]
    trust = {"rule": rule, "sign": 0.6, "accept": 0.5, "begin": [*rated, *back]}
    nodes = {"b6": {"trust": {"accept": theta}}}
    return play(list(FIG_4), trust, nodes=nodes)


def denied(rehearsal: Rehearsal, kind: str = "publish denied") -> list[str]:
    return [one.reason for one in rehearsal.notices if one.kind == kind]


def test_a_token_lets_its_client_publish_and_subscribe_what_it_says() -> None:
    rehearsal = play([("b1", "b2")])
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b1")
    rehearsal.subscribe("bob", "home/+/bedroom/#")
    rehearsal.subscribe("bob", "#")
    rehearsal.publish("ann", "home/first/bedroom/light", b"on")
    rehearsal.publish("ann", "garden", b"wet")
    rehearsal.run()
    assert [one.topic for one in rehearsal.deliveries("bob")] == ["home/first/bedroom/light"]
    assert denied(rehearsal) == ["may not write to `garden`: its token has no filter to publish that matches it"]
    assert denied(rehearsal, "subscribe denied") == ["may not subscribe to `#`: its token has no filter that covers it"]


def test_a_token_goes_with_an_event_and_is_signed_on_its_way() -> None:
    rehearsal = line(3, {"sign": 0.5})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b3")
    rehearsal.subscribe("bob", "home/#")
    for payload in (b"1", b"2"):
        rehearsal.publish("ann", "home/door", payload)
        rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("bob")] == [b"1", b"2"]
    tokens = rehearsal.nodes["b3"].trust.tokens
    assert tokens is not None
    signers = {token.nodes for token in tokens.known.values() if token.claims.subject.name == "ann"}
    assert signers == {("b1", "b2", "b3")}


def test_fig_4_accepted_at_one_half() -> None:
    rehearsal = fig_4(0.5)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b6")
    rehearsal.subscribe("bob", "home/#")
    ratings = rehearsal.nodes["b6"].trust.ratings
    assert ratings is not None
    least = ratings.least
    assert {name: round(least[name].rating, 9) for name in ("b1", "b2", "b3")} == {"b1": 0.5, "b2": 0.45, "b3": 0.4}
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("bob")] == [b"1"]


def test_fig_4_refused_above() -> None:
    rehearsal = fig_4(0.51)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b6")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    assert rehearsal.deliveries("bob") == ()
    assert any("the least trustworthy path from `b1` is rated 0.5, below 0.51" in one for one in denied(rehearsal))


def test_strict_refuses_what_no_trusted_neighbour_has_signed() -> None:
    rehearsal = line(3, {"sign": 0.6, "begin": [begin("b1", "b2", 0.9), begin("b2", "b3", 0.5)]})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b3")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    assert rehearsal.deliveries("bob") == ()
    assert denied(rehearsal) == ["no trusted neighbour has signed: `b1` is no neighbour; `b2` is rated 0.5, below 0.6"]


def test_feedback_changes_decisions_at_once() -> None:
    trust = {"sign": 0.6, "begin": [begin("b1", "b2", 0.65)], "feedback": {"least": 1, "from": "bob"}}
    rehearsal = line(2, trust)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("bob")] == [b"1"]
    digest = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    rehearsal.publish(
        "bob", "$penstock/feedback", f'{{"topic":"home/door","good":false,"payload":"{digest}"}}'.encode()
    )
    rehearsal.run()
    assert denied(rehearsal, "feedback denied") == []
    rehearsal.publish("ann", "home/door", b"2")
    rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("bob")] == [b"1"]
    assert "`b1` is rated 0.565" in denied(rehearsal)[0]


def test_a_token_does_not_give_the_rights_of_another_user() -> None:
    rehearsal = play([("b1", "b2")])
    rehearsal.connect("ann", "b1", user="root")
    assert "wrong holder: it is `client:ann`'s, and the user name is `root`" in rehearsal.refusal("ann", "b1")


def test_events_below_what_a_contract_guarantees_are_evidence_against_the_neighbour() -> None:
    collectors = [{"topics": "home/#", "collect": [{"indicator": "precision", "formula": "value", "value": "q"}]}]
    producers = {"air": {"producer": "ann", "filter": "home/air", "guarantees": ["precision >= high"]}}
    rehearsal = line(2, {"sign": 0.4}, quality={"collectors": collectors}, contracts={"producers": producers})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("ben", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    rehearsal.publish("ann", "home/air", b'{"q": 95}')
    rehearsal.run()
    assert ratings.of("b1", rehearsal.now).good == 1
    rehearsal.publish("ben", "home/air", b'{"q": 5}')  # of somebody whom no contract binds: b1 lets it in
    rehearsal.run()
    assert (ratings.of("b1", rehearsal.now).good, ratings.of("b1", rehearsal.now).bad) == (1, 3)


def air(*said: object) -> Rehearsal:
    """b1 says of all that ann publishes that it is precise; b2 measures with these collectors."""
    collectors = [{"topics": "home/#", "collect": list(said)}]
    producers = {"air": {"producer": "ann", "filter": "home/air", "guarantees": ["precision >= high"]}}
    rehearsal = line(2, {"sign": 0.1}, quality={"collectors": collectors}, contracts={"producers": producers})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    liar = rehearsal.nodes["b1"]
    assert liar.contracts is not None
    catalogue = liar.contracts.contracts.catalogue
    theirs = make_collector(catalogue.key("precision"), "value", {"value": 100}, catalogue)
    praised = (CollectorAssignment("home/#", frozenset(), (theirs,)),)
    liar.contracts = renewed_contracts(None, replace(liar.contracts.contracts, collecting=praised))
    return rehearsal


COLLECTORS = [
    pytest.param([{"indicator": "precision", "formula": "value", "value": "q"}], 95, (1, 0), id="it is measured here"),
    pytest.param(
        [{"indicator": "precision", "formula": "value", "value": "q"}], 5, (0, 3), id="the measure disproves it"
    ),
    pytest.param(
        [{"indicator": "precision", "formula": "value", "value": "z"}], 95, (0, 0), id="it cannot be measured"
    ),
    pytest.param(
        [{"indicator": "completeness", "formula": "value", "value": "q"}], 95, (0, 0), id="nothing measures it"
    ),
]


@pytest.mark.parametrize(("collectors", "quality", "evidence"), COLLECTORS)
def test_what_a_neighbour_says_of_quality_is_no_merit(
    collectors: list[object], quality: int, evidence: tuple[float, float]
) -> None:
    rehearsal = air(*collectors)
    rehearsal.publish("ann", "home/air", b'{"q": %d}' % quality)
    rehearsal.run()
    assert len(rehearsal.deliveries("bob")) == 1
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    found = ratings.of("b1", rehearsal.now)
    assert (found.good, found.bad) == evidence


def test_what_is_out_of_date_on_its_way_is_no_blame() -> None:
    dated = {"indicator": "precision", "formula": "up-to-dateness", "measured": "at", "lifetime": 10}
    rehearsal = air(dated)
    rehearsal.publish("ann", "home/air", b'{"at": 0}')
    rehearsal.run()
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    assert (ratings.of("b1", rehearsal.now).good, ratings.of("b1", rehearsal.now).bad) == (0, 0)


DIGEST = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
"""Of the payload `1`."""


def rate(rehearsal: Rehearsal, who: str) -> None:
    told = f'{{"topic":"home/door","good":false,"payload":"{DIGEST}"}}'
    rehearsal.publish(who, "$penstock/feedback", told.encode())
    rehearsal.run()


def test_one_client_alone_does_not_bring_a_neighbour_down() -> None:
    rehearsal = line(2, {"feedback": {"from": "*"}})
    for who in ("bob", "ben"):
        rehearsal.connect(who, "b2", user=who)
        rehearsal.subscribe(who, "home/#")
    rehearsal.connect("ann", "b1")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    rate(rehearsal, "bob")
    assert ratings.rating("b1", rehearsal.now) == 0.5
    rate(rehearsal, "ben")
    assert ratings.rating("b1", rehearsal.now) == 0.2


def test_what_came_before_one_subscribed_is_not_rated() -> None:
    rehearsal = line(2, {"feedback": {"from": "*", "least": 1}})
    for who in ("bob", "late"):
        rehearsal.connect(who, "b2")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.connect("ann", "b1")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    rehearsal.subscribe("late", "home/#")
    rate(rehearsal, "late")
    assert denied(rehearsal, "feedback denied") == ["no such message on `home/door` has come from a neighbour lately"]


def test_a_client_id_gives_nobody_an_operator_s_right() -> None:
    rehearsal = line(2, {"operators": "op"}, tokens={"required": False, "grants": []})
    rehearsal.connect("op", "b2", user="ann")
    rehearsal.publish("op", "$penstock/evidence", b'{"neighbour":"b1","good":1000,"bad":0,"at":0}')
    rehearsal.run()
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    assert ratings.rating("b1", rehearsal.now) == 0.5


def test_the_token_that_goes_with_events_lets_nobody_in() -> None:
    rehearsal = line(2)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    first, second = rehearsal.nodes["b1"], rehearsal.nodes["b2"]
    assert second.trust.tokens is not None
    for token in second.trust.tokens.known.values():
        if token.claims.issuer == "b1":
            assert client_tokens.verify(first, token.text, rehearsal.now) == (
                "token: it is one that goes with events, and lets nobody in"
            )
            break
    else:
        raise AssertionError("b2 knows no token of b1")


def test_a_token_that_comes_back_is_refused() -> None:
    rehearsal = line(3)
    rehearsal.connect("ann", "b3")
    rehearsal.connect("bob", "b1")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    node = rehearsal.nodes["b2"]
    heard = next(iter(one for one in node.federation.neighbours["b3"].trust.tokens.heard.values()))  # type: ignore[union-attr]
    assert isinstance(heard, Verified)
    found, _ = token_exchange.weigh(node, "b1", heard)
    assert found.refusal is not None
    assert "is of `b3`, which is not beyond `b1`" in found.refusal.reason


def test_strict_refuses_a_distrusted_neighbour_what_a_trusted_one_has_signed() -> None:
    """b2, rated 0.01 by b4, changes what b3 has signed; b3, rated 0.99, does not send it itself."""
    states = {"b2": {"*": {"emit": [{"topic": "{topic}", "payload": "FORGED"}]}}, "b3": {"*": "suppress"}}
    monitors = {name: {"link": f"{name} -> b4", "states": {"q0": edges}} for name, edges in states.items()}
    trust = {
        "sign": 0.5,
        "evidence": {"monitors": False},
        "begin": [{"of": "b2", "by": "b4", "bad": 98}, {"of": "b3", "by": "b4", "good": 98}],
    }
    rehearsal = play([("b2", "b3"), ("b3", "b4"), ("b2", "b4")], trust, monitors=monitors)
    rehearsal.connect("ann", "b3")
    rehearsal.connect("bob", "b4")
    rehearsal.subscribe("bob", "home/#")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    assert rehearsal.deliveries("bob") == ()
    (reason,) = denied(rehearsal)
    assert reason.startswith("`b2`, which sends it, is rated 0.01, below 0.5, though the neighbour `b3` has signed")


MANY = ("bob", "ben", "eve")
RATERS = [
    pytest.param({}, {"required": False, "grants": []}, 0.5, id="who has shown nothing is one with all such"),
    pytest.param(
        {"least": 1}, {"required": False, "grants": []}, 0.2, id="all such count once, where one alone is enough"
    ),
    pytest.param(
        {"from": MANY}, {"required": False, "grants": []}, 0.5, id="user names that nobody checks are not in a list"
    ),
    pytest.param({}, {}, 0.125, id="who has shown a token counts by itself; the first was alone"),
]


@pytest.mark.parametrize(("feedback", "tokens", "rating"), RATERS)
def test_feedback_counts_once_for_who_has_shown_who_it_is(
    feedback: dict[str, Any], tokens: dict[str, Any], rating: float
) -> None:
    rehearsal = line(2, {"feedback": {"from": "*", **feedback}}, tokens=tokens)
    for who in MANY:
        rehearsal.connect(who, "b2", user=who)
        rehearsal.subscribe(who, "home/#")
    rehearsal.connect("ann", "b1")
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    for who in MANY:
        rate(rehearsal, who)
    ratings = rehearsal.nodes["b2"].trust.ratings
    assert ratings is not None
    assert ratings.rating("b1", rehearsal.now) == rating
