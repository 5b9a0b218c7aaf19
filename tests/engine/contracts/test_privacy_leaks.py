"""Ways by which more might get out than is shown: contracts, and privacy policies in XACML, must both hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.wire.properties import Properties
from tests.support.memory.node import MemoryNode

TOPIC = "bob/location"
POLICY = """
policy: coarse
combine: deny-unless-permit
rules:
  - permit: {subject.purpose: health, resource.topic: bob/location}
    obligations: [{id: step, set: {attribute: lat, size: 10}}]
"""
RULES = {"coarse": {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]}}
CLIENTS = {"bob": "a", "alice": "a", "doctor": "b", "near": "a", "spy": "b", "spy-near": "a"}
KINDS = pytest.mark.parametrize("kind", ["contract", "xacml"])


def play(kind: str, folder: Path, producers: Any = None, wants: Any = None, **more: Any) -> Rehearsal:
    """Bob at the first node, and at both somebody who is shown his place in steps of ten degrees, and a spy."""
    file = folder / "policy.yaml"
    file.write_text(POLICY)
    bob = {"producer": "bob", "filter": TOPIC, **({"rules": RULES} if kind == "contract" else {})}
    said: dict[str, Any] = {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in "ab"},
        "links": [{"between": ["a", "b"]}],
        "clients": {name: {"node": node} for name, node in CLIENTS.items()},
        "contracts": {
            "producers": {"bob": bob, **(producers or {})},
            "consumers": {
                "doctor": {
                    "consumer": ["doctor", "near"],
                    "purpose": "health",
                    "wants": wants or {"all": {"filter": "#"}},
                }
            },
        },
        "statements": {"grants": [{"to": "*", "set": ["subscription"], "elements": "*"}]},
        **({"privacy": [{"name": "coarse", "topics": TOPIC, "policies": str(file)}]} if kind == "xacml" else {}),
        **more,
    }
    domain = Domain.model_validate(said)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in CLIENTS:
        rehearsal.connect(client)
    return rehearsal


def says(rehearsal: Rehearsal, topic: str = TOPIC, lat: float = 48.9) -> None:
    rehearsal.publish("bob" if topic == TOPIC else "alice", topic, json.dumps({"lat": lat}).encode(), 1)
    rehearsal.run()


def got(rehearsal: Rehearsal, who: str) -> list[Any]:
    return [json.loads(one.payload) for one in rehearsal.deliveries(who)]


@KINDS
@pytest.mark.parametrize("who", ["doctor", "near"])
@pytest.mark.parametrize("filter", ["bob/#", "$share/g/bob/#"])
@pytest.mark.parametrize(
    ("where", "is_told"), [("lat > 47.0", False), ("lat < 47.0", True), ("lat == 45.0", True), ("lat == 48.9", False)]
)
def test_conditions_are_asked_of_what_is_shown(
    kind: str, who: str, filter: str, where: str, is_told: bool, tmp_path: Path
) -> None:
    rehearsal = play(kind, tmp_path)
    rehearsal.subscribe(who, filter, where=where, no_local=False)
    says(rehearsal)
    assert got(rehearsal, who) == [{"lat": 45.0}] * is_told


@KINDS
@pytest.mark.parametrize("link", ["b -> spy", "bob -> a", "a -> b", "a -> spy-near"])
def test_what_a_monitor_makes_of_a_private_event_is_as_private(kind: str, link: str, tmp_path: Path) -> None:
    mapper = {"link": link, "mapper": {TOPIC: "public", "elsewhere": "plain"}}
    rehearsal = play(kind, tmp_path, monitors={"renames": mapper})
    for who in ("spy", "spy-near", "doctor"):
        rehearsal.subscribe(who, "#")
    says(rehearsal)
    assert got(rehearsal, "spy") == got(rehearsal, "spy-near") == []
    assert got(rehearsal, "doctor") == [{"lat": 45.0}]
    says(rehearsal, "elsewhere")
    assert got(rehearsal, "spy") == got(rehearsal, "spy-near") == [{"lat": 48.9}]


@KINDS
def test_a_renamed_event_is_bound_by_contracts_of_its_new_topic_too(kind: str, tmp_path: Path) -> None:
    mapper = {"link": "bob -> a", "mapper": {TOPIC: "bob/mood"}}
    mood = {"producer": "bob", "filter": "bob/mood", "rules": {"one": {"purpose": "art"}}}
    rehearsal = play(kind, tmp_path, {"mood": mood}, monitors={"renames": mapper})
    for who in ("near", "doctor"):
        rehearsal.subscribe(who, "#")
    says(rehearsal)
    assert got(rehearsal, "near") == got(rehearsal, "doctor") == []


@KINDS
@pytest.mark.parametrize("who", ["spy", "spy-near"])
def test_what_a_policy_publishes_of_a_private_event_is_as_private(kind: str, who: str, tmp_path: Path) -> None:
    rehearsal = play(kind, tmp_path)
    tell = 'PolicyStatement { On(Forward, Publication) { If {} Then {Publish("[message,$Message]", "public")} } }'
    rehearsal.subscribe(who, "public")
    for topic in (TOPIC, "elsewhere"):
        for reader in (who, "near", "doctor"):
            rehearsal.subscribe(reader, topic, policy=tell)
    says(rehearsal)
    assert got(rehearsal, who) == []
    says(rehearsal, "elsewhere")
    assert any("message" in one for one in got(rehearsal, who)), "what is not private is published"


@KINDS
@pytest.mark.parametrize("who", ["doctor", "near"])
@pytest.mark.parametrize("place", ["", "@broker: Egress", "@broker: Ingress", "@broker: Routing", "@attach: Always"])
@pytest.mark.parametrize("beyond", [47.0, 50.0])
def test_policies_of_a_subscription_are_asked_of_what_is_shown(
    kind: str, who: str, place: str, beyond: float, tmp_path: Path
) -> None:
    rule = f"On(Forward, Publication) {{ {place} If {{lat > {beyond}}} Then {{BlockMessage()}} }}"
    rehearsal = play(kind, tmp_path)
    rehearsal.subscribe(who, TOPIC, policy=f"PolicyStatement {{ {rule} }}")
    says(rehearsal)
    assert got(rehearsal, who) == [{"lat": 45.0}], "whether it comes says nothing of the true place"


@KINDS
@pytest.mark.parametrize("who", ["doctor", "near"])
def test_policies_of_a_subscription_count(kind: str, who: str, tmp_path: Path) -> None:
    rehearsal = play(kind, tmp_path)
    rule = "On(Forward, Publication) { If {lat > 52.0} Then {BlockMessage()} }"
    rehearsal.subscribe(who, TOPIC, policy=f"PolicyStatement {{ {rule} }}")
    says(rehearsal, lat=51.0)
    assert got(rehearsal, who) == [], "55 is shown"


# --- policies of advertisements

GRANTS = {"statements": {"grants": [{"to": "*", "set": ["advertisement"], "elements": "*", "others": "#"}]}}
ASKING = [
    "If {lat > 47.0} Then {BlockMessage()}",
    "If {!has(lat)} Then {} Elseif {lat > 47.0} Then {BlockMessage()}",
    "If {xpath('//lat > 47')} Then {BlockMessage()} OnException {If {} Then {}}",
    "If {MessageSizeIndex() > 0.5} Then {BlockMessage()}",
    "If {nothing == 1} Then {} OnException { If {lat > 47.0} Then {BlockMessage()} Elseif {} Then {} }",
    "@match: Before If {lat > 47.0} Then {BlockMessage()}",
    "@attach: Always If {lat > 47.0} Then {BlockMessage()}",
    "@broker: Egress If {lat > 47.0} Then {BlockMessage()}",
]


def _advertising(kind: str, folder: Path, who: str, rule: str, where: str = "") -> Rehearsal:
    rehearsal = play(kind, folder, **GRANTS)
    rehearsal.subscribe("doctor", "#")
    policy = f"PolicyStatement {{ On(Forward, Publication) {{ {rule} }} }}"
    rehearsal.advertise(who, "mine", TOPIC, where=where, policy=policy)
    rehearsal.run()
    return rehearsal


@KINDS
@pytest.mark.parametrize("rule", ASKING)
def test_by_policies_of_an_advertisement_nobody_finds_out_what_others_say(kind: str, rule: str, tmp_path: Path) -> None:
    rehearsal = _advertising(kind, tmp_path, "spy-near", rule)
    counts = []
    for lat in (46.0, 48.0):  # both are shown as 45
        says(rehearsal, lat=lat)
        counts.append(len(got(rehearsal, "doctor")))
    assert counts[1] == 2 * counts[0], "whether it comes says nothing of the true place"


@KINDS
def test_nor_by_its_condition(kind: str, tmp_path: Path) -> None:
    rehearsal = _advertising(kind, tmp_path, "spy-near", "If {} Then {BlockMessage()}", "lat > 47.0")
    for lat in (46.0, 48.0):
        says(rehearsal, lat=lat)
    assert got(rehearsal, "doctor") == []


@KINDS
def test_policies_of_an_advertisement_that_ask_for_no_content_count(kind: str, tmp_path: Path) -> None:
    rule = '@broker: Egress If {Receiver() == "doctor"} Then {BlockMessage()}'
    rehearsal = _advertising(kind, tmp_path, "spy-near", rule)
    rehearsal.subscribe("near", "#")
    says(rehearsal)
    assert (got(rehearsal, "doctor"), got(rehearsal, "near")) == ([], [{"lat": 45.0}])


@KINDS
def test_those_of_its_producer_count_if_they_go_with_it(kind: str, tmp_path: Path) -> None:
    rehearsal = _advertising(kind, tmp_path, "bob", "@attach: Always If {lat > 47.0} Then {BlockMessage()}")
    for lat in (46.0, 48.0):
        says(rehearsal, lat=lat)
    assert got(rehearsal, "doctor") == [{"lat": 45.0}]


def test_what_is_not_private_is_judged_by_all(tmp_path: Path) -> None:
    rehearsal = play("contract", tmp_path, **GRANTS)
    rehearsal.subscribe("spy", "elsewhere")
    rule = "@broker: Egress If {lat > 47.0} Then {BlockMessage()}"
    policy = f"PolicyStatement {{ On(Forward, Publication) {{ {rule} }} }}"
    rehearsal.advertise("spy-near", "mine", "elsewhere", policy=policy)
    rehearsal.run()
    for lat in (46.0, 48.0):
        says(rehearsal, "elsewhere", lat)
    assert got(rehearsal, "spy") == [{"lat": 46.0}]


@KINDS
def test_what_is_retained_keeps_no_question_for_private_content(kind: str, tmp_path: Path) -> None:
    rehearsal = _advertising(kind, tmp_path, "spy-near", "@broker: Ingress If {lat > 47.0} Then {BlockMessage()}")
    counts = []
    for lat in (46.0, 48.0):
        rehearsal.publish("bob", TOPIC, json.dumps({"lat": lat}).encode(), 1, True)
        rehearsal.run()
        rehearsal.subscribe("doctor", TOPIC, name=f"again-{lat}")
        rehearsal.run()
        counts.append(len(got(rehearsal, "doctor")))
    assert counts[1] == 2 * counts[0]


@KINDS
def test_a_policy_of_a_subscription_changes_what_is_shown_and_that_stays_degraded(kind: str, tmp_path: Path) -> None:
    rehearsal = play(kind, tmp_path)
    rule = 'On(Forward, Publication) { If {lat < 47.0} Then {RemoveAttributes("lat")} }'
    for who in ("near", "doctor"):
        rehearsal.subscribe(who, TOPIC, policy=f"PolicyStatement {{ {rule} }}")
    says(rehearsal)
    assert got(rehearsal, "near") == got(rehearsal, "doctor") == [{}]


@KINDS
@pytest.mark.parametrize(
    ("want", "is_told"),
    [
        ({"filter": "bob/#"}, True),
        ({"filter": "elsewhere"}, False),  # its purpose is for other topics
        ({"filter": TOPIC, "where": "lat < 47.0"}, True),
        ({"filter": TOPIC, "where": "lat > 47.0"}, False),  # that is asked of what is shown
        ({"filter": TOPIC, "where": "nothing > 47.0"}, False),
    ],
)
def test_a_consumer_gets_by_its_contract_what_it_wants(
    kind: str, want: dict[str, Any], is_told: bool, tmp_path: Path
) -> None:
    rehearsal = play(kind, tmp_path, wants={"it": want})
    for who in ("near", "doctor"):
        rehearsal.subscribe(who, "#")
    says(rehearsal)
    assert got(rehearsal, "near") == got(rehearsal, "doctor") == [{"lat": 45.0}] * is_told


def test_a_want_also_counts_for_what_is_not_private(tmp_path: Path) -> None:
    rehearsal = play("contract", tmp_path, wants={"it": {"filter": "elsewhere", "where": "lat > 47.0"}})
    for who in ("near", "doctor", "spy"):
        rehearsal.subscribe(who, "#")
    for lat in (46.0, 48.0):
        says(rehearsal, "elsewhere", lat)
    assert got(rehearsal, "near") == got(rehearsal, "doctor") == [{"lat": 48.0}]
    assert got(rehearsal, "spy") == [{"lat": 46.0}, {"lat": 48.0}]


@KINDS
@pytest.mark.parametrize("way", ["keep", "aggregate", "step"])
def test_where_only_what_is_named_passes_nothing_passes_beside_it(kind: str, way: str, tmp_path: Path) -> None:
    degrade: dict[str, Any] = {
        "keep": {"keep": ["lat"]},
        "aggregate": {"aggregate": {"seconds": 10, "attributes": ["lat"], "least": 1}},
        "step": {"step": {"attribute": "lat", "size": 10}},
    }
    duties = {
        "keep": "{id: keep, set: {attribute: lat}}",
        "aggregate": "{id: aggregate, set: {seconds: 10, attribute: lat, least: 1}}",
        "step": "{id: step, set: {attribute: lat, size: 10}}",
    }
    file = tmp_path / "policy.yaml"
    file.write_text(f"policy: p\nrules: [{{permit: {{}}, obligations: [{duties[way]}]}}]\n")
    rules = {"one": {"purpose": "health", "degrade": [degrade[way]]}}
    said: dict[str, Any] = {
        "nodes": {"test": {"listen": "127.0.0.1:0"}},
        "clients": {"bob": {"node": "test"}, "doctor": {"node": "test"}},
        "contracts": {
            "producers": {
                "bob": {"producer": "bob", "filter": TOPIC, **({"rules": rules} if kind == "contract" else {})}
            },
            "consumers": {"doctor": {"consumer": "doctor", "purpose": "health", "wants": {}}},
        },
        **({"privacy": [{"name": "p", "topics": TOPIC, "policies": str(file)}]} if kind == "xacml" else {}),
    }
    joined = MemoryNode(whole=ensemble(Domain.model_validate(said)))
    doctor = joined.connect("doctor")
    doctor.subscribe(TOPIC)
    doctor.take()
    told = Properties(
        content_type="application/json; place=home",
        response_topic="home",
        correlation_data=b"home",
        user_properties=(("place", "home"),),
    )
    joined.wait(10 - joined.now % 10)  # a mean is of a whole time
    joined.connect("bob").publish(TOPIC, b'{"lat": 48.9, "place": "home"}', properties=told)
    joined.wait(30)
    (got,) = doctor.messages()
    if way == "step":  # what is not named stays as it is
        assert b"home" in got.payload
        assert got.properties.user_properties == told.user_properties
    else:
        assert set(json.loads(got.payload)) == {"lat"}
        assert got.properties == Properties(content_type="application/json")


@KINDS
def test_explanations_say_what_was_released_before_the_policies_of_the_subscriber(kind: str, tmp_path: Path) -> None:
    rehearsal = play(kind, tmp_path)
    rule = "On(Forward, Publication) { If {lat > 52.0} Then {BlockMessage()} }"
    rehearsal.subscribe("near", TOPIC, policy=f"PolicyStatement {{ {rule} }}")
    told = {}
    for lat in (48.9, 51.0):
        event = hypothetical(TOPIC, json.dumps({"lat": lat}).encode())
        for one in explain(rehearsal.nodes, arrival(rehearsal.nodes["a"], "bob", event), rehearsal.now):
            if one.goes_by is not None and one.goes_by.target == "near":
                stages = [verdict.stage for verdict in one.verdicts if verdict.stage in ("release", "judge", "emit")]
                told[lat] = stages, [(output.payload, output.properties) for output in one.outputs]
    assert told == {48.9: (["release", "emit"], [(b'{"lat":45.0}', b"")]), 51.0: (["release", "judge"], [])}
