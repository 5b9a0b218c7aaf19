"""Who is who, on live nodes: rights and policies concern only their owner, and answers tell nothing of others."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.paho import Paho, value
from tests.support.processes.commands import until
from tests.support.processes.federation import together
from tests.support.processes.node import passwords, running

WARM, COLD = b'{"x": 30}', b'{"x": 3}'


def test_a_listed_client_id_is_refused_to_every_other_client() -> None:
    """Issue 17, item 13: another client with the id of `pump` had its rights by `%c`, and ended its session."""
    files = {
        "passwords": passwords(pump="p", eve="e", guest="g"),
        "acl": "pattern readwrite plant/%c/#\nuser guest\ntopic write plant/#\n",
    }
    clients = {"pump": {"node": "main", "user": "pump", "id": "pump-1"}, "eve": {"node": "main", "user": "eve"}}
    default = {"types": ["open"], "default": "open"}
    with (
        running({"passwords": "passwords", "acl": "acl"}, files, clients=clients, brokering=default) as node,
        Paho("pump-1", clean=False).is_user("pump", "p").connects(node.port, SessionExpiryInterval=60) as pump,
    ):
        pump.subscribe("plant/pump-1/#", 1)
        for user, password, id in (("eve", "e", "pump-1"), ("guest", "g", "pump-1"), ("guest", "g", "eve")):
            with Paho(id, clean=False).is_user(user, password) as other:
                refused = other.tries(node.port)
                assert refused.reason.value == 0x87, (user, id)
                assert f"client id `{id}` belongs to another" in value(refused.properties, "ReasonString")
        with Paho("eve").is_user("eve", "e").connects(node.port) as eve:
            assert eve.publish("plant/eve/x", b"", 1) in (0, 0x10)
            assert eve.publish("plant/pump-1/x", b"", 1) == 0x87
        with Paho("phone").is_user("guest", "g").connects(node.port) as guest:
            assert guest.publish("plant/pump-1/go", b"", 1) == 0
        assert pump.receive().topic == "plant/pump-1/go"  # the session is as it was


def test_an_answer_does_not_tell_what_others_ask_for() -> None:
    """Issue 17, item 15: 0x10 told a publisher which values no `where` of another client is true for."""
    with (
        running() as node,
        Paho("reader").connects(node.port) as reader,
        Paho("publisher").connects(node.port) as publisher,
    ):
        reader.subscribe("room/1", 1, said={"where": "x > 20"})
        assert publisher.publish("room/1", WARM, 1) == publisher.publish("room/1", COLD, 1) == 0
        assert publisher.publish("room/2", WARM, 1) == 0x10
        assert reader.receive().payload == WARM


def test_what_is_suppressed_in_secret_is_answered_like_what_nobody_subscribes_to() -> None:
    """Issue 17, item 15: with `suppressed: hide` the answers were 0x00 and 0x10."""
    monitor = {"link": "eve -> main", "states": {"q0": {"secret": "suppress", "*": "pass"}}}
    more: dict[str, Any] = {
        "clients": {"eve": {"node": "main"}, "reader": {"node": "main"}},
        "monitors": {"quiet": monitor},
    }
    with (
        running({"suppressed": "hide"}, **more) as node,
        Paho("reader").connects(node.port) as reader,
        Paho("eve").connects(node.port) as eve,
    ):
        reader.subscribe("heard", 1)
        reader.subscribe("asked", 1, said={"where": "x > 20"})
        assert [eve.publish(topic, COLD, 1) for topic in ("secret", "unheard", "heard", "asked")] == [0, 0, 0, 0]
        assert reader.receive().topic == "heard"


def test_who_publishes_cannot_subtract_its_own_value_from_a_mean() -> None:
    """Issue 17, item 14: `least` counted events, so a reader that published too learnt what one other had said."""
    mean = {"purpose": "science", "degrade": [{"aggregate": {"seconds": 1, "attributes": ["x"], "least": 2}}]}
    contracts = {
        "producers": {"all": {"producer": ["ann", "bob", "eve"], "filter": "all", "rules": {"mean": mean}}},
        "consumers": {"eve": {"consumer": "eve", "purpose": "science", "wants": {"all": {"filter": "all"}}}},
    }
    clients = {name: {"node": "main"} for name in ("ann", "bob", "eve")}
    with (
        running(clients=clients, contracts=contracts) as node,
        Paho("ann").connects(node.port) as ann,
        Paho("bob").connects(node.port) as bob,
        Paho("eve").connects(node.port) as eve,
    ):
        eve.subscribe("all", 1)

        def say() -> bool:
            ann.publish("all", b'{"x": 10}', 1)
            eve.publish("all", b'{"x": 0}', 1)
            time.sleep(0.05)
            return not eve.messages.empty()

        for _ in range(80):  # over several periods
            assert not say()
        until(lambda: bob.publish("all", b'{"x": 1000000}', 1) >= 0x80 or say(), "a mean of two others")
        assert json.loads(eve.receive().payload)["x"] > 100  # it contains what bob has said


SILENCE = "PolicyStatement { On(Forward, Publication) { @broker: Egress If {} Then {BlockMessage()} } }"
REFUSAL = "PolicyStatement { On(Insert, Subscription) { If {} Then {UninsertMessage()} } }"


@pytest.mark.parametrize("qos", [0, 1])
def test_a_policy_of_an_advertisement_does_not_concern_what_others_publish(qos: int, tmp_path: Path) -> None:
    """Issue 17, item 12: by an advertisement of `data/#` eve, who may write `data/eve` only, silenced bob."""
    (tmp_path / "acl").write_text("topic read data/#\npattern write data/%c\ntopic write $penstock/#\n")
    grant = {"to": ["eve", "firewall"], "set": "advertisement", "elements": "*"}
    wide = {"to": "firewall", "set": "advertisement", "elements": "*", "others": "data/#"}
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory", "acl": str(tmp_path / "acl")} for name in ("a", "b")},
        "links": [{"between": ["a", "b"]}],
        "clients": {name: {"node": "a"} for name in ("bob", "eve", "firewall")} | {"ann": {"node": "b"}},
        "statements": {"grants": [grant, wide]},
    }
    with (
        together(domain, 1) as nodes,
        Paho("ann").connects(nodes.ports["b"]) as ann,
        Paho("bob").connects(nodes.ports["a"]) as bob,
        Paho("eve").connects(nodes.ports["a"]) as eve,
        Paho("firewall").connects(nodes.ports["a"]) as firewall,
    ):
        ann.subscribe("data/#", qos)

        def advertise(by: Paho, name: str, policy: str) -> int:
            payload = json.dumps({"name": name, "filter": "data/#", "policy": policy}).encode()
            return by.publish("$penstock/advertise", payload, 1)

        def arriving() -> str:
            """Have both publish; return the topic that comes first."""
            eve.publish("data/eve", b"", qos)
            bob.publish("data/bob", b"", qos)
            if ann.messages.empty():
                time.sleep(0.05)
            return "" if ann.messages.empty() else ann.receive().topic

        until(lambda: arriving() == "data/eve", "both come")
        assert advertise(eve, "mine", SILENCE) == 0
        assert advertise(eve, "yours", REFUSAL) == 0x87

        def hears(topic: str) -> bool:
            return all(arriving() == topic for _ in range(20))

        until(lambda: hears("data/bob"), "only bob is heard: eve's policy has come to the other node")
        assert advertise(firewall, "all", SILENCE) == 0
        until(lambda: hears(""), "nobody is heard, by a right of its own")
        assert advertise(firewall, "too", REFUSAL) == 0
        with Paho("bob").connects(nodes.ports["a"]) as late:
            assert late.subscribe("data/bob") == 0x87
