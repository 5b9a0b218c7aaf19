"""The additions of MQTT 5, as paho-mqtt uses them."""

from collections import Counter

import pytest

from penstock.wire.properties import Properties as WireProperties
from tests.support.clients.paho import Paho, properties, value
from tests.support.clients.peer import Peer
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import LiveNode


def test_a_shared_subscription_gives_each_message_to_one_member(node: LiveNode, name: str) -> None:
    members = [Paho().connects(node.port) for _ in range(3)]
    with Paho().connects(node.port) as outside, Paho().connects(node.port) as bob:
        outside.subscribe(f"{name}/#", 1)
        for member in members:
            member.subscribe(f"$share/group/{name}/#", 1)
        sent = [b"%d" % number for number in range(60)]
        for payload in sent:
            bob.publish(f"{name}/a", payload, 1)
        assert outside.payloads(60) == sent
        got: Counter[bytes] = Counter()
        for member in members:
            member.leaves()
            assert not member.messages.empty(), "one member got nothing"
            got.update(bytes(message.payload) for message in member.messages.queue)
        assert got == Counter(sent)


def test_a_member_that_leaves_is_passed_over(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as stays, Paho().connects(node.port) as bob:
        leaver = Paho().connects(node.port)
        for member in (stays, leaver):
            member.subscribe(f"$share/group/{name}", 1)
        leaver.leaves()
        for number in range(4):
            bob.publish(name, b"%d" % number, 1)
        assert stays.payloads(4) == [b"0", b"1", b"2", b"3"]


def test_two_groups_get_a_copy_each(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann, Paho().connects(node.port) as bob:
        ann.subscribe(f"$share/one/{name}", 1)
        bob.subscribe(f"$share/two/{name}", 1)
        bob.publish(name, b"x", 1)
        assert (ann.receive().payload, bob.receive().payload) == (b"x", b"x")


def test_one_copy_carries_the_identifiers_of_all_overlapping_subscriptions(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(f"{name}/#", 0, identifier=7)
        ann.subscribe(f"{name}/+", 2, identifier=268_435_455)
        ann.subscribe(f"{name}/a", 1)
        ann.publish(f"{name}/a", b"x", 2)
        ann.publish(f"{name}/a/b", b"y", 2)
        first, second = ann.receive(), ann.receive()
        assert sorted(value(first.properties, "SubscriptionIdentifier")) == [7, 268_435_455]
        assert first.qos == 2
        assert second.payload == b"y"
        assert value(second.properties, "SubscriptionIdentifier") == [7]


def test_no_local(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann, Paho().connects(node.port) as bob:
        ann.subscribe(name, 1, noLocal=True)
        ann.publish(name, b"my own", 1)
        bob.publish(name, b"another's", 1)
        assert ann.receive().payload == b"another's"


def test_retain_as_published(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        ann.subscribe(name, 1, retainAsPublished=True)
        ann.publish(name, b"kept", 1, retain=True)
        ann.publish(name, b"", 1, retain=True)
        assert [ann.receive().retain, ann.receive().retain] == [True, True]


@pytest.mark.parametrize(("handling", "first", "again"), [(0, True, True), (1, True, False), (2, False, False)])
def test_retain_handling(node: LiveNode, name: str, handling: int, first: bool, again: bool) -> None:
    with Paho().connects(node.port) as ann:
        ann.publish(name, b"kept", 1, retain=True)
        for expected in (first, again):
            ann.subscribe(name, 1, retainHandling=handling)
            ann.publish(name, b"live", 1)
            if expected:
                assert ann.receive().payload == b"kept"
            assert ann.receive().payload == b"live"
        ann.publish(name, b"", 1, retain=True)


def test_topic_aliases_from_a_client(node: LiveNode, name: str) -> None:
    with Paho() as ann:
        connected = ann.tries(node.port)
        assert value(connected.properties, "TopicAliasMaximum") > 0
        ann.subscribe(f"{name}/#", 1)
        ann.publish(f"{name}/a", b"1", 0, TopicAlias=1)
        ann.publish(f"{name}/b", b"2", 1, TopicAlias=2)
        ann.client.publish("", b"3", 1, properties=properties("publish", TopicAlias=1))
        ann.client.publish("", b"4", 0, properties=properties("publish", TopicAlias=2))
        ann.publish(f"{name}/c", b"5", 1, TopicAlias=1)
        ann.client.publish("", b"6", 1, properties=properties("publish", TopicAlias=1))
        got = [(message.topic[len(name) :], message.payload) for message in (ann.receive() for _ in range(6))]
        assert got == [("/a", b"1"), ("/b", b"2"), ("/a", b"3"), ("/b", b"4"), ("/c", b"5"), ("/c", b"6")]


async def test_topic_aliases_to_a_client(node: LiveNode, name: str) -> None:
    ann = await Peer.open(HOST, node.port)
    await ann.connect(properties=WireProperties(topic_alias_maximum=1))
    await ann.subscribe(f"{name}/#")
    bob = await Peer.open(HOST, node.port)
    await bob.connect()
    for topic in ("a", "a", "b", "a"):
        await bob.publish(f"{name}/{topic}")
    got = [await ann.receive() for _ in range(4)]
    assert [(packet.topic, packet.properties.topic_alias) for packet in got] == [
        (f"{name}/a", 1),
        ("", 1),
        (f"{name}/b", None),
        ("", 1),
    ]
    await ann.close()
    await bob.close()


def test_a_message_keeps_its_properties(node: LiveNode, name: str) -> None:
    values = {
        "PayloadFormatIndicator": 1,
        "ContentType": "text/plain",
        "ResponseTopic": f"{name}/answers",
        "CorrelationData": b"\x00\x01",
        "UserProperty": [("b", "2"), ("a", "1"), ("b", "3")],
    }
    with Paho().connects(node.port) as ann, Paho(version=4).connects(node.port) as old:
        ann.subscribe(name, 2)
        old.subscribe(name, 2)
        for qos in (0, 1, 2):
            ann.publish(name, b"x", qos, retain=qos == 2, **values)
            message = ann.receive()
            assert {key: getattr(message.properties, key) for key in values} == values
            assert old.receive().payload == b"x"
        with Paho().connects(node.port) as late:
            late.subscribe(name, 1)
            message = late.receive()
            assert {key: getattr(message.properties, key) for key in values} == values
            late.publish(name, b"", 1, retain=True)


def test_request_and_response(node: LiveNode, name: str) -> None:
    with Paho(name) as asker, Paho().connects(node.port) as answerer:
        connected = asker.tries(node.port, RequestResponseInformation=1)
        mine = value(connected.properties, "ResponseInformation") + "answers"
        asker.subscribe(mine, 1)
        answerer.subscribe(f"{name}/square", 1)
        asker.publish(f"{name}/square", b"12", 1, ResponseTopic=mine, CorrelationData=b"q1")
        request = answerer.receive()
        answer = b"%d" % int(request.payload) ** 2
        answerer.publish(
            value(request.properties, "ResponseTopic"),
            answer,
            1,
            CorrelationData=value(request.properties, "CorrelationData"),
        )
        message = asker.receive()
        assert (message.payload, value(message.properties, "CorrelationData")) == (b"144", b"q1")


def test_nobody_is_subscribed(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port) as ann:
        assert ann.publish(name, b"x", 1) == 0x10


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "$share/group/topic"])
def test_reserved_topics_are_the_nodes_own(node: LiveNode, topic: str) -> None:
    with Paho().connects(node.port) as ann:
        assert ann.publish(topic, b"x", 1) == 0x87


def test_a_message_too_large_for_its_subscriber_is_left_out(node: LiveNode, name: str) -> None:
    with Paho().connects(node.port, MaximumPacketSize=100) as ann, Paho().connects(node.port) as bob:
        ann.subscribe(name, 1)
        bob.publish(name, b"x" * 200, 1)
        bob.publish(name, b"small", 1)
        assert ann.receive().payload == b"small"
