"""Messages as paho-mqtt sends and gets them, with MQTT 3.1.1 and 5."""

import pytest

from tests.support.clients.paho import Paho, value
from tests.support.processes.node import LiveNode

VERSIONS = pytest.mark.parametrize("version", [4, 5])


@VERSIONS
@pytest.mark.parametrize("sent", [0, 1, 2])
@pytest.mark.parametrize("subscribed", [0, 1, 2])
def test_a_message_arrives_with_the_lower_qos(
    node: LiveNode, name: str, version: int, sent: int, subscribed: int
) -> None:
    with Paho(version=version).connects(node.port) as ann, Paho(version=version).connects(node.port) as bob:
        assert ann.subscribe(f"{name}/+", subscribed) == subscribed
        assert bob.publish(f"{name}/a", b"hello", sent) == 0
        message = ann.receive()
        assert (message.topic, message.payload) == (f"{name}/a", b"hello")
        assert (message.qos, message.retain, message.dup) == (min(sent, subscribed), False, False)


@pytest.mark.parametrize(("sender", "receiver"), [(4, 5), (5, 4)])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_versions_talk_to_each_other(node: LiveNode, name: str, sender: int, receiver: int, qos: int) -> None:
    with Paho(version=receiver).connects(node.port) as ann, Paho(version=sender).connects(node.port) as bob:
        ann.subscribe(name, 2)
        for number in range(3):  # the first makes the plan, the others follow it
            bob.publish(name, b"%d" % number, qos)
        assert ann.payloads(3) == [b"0", b"1", b"2"]


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_many_messages_arrive_once_and_in_order(node: LiveNode, name: str, version: int, qos: int) -> None:
    payloads = [b"%d" % number for number in range(300)]
    with Paho(version=version).connects(node.port) as ann, Paho(version=version).connects(node.port) as bob:
        ann.subscribe(f"{name}/#", qos)
        infos = [bob.client.publish(f"{name}/{len(payload)}", payload, qos) for payload in payloads]
        for info in infos:
            info.wait_for_publish(20)
        assert ann.payloads(len(payloads)) == payloads
        bob.publish(f"{name}/end", b"end", qos)
        assert ann.receive().payload == b"end"


@VERSIONS
def test_large_and_empty_payloads(node: LiveNode, name: str, version: int) -> None:
    large = bytes(range(256)) * 4096
    with Paho(version=version).connects(node.port) as ann:
        ann.subscribe(name, 1)
        ann.publish(name, large, 1)
        ann.publish(name, b"", 1)
        assert ann.payloads(2) == [large, b""]


@VERSIONS
def test_a_retained_message_waits_for_subscribers_until_it_is_removed(node: LiveNode, name: str, version: int) -> None:
    with Paho(version=version).connects(node.port) as bob:
        bob.publish(f"{name}/a", b"old", 1, retain=True)
        bob.publish(f"{name}/a", b"new", 1, retain=True)
        bob.publish(f"{name}/b", b"gone", 0, retain=True)
        bob.publish(f"{name}/b", b"", 1, retain=True)
        with Paho(version=version).connects(node.port) as ann:
            ann.subscribe(f"{name}/#", 1)
            message = ann.receive()
            assert (message.topic, message.payload, message.retain) == (f"{name}/a", b"new", True)
            bob.publish(f"{name}/a", b"live", 1, retain=True)
            message = ann.receive()
            assert (message.payload, message.retain) == (b"live", False)
        bob.publish(f"{name}/a", b"", 1, retain=True)


@VERSIONS
def test_unsubscribing_ends_it(node: LiveNode, name: str, version: int) -> None:
    with Paho(version=version).connects(node.port) as ann:
        ann.subscribe(f"{name}/a", 1)
        ann.subscribe(f"{name}/b", 1)
        ann.client.unsubscribe(f"{name}/a")
        ann.publish(f"{name}/a", b"no", 1)
        ann.publish(f"{name}/b", b"yes", 1)
        assert ann.receive().payload == b"yes"


@VERSIONS
def test_wildcards_leave_dollar_topics_alone(node: LiveNode, name: str, version: int) -> None:
    with Paho(version=version).connects(node.port) as ann:
        ann.subscribe(f"+/{name}/#", 1)
        ann.subscribe(f"$own/{name}/+", 1)
        ann.publish(f"$other/{name}/a", b"hidden", 1)
        ann.publish(f"$own/{name}/a", b"asked for", 1)
        ann.publish(f"own/{name}", b"plain", 1)
        assert ann.payloads(2) == [b"asked for", b"plain"]


@VERSIONS
def test_a_second_connection_takes_the_client_id_over(node: LiveNode, name: str, version: int) -> None:
    with Paho(name, version).connects(node.port) as first, Paho(name, version).connects(node.port) as second:
        reason = first.ends.get(timeout=20)
        first.client.loop_stop()
        assert version == 4 or reason.value == 0x8E
        second.subscribe(name, 1)
        second.publish(name, b"mine", 1)
        assert second.receive().payload == b"mine"


@VERSIONS
def test_a_client_without_an_id_gets_one(node: LiveNode, name: str, version: int) -> None:
    ann, bob = Paho(version=version), Paho(version=version)
    with ann, bob:
        results = [client.tries(node.port) for client in (ann, bob)]
        assert [connected.reason.value for connected in results] == [0, 0]
        if version == 5:
            ids = [value(connected.properties, "AssignedClientIdentifier") for connected in results]
            assert None not in ids
            assert ids[0] != ids[1]
        ann.subscribe(name)
        bob.publish(name, b"they are two")
        assert ann.receive().payload == b"they are two"
