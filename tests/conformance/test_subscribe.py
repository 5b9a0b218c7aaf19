"""SUBSCRIBE to UNSUBACK: MQTT 5 §3.8 to §3.11; MQTT 3.1.1 §3.8 to §3.11."""

import pytest

from penstock.wire.packet import (
    MQTT_5,
    Disconnect,
    Puback,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, titled
from tests.support.clients.peer import frame, text


def subscribe_body(version: int, payload: bytes, number: int = 1) -> bytes:
    """SUBSCRIBE or UNSUBSCRIBE by hand, without properties."""
    return number.to_bytes(2, "big") + (b"\0" if version == MQTT_5 else b"") + payload


async def test_suback_has_the_identifier_and_a_code_for_each_filter(join: Join, version: int, topic: str) -> None:
    """[MQTT-2.2.1-6] [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7]

    [MQTT-3.9.3-1] [MQTT-3.9.3-2]
    """
    client = await join()
    wanted = tuple(SubscriptionRequest(f"{topic}/{qos}", qos) for qos in (2, 0, 1))
    await client.send(Subscribe(4711, wanted))
    await client.expect(Suback, packet_id=4711, reasons=(2, 0, 1))


async def test_every_filter_of_one_subscribe_counts(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.8.4-5] [MQTT311-3.8.4-4]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(f"{topic}/a", f"{topic}/b")
    for name in ("a", "b"):
        await publisher.publish(f"{topic}/{name}")
        await subscriber.receive(f"{topic}/{name}")


async def test_a_second_subscription_replaces_the_first(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.8.4-3] [MQTT311-3.8.4-3]: one copy, with the new QoS."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=0)
    await subscriber.subscribe(topic, qos=1)
    await publisher.publish(topic, b"x", qos=2)
    await subscriber.receive(topic, qos=1)
    await subscriber.expect_nothing()


@pytest.mark.mosquitto_differs("keeps retain as published")
async def test_a_second_subscription_replaces_options_and_identifier(join: Join, topic: str) -> None:
    """[MQTT-3.8.4-3]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, retain_as_published=True, properties=Properties(subscription_ids=(1,)))
    await subscriber.subscribe(topic, properties=Properties(subscription_ids=(2,)))
    await publisher.publish(topic, b"x", retain=True)
    await subscriber.receive(topic, retain=False, properties=Properties(subscription_ids=(2,)))
    await subscriber.subscribe(topic, retain_handling=2)
    await publisher.publish(topic, b"x")
    await subscriber.receive(topic, properties=Properties())
    await publisher.publish(topic, b"", retain=True)


@pytest.mark.mosquitto_differs("sends one copy for each subscription")
async def test_overlapping_subscriptions_give_one_copy_with_the_highest_qos(join: Join, topic: str) -> None:
    """[MQTT-3.3.4-2] [MQTT-3.3.4-3] [MQTT-3.3.4-4]: and all their identifiers."""
    subscriber, publisher = await join(), await join()
    for filter, qos, number in ((f"{topic}/#", 0, 1), (f"{topic}/+", 2, 268_435_455), (f"{topic}/a", 1, 0)):
        ids = (number,) if number else ()
        await subscriber.subscribe(filter, qos=qos, properties=Properties(subscription_ids=ids))
    await publisher.publish(f"{topic}/a", b"x", qos=2)
    message = await subscriber.receive(f"{topic}/a", qos=2)
    assert sorted(message.properties.subscription_ids) == [1, 268_435_455]
    await subscriber.expect_nothing()


async def test_a_subscription_identifier_comes_with_the_message(join: Join, topic: str) -> None:
    """[MQTT-3.3.4-3]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=2, properties=Properties(subscription_ids=(200,)))
    for qos in (0, 1, 2):
        await publisher.publish(topic, b"x", qos=qos)
        await subscriber.receive(topic, qos=qos, properties=Properties(subscription_ids=(200,)))


async def test_no_local_keeps_own_messages_away(join: Join, topic: str) -> None:
    """[MQTT-3.8.3-3]"""
    client, other = await join(), await join()
    await client.subscribe(topic, no_local=True)
    await client.publish(topic, b"own")
    await other.publish(topic, b"foreign")
    await client.receive(topic, payload=b"foreign")
    await client.expect_nothing()


async def test_without_no_local_own_messages_come_back(join: Join, version: int, topic: str) -> None:
    """§3.8.3.1"""
    client = await join()
    await client.subscribe(topic)
    await client.send(Publish(topic, b"own"))
    await client.receive(topic, payload=b"own")


@pytest.mark.mosquitto_differs("closes without DISCONNECT")
async def test_no_local_on_a_shared_subscription_is_a_protocol_error(join: Join, topic: str) -> None:
    """[MQTT-3.8.3-4]"""
    client = await join()
    await client.send(Subscribe(1, (SubscriptionRequest(f"$share/group/{topic}", no_local=True),)))
    await client.expect_end(Reason.PROTOCOL_ERROR)


BAD_SUBSCRIBES = {
    "no filter [MQTT-3.8.3-2]": b"",
    "no options": text("a"),
    "filter longer than the packet": b"\0\x09a\0",
    "filter empty [MQTT-4.7.3-1]": text("") + b"\0",
    "filter not UTF-8 [MQTT-3.8.3-1]": text(b"\xff") + b"\0",
    "filter with U+0000 [MQTT-4.7.3-2]": text(b"a\0") + b"\0",
    "QoS 3 [MQTT-3.8.3-5]": text("a") + b"\x03",
    "reserved bits [MQTT-3.8.3-5]": text("a") + b"\xc0",
}


@pytest.mark.parametrize("payload", titled(BAD_SUBSCRIBES))
async def test_a_malformed_subscribe_ends_the_connection(join: Join, version: int, payload: bytes) -> None:
    """[MQTT-3.8.3-5] [MQTT311-3.8.3-3] [MQTT311-3.8.3-4]"""
    client = await join()
    await client.send_raw(frame(0x82, subscribe_body(version, payload)))
    if version == MQTT_5:
        assert (await client.expect(Disconnect)).reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
    await client.expect_close()


async def test_options_of_mqtt_5_are_reserved_bits_in_311(join: Join, version: int, topic: str) -> None:
    """[MQTT311-3.8.3-4]"""
    client = await join()
    await client.send_raw(frame(0x82, subscribe_body(version, text(topic) + b"\x04")))
    if version == MQTT_5:
        await client.expect(Suback)
    else:
        await client.expect_close()


async def test_retain_handling_3_is_malformed(join: Join, topic: str) -> None:
    """§3.8.3.1"""
    client = await join()
    await client.send_raw(frame(0x82, subscribe_body(MQTT_5, text(topic) + b"\x30")))
    assert (await client.expect(Disconnect)).reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
    await client.expect_close()


@pytest.mark.parametrize("first", [0x80, 0x83, 0x8A, 0x86, 0xA0, 0xA3, 0xAA, 0xA6])
async def test_wrong_flags_are_malformed(join: Join, version: int, topic: str, first: int) -> None:
    """[MQTT-3.8.1-1] [MQTT-3.10.1-1]"""
    client = await join()
    options = b"\0" if first < 0xA0 else b""
    await client.send_raw(frame(first, subscribe_body(version, text(topic) + options)))
    await client.expect_end(Reason.MALFORMED_PACKET)


@pytest.mark.parametrize("first", [0x82, 0xA2])
async def test_a_packet_identifier_of_0_is_refused(join: Join, version: int, topic: str, first: int) -> None:
    """[MQTT-2.2.1-3] [MQTT311-2.3.1-1]"""
    client = await join()
    options = b"\0" if first == 0x82 else b""
    await client.send_raw(frame(first, subscribe_body(version, text(topic) + options, number=0)))
    if version == MQTT_5:
        assert (await client.expect(Disconnect)).reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
    await client.expect_close()


BAD_IDENTIFIERS = {"0": b"\x0b\0", "twice": b"\x0b\x01\x0b\x02", "five bytes": b"\x0b\xff\xff\xff\xff\x01"}


@pytest.mark.parametrize("raw", titled(BAD_IDENTIFIERS, {"0": "0x81", "twice": "no DISCONNECT"}))
async def test_a_bad_subscription_identifier_ends_the_connection(join: Join, topic: str, raw: bytes) -> None:
    """§3.8.2.1.2"""
    client = await join()
    await client.send_raw(frame(0x82, b"\0\x01" + bytes([len(raw)]) + raw + text(topic) + b"\0"))
    wanted = Reason.MALFORMED_PACKET if len(raw) == 6 else Reason.PROTOCOL_ERROR
    await client.expect_end(wanted)


async def test_unsuback_has_the_identifier_and_a_code_for_each_filter(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6] [MQTT-2.2.1-6] [MQTT-3.11.3-1] [MQTT-3.11.3-2]"""
    client = await join()
    await client.subscribe(f"{topic}/a", f"{topic}/c")
    await client.send(Unsubscribe(4711, (f"{topic}/a", f"{topic}/b", f"{topic}/c")))
    gone, unknown = Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED
    await client.expect(Unsuback, packet_id=4711, reasons=(gone, unknown, gone) if version == MQTT_5 else ())


async def test_after_unsubscribe_no_message_comes(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.10.4-1] [MQTT-3.10.4-2]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(f"{topic}/a", f"{topic}/b", f"{topic}/c")
    await subscriber.unsubscribe(f"{topic}/a", f"{topic}/b")
    for name in ("a", "b", "c"):
        await publisher.publish(f"{topic}/{name}")
    await subscriber.receive(f"{topic}/c")
    await subscriber.expect_nothing()


async def test_a_filter_is_unsubscribed_by_its_characters(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.10.4-1]: a wildcard does not stand for the filters it covers."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(f"{topic}/+")
    await subscriber.unsubscribe(f"{topic}/#", f"{topic}/a", topic)
    await publisher.publish(f"{topic}/a")
    await subscriber.receive(f"{topic}/a")


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_delivery_that_has_begun_is_completed_after_unsubscribe(
    join: Join, version: int, name: str, topic: str, qos: int
) -> None:
    """[MQTT-3.10.4-3]"""
    expiry = Properties(session_expiry=60) if version == MQTT_5 else Properties()
    subscriber = await join(name, clean_start=False, properties=expiry)
    await subscriber.subscribe(topic, qos=2)
    await (await join()).publish(topic, b"x", qos=qos)
    message = await subscriber.expect(Publish, qos=qos)
    await subscriber.unsubscribe(topic)
    await subscriber.abort()
    subscriber = await join(None)
    assert (await subscriber.connect(name, clean_start=False)).session_present
    await subscriber.receive(topic, packet_id=message.packet_id, dup=True, qos=qos)


BAD_UNSUBSCRIBES = {
    "no filter [MQTT-3.10.3-2]": b"",
    "filter longer than the packet": b"\0\x09a",
    "filter empty [MQTT-4.7.3-1]": text(""),
    "filter not UTF-8 [MQTT-3.10.3-1]": text(b"\xff"),
}


@pytest.mark.parametrize("payload", titled(BAD_UNSUBSCRIBES))
async def test_a_malformed_unsubscribe_ends_the_connection(join: Join, version: int, payload: bytes) -> None:
    """[MQTT-3.10.3-1] [MQTT-3.10.3-2]"""
    client = await join()
    await client.send_raw(frame(0xA2, subscribe_body(version, payload)))
    if version == MQTT_5:
        assert (await client.expect(Disconnect)).reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
    await client.expect_close()


async def test_messages_published_before_suback_are_not_lost_to_a_resubscription(
    join: Join, version: int, topic: str
) -> None:
    """[MQTT-3.8.4-4]: replacing a subscription interrupts nothing."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=1)
    await publisher.publish(topic, b"1", qos=1)
    await subscriber.send(Subscribe(50, (SubscriptionRequest(topic, 1),)))
    first = await subscriber.expect(Publish, payload=b"1")
    await subscriber.expect(Suback, packet_id=50)
    await subscriber.send(Puback(first.packet_id))
    await publisher.publish(topic, b"2", qos=1)
    await subscriber.receive(topic, payload=b"2")
