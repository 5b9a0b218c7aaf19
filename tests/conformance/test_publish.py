"""PUBLISH: MQTT 5 §3.3; MQTT 3.1.1 §3.3."""

import pytest

from penstock.wire.packet import MQTT_5, MQTT_311, Disconnect, Puback, Publish
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, titled
from tests.support.clients.peer import frame, text

QOS = pytest.mark.parametrize("qos", [0, 1, 2])


@QOS
async def test_a_message_reaches_its_subscriber(join: Join, version: int, topic: str, qos: int) -> None:
    """[MQTT-3.3.4-1] [MQTT-3.3.2-3] [MQTT-2.2.1-2] [MQTT-4.3.1-1] [MQTT-4.3.2-2] [MQTT-4.3.3-2] [MQTT-4.5.0-1]"""
    subscriber, publisher = await join(), await join()
    assert await subscriber.subscribe(topic, qos=2) == (2,)
    await publisher.publish(topic, b"hello", qos=qos)
    await subscriber.receive(topic, payload=b"hello", qos=qos, dup=False, retain=False)
    await subscriber.expect_nothing()


@QOS
async def test_a_message_crosses_versions(join: Join, topic: str, qos: int) -> None:
    """A 3.1.1 subscriber gets what an MQTT 5 client published, without its properties; and the other way round."""
    old, new = await join(version=MQTT_311), await join()
    await old.subscribe(topic, qos=2)
    await new.publish(topic, b"to old", qos=qos, properties=Properties(user_properties=(("a", "b"),)))
    await old.receive(topic, payload=b"to old", qos=qos)
    await old.unsubscribe(topic)
    await new.subscribe(topic, qos=2)
    await old.publish(topic, b"to new", qos=qos)
    await new.receive(topic, payload=b"to new", qos=qos, properties=Properties())


@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
async def test_the_qos_is_the_lower_of_published_and_granted(
    join: Join, version: int, topic: str, published: int, granted: int
) -> None:
    """[MQTT-3.8.4-8] [MQTT311-3.8.4-6]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=granted)
    await publisher.publish(topic, b"x", qos=published)
    await subscriber.receive(topic, qos=min(published, granted))


async def test_dup_is_not_passed_on(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-3] [MQTT-3.3.1-1]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=2)
    await publisher.send(Publish(topic, b"again", qos=1, dup=True, packet_id=9))
    await publisher.expect(Puback, packet_id=9)
    await subscriber.receive(topic, dup=False)


@pytest.mark.mosquitto_differs("accepts it")
async def test_dup_with_qos_0_is_malformed(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-2]"""
    client = await join()
    body = text(topic) + (b"\0" if version == MQTT_5 else b"") + b"x"
    await client.send_raw(frame(0x38, body))
    await client.expect_end(Reason.MALFORMED_PACKET)


async def test_qos_3_is_malformed(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.1-4]"""
    client = await join()
    await client.send_raw(frame(0x36, text(topic) + b"\0\x01" + (b"\0" if version == MQTT_5 else b"") + b"x"))
    await client.expect_end(Reason.MALFORMED_PACKET)


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_packet_identifier_of_0_is_refused(join: Join, version: int, topic: str, qos: int) -> None:
    """[MQTT-2.2.1-3] [MQTT311-2.3.1-1]"""
    client = await join()
    await client.send_raw(frame(0x30 | qos << 1, text(topic) + b"\0\0" + (b"\0" if version == MQTT_5 else b"")))
    await client.expect_end(Reason.PROTOCOL_ERROR)


BAD_TOPICS = {
    "`#` [MQTT-3.3.2-2]": (text("a/#"), (Reason.TOPIC_NAME_INVALID, Reason.PROTOCOL_ERROR)),
    "`+` [MQTT-4.7.0-1]": (text("a/+/b"), (Reason.TOPIC_NAME_INVALID, Reason.PROTOCOL_ERROR)),
    "not UTF-8 [MQTT-3.3.2-1]": (text(b"a\xff"), (Reason.MALFORMED_PACKET,)),
    "surrogate [MQTT-1.5.4-1]": (text(b"a\xed\xa0\x80"), (Reason.MALFORMED_PACKET,)),
    "overlong [MQTT-1.5.4-1]": (text(b"a\xc0\xaf"), (Reason.MALFORMED_PACKET,)),
    "U+0000 [MQTT-4.7.3-2]": (text(b"a\0b"), (Reason.MALFORMED_PACKET, Reason.TOPIC_NAME_INVALID)),
    "longer than the packet": (b"\0\x20abc", (Reason.MALFORMED_PACKET,)),
}


@pytest.mark.parametrize("raw_and_reasons", titled(BAD_TOPICS))
async def test_a_bad_topic_name_ends_the_connection(
    join: Join, version: int, raw_and_reasons: tuple[bytes, tuple[Reason, ...]]
) -> None:
    raw, reasons = raw_and_reasons
    client = await join()
    await client.send_raw(frame(0x30, raw + (b"\0" if version == MQTT_5 else b"")))
    if version == MQTT_5:
        assert (await client.expect(Disconnect)).reason in reasons
    await client.expect_close()


async def test_an_empty_topic_without_alias_ends_the_connection(join: Join, version: int) -> None:
    """[MQTT-4.7.3-1], §3.3.2.1"""
    client = await join()
    await client.send_raw(frame(0x30, text("") + (b"\0" if version == MQTT_5 else b"") + b"x"))
    if version == MQTT_5:
        reason = (await client.expect(Disconnect)).reason
        assert reason in (Reason.PROTOCOL_ERROR, Reason.TOPIC_NAME_INVALID, Reason.MALFORMED_PACKET)
    await client.expect_close()


async def test_a_byte_order_mark_is_kept(join: Join, version: int, topic: str) -> None:
    """[MQTT-1.5.4-3]"""
    marked = "\ufeff" + topic
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, marked)
    await publisher.publish(marked, b"marked")
    await subscriber.receive(marked)
    await subscriber.expect_nothing()


async def test_properties_are_passed_on_unaltered(join: Join, topic: str) -> None:
    """[MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]"""
    sent = Properties(
        payload_format=1,
        content_type="text/plain",
        response_topic="answers/here",
        correlation_data=b"\0\xff\x01",
        user_properties=(("b", "1"), ("a", "2"), ("b", "1"), ("", "")),
    )
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=2)
    for qos in (0, 1, 2):
        await publisher.publish(topic, b"x", qos=qos, properties=sent)
        await subscriber.receive(topic, qos=qos, properties=sent)


async def test_properties_of_a_retained_message_are_kept(join: Join, topic: str) -> None:
    """[MQTT-3.3.2-17] [MQTT-3.3.2-18]"""
    sent = Properties(payload_format=1, content_type="t", user_properties=(("b", "1"), ("a", "2")))
    publisher, subscriber = await join(), await join()
    await publisher.publish(topic, b"kept", qos=1, retain=True, properties=sent)
    await subscriber.subscribe(topic, qos=1)
    await subscriber.receive(topic, payload=b"kept", properties=sent)
    await publisher.publish(topic, b"", retain=True)


BAD_PROPERTIES = {
    "not allowed in PUBLISH": (b"\x11\0\0\0\0", (Reason.MALFORMED_PACKET,)),
    "unknown": (b"\x7e\0", (Reason.MALFORMED_PACKET,)),
    "cut off": (b"\x02\0\0", (Reason.MALFORMED_PACKET,)),
    "twice": (b"\x01\x01\x01\x01", (Reason.PROTOCOL_ERROR,)),
    "subscription identifier from a client [MQTT-3.3.4-6]": (b"\x0b\x01", (Reason.PROTOCOL_ERROR,)),
    "topic alias 0 [MQTT-3.3.2-8]": (b"\x23\0\0", (Reason.TOPIC_ALIAS_INVALID,)),
    "topic alias above the maximum [MQTT-3.3.2-9]": (b"\x23\xff\xff", (Reason.TOPIC_ALIAS_INVALID,)),
    "content type not UTF-8 [MQTT-3.3.2-19]": (b"\x03" + text(b"\xff"), (Reason.MALFORMED_PACKET,)),
    "response topic not UTF-8 [MQTT-3.3.2-13]": (b"\x08" + text(b"\xff"), (Reason.MALFORMED_PACKET,)),
    "response topic with wildcard [MQTT-3.3.2-14]": (
        b"\x08" + text("a/#"),
        (Reason.PROTOCOL_ERROR, Reason.TOPIC_NAME_INVALID, Reason.MALFORMED_PACKET),
    ),
    "user property not UTF-8 [MQTT-1.5.7-1]": (b"\x26" + text("a") + text(b"\xff"), (Reason.MALFORMED_PACKET,)),
}


@pytest.mark.parametrize(
    "raw_and_reasons",
    titled(
        BAD_PROPERTIES,
        {
            "twice": "no DISCONNECT",
            "subscription identifier from a client [MQTT-3.3.4-6]": "accepts it",
            "topic alias 0 [MQTT-3.3.2-8]": "0x81",
            "content type not UTF-8 [MQTT-3.3.2-19]": "no DISCONNECT",
            "response topic not UTF-8 [MQTT-3.3.2-13]": "no DISCONNECT",
            "response topic with wildcard [MQTT-3.3.2-14]": "accepts it",
            "user property not UTF-8 [MQTT-1.5.7-1]": "no DISCONNECT",
        },
    ),
)
async def test_a_bad_property_ends_the_connection(
    join: Join, topic: str, raw_and_reasons: tuple[bytes, tuple[Reason, ...]]
) -> None:
    """§2.2.2.2, §3.3.2.3"""
    raw, reasons = raw_and_reasons
    client = await join()
    await client.send_raw(frame(0x30, text(topic) + bytes([len(raw)]) + raw + b"x"))
    assert (await client.expect(Disconnect)).reason in reasons
    await client.expect_close()


async def test_a_topic_alias_stands_for_its_topic(join: Join, topic: str) -> None:
    """[MQTT-3.3.2-12]: also when it is set anew."""
    subscriber, publisher = await join(), await join(None)
    await subscriber.subscribe(topic + "/#")
    most = (await publisher.connect()).properties.topic_alias_maximum
    assert most
    for alias in (1, most):
        aliased = Properties(topic_alias=alias)
        for name in (topic + "/a", topic + "/b"):
            await publisher.send(Publish(name, b"1", properties=aliased), Publish("", b"2", properties=aliased))
            for payload in (b"1", b"2"):
                await subscriber.receive(name, payload=payload)


async def test_an_alias_that_was_not_set_is_refused(join: Join) -> None:
    """§3.3.2.3.4"""
    client = await join()
    await client.send(Publish("", b"x", properties=Properties(topic_alias=3)))
    reason = (await client.expect(Disconnect)).reason
    assert reason in (Reason.PROTOCOL_ERROR, Reason.TOPIC_ALIAS_INVALID)
    await client.expect_close()


async def test_aliases_end_with_the_connection(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.3.2-7]"""
    client = await join(name, properties=Properties(session_expiry=60))
    await client.publish(topic, b"x", properties=Properties(topic_alias=1))
    await client.disconnect()
    again = await join(None)
    assert (await again.connect(name, clean_start=False)).session_present
    await again.send(Publish("", b"x", properties=Properties(topic_alias=1)))
    assert (await again.expect(Disconnect)).reason in (Reason.PROTOCOL_ERROR, Reason.TOPIC_ALIAS_INVALID)
    await again.expect_close()


async def test_without_topic_alias_maximum_the_server_uses_no_alias(join: Join, topic: str) -> None:
    """[MQTT-3.1.2-27]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic)
    for _ in range(3):
        await publisher.publish(topic, b"x")
        await subscriber.receive(topic, properties=Properties())


async def test_a_publishers_alias_is_its_own(join: Join, topic: str) -> None:
    """[MQTT-3.1.2-26] [MQTT-3.1.2-27]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic)
    await publisher.publish(topic, b"x", properties=Properties(topic_alias=5))
    await subscriber.receive(topic, properties=Properties())


@pytest.mark.mosquitto_differs("never uses aliases")
async def test_the_server_uses_aliases_within_the_clients_maximum(join: Join, topic: str) -> None:
    """[MQTT-3.1.2-26] [MQTT-3.3.2-11]: each alias comes with its topic first."""
    subscriber, publisher = await join(properties=Properties(topic_alias_maximum=2)), await join()
    await subscriber.subscribe(topic + "/#", qos=2)
    names: dict[int, str] = {}
    aliased = 0
    for index in range(12):
        name = f"{topic}/{index % 4}"
        await publisher.publish(name, b"x", qos=index % 3)
        message = await subscriber.receive()
        alias = message.properties.topic_alias
        if alias is None:
            assert message.topic == name
            continue
        assert 1 <= alias <= 2
        if message.topic:
            names[alias] = message.topic
        else:
            aliased += 1
        assert names[alias] == name
    assert aliased > 0


async def test_a_message_above_the_maximum_qos_ends_the_connection(join_limited: Join, topic: str) -> None:
    """[MQTT-3.2.2-11]"""
    client = await join_limited()
    await client.send(Publish(topic, b"x", qos=2, packet_id=1))
    await client.expect_end(Reason.QOS_NOT_SUPPORTED)


async def test_a_subscription_above_the_maximum_qos_is_accepted(join_limited: Join, topic: str) -> None:
    """[MQTT-3.2.2-10]"""
    client = await join_limited()
    (granted,) = await client.subscribe(topic, qos=2)
    assert granted <= 2
    await client.expect_nothing()


async def test_a_retained_message_ends_the_connection_where_there_are_none(join_limited: Join, topic: str) -> None:
    """[MQTT-3.2.2-14]"""
    client = await join_limited()
    await client.send(Publish(topic, b"x", retain=True))
    await client.expect_end(Reason.RETAIN_NOT_SUPPORTED)


async def test_a_packet_larger_than_the_server_takes_ends_the_connection(join_limited: Join, topic: str) -> None:
    """[MQTT-3.2.2-15]"""
    client = await join_limited()
    await client.send(Publish(topic, bytes(600)))
    await client.expect_end(Reason.PACKET_TOO_LARGE)


@pytest.mark.parametrize("qos", [1, 2])
async def test_no_subscriber_is_no_error(join: Join, version: int, topic: str, qos: int) -> None:
    """§3.4.2.1, [MQTT-3.4.2-1] [MQTT-3.5.2-1]"""
    client = await join()
    reason = await client.publish(topic, b"x", qos=qos)
    assert reason in ((0, Reason.NO_MATCHING_SUBSCRIBERS) if version == MQTT_5 else (0,))


@QOS
async def test_an_empty_payload_is_a_message_like_any(join: Join, version: int, topic: str, qos: int) -> None:
    """§3.3.3"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=2)
    await publisher.publish(topic, b"", qos=qos)
    await subscriber.receive(topic, payload=b"", qos=qos)


@QOS
async def test_a_long_payload_arrives_whole(join: Join, version: int, topic: str, qos: int) -> None:
    """§2.1.4: each length of the remaining length field."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=2)
    for size in (100, 127, 128, 16_383, 16_384, 300_000):
        payload = bytes([size % 251]) * size
        await publisher.publish(topic, payload, qos=qos)
        await subscriber.receive(topic, payload=payload)


async def test_a_reserved_topic_is_acknowledged_and_goes_nowhere(join: Join, version: int) -> None:
    """§4.7.2: clients do not publish to the server's own topics."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe("$SYS/broker/uptime/forged", qos=1)
    await publisher.send(Publish("$SYS/broker/uptime/forged", b"x", qos=1, packet_id=1))
    reason = (await publisher.expect(Puback, packet_id=1)).reason
    assert reason == (Reason.NOT_AUTHORIZED if version == MQTT_5 else 0)
    await subscriber.expect_nothing()


@pytest.mark.parametrize("value", [2, 255])
async def test_a_payload_format_other_than_0_and_1_is_refused(join: Join, value: int) -> None:
    """It has no meaning: nobody could say what the payload is (issue 17, item 25)."""
    peer = await join()
    await peer.send_raw(frame(0x30, text("a") + bytes([2, 1, value])))
    await peer.expect_end(Reason.PROTOCOL_ERROR)
    willing = await join(None)
    connect = text("MQTT") + bytes([5, 0x06, 0, 0, 0]) + text("w") + bytes([2, 1, value]) + text("t") + text("p")
    await willing.send_raw(frame(0x10, connect))
    await willing.expect_close()
