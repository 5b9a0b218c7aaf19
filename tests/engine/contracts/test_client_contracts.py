"""Contracts that clients bring: with a subscription, or on the control topic; and where they are evaluated."""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.contracts import client_contracts
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle
from penstock.policy.contracts.release_place import Circumstance, must_evaluate
from penstock.wire.reason import Reason

NODES = ("b1", "b2", "b3")
CLIENTS = {"bob": "b1", "near": "b1", "far": "b3", "stranger": "b3"}
PRIVATE = {
    "filter": "bob/location",
    "rules": {"coarse": {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]}},
}
HEALTH = '{"purpose": "health"}'
TOPIC = "bob/location"


def stage(
    contracts: Mapping[str, Any] | None = None,
    mode: str = "subscribed",
    stores: Mapping[str, Store] | None = None,
    **more: Any,
) -> Rehearsal:
    """Three nodes in a line, where all clients may bring contracts unless it is said otherwise."""
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in NODES},
            "links": [{"between": ["b1", "b2"], "forward": mode}, {"between": ["b2", "b3"], "forward": mode}],
            "clients": {name: {"node": node} for name, node in CLIENTS.items()},
            "contracts": {"bring": "*"} if contracts is None else contracts,
            **more,
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain), stores=stores)
    for client in CLIENTS:
        rehearsal.connect(client)
    return rehearsal


def heard(rehearsal: Rehearsal, lat: float = 48.9, qos: int = 0) -> dict[str, Any]:
    """Bob says where he is: who gets what of it."""
    before = {name: len(rehearsal.deliveries(name)) for name in CLIENTS}
    rehearsal.publish("bob", TOPIC, json.dumps({"lat": lat}).encode(), qos)
    rehearsal.run()
    found = {name: rehearsal.deliveries(name)[before[name] :] for name in CLIENTS}
    return {name: json.loads(several[-1].payload) for name, several in found.items() if several}


def answers(rehearsal: Rehearsal, client: str) -> list[Reason]:
    return rehearsal.assembly.peer(client, CLIENTS[client]).answers


COMBINATIONS = list(
    product(("local", "global"), ("local", "global"), ("near", "far"), ("subscribed", "advertised"), (True, False))
)


@pytest.mark.parametrize(("advertised", "subscribed", "who", "mode", "is_brought"), COMBINATIONS)
def test_a_privacy_filter_is_evaluated_where_the_predicate_says(
    advertised: Any, subscribed: str, who: str, mode: str, is_brought: bool
) -> None:
    """Whoever brings the contracts: delivered is what the predicate of §2.2, read directly, lets a node decide."""
    producer = {**PRIVATE, "scope": advertised}
    rehearsal = stage(mode=mode)
    if is_brought:
        rehearsal.bring("bob", "mine", {"produces": producer})
        rehearsal.subscribe(who, TOPIC, contract=HEALTH, scope=subscribed)
        rehearsal.subscribe("stranger", TOPIC)
    else:
        wants = {"location": {"filter": TOPIC, "scope": subscribed}}
        rehearsal = stage(
            {
                "producers": {"mine": {**producer, "producer": "bob"}},
                "consumers": {"health": {"consumer": ["near", "far"], "purpose": "health", "wants": wants}},
            },
            mode,
        )
        for client in ("near", "far", "stranger"):
            rehearsal.subscribe(client, TOPIC)
    got = heard(rehearsal)
    is_first = who == "near"
    at = Circumstance(True, advertised == "local", subscribed == "local", is_first)
    first = at._replace(is_at_first_node=True)
    is_known_before = not is_first and subscribed == "global" and must_evaluate(first)
    is_told = mode == "subscribed" or (is_brought and subscribed == "global")  # or only the contract's want says so
    reaches = is_first or is_told or advertised == "global"
    expected = reaches and (must_evaluate(at) or is_known_before)
    assert (who in got) is expected
    assert got.get(who, {"lat": 45.0}) == {"lat": 45.0}, "what is degraded is degraded everywhere"
    assert "stranger" not in got, "who guarantees nothing gets nothing"


def test_a_contract_ends_with_its_subscription() -> None:
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    rehearsal.subscribe("far", TOPIC, contract=HEALTH)
    assert set(heard(rehearsal)) == {"far"}
    rehearsal.subscribe("far", TOPIC)
    assert heard(rehearsal) == {}
    rehearsal.subscribe("far", TOPIC, contract=HEALTH)
    rehearsal.unsubscribe("far", TOPIC)
    rehearsal.subscribe("far", TOPIC)
    assert heard(rehearsal) == {}
    assert not rehearsal.nodes["b1"].contracts.heard  # type: ignore[union-attr]


def test_a_contract_of_another_purpose_takes_the_place_of_the_old_one() -> None:
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    rehearsal.subscribe("far", TOPIC, contract=HEALTH)
    rehearsal.subscribe("far", TOPIC, contract='{"purpose": "advertising"}')
    assert heard(rehearsal) == {}
    assert len(rehearsal.nodes["b1"].contracts.heard) == 1  # type: ignore[union-attr]


def test_what_a_client_guarantees_for_one_subscription_is_not_for_another() -> None:
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    rehearsal.subscribe("far", "other/#", contract=HEALTH)
    rehearsal.subscribe("far", TOPIC)
    assert heard(rehearsal) == {}


def test_a_contract_on_the_control_topic() -> None:
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    rehearsal.bring("far", "mine", {"consumes": {"purpose": "health", "wants": {"a": {"filter": "bob/#"}}}})
    rehearsal.subscribe("far", "#")
    assert heard(rehearsal) == {"far": {"lat": 45.0}}
    rehearsal.bring("far", "mine", {})
    assert heard(rehearsal) == {}
    rehearsal.bring("bob", "mine", {})
    assert heard(rehearsal) == {"far": {"lat": 48.9}}, "nothing is private any more"


def test_a_producer_that_brings_a_contract_keeps_it() -> None:
    """It is an advertisement too, and its guarantees are checked."""
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": {**PRIVATE, "guarantees": ["precision >= high"]}})
    rehearsal.subscribe("near", "#", contract=HEALTH)
    assert heard(rehearsal) == {}
    rehearsal.publish(
        "bob",
        TOPIC,
        b'{"lat": 1, "qoc": [{"indicator": "precision", "criterion": "precision", '
        b'"definition": "precision", "value": 90}]}',
    )
    rehearsal.run()
    assert len(rehearsal.deliveries("near")) == 1
    rehearsal.publish("bob", "bob/elsewhere", b"1")
    rehearsal.run()
    assert len(rehearsal.deliveries("near")) == 1


def test_nobody_brings_contracts_unless_the_domain_says_so() -> None:
    rehearsal = stage({"bring": ["bob"], "producers": {"p": {**PRIVATE, "producer": "bob"}}})
    rehearsal.subscribe("far", TOPIC, contract=HEALTH)
    assert answers(rehearsal, "far") == [Reason.NOT_AUTHORIZED]
    rehearsal.bring("far", "mine", {"consumes": {"purpose": "health", "wants": {"a": {"filter": "#"}}}})
    assert answers(rehearsal, "far") == [Reason.NOT_AUTHORIZED, Reason.NOT_AUTHORIZED]
    assert heard(rehearsal) == {}
    assert any("does not let `far` bring contracts" in one.reason for one in rehearsal.notices)


DEEP = '{"purpose": ' + "[" * 5000 + "]" * 5000 + "}"
WRONG = [
    ("no JSON", "purpose", "not JSON"),
    ("no object", "[1]", "unknown key `value`"),
    ("what it is itself", '{"purpose": "health", "attributes": {"group": "INCOME"}}', "unknown key `attributes`"),
    ("another client", '{"consumer": "bob"}', "unknown key `consumer`"),
    ("a need that is none", '{"needs": ["much"]}', "needs: "),
    ("deep", DEEP, ""),
    ("long", json.dumps({"purpose": ["x" * 30_000]}), "20000 characters"),
    ("many purposes", json.dumps({"purpose": [f"p{n}" for n in range(300)]}), "300 names are too many"),
    ("twice the same", '{"purpose": "health", "purpose": "advertising"}', ""),
]


@pytest.mark.parametrize(("title", "said", "why"), WRONG)
def test_what_is_no_contract_is_refused_with_the_subscription(title: str, said: str, why: str) -> None:
    rehearsal = stage()
    rehearsal.subscribe("near", TOPIC, contract=said)
    assert answers(rehearsal, "near") == [Reason.IMPLEMENTATION_SPECIFIC_ERROR], title
    assert any(why in one.reason for one in rehearsal.notices if one.kind == "subscribe denied")
    assert heard(rehearsal) == {}


@pytest.mark.parametrize(
    ("title", "told", "why"),
    [
        ("outside of it", {"produces": {"filter": "t", "rules": {"r": {"situation": {"not": "hazrd"}}}}}, "`hazrd`"),
        ("during it", {"produces": {"filter": "t", "rules": {"a": {}, "r": {"situation": "hazrd"}}}}, "`hazrd`"),
        ("a consumer in it", {"consumes": {"situation": "hazrd", "wants": {"a": {"filter": "t"}}}}, "`hazrd`"),
        ("none like it", {"produces": {"filter": "t", "rules": {"r": {"situation": "fire"}}}}, "`fire`"),
    ],
)
def test_a_situation_that_the_domain_does_not_have_is_refused(title: str, told: dict[str, Any], why: str) -> None:
    hazard = {"sources": ["near"], "opens": "open", "lasts": "1h"}
    rehearsal = stage({"bring": "*", "situations": {"hazard": hazard}})
    rehearsal.bring("bob", "mine", told)
    assert answers(rehearsal, "bob") == [Reason.PAYLOAD_FORMAT_INVALID], title
    (said,) = [one.reason for one in rehearsal.notices if one.kind == "contract denied"]
    like = "" if why == "`fire`" else "; did you mean `hazard`?"
    assert said == f"contract `mine`: situation: there is no situation {why}{like}"
    rehearsal.bring("bob", "mine", json.loads(json.dumps(told).replace(why.strip("`"), "hazard")))
    assert answers(rehearsal, "bob")[1:] == [Reason.SUCCESS]
    rehearsal.subscribe("near", TOPIC, contract='{"situation": "hazrd"}')
    assert answers(rehearsal, "near") == [Reason.IMPLEMENTATION_SPECIFIC_ERROR]


def test_what_one_session_brings_is_bounded() -> None:
    rehearsal = stage()
    for number in range(client_contracts.MAX_CONTRACTS + 5):
        rehearsal.bring("near", f"c{number}", {"consumes": {"purpose": "health", "wants": {"a": {"filter": "x"}}}})
    (session,) = [one for one in rehearsal.nodes["b1"].sessions.values() if one.place.entity == "near"]
    assert len(session.declared.consumes) == client_contracts.MAX_CONTRACTS
    big = {"filter": "x", "rules": {f"r{n}": {"purpose": [f"{n}-{m}" for m in range(200)]} for n in range(8)}}
    for number in range(20):
        rehearsal.bring("bob", f"c{number}", {"produces": big})
    (bob,) = [one for one in rehearsal.nodes["b1"].sessions.values() if one.place.entity == "bob"]
    assert 0 < len(bob.declared.produces) < 20


def test_what_is_brought_survives_a_restart_and_ends_with_its_session(tmp_path: Path) -> None:
    stores = {name: Store(tmp_path / name, "full") for name in NODES}
    rehearsal = stage(stores=stores)
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    rehearsal.subscribe("far", TOPIC, contract=HEALTH)
    rehearsal.subscribe("stranger", TOPIC)
    assert heard(rehearsal) == {"far": {"lat": 45.0}}
    for node in NODES:
        rehearsal.restart(node)
        assert heard(rehearsal) == {"far": {"lat": 45.0}}, node
    for node in ("b1", "b3"):
        for session in list(rehearsal.nodes[node].sessions.values()):
            if session.place.entity in ("bob", "far"):
                assert session.declared.produces or session.declared.consumes
    (far,) = [one for one in rehearsal.nodes["b3"].sessions.values() if one.place.entity == "far"]
    rehearsal.disconnect("far")
    lifecycle.end(rehearsal.nodes["b3"], far, rehearsal.now)
    rehearsal.run()
    assert not rehearsal.nodes["b1"].contracts.heard  # type: ignore[union-attr]
    rehearsal.restart("b3")
    rehearsal.connect("far")
    rehearsal.subscribe("far", TOPIC)
    assert heard(rehearsal) == {}
    for store in stores.values():
        store.close()


def test_a_link_that_breaks_does_not_undo_what_was_told() -> None:
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    rehearsal.cut("b2", "b3")
    rehearsal.subscribe("far", TOPIC, contract=HEALTH)
    assert heard(rehearsal) == {}
    rehearsal.restore("b2", "b3")
    assert heard(rehearsal) == {"far": {"lat": 45.0}}


def test_conditions_are_asked_of_what_a_consumer_sees() -> None:
    """It does not find out the precise value by asking for it, wherever it is."""
    rehearsal = stage()
    rehearsal.bring("bob", "mine", {"produces": PRIVATE})
    for client in ("near", "far"):
        rehearsal.subscribe(client, TOPIC, where="lat > 47.0", contract=HEALTH, name="high")
    assert heard(rehearsal, 49.0) == {}
    for client in ("near", "far"):
        rehearsal.subscribe(client, TOPIC, where="lat < 47.0", contract=HEALTH, name="low")
    assert heard(rehearsal, 49.0) == {"near": {"lat": 45.0}, "far": {"lat": 45.0}}
