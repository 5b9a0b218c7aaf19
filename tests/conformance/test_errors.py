"""Malformed packets, protocol errors, PINGREQ, DISCONNECT and AUTH: MQTT 5 §1.5, §2, §3.12 to §3.15, §4.12, §4.13."""

import pytest

from penstock.wire.packet import MQTT_5, MQTT_311, Auth, Disconnect, Pingreq, Pingresp, Publish, Unsubscribe
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, both_versions, titled
from tests.support.clients.peer import frame, text


async def test_pingreq_is_answered(join: Join, version: int) -> None:
    """[MQTT-3.12.4-1]"""
    client = await join()
    await client.send(Pingreq(), Pingreq(), Pingreq())
    for _ in range(3):
        await client.expect(Pingresp)
    await client.expect_nothing()


MALFORMED = {
    "packet type 0": b"\x00\x00",
    "flags in PINGREQ": b"\xc1\x00",
    "PINGREQ with a body": b"\xc0\x01\x00",
    "flags in DISCONNECT [MQTT-3.14.1-1]": b"\xe1\x00",
    "a length of five bytes": b"\x30\x80\x80\x80\x80\x01",
}


@pytest.mark.parametrize("raw", titled(MALFORMED, {"flags in PINGREQ": "answers", "PINGREQ with a body": "answers"}))
async def test_a_malformed_packet_ends_the_connection(join: Join, version: int, raw: bytes) -> None:
    """[MQTT-4.13.1-1] [MQTT-4.13.2-1] [MQTT311-2.2.2-2] [MQTT311-4.8.0-1]"""
    client = await join()
    await client.send_raw(raw)
    packet = await client.next()
    if packet is not None:
        assert isinstance(packet, Disconnect)
        assert packet.reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
        await client.expect_close()


MALFORMED_5 = {
    "flags in DISCONNECT [MQTT-3.14.1-1]": b"\xe1\x00",
    "flags in PINGREQ [MQTT-2.1.3-1]": b"\xc1\x00",
    "a length of five bytes, §1.5.5": b"\x30\x80\x80\x80\x80\x01",
    "a length with a byte too many [MQTT-1.5.5-1]": b"\x30\x84\x00\x00\x01a\x00",
    "property length past the end": frame(0x30, text("a") + b"\x09\x01"),
    "property cut off": frame(0x30, text("a") + b"\x02\x26\x00"),
    "property length of five bytes": frame(0x30, text("a") + b"\x80\x80\x80\x80\x01"),
    "property missing length [MQTT-2.2.2-1]": frame(0x30, text("a")),
}
SILENT_OR_LENIENT = {
    title: "takes it, or closes without DISCONNECT" for title in MALFORMED_5 if "property" not in title
}


@pytest.mark.parametrize("raw", titled(MALFORMED_5, SILENT_OR_LENIENT))
async def test_mqtt_5_says_malformed(join: Join, raw: bytes) -> None:
    """[MQTT-4.13.1-1] [MQTT-3.14.2-1]"""
    client = await join()
    await client.send_raw(raw)
    await client.expect_end(Reason.MALFORMED_PACKET)


SERVERS_PACKETS = {
    "CONNACK": b"\x20\x02\0\0",
    "SUBACK": b"\x90\x03\0\x01\0",
    "UNSUBACK": b"\xb0\x02\0\x01",
    "PINGRESP": b"\xd0\0",
}


# Mosquitto closes without DISCONNECT, or takes no notice.
@pytest.mark.mosquitto_differs("no DISCONNECT")
@pytest.mark.parametrize("raw", titled(SERVERS_PACKETS))
async def test_a_packet_that_only_servers_send_is_refused(join: Join, raw: bytes) -> None:
    """[MQTT-4.13.1-1]"""
    client = await join()
    await client.send_raw(raw)
    assert (await client.expect(Disconnect)).reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
    await client.expect_close()


IGNORED = dict.fromkeys(("SUBACK", "UNSUBACK", "PINGRESP"), "takes no notice")


@pytest.mark.parametrize("raw", titled(SERVERS_PACKETS, IGNORED))
async def test_a_packet_that_only_servers_send_ends_a_311_connection(join: Join, raw: bytes) -> None:
    """[MQTT311-4.8.0-1]"""
    client = await join(version=MQTT_311)
    await client.send_raw(raw)
    await client.expect_close()


async def test_packets_may_come_in_any_chunks(join: Join, version: int, topic: str) -> None:
    """[MQTT-4.2-1]: a stream of bytes."""
    client = await join()
    await client.subscribe(topic)
    body = text(topic) + (b"\0" if version == MQTT_5 else b"") + b"payload"
    for byte in frame(0x30, body) + b"\xc0\0":
        await client.send_raw(bytes([byte]))
    await client.receive(topic, payload=b"payload")
    await client.expect(Pingresp)
    await client.send_raw((frame(0x30, body) + b"\xc0\0") * 50)
    for _ in range(50):
        while not isinstance(packet := await client.next(), Pingresp):
            assert isinstance(packet, Publish)


async def test_what_comes_before_an_error_counts(join: Join, version: int, topic: str) -> None:
    """[MQTT-4.13.1-1]: packets before the bad one in one chunk are processed."""
    watcher, client = await join(), await join()
    await watcher.subscribe(topic)
    body = text(topic) + (b"\0" if version == MQTT_5 else b"") + b"good"
    await client.send_raw(frame(0x30, body) + b"\x36\x05\0\x01a\0\x01" + frame(0x30, body))
    await watcher.receive(topic, payload=b"good")
    await watcher.expect_nothing()


async def test_after_disconnect_the_server_closes(join: Join, version: int) -> None:
    """[MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT311-3.14.4-1]: and sends nothing more."""
    client = await join()
    await client.send(Disconnect())
    await client.expect_close()


async def test_what_came_in_one_piece_with_a_disconnect_is_answered(join: Join, version: int) -> None:
    """[MQTT-3.12.4-1] [MQTT311-3.12.4-1]"""
    client = await join()
    await client.send(Pingreq(), Disconnect())
    await client.expect(Pingresp)
    await client.expect_close()


async def test_nothing_after_disconnect_is_processed(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.14.4-1]"""
    watcher, client = await join(), await join()
    await watcher.subscribe(topic)
    await client.send(Disconnect(), Publish(topic, b"too late"))
    await client.expect_close()
    await watcher.expect_nothing()


@pytest.mark.parametrize("raw", [b"\xe0\0", b"\xe0\x01\0", b"\xe0\x02\0\0", b"\xe0\x07\0\x05\x11\0\0\0\0"])
async def test_every_length_of_disconnect_is_understood(join: Join, raw: bytes) -> None:
    """§3.14.2.1"""
    client = await join()
    await client.send_raw(raw)
    await client.expect_close()


@pytest.mark.mosquitto_differs("closes without DISCONNECT")
async def test_a_disconnect_reason_that_does_not_exist_is_refused(join: Join) -> None:
    """[MQTT-3.14.2-1]"""
    client = await join()
    await client.send_raw(b"\xe0\x01\x03")
    assert (await client.expect(Disconnect)).reason in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
    await client.expect_close()


@pytest.mark.mosquitto_differs("closes without DISCONNECT")
async def test_auth_without_an_authentication_method_is_a_protocol_error(join: Join) -> None:
    """[MQTT-4.12.0-7] [MQTT-4.12.1-1]"""
    client = await join()
    await client.send(Auth(Reason.REAUTHENTICATE, Properties(auth_method="X")))
    await client.expect_end(Reason.PROTOCOL_ERROR)


@pytest.mark.mosquitto_differs("closes without DISCONNECT")
async def test_flags_in_auth_are_malformed(join: Join) -> None:
    """[MQTT-3.15.1-1]"""
    client = await join()
    await client.send_raw(b"\xf1\0")
    await client.expect_end(Reason.MALFORMED_PACKET)


async def test_auth_does_not_exist_in_311(join: Join, version: int) -> None:
    """[MQTT311-2.2.2-2]: packet type 15 is reserved there."""
    client = await join()
    await client.send_raw(b"\xf0\0")
    while (packet := await client.next()) is not None:
        assert isinstance(packet, Disconnect)


@both_versions(mosquitto_5="closes without DISCONNECT")
async def test_a_connection_that_was_ended_gets_no_more(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.14.4-1] [MQTT-3.14.4-2]"""
    client, publisher = await join(), await join()
    await client.subscribe(topic)
    await client.send_raw(frame(0x62 | 1, b"\0\x01"))
    await publisher.publish(topic, b"x")
    await client.expect_end(Reason.MALFORMED_PACKET)


async def test_properties_where_311_has_none_are_not_understood(join: Join, topic: str) -> None:
    """A 3.1.1 client's packets are read as 3.1.1: what would be a property length is a part of the payload."""
    client = await join(version=MQTT_311)
    await client.subscribe(topic)
    await client.send_raw(frame(0x30, text(topic) + b"\0payload"))
    await client.receive(topic, payload=b"\0payload")


async def test_user_properties_are_allowed_everywhere(join: Join, topic: str) -> None:
    """§2.2.2.2"""
    pairs = Properties(user_properties=(("a", "1"), ("a", "1")))
    client = await join(properties=pairs)
    await client.subscribe(topic, properties=pairs)
    await client.send(Unsubscribe(9, (topic,), pairs))
    await client.next()
    await client.disconnect(properties=pairs)
