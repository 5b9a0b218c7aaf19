"""What waits on live nodes is judged by what holds when it leaves."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.support.clients.paho import Paho, properties
from tests.support.memory.sparkplug import encode
from tests.support.processes.commands import until
from tests.support.processes.federation import federated
from tests.support.processes.node import passwords, running

PAYLOAD = b'{"x": 7, "y": 1}'
CLIENTS: dict[str, Any] = {"ann": {"node": "main"}, "bob": {"node": "main"}}
DELAY = 2
BLOCK = "PolicyStatement { On(Forward, Publication) { If {} Then {BlockMessage()} } }"
STATED = {"policies": {"p": BLOCK}, "apply": [{"policy": "p", "to": "publication", "of": "ann"}]}
LOW = {"name": "low", "filter": "a", "where": "x < 5"}
CONTRACT = {"producers": {"ann": {"producer": "ann", "filter": "a", "rules": {"r": {"purpose": "p"}}}}}
CHANGES: dict[str, dict[str, Any]] = {
    "where": {"clients": CLIENTS | {"bob": {"node": "main", "where": {"a": "x < 5"}}}},
    "advertises": {"clients": CLIENTS | {"ann": {"node": "main", "advertises": [LOW]}}},
    "a statement": {"statements": STATED},
    "a contract": {"contracts": CONTRACT},
}


@pytest.mark.parametrize("is_killed", [False, True], ids=["reload", "kill"])
@pytest.mark.parametrize("change", ["nothing", "acl", *CHANGES])
def test_a_message_in_flight_is_judged_again(change: str, is_killed: bool, tmp_path: Path) -> None:
    """Issue 17, item 1: what was sent and not acknowledged was repeated whatever the domain said by then."""
    settings = {"acl": "acl", "store": str(tmp_path / "store")}
    plain: dict[str, Any] = {"clients": CLIENTS, "contracts": {"bring": "*"}}
    with running(settings, {"acl": "topic readwrite #\n"}, **plain) as node:
        with Paho("bob", clean=False) as bob:
            bob.client.manual_ack_set(True)
            bob.connects(node.port, SessionExpiryInterval=600).subscribe("a", 1)
            with Paho("ann").connects(node.port) as ann:
                ann.publish("a", PAYLOAD, 1)
            assert bob.receive().payload == PAYLOAD
            bob.breaks()
        if change == "acl":
            node.write("acl", "topic read #\ntopic readwrite marker/#\n")
        node.configure(settings, **plain | CHANGES.get(change, {}))
        if is_killed:
            node.kill()
            node.start()
        else:
            node.reload()
        with Paho("bob", clean=False).connects(node.port, SessionExpiryInterval=600) as bob:
            if change == "nothing":
                assert bob.receive().payload == PAYLOAD
            else:
                bob.nothing_arrives()


@pytest.mark.parametrize("is_in_flight", [False, True], ids=["queued", "in flight"])
def test_what_a_new_contract_delays_does_not_leave_before_its_time(is_in_flight: bool) -> None:
    """Issue 17, item 1: the contract was asked whether it releases what waited, and not when."""
    rules = {"r": {"purpose": "p", "degrade": [{"delay": DELAY}]}}
    contracts = {
        "producers": {"ann": {"producer": "ann", "filter": "a", "rules": rules}},
        "consumers": {"bob": {"consumer": "bob", "purpose": "p", "wants": {"all": {"filter": "a"}}}},
    }
    with running({}, clients=CLIENTS, contracts={"bring": "*"}) as node:
        with Paho("bob", clean=False) as bob:
            bob.client.manual_ack_set(True)
            bob.connects(node.port, SessionExpiryInterval=600).subscribe("a", 1)
            if not is_in_flight:
                bob.leaves()
            with Paho("ann").connects(node.port) as ann:
                ann.publish("a", PAYLOAD, 1)
            if is_in_flight:
                assert bob.receive().payload == PAYLOAD
                bob.breaks()
        node.configure({}, clients=CLIENTS, contracts=contracts)
        node.reload()
        with Paho("bob", clean=False) as bob:
            since = monotonic()
            bob.connects(node.port, SessionExpiryInterval=600)
            assert bob.receive().payload == PAYLOAD
            assert monotonic() - since >= DELAY
            bob.nothing_arrives()


def test_what_another_node_keeps_is_judged_by_the_new_domain() -> None:
    """Issue 17, item 2: what another node had retained or queued was delivered after a reload had closed its way."""
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory"} for name in "abc"},
        "links": [{"between": ["a", "b"], "type": "inner"}, {"between": ["b", "c"], "type": "outer"}],
        "brokering": {"types": ["inner", "outer"]},
        "clients": {"ann": {"node": "a", "type": "inner"}, "bob": {"node": "c", "type": "outer"}},
    }
    with federated(domain) as nodes:
        with Paho("bob", clean=False).connects(nodes.ports["c"], SessionExpiryInterval=600) as bob:
            bob.subscribe("#", 1)
            with Paho("ann").connects(nodes.ports["a"]) as ann:
                until(lambda: ann.publish("ready", b"", 1) == 0, "interest has spread")
                bob.receive()
                bob.leaves()
                ann.publish("kept", b"1", 1, retain=True)
                ann.publish("queued", b"2", 1)
        domain["brokering"]["deny"] = [{"from": "inner", "to": "outer"}]
        nodes.write(domain)
        nodes.reload("a", "b", "c")
        with Paho("bob", clean=False).connects(nodes.ports["c"], SessionExpiryInterval=600) as bob:
            bob.nothing_arrives()
            bob.subscribe("kept", 1)
            bob.nothing_arrives()


ROUTED = "PolicyStatement { On(Forward, Publication) { @broker: Routing If {%s} Then {BlockMessage()} } }"


@pytest.mark.parametrize("condition", ["", "Broker() == 'b'", "Receiver() == 'c'", "Broker() == 'c'"])
def test_a_statement_that_stops_an_event_between_nodes_stops_what_another_node_keeps(condition: str) -> None:
    """Attacked again: rules for `Routing` were not asked about what had come by other nodes before they were there."""
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory"} for name in "abc"},
        "links": [{"between": ["a", "b"]}, {"between": ["b", "c"]}],
        "clients": {"ann": {"node": "a"}, "bob": {"node": "c"}},
    }
    with federated(domain) as nodes:
        with Paho("bob", clean=False).connects(nodes.ports["c"], SessionExpiryInterval=600) as bob:
            bob.subscribe("#", 1)
            with Paho("ann").connects(nodes.ports["a"]) as ann:
                until(lambda: ann.publish("ready", b"", 1) == 0, "interest has spread")
                bob.receive()
                bob.leaves()
                ann.publish("kept", b"1", 1, retain=True)
                ann.publish("queued", b"2", 1)
        policies = {"p": ROUTED % condition}
        domain["statements"] = {"policies": policies, "apply": [{"policy": "p", "to": "publication", "of": "ann"}]}
        nodes.write(domain)
        nodes.reload("a", "b", "c")
        is_on_its_way = condition != "Broker() == 'c'"
        with Paho("bob", clean=False).connects(nodes.ports["c"], SessionExpiryInterval=600) as bob:
            assert is_on_its_way or {bob.receive().topic, bob.receive().topic} == {"kept", "queued"}
            bob.nothing_arrives()
            bob.subscribe("kept", 1)
            assert is_on_its_way or bob.receive().topic == "kept"
            bob.nothing_arrives()


def test_a_retention_that_a_reload_brings_does_not_begin_when_an_event_is_sent() -> None:
    """Attacked again: each time a retained event was sent, its retention counted anew, so it was given for ever."""
    rules = {"r": {"retention": "30d"}}
    contracts = {
        "producers": {"ann": {"producer": "ann", "filter": "a/#", "rules": rules}},
        "consumers": {"bob": {"consumer": ["bob", "eve"], "retention": "1h", "wants": {}}},
    }
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory"} for name in "ab"},
        "links": [{"between": ["a", "b"]}],
        "clients": {"ann": {"node": "a"}, "bob": {"node": "b"}, "eve": {"node": "a"}},
    }
    with federated(domain) as nodes, Paho("ann").connects(nodes.ports["a"]) as ann:
        for name, at in (("bob", "b"), ("eve", "a")):  # as long as only bob wants it, the answer is about b
            with Paho(name, clean=False).connects(nodes.ports[at], SessionExpiryInterval=600) as reader:
                reader.subscribe("a/#", 1)
            until(lambda: ann.publish("a/ready", b"", 1) == 0, "interest has spread")
        ann.publish("a/kept", PAYLOAD, 1, retain=True)
        ann.publish("a/queued", PAYLOAD, 1)
        nodes.write({**domain, "contracts": contracts})
        nodes.reload("a", "b")
        for name, at in (("bob", "b"), ("eve", "a")):
            with Paho(name, clean=False).connects(nodes.ports[at], SessionExpiryInterval=600) as reader:
                reader.nothing_arrives()  # when it was published, nobody has noted
                reader.subscribe("a/#", 1)
                reader.nothing_arrives()
        for name, at in (("bob", "b"), ("eve", "a")):
            with Paho(name, clean=False).connects(nodes.ports[at], SessionExpiryInterval=600) as reader:
                is_told = partial(_publishes_until, ann, reader)  # nodes tell each other whom the contracts concern
                until(is_told, "what is published now comes")
                assert reader.receive().topic == "a/new"


def _publishes_until(publisher: Paho, reader: Paho) -> bool:
    publisher.publish("a/new", PAYLOAD, 1)
    return not reader.messages.empty()


@pytest.mark.parametrize("change", ["nothing", "not listed", "no user"])
def test_the_will_of_a_client_that_could_not_connect_any_more_is_not_published(change: str) -> None:
    """Issue 17, item 3."""
    clients = {"ann": {"node": "main", "user": "ann"}, "bob": {"node": "main", "user": "bob"}}
    with (
        running({"passwords": "passwords"}, {"passwords": passwords(ann="a", bob="b")}, clients=clients) as node,
        Paho("bob").is_user("bob", "b").connects(node.port) as bob,
        Paho("ann", clean=False).is_user("ann", "a") as ann,
    ):
        bob.subscribe("#", 1)
        ann.client.will_set("gone", b"1", 1, properties=properties("will", WillDelayInterval=2))
        ann.connects(node.port, SessionExpiryInterval=600).breaks()
        node.write("passwords", passwords(bob="b") if change == "no user" else passwords(ann="a", bob="b"))
        node.configure(
            {"passwords": "passwords"}, clients={"bob": clients["bob"]} if change == "not listed" else clients
        )
        node.reload()
        if change == "nothing":
            assert bob.receive().topic == "gone"
        else:
            node.until_logged("publish denied", "will:")
            bob.nothing_arrives()


def test_a_report_does_not_leave_after_the_time_at_which_it_could_be_read() -> None:
    """Issue 17, item 4: a queued message under `when: now < T` left after T."""
    end = datetime.now(UTC) + timedelta(seconds=4)
    access = [
        {"subject": "G/E", "topics": "spBv1.0/G/+/E", "may": ["read", "write"]},
        {
            "subject": "bob",
            "topics": "spBv1.0/G/+/E",
            "may": "read",
            "when": f"now < timestamp('{end.isoformat().replace('+00:00', 'Z')}')",
        },
    ]
    clients = {"edge": {"node": "main", "edge": "G/E"}, "bob": {"node": "main"}}
    with running({}, clients=clients, access=access) as node:
        with Paho("bob", clean=False).connects(node.port, SessionExpiryInterval=600) as bob:
            bob.subscribe("spBv1.0/#", 1)
        with Paho("edge").connects(node.port) as edge:
            metric = {"name": "m", "alias": 1, "datatype": 12, "string_value": "v"}
            edge.publish("spBv1.0/G/NBIRTH/E", encode({"timestamp": 1, "seq": 0, "metrics": [metric]}), 1)
        until(lambda: datetime.now(UTC) > end, "the time is over")
        with Paho("bob", clean=False).connects(node.port, SessionExpiryInterval=600) as bob:
            bob.nothing_arrives()


def test_what_a_contract_released_at_another_node_is_held_against_its_publisher() -> None:
    """What a rule had released lost its publisher, so what the publisher may say now was not asked."""
    contracts = {
        "producers": {"ann": {"producer": "ann", "filter": "a", "where": "x < 9", "rules": {"r": {"purpose": "p"}}}},
        "consumers": {"bob": {"consumer": "bob", "purpose": "p", "wants": {"all": {"filter": "a"}}}},
    }
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory"} for name in "ab"},
        "links": [{"between": ["a", "b"]}],
        "clients": {"ann": {"node": "a"}, "bob": {"node": "b"}},
        "contracts": contracts,
    }
    with federated(domain) as nodes:
        with Paho("bob", clean=False).connects(nodes.ports["b"], SessionExpiryInterval=600) as bob:
            bob.subscribe("a", 1)
            with Paho("ann").connects(nodes.ports["a"]) as ann:
                until(lambda: ann.publish("a", PAYLOAD, 1) == 0, "interest has spread")
                bob.receive()
                bob.leaves()
                ann.publish("a", PAYLOAD, 1)
        contracts["producers"]["ann"]["where"] = "x < 5"
        nodes.write(domain)
        nodes.reload("a", "b")
        with Paho("bob", clean=False).connects(nodes.ports["b"], SessionExpiryInterval=600) as bob:
            bob.nothing_arrives()


@pytest.mark.parametrize("degrade", [False, True], ids=["as it is", "degraded"])
def test_what_a_reload_makes_private_is_not_sent_again_to_those_who_have_had_it(degrade: bool) -> None:
    """Attacked again: with each new subscriber, a retained event came once more to all others at that node."""
    readers = [f"reader{number}" for number in range(5)]
    rule: dict[str, Any] = {"purpose": "p"}
    if degrade:
        rule["degrade"] = [{"step": {"attribute": "x", "size": 5}}]
    contracts = {
        "producers": {"ann": {"producer": "ann", "filter": "a", "rules": {"r": rule}}},
        "consumers": {"all": {"consumer": readers, "purpose": "p", "wants": {"all": {"filter": "a"}}}},
    }
    domain: dict[str, Any] = {
        "nodes": {name: {"store": "memory"} for name in "ab"},
        "links": [{"between": ["a", "b"]}],
        "clients": {"ann": {"node": "a"}, "eve": {"node": "a"}} | {name: {"node": "b"} for name in readers},
    }
    first, *others = [Paho(name) for name in readers]
    with (
        federated(domain) as nodes,
        first.connects(nodes.ports["b"]),
        Paho("ann").connects(nodes.ports["a"]) as ann,
        Paho("eve").connects(nodes.ports["a"]) as eve,
    ):
        first.subscribe("a", 1)
        first.subscribe("b", 1)
        until(lambda: eve.publish("b", b"", 1) == 0, "interest has spread")
        first.receive()
        ann.publish("a", PAYLOAD, 1, retain=True)
        assert first.receive().payload == PAYLOAD
        nodes.write({**domain, "contracts": contracts})
        nodes.reload("a", "b")
        seen: list[bytes] = []
        for other in others:
            with other.connects(nodes.ports["b"]):
                other.subscribe("a", 1)
                assert other.receive().topic == "a"
                eve.publish("b", b"", 1)  # behind what node a has been asked for
                eve.publish("b", b"end", 1)
                while (message := first.receive()).payload != b"end":
                    seen += [bytes(message.payload)] if message.topic == "a" else []
        assert len(seen) <= degrade  # node b cannot know what it has as what comes degraded, once
