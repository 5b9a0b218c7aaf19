"""Retained messages: MQTT 5 §3.3.1.3, §3.8.3.1; MQTT 3.1.1 §3.3.1.3."""

import pytest

from penstock.wire.properties import Properties
from tests.conformance.conftest import Join
from tests.support.clients.peer import Peer


async def forget(client: Peer, *topics: str) -> None:
    """Leave nothing behind for other tests."""
    for topic in topics:
        await client.publish(topic, b"", retain=True)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_retained_message_reaches_later_subscribers(join: Join, version: int, topic: str, qos: int) -> None:
    """[MQTT-3.3.1-5] [MQTT-3.3.1-9] [MQTT311-3.3.1-6] [MQTT311-3.3.1-8]"""
    publisher = await join()
    await publisher.publish(topic, b"kept", qos=qos, retain=True)
    subscriber = await join()
    await subscriber.subscribe(topic, qos=2)
    await subscriber.receive(topic, payload=b"kept", qos=qos, retain=True)
    await subscriber.expect_nothing()
    await forget(publisher, topic)


async def test_a_retained_message_comes_with_the_granted_qos(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.8.4-8]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", qos=2, retain=True)
    for qos in (0, 1, 2):
        await subscriber.subscribe(topic, qos=qos)
        await subscriber.receive(topic, payload=b"kept", qos=qos, retain=True)
    await forget(publisher, topic)


async def test_the_last_retained_message_replaces_the_ones_before(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-5] [MQTT311-3.3.1-7]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"first", qos=2, retain=True)
    await publisher.publish(topic, b"second", qos=0, retain=True)
    await subscriber.subscribe(topic, qos=2)
    await subscriber.receive(topic, payload=b"second", qos=0, retain=True)
    await subscriber.expect_nothing()
    await forget(publisher, topic)


async def test_an_empty_payload_removes_the_retained_message(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT311-3.3.1-10] [MQTT311-3.3.1-11]: and is itself delivered to subscribers."""
    publisher, early, late = await join(), await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    await early.subscribe(topic)
    await early.receive(topic, payload=b"kept", retain=True)
    await publisher.publish(topic, b"", retain=True)
    await early.receive(topic, payload=b"", retain=False)
    await late.subscribe(topic)
    await late.expect_nothing()


async def test_a_message_without_retain_leaves_the_retained_one(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-8] [MQTT311-3.3.1-12]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    await publisher.publish(topic, b"passing")
    await publisher.publish(topic, b"")
    await subscriber.subscribe(topic)
    await subscriber.receive(topic, payload=b"kept", retain=True)
    await subscriber.expect_nothing()
    await forget(publisher, topic)


async def test_a_live_message_is_not_marked_as_retained(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-12] [MQTT311-3.3.1-9]"""
    publisher, subscriber = await join(), await join()
    await subscriber.subscribe(topic)
    await publisher.publish(topic, b"kept", retain=True)
    await subscriber.receive(topic, payload=b"kept", retain=False)
    await forget(publisher, topic)


async def test_retain_as_published_keeps_the_mark(join: Join, topic: str) -> None:
    """[MQTT-3.3.1-13]"""
    publisher, subscriber = await join(), await join()
    await subscriber.subscribe(topic, retain_as_published=True)
    for retain in (True, False):
        await publisher.publish(topic, b"kept", retain=retain)
        await subscriber.receive(topic, retain=retain)
    await forget(publisher, topic)


async def test_a_wildcard_brings_every_retained_message(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-9] [MQTT311-3.3.1-6]"""
    publisher, subscriber = await join(), await join()
    topics = [topic, f"{topic}/a", f"{topic}/a/b", f"{topic}/c"]
    for name in topics:
        await publisher.publish(name, name.encode(), retain=True)
    await subscriber.subscribe(f"{topic}/#")
    got = [await subscriber.receive(retain=True) for _ in topics]
    assert sorted(message.topic for message in got) == sorted(topics)
    assert all(message.payload == message.topic.encode() for message in got)
    await subscriber.subscribe(f"{topic}/+")
    got = [await subscriber.receive(retain=True) for _ in range(2)]
    assert sorted(message.topic for message in got) == [f"{topic}/a", f"{topic}/c"]
    await subscriber.expect_nothing()
    await forget(publisher, *topics)


async def test_subscribing_again_brings_retained_messages_again(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.8.4-4] [MQTT311-3.8.4-3]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    for _ in range(2):
        await subscriber.subscribe(topic)
        await subscriber.receive(topic, payload=b"kept", retain=True)
    await forget(publisher, topic)


async def test_retain_handling_1_brings_them_for_a_new_subscription_only(join: Join, topic: str) -> None:
    """[MQTT-3.3.1-10]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    await subscriber.subscribe(topic, retain_handling=1)
    await subscriber.receive(topic, payload=b"kept", retain=True)
    await subscriber.subscribe(topic, retain_handling=1)
    await subscriber.expect_nothing()
    await subscriber.unsubscribe(topic)
    await subscriber.subscribe(topic, retain_handling=1)
    await subscriber.receive(topic, payload=b"kept", retain=True)
    await forget(publisher, topic)


async def test_retain_handling_2_brings_none(join: Join, topic: str) -> None:
    """[MQTT-3.3.1-11]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    await subscriber.subscribe(topic, retain_handling=2)
    await subscriber.expect_nothing()
    await forget(publisher, topic)


@pytest.mark.mosquitto_differs("sends them")
async def test_a_shared_subscription_brings_no_retained_messages(join: Join, topic: str) -> None:
    """§4.8.2"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    await subscriber.subscribe(f"$share/group/{topic}")
    await subscriber.expect_nothing()
    await forget(publisher, topic)


async def test_a_retained_message_comes_with_the_subscription_identifier(join: Join, topic: str) -> None:
    """[MQTT-3.3.4-3]"""
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", retain=True)
    await subscriber.subscribe(topic, properties=Properties(subscription_ids=(7,)))
    await subscriber.receive(topic, retain=True, properties=Properties(subscription_ids=(7,)))
    await forget(publisher, topic)


async def test_retained_messages_outlive_the_session(join: Join, version: int, topic: str) -> None:
    """[MQTT311-3.1.2-7]"""
    publisher = await join()
    await publisher.publish(topic, b"kept", retain=True)
    await publisher.disconnect()
    subscriber = await join()
    await subscriber.subscribe(topic)
    await subscriber.receive(topic, payload=b"kept", retain=True)
    await forget(await join(), topic)
