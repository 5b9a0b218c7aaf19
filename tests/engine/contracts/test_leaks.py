"""Ways by which what is private might get out: what monitors and policies make of it, other nodes, links that break."""

import json
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.engine.contracts import registry, situations
from penstock.engine.contracts.release_decision import decide
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.contracts.contract_set import subscription_id
from penstock.policy.contracts.release_place import ACE, ace_digest, write_ace
from penstock.wire.properties import Properties, encode_properties
from tests.support.memory.node import START, MemoryNode

TOPIC = "bob/location"
RULES: dict[str, Any] = {
    "precise": {"purpose": "health", "situation": "hazard"},
    "coarse": {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]},
}
WANTS = {"all": {"filter": "#"}}


def made(**more: Any) -> dict[str, Any]:
    """Two nodes: bob at the first; a doctor, whose purpose is health, and a spy, who guarantees nothing, at both."""
    names = {"bob": "a", "capsule": "a", "doctor": "b", "near": "a", "spy": "b", "spy-near": "a"}
    return {
        "nodes": {name: {"listen": "127.0.0.1:0"} for name in "ab"},
        "links": [{"between": ["a", "b"]}],
        "clients": {name: {"node": node} for name, node in names.items()},
        "contracts": {
            "producers": {"bob": {"producer": "bob", "filter": "bob/#", "rules": RULES}},
            "consumers": {
                "doctor": {"consumer": ["doctor", "near"], "purpose": "health", "situation": "hazard", "wants": WANTS}
            },
            "situations": {"hazard": {"sources": ["capsule"], "opens": "open", "closes": "close", "lasts": "1h"}},
        },
        **more,
    }


def play(said: dict[str, Any]) -> Rehearsal:
    domain = Domain.model_validate(said)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in said["clients"]:
        rehearsal.connect(client)
    return rehearsal


def says(rehearsal: Rehearsal, who: str, topic: str, retain: bool = False) -> None:
    rehearsal.publish(who, topic, json.dumps({"lat": 48.9}).encode(), 1, retain)
    rehearsal.run()


def got(rehearsal: Rehearsal, who: str) -> list[Any]:
    return [json.loads(one.payload) for one in rehearsal.deliveries(who)]


@pytest.mark.parametrize("link", ["b -> spy", "bob -> a", "a -> b"])
def test_what_a_monitor_makes_of_a_private_event_is_private(link: str) -> None:
    renamed = {"emit": [{"topic": "public", "payload": "{payload} "}]}
    states = {"q0": {TOPIC: renamed, "elsewhere": renamed, "*": "pass"}}
    rehearsal = play(made(monitors={"renames": {"link": link, "states": states}}))
    rehearsal.subscribe("spy", "#")
    rehearsal.subscribe("doctor", "#")
    says(rehearsal, "bob", TOPIC)
    assert got(rehearsal, "spy") == []
    assert got(rehearsal, "doctor") == [{"lat": 45.0}]
    says(rehearsal, "capsule", "elsewhere")
    assert got(rehearsal, "spy") == [{"lat": 48.9}]


def test_what_a_policy_publishes_of_a_private_event_is_private() -> None:
    grants = {"grants": [{"to": "*", "set": ["subscription"], "elements": ["Publish"]}]}
    rehearsal = play(made(statements=grants))
    tell = 'PolicyStatement { On(Forward, Publication) { If {} Then {Publish("[message,$Message]", "public")} } }'
    for client in ("spy", "spy-near"):
        rehearsal.subscribe(client, "public")
        for topic in (TOPIC, "elsewhere"):
            rehearsal.subscribe(client, topic, policy=tell)
    says(rehearsal, "bob", TOPIC)
    assert got(rehearsal, "spy") == got(rehearsal, "spy-near") == []
    says(rehearsal, "capsule", "elsewhere")
    assert any("message" in one for one in got(rehearsal, "spy")), "what is not private is published"


def alone() -> Ensemble:
    said = made()
    nodes = {"test": {"listen": "127.0.0.1:0"}, "a": {"listen": "127.0.0.1:0"}}
    clients = {name: {"node": "test"} for name in said["clients"]}
    return ensemble(Domain.model_validate({**said, "nodes": nodes, "links": [], "clients": clients}))


@pytest.mark.parametrize(
    ("who", "rule", "is_open", "lat"),
    [
        ("doctor", "coarse", False, 45.0),
        ("doctor", "precise", True, 48.9),
        ("doctor", "precise", False, None),  # not in this situation
        ("doctor", "none", True, None),  # there is no such rule
        ("spy", "precise", True, None),  # it guarantees nothing
    ],
)
def test_an_ace_set_of_a_neighbour_gives_nobody_more_than_contracts_do(
    who: str, rule: str, is_open: bool, lat: float | None
) -> None:
    joined = MemoryNode(whole=alone())
    node = joined.node
    client = joined.connect(who)
    if is_open:
        joined.connect("capsule").publish("open", b"{}")
    state = node.contracts
    assert state is not None
    assert client.session is not None
    (consumer,) = state.contracts.consuming("doctor")
    digest = ace_digest(f"{subscription_id(who, consumer, consumer.wants[0])} bob")
    pairs = (("penstock-contract", "bob"), (ACE, write_ace({digest: rule})[0]))
    event = situations.tell(state, "hazard")._replace(
        topic=TOPIC,
        payload=b'{"lat": 48.9}',
        properties=encode_properties(Properties(user_properties=pairs)),
        path=("a",),
    )
    found = registry.governed(node, event, START)
    assert found is not None
    decided = decide(node, client.session, event, found, START)
    assert (decided.event and json.loads(decided.event.payload)["lat"]) == lat


@pytest.mark.parametrize(
    "contract",
    ["nobody-knows", "{", '{"name": "x"}', '{"name": "x", "rules": ' + "[" * 2000 + "]" * 2000 + "}", "[]"],
)
def test_what_cannot_be_read_of_a_neighbour_is_for_nobody(contract: str) -> None:
    joined = MemoryNode(whole=alone())
    client = joined.connect("doctor")
    assert client.session is not None
    pairs = (("penstock-contract", contract),)
    event = situations.tell(joined.node.contracts, "hazard")._replace(  # type: ignore[arg-type]
        topic=TOPIC, properties=encode_properties(Properties(user_properties=pairs)), path=("a",)
    )
    found = registry.governed(joined.node, event, START)
    assert found is not None
    assert not decide(joined.node, client.session, event, found, START).is_released


def test_a_client_opens_no_situation_and_brings_no_contract_as_a_node() -> None:
    joined = MemoryNode(whole=alone())
    spy = joined.connect("spy")
    spy.publish("$penstock/situation/hazard", b'{"since": 0, "until": 1e12, "by": "capsule"}', 1)
    spy.publish("$penstock/consumer/x", b'{"client": "spy", "name": "x", "contract": {}}', 1)
    assert joined.node.contracts is not None
    assert not joined.node.contracts.open
    assert not joined.node.contracts.heard


def test_clients_are_not_told_what_situation_it_is() -> None:
    rehearsal = play(made())
    for client in ("spy", "spy-near"):
        rehearsal.subscribe(client, "$penstock/#")
    says(rehearsal, "capsule", "open")
    assert rehearsal.nodes["b"].contracts.open  # type: ignore[union-attr]
    assert got(rehearsal, "spy") == got(rehearsal, "spy-near") == []


def test_situations_when_a_link_breaks() -> None:
    rehearsal = play(made())
    rehearsal.subscribe("doctor", TOPIC)
    rehearsal.cut("a", "b")
    says(rehearsal, "capsule", "open")
    rehearsal.restore("a", "b")
    says(rehearsal, "bob", TOPIC)
    assert got(rehearsal, "doctor") == [{"lat": 48.9}]
    rehearsal.cut("a", "b")
    says(rehearsal, "capsule", "close")
    rehearsal.restore("a", "b")
    says(rehearsal, "bob", TOPIC)
    assert got(rehearsal, "doctor") == [{"lat": 48.9}, {"lat": 45.0}]


def test_what_is_retained_elsewhere_is_not_given_out_when_its_situation_is_over() -> None:
    rehearsal = play(made())
    rehearsal.subscribe("doctor", TOPIC)
    says(rehearsal, "capsule", "open")
    says(rehearsal, "bob", TOPIC, retain=True)
    assert got(rehearsal, "doctor") == [{"lat": 48.9}]
    says(rehearsal, "capsule", "close")
    rehearsal.subscribe("doctor", TOPIC, name="again")
    assert got(rehearsal, "doctor") == [{"lat": 48.9}, {"lat": 45.0}], "as at the producer's node"


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("scope", ["global", "local"])
def test_what_is_retained_elsewhere_is_given_as_situations_are_when_somebody_comes(is_open: bool, scope: str) -> None:
    said = made()
    said["contracts"]["producers"]["bob"]["scope"] = scope
    said["contracts"]["bring"] = ["spy", "spy-near"]
    rehearsal = play(said)
    for client in ("spy", "spy-near"):
        rehearsal.subscribe(client, "#")  # so that both nodes have it
    if not is_open:
        says(rehearsal, "capsule", "open")
    says(rehearsal, "bob", TOPIC, retain=True)
    says(rehearsal, "capsule", "open" if is_open else "close")
    shown = [{"lat": 48.9 if is_open else 45.0}]
    for client in ("doctor", "near"):
        rehearsal.subscribe(client, TOPIC)
    assert got(rehearsal, "near") == shown
    assert got(rehearsal, "doctor") == shown, "a local advertisement is the first node's alone, which hears of it"
    count = len(got(rehearsal, "spy"))
    rehearsal.subscribe("spy", TOPIC, contract='{"purpose": "health"}')
    assert got(rehearsal, "spy")[count:] == [{"lat": 45.0}]


@pytest.mark.parametrize("is_consumer", [True, False])
def test_a_foreign_broker_is_a_consumer_like_others(is_consumer: bool) -> None:
    said = made(foreign={"cloud": {"address": "127.0.0.1:1883", "out": ["bob/#"]}})
    said["links"].append({"between": ["a", "cloud"]})
    if is_consumer:
        said["contracts"]["consumers"]["cloud"] = {"consumer": "cloud", "purpose": "health", "wants": WANTS}
    rehearsal = play(said)
    says(rehearsal, "bob", TOPIC)
    assert got(rehearsal, "cloud") == ([{"lat": 45.0}] if is_consumer else [])


def test_a_certificate_is_an_attribute() -> None:
    said = made()
    rules = {"r": {"visible_to": {"certificate": ["dr-who"]}}}
    said["contracts"]["producers"]["bob"]["rules"] = rules
    said["contracts"]["consumers"]["doctor"]["consumer"] = ["doctor", "near", "spy", "spy-near"]
    for client, identity in (("doctor", "dr-who"), ("near", "dr-who"), ("spy", "dr-no")):
        said["clients"][client]["certificate"] = identity
    rehearsal = play(said)
    for client in ("doctor", "near", "spy", "spy-near"):
        rehearsal.subscribe(client, TOPIC)
    says(rehearsal, "bob", TOPIC)
    assert {name for name in ("doctor", "near", "spy", "spy-near") if got(rehearsal, name)} == {"doctor", "near"}


def test_what_is_shown_at_a_connection_is_an_attribute_there() -> None:
    said = made()
    said["nodes"] = {"test": {"listen": "127.0.0.1:0"}}
    said["links"] = []
    said["clients"] = {name: {"node": "test"} for name in said["clients"]}
    said["contracts"]["producers"]["bob"]["rules"] = {"r": {"visible_to": {"user": ["who"]}}}
    joined = MemoryNode(whole=ensemble(Domain.model_validate(said)))
    for user, count in (("who", 1), ("no", 0)):
        doctor = joined.connect("doctor", user=user).subscribe(TOPIC)
        joined.connect("bob").publish(TOPIC, b"{}")
        assert len(doctor.messages()) == count, user
