"""Session state, its expiry and what waits in it: MQTT 5 §3.1.2.11.2, §4.1, §4.5; MQTT 3.1.1 §3.1.2.4, §4.1."""

import asyncio

import pytest

from penstock.wire.packet import MQTT_5, MQTT_311, Disconnect, Publish
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, both_versions
from tests.support.clients.peer import Peer


def lasting(version: int, seconds: int = 60) -> Properties:
    return Properties(session_expiry=seconds) if version == MQTT_5 else Properties()


async def resume(join: Join, name: str, version: int = MQTT_5, seconds: int | None = None) -> tuple[Peer, bool]:
    """Connect without clean start; the client, and whether its session was there."""
    client = await join(None, version=version)
    connack = await client.connect(name, clean_start=False, properties=Properties(session_expiry=seconds))
    return client, connack.session_present


async def test_a_session_keeps_subscriptions_and_messages(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.2-5] [MQTT-3.1.2-23] [MQTT-4.5.0-1] [MQTT311-3.1.2-4] [MQTT311-3.1.2-5]"""
    client = await join(name, clean_start=False, properties=lasting(version))
    await client.subscribe(topic, qos=2)
    await client.disconnect()
    publisher = await join()
    for qos in (1, 2):
        await publisher.publish(topic, b"while away", qos=qos)
    client, present = await resume(join, name, version)
    assert present
    for qos in (1, 2):
        await client.receive(topic, payload=b"while away", qos=qos, dup=False)
    await publisher.publish(topic, b"back")
    await client.receive(topic, payload=b"back")


async def test_a_311_session_without_clean_session_lasts(join: Join, name: str) -> None:
    """[MQTT311-3.1.2-4] [MQTT311-4.1.0-1]: until the same client asks for a clean one."""
    for clean, present in ((False, False), (False, True), (True, False), (False, False)):
        client = await join(None, version=MQTT_311)
        assert (await client.connect(name, clean_start=clean)).session_present is present
        await client.disconnect()


async def test_a_clean_311_session_ends_with_its_connection(join: Join, name: str, topic: str) -> None:
    """[MQTT311-3.1.2-6]"""
    client = await join(name, version=MQTT_311, clean_start=True)
    await client.subscribe(topic, qos=1)
    await client.abort()
    _, present = await resume(join, name, MQTT_311)
    assert not present


async def test_without_expiry_a_session_ends_with_its_connection(join: Join, name: str) -> None:
    """[MQTT-4.1.0-2], §3.1.2.11.2"""
    for properties in (Properties(), Properties(session_expiry=0)):
        client = await join(name, clean_start=False, properties=properties)
        await client.disconnect()
        client, present = await resume(join, name)
        assert not present
        await client.disconnect()


async def test_a_session_ends_when_its_expiry_has_passed(join: Join, name: str, topic: str) -> None:
    """[MQTT-4.1.0-2]"""
    client = await join(name, properties=lasting(MQTT_5, 1))
    await client.subscribe(topic, qos=1)
    await client.disconnect()
    client, present = await resume(join, name, seconds=1)
    assert present
    await client.disconnect()
    await asyncio.sleep(2.2)
    _, present = await resume(join, name)
    assert not present


async def test_a_session_does_not_expire_while_it_is_connected(join: Join, name: str) -> None:
    """[MQTT-4.1.0-1]"""
    client = await join(name, properties=lasting(MQTT_5, 1))
    await asyncio.sleep(2.2)
    await client.expect_nothing()
    await client.disconnect()
    _, present = await resume(join, name)
    assert present


async def test_disconnect_can_change_the_expiry(join: Join, name: str) -> None:
    """§3.14.2.2.2"""
    client = await join(name, properties=lasting(MQTT_5, 60))
    await client.disconnect(properties=Properties(session_expiry=0))
    client, present = await resume(join, name, seconds=1)
    assert not present
    await client.disconnect(properties=Properties(session_expiry=60))
    _, present = await resume(join, name)
    assert present


async def test_disconnect_cannot_give_a_session_that_was_to_end_an_expiry(join: Join, name: str) -> None:
    """§3.14.2.2.2"""
    client = await join(name, properties=Properties(session_expiry=0))
    await client.send(Disconnect(0, Properties(session_expiry=60)))
    await client.expect_end(Reason.PROTOCOL_ERROR)


async def test_an_expiry_of_all_ones_means_never(join: Join, name: str) -> None:
    """§3.1.2.11.2"""
    client = await join(name, properties=lasting(MQTT_5, 0xFFFF_FFFF))
    await client.disconnect()
    client, present = await resume(join, name, seconds=0)
    assert present
    await client.disconnect()


async def test_a_session_can_change_the_version(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.3-2]: the client identifier names the session, whatever the version."""
    client = await join(name, version=MQTT_311, clean_start=False)
    await client.subscribe(topic, qos=1)
    await client.disconnect()
    await (await join()).publish(topic, b"x", qos=1)
    client, present = await resume(join, name, MQTT_5, seconds=60)
    assert present
    await client.receive(topic, payload=b"x")


# --- message expiry


async def test_the_expiry_that_is_left_is_passed_on(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.3.2-6]"""
    client = await join(name, properties=lasting(MQTT_5))
    await client.subscribe(topic, qos=1)
    await client.disconnect()
    await (await join()).publish(topic, b"x", qos=1, properties=Properties(message_expiry=100))
    await asyncio.sleep(1.2)
    client, _ = await resume(join, name)
    message = await client.receive(topic)
    assert message.properties.message_expiry in (98, 99)


async def test_a_message_sent_at_once_keeps_its_expiry(join: Join, topic: str) -> None:
    """[MQTT-3.3.2-6]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic)
    await publisher.publish(topic, b"x", properties=Properties(message_expiry=100))
    await subscriber.receive(topic, properties=Properties(message_expiry=100))


async def test_an_expired_message_is_not_delivered(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.3.2-5]: neither from a queue nor as a retained message."""
    client = await join(name, properties=lasting(MQTT_5))
    await client.subscribe(topic, qos=2)
    await client.disconnect()
    publisher = await join()
    for qos in (1, 2):
        await publisher.publish(topic, b"short", qos=qos, properties=Properties(message_expiry=1))
    await publisher.publish(topic, b"long", qos=1, properties=Properties(message_expiry=100))
    await publisher.publish(topic + "/r", b"short", retain=True, properties=Properties(message_expiry=1))
    await asyncio.sleep(2.2)
    client, _ = await resume(join, name)
    await client.receive(topic, payload=b"long")
    await client.subscribe(topic + "/r")
    await client.expect_nothing()


@pytest.mark.mosquitto_differs("drops it")
async def test_a_message_that_has_been_sent_does_not_expire(join: Join, name: str, topic: str) -> None:
    """[MQTT-4.3.3-7]: it is sent again after a reconnection."""
    client = await join(name, properties=lasting(MQTT_5))
    await client.subscribe(topic, qos=2)
    await (await join()).publish(topic, b"x", qos=2, properties=Properties(message_expiry=1))
    sent = await client.expect(Publish)
    await client.abort()
    await asyncio.sleep(2.2)
    client, _ = await resume(join, name)
    await client.receive(topic, packet_id=sent.packet_id, dup=True)


# --- keep alive


async def test_pingreq_keeps_a_connection(join: Join, version: int, name: str) -> None:
    """[MQTT-3.1.2-22] [MQTT-3.12.4-1]"""
    client = await join(name, keepalive=1)
    for _ in range(4):
        await asyncio.sleep(0.6)
        await client.expect_nothing()


@both_versions(mosquitto_5="closes without DISCONNECT")
async def test_silence_longer_than_the_keep_alive_ends_the_connection(join: Join, version: int, name: str) -> None:
    """[MQTT-3.1.2-22] [MQTT311-3.1.2-24]"""
    client = await join(name, keepalive=1)
    await client.expect_end(Reason.KEEP_ALIVE_TIMEOUT)


async def test_a_keep_alive_of_0_is_none(join: Join, version: int, name: str) -> None:
    """§3.1.2.10"""
    client = await join(name, keepalive=0)
    await asyncio.sleep(2.0)
    await client.expect_nothing()
