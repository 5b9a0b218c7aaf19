"""Will messages: MQTT 5 §3.1.2.5 to §3.1.2.7, §3.1.3.2; MQTT 3.1.1 §3.1.2.5."""

import asyncio

import pytest

from penstock.wire.packet import MQTT_5, Disconnect, WillMessage
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join
from tests.support.clients.peer import frame


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_the_will_of_a_client_that_vanishes_is_published(join: Join, version: int, topic: str, qos: int) -> None:
    """[MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-12] [MQTT-3.1.2-14] [MQTT311-3.1.2-8] [MQTT311-3.1.2-16]"""
    watcher = await join()
    await watcher.subscribe(topic, qos=2)
    client = await join(will=WillMessage(topic, b"gone", qos=qos))
    await watcher.expect_nothing()
    await client.abort()
    await watcher.receive(topic, payload=b"gone", qos=qos, retain=False)
    late = await join()
    await late.subscribe(topic)
    await late.expect_nothing()


async def test_disconnect_deletes_the_will(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.14.4-3] [MQTT-3.1.2-10] [MQTT311-3.14.4-3]"""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(will=WillMessage(topic, b"gone"))
    await client.disconnect()
    await watcher.expect_nothing()


async def test_disconnect_with_will_publishes_it(join: Join, topic: str) -> None:
    """§3.14.2.1"""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(will=WillMessage(topic, b"on purpose"))
    await client.disconnect(Reason.DISCONNECT_WITH_WILL)
    await watcher.receive(topic, payload=b"on purpose")


@pytest.mark.mosquitto_differs("deletes it")
async def test_a_disconnect_for_an_error_publishes_the_will(join: Join, topic: str) -> None:
    """[MQTT-3.14.4-3]: only reason 0 deletes it."""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(will=WillMessage(topic, b"in trouble"))
    await client.disconnect(Reason.UNSPECIFIED_ERROR)
    await watcher.receive(topic, payload=b"in trouble")


async def test_no_will_no_message(join: Join, version: int, topic: str) -> None:
    """[MQTT311-3.1.2-12]"""
    watcher = await join()
    await watcher.subscribe(topic)
    await (await join()).abort()
    await watcher.expect_nothing()


async def test_the_will_is_published_once(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.2-10]"""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(name, will=WillMessage(topic, b"gone"))
    await client.abort()
    await watcher.receive(topic, payload=b"gone")
    await (await join(name)).abort()
    await watcher.expect_nothing()


async def test_a_retained_will_is_retained(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.1.2-15] [MQTT311-3.1.2-17]"""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(will=WillMessage(topic, b"gone", retain=True))
    await client.abort()
    await watcher.receive(topic, payload=b"gone", retain=False)
    late = await join()
    await late.subscribe(topic)
    await late.receive(topic, payload=b"gone", retain=True)
    await watcher.publish(topic + "/x")
    await (await join()).publish(topic, b"", retain=True)


async def test_an_empty_will_is_a_message(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.1.2-9]"""
    watcher = await join()
    await watcher.subscribe(topic)
    await (await join(will=WillMessage(topic, b""))).abort()
    await watcher.receive(topic, payload=b"")


async def test_a_breach_of_the_protocol_publishes_the_will(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.1.2-8], §3.1.2.5: the server closes the connection because of an error."""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(will=WillMessage(topic, b"thrown out"))
    await client.send_raw(frame(0x36, b"\0\x01a\0\x01"))
    await watcher.receive(topic, payload=b"thrown out")


async def test_keep_alive_timeout_publishes_the_will(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.1.2-8] [MQTT-3.1.2-22]"""
    watcher = await join()
    await watcher.subscribe(topic)
    await join(keepalive=1, will=WillMessage(topic, b"asleep"))
    await watcher.receive(topic, payload=b"asleep")


async def test_a_takeover_publishes_the_will(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.2-8], §3.1.4: the old connection is closed without its DISCONNECT."""
    watcher = await join()
    await watcher.subscribe(topic)
    await join(name, will=WillMessage(topic, b"replaced"))
    await join(name)
    await watcher.receive(topic, payload=b"replaced")


async def test_properties_of_a_will_are_passed_on(join: Join, topic: str) -> None:
    """[MQTT-3.1.3-10], §3.1.3.2"""
    sent = Properties(
        payload_format=1,
        content_type="text/plain",
        response_topic="answers/here",
        correlation_data=b"\0\x01",
        user_properties=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    watcher = await join()
    await watcher.subscribe(topic)
    await (await join(will=WillMessage(topic, b"gone", properties=sent))).abort()
    await watcher.receive(topic, properties=sent)


async def test_a_will_has_an_expiry(join: Join, topic: str) -> None:
    """§3.1.3.2.4"""
    watcher = await join()
    await watcher.subscribe(topic)
    await (await join(will=WillMessage(topic, b"gone", properties=Properties(message_expiry=50)))).abort()
    await watcher.receive(topic, properties=Properties(message_expiry=50))


async def test_a_delayed_will_waits(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.2-8], §3.1.3.2.2"""
    watcher = await join()
    await watcher.subscribe(topic)
    will = WillMessage(topic, b"gone", properties=Properties(will_delay=1))
    client = await join(name, will=will, properties=Properties(session_expiry=60))
    await client.abort()
    await watcher.expect_nothing()
    await watcher.receive(topic, payload=b"gone", properties=Properties())


async def test_coming_back_in_time_cancels_a_delayed_will(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.3-9]"""
    watcher = await join()
    await watcher.subscribe(topic)
    will = WillMessage(topic, b"gone", properties=Properties(will_delay=1))
    client = await join(name, will=will, properties=Properties(session_expiry=60))
    await client.abort()
    await join(name, clean_start=False, properties=Properties(session_expiry=60))
    await asyncio.sleep(2.2)
    await watcher.expect_nothing()


@pytest.mark.mosquitto_differs("waits for the delay")
async def test_a_delayed_will_does_not_wait_longer_than_the_session(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.2-8]"""
    watcher = await join()
    await watcher.subscribe(topic)
    will = WillMessage(topic, b"gone", properties=Properties(will_delay=100))
    await (await join(name, will=will)).abort()
    await watcher.receive(topic, payload=b"gone")
    await (await join(name, will=will, properties=Properties(session_expiry=1))).abort()
    await watcher.receive(topic, payload=b"gone")


@pytest.mark.mosquitto_differs("does not publish it")
async def test_clean_start_ends_the_session_and_publishes_a_delayed_will(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.2-8]: the session ends before the delay does."""
    watcher = await join()
    await watcher.subscribe(topic)
    will = WillMessage(topic, b"gone", properties=Properties(will_delay=100))
    await (await join(name, will=will, properties=Properties(session_expiry=200))).abort()
    await join(name, clean_start=True)
    await watcher.receive(topic, payload=b"gone")


async def test_a_will_of_the_second_connection_is_its_own(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.2-7] [MQTT-3.1.2-10]"""
    watcher = await join()
    await watcher.subscribe(topic)
    expiry = Properties(session_expiry=60) if version == MQTT_5 else Properties()
    first = await join(name, clean_start=False, will=WillMessage(topic, b"first"), properties=expiry)
    await first.send(Disconnect())
    await first.expect_close()
    second = await join(name, clean_start=False, will=WillMessage(topic, b"second"), properties=expiry)
    await second.abort()
    await watcher.receive(topic, payload=b"second")
    await watcher.expect_nothing()
