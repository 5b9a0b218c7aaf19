"""Where policies in XACML are asked (contracts §2.2, Algorithm 1): by the first node that knows both sides, once; the
ACE set carries the decision. Producers bring them with their contracts, and quality is an attribute of the request.
"""

import json
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.xacml import read_short, show_policy
from tests.support.generators.examples import some

CLIENTS = {"bob": "b1", "near": "b1", "mid": "b2", "far": "b3", "away": "b3"}
CONSUMERS = ("near", "mid", "far", "away")
TOPIC = "bob/location"
STEP = {"id": "step", "set": {"attribute": "lat", "size": 10}}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"policy": "p", "combine": "deny-unless-permit", "rules": list(rules)}


def made(purposes: dict[str, str], bring: bool = True, **producer: Any) -> Rehearsal:
    """Three nodes in a line, Bob at the first; he brings his contract, or the domain has it."""
    contract = {"filter": "bob/#", **producer}
    consumers = {
        name: {"consumer": name, "purpose": purpose, "wants": {"it": {"filter": "#"}}}
        for name, purpose in purposes.items()
    }
    given = {} if bring else {"producers": {"p": {"producer": "bob", **contract}}}
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("b1", "b2", "b3")},
            "links": [{"between": ["b1", "b2"]}, {"between": ["b2", "b3"]}],
            "clients": {name: {"node": node} for name, node in CLIENTS.items()},
            "contracts": {"consumers": consumers, "bring": ["bob"], **given},
        }
    )
    play = Rehearsal(domain, ensemble(domain))
    for client in CLIENTS:
        play.connect(client)
        if client in CONSUMERS:
            play.subscribe(client, "bob/#")
    if bring:
        play.bring("bob", "mine", {"produces": contract})
    play.run()
    return play


def got(play: Rehearsal, **content: Any) -> dict[str, Any]:
    before = {name: len(play.deliveries(name)) for name in CONSUMERS}
    play.publish("bob", TOPIC, json.dumps({"lat": 48.9, **content}).encode())
    play.run()
    return {
        name: json.loads(event.payload)["lat"] for name in CONSUMERS for event in play.deliveries(name)[before[name] :]
    }


@pytest.mark.parametrize("bring", [True, False])
@pytest.mark.parametrize("is_xml", [True, False])
def test_the_first_node_asks_the_policy_once_for_each_subscriber(bring: bool, is_xml: bool) -> None:
    short = policy({"permit": {"subject.purpose": "health"}, "obligations": [STEP]})
    xacml = show_policy(read_short(json.dumps(short).encode())) if is_xml else short
    play = made({"far": "health", "away": "ads", "mid": "health"}, bring, xacml=xacml)
    asked: Counter[str] = Counter()
    decide = PrivacyPolicy.decide

    def count(self: PrivacyPolicy, release: Any, *about: Any) -> Any:
        asked[release.client] += 1
        return decide(self, release, *about)

    with patch.object(PrivacyPolicy, "decide", count):
        assert got(play) == {"mid": 45.0, "far": 45.0}
    assert asked == {"mid": 1, "far": 1, "away": 1}  # `near` has no contract


def test_what_nobody_beyond_may_have_does_not_cross_and_is_degraded_before_it_does() -> None:
    crossed = bytearray()
    write = Wire.write

    def record(wire: Wire, data: bytes) -> None:
        crossed.extend(data if (wire.source, wire.target) == ("b1", "b2") else b"")
        write(wire, data)

    with patch.object(Wire, "write", record):
        rule = {"permit": {"subject.purpose": "health"}, "obligations": [STEP]}
        assert got(made({"near": "health", "far": "ads"}, xacml=policy(rule)), id="m1") == {"near": 45.0}
        assert b"m1" not in crossed
        assert got(made({"far": "health"}, xacml=policy(rule)), id="m2") == {"far": 45.0}
        assert b"m2" in crossed
        assert b"48.9" not in crossed


@given(
    purposes=st.dictionaries(st.sampled_from(CONSUMERS), st.sampled_from(("health", "ads"))),
    bounds=st.lists(st.tuples(st.sampled_from(("health", "ads")), st.sampled_from((0, 30, 60))), max_size=2),
    scope=st.sampled_from((None, "local", "global")),
    bring=st.booleans(),
    precision=st.sampled_from((None, 10, 40, 80)),
)
@settings(max_examples=some(60), deadline=None)
def test_quality_and_purpose_decide_alike_at_every_node(
    purposes: dict[str, str], bounds: list[tuple[str, int]], scope: str | None, bring: bool, precision: int | None
) -> None:
    quality = "resource.quality:precision/precision/precision"
    rules = [{"permit": {"subject.purpose": purpose, quality: {">=": bound}}} for purpose, bound in bounds]
    play = made(purposes, bring, xacml=policy(*rules), **({} if scope is None else {"scope": scope}))
    ids = dict.fromkeys(("indicator", "criterion", "definition"), "precision")
    content = {} if precision is None else {"qoc": [{**ids, "value": precision}]}
    expected = {
        name
        for name, purpose in purposes.items()
        if any(purpose == asked and precision is not None and precision >= bound for asked, bound in bounds)
    }
    assert set(got(play, **content)) == expected


def test_a_policy_that_nodes_cannot_fulfil_is_refused_when_it_is_brought() -> None:
    play = made({"near": "health"}, xacml=policy({"permit": {}, "obligations": [{"id": "sing", "set": {"what": "a"}}]}))
    assert any("sing" in notice.reason for notice in play.notices)
