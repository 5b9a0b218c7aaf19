"""The handshakes of QoS 1 and 2, redelivery and order: MQTT 5 §3.4 to §3.7, §4.3, §4.4, §4.6."""

import pytest

from penstock.wire.packet import (
    MQTT_5,
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, both_versions
from tests.support.clients.peer import Peer, frame, text

ACCEPTED = (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)


async def lasting(join: Join, name: str, version: int, **fields: object) -> Peer:
    """A connection whose session outlives it."""
    properties = fields.pop("properties", Properties(session_expiry=60) if version == MQTT_5 else Properties())
    return await join(name, version=version, clean_start=False, properties=properties, **fields)


async def resumed(join: Join, name: str, version: int) -> Peer:
    """The same client again, whose session is still there."""
    client = await join(None, version=version)
    properties = Properties(session_expiry=60) if version == MQTT_5 else Properties()
    assert (await client.connect(name, clean_start=False, properties=properties)).session_present
    return client


# --- the server receives


async def test_puback_answers_qos_1(join: Join, version: int, topic: str) -> None:
    """[MQTT-2.2.1-5] [MQTT-4.3.2-4] [MQTT-3.3.4-1]"""
    client = await join()
    for number in (1, 2, 65535, 17):
        await client.send(Publish(topic, b"x", qos=1, packet_id=number))
        assert (await client.expect(Puback, packet_id=number)).reason in ACCEPTED


async def test_after_puback_the_identifier_is_free(join: Join, version: int, topic: str) -> None:
    """[MQTT-4.3.2-5]: the same identifier again is a new message, whatever its DUP flag."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic)
    for dup in (False, True):
        await publisher.send(Publish(topic, b"x", qos=1, dup=dup, packet_id=5))
        await publisher.expect(Puback, packet_id=5)
        await subscriber.receive(topic)


async def test_the_whole_qos_2_handshake(join: Join, version: int, topic: str) -> None:
    """[MQTT-2.2.1-5] [MQTT-4.3.3-8] [MQTT-4.3.3-11]"""
    client = await join()
    await client.send(Publish(topic, b"x", qos=2, packet_id=300))
    assert (await client.expect(Pubrec, packet_id=300)).reason in ACCEPTED
    await client.send(Pubrel(300))
    await client.expect(Pubcomp, packet_id=300, reason=0)


async def test_a_repeated_qos_2_message_is_delivered_once(join: Join, version: int, topic: str) -> None:
    """[MQTT-4.3.3-10] [MQTT-4.3.3-12]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic)
    for dup in (False, True):
        await publisher.send(Publish(topic, b"once", qos=2, dup=dup, packet_id=8))
        await publisher.expect(Pubrec, packet_id=8)
    await publisher.send(Pubrel(8))
    await publisher.expect(Pubcomp, packet_id=8)
    await subscriber.receive(topic, payload=b"once")
    await subscriber.expect_nothing()
    await publisher.send(Publish(topic, b"new", qos=2, packet_id=8))
    await publisher.expect(Pubrec, packet_id=8)
    await publisher.send(Pubrel(8))
    await publisher.expect(Pubcomp, packet_id=8)
    await subscriber.receive(topic, payload=b"new")


async def test_qos_2_goes_on_after_a_reconnection(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-4.3.3-10] [MQTT-4.4.0-1] [MQTT-4.1.0-1]: no second delivery."""
    subscriber = await join()
    await subscriber.subscribe(topic)
    publisher = await lasting(join, name, version)
    await publisher.send(Publish(topic, b"once", qos=2, packet_id=8))
    await publisher.expect(Pubrec, packet_id=8)
    await publisher.abort()
    publisher = await resumed(join, name, version)
    await publisher.send(Publish(topic, b"once", qos=2, dup=True, packet_id=8))
    await publisher.expect(Pubrec, packet_id=8)
    await publisher.abort()
    publisher = await resumed(join, name, version)
    await publisher.send(Pubrel(8))
    await publisher.expect(Pubcomp, packet_id=8, reason=0)
    await subscriber.receive(topic, payload=b"once")
    await subscriber.expect_nothing()


async def test_pubrel_for_an_unknown_identifier_is_answered(join: Join, version: int) -> None:
    """[MQTT-4.3.3-11] [MQTT-3.7.2-1]"""
    client = await join()
    await client.send(Pubrel(77))
    reason = (await client.expect(Pubcomp, packet_id=77)).reason
    assert reason in ((0, Reason.PACKET_IDENTIFIER_NOT_FOUND) if version == MQTT_5 else (0,))


async def test_the_same_number_serves_both_directions(join: Join, version: int, topic: str) -> None:
    """[MQTT-2.2.1-4], §2.2.1: the server's identifiers are not the client's."""
    client = await join()
    await client.subscribe(topic, qos=2)
    await client.send(Publish(topic, b"x", qos=2, packet_id=1))
    got: list[Packet] = []
    while len(got) < 4:
        packet = await client.next()
        assert packet is not None
        got.append(packet)
        match packet:
            case Pubrec(number):
                await client.send(Pubrel(number))
            case Publish():
                await client.send(Pubrec(packet.packet_id))
            case Pubrel(number):
                await client.send(Pubcomp(number))
    kinds = sorted(type(packet).__name__ for packet in got)
    assert kinds == ["Pubcomp", "Publish", "Pubrec", "Pubrel"]
    await client.expect_nothing()


# --- the server sends


async def test_identifiers_in_flight_are_not_used_twice(join: Join, version: int, topic: str) -> None:
    """[MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=2)
    used = set()
    for index in range(10):
        await publisher.publish(topic, b"x", qos=1 + index % 2)
        message = await subscriber.expect(Publish)
        assert message.packet_id > 0
        used.add(message.packet_id)
    assert len(used) == 10


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_not_acknowledged_comes_again_on_reconnection(
    join: Join, version: int, name: str, topic: str, qos: int
) -> None:
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.3.2-3] [MQTT-4.3.3-3] [MQTT311-2.3.1-4]: same ids, with DUP, in order."""
    subscriber = await lasting(join, name, version)
    await subscriber.subscribe(topic, qos=2)
    publisher = await join()
    for payload in (b"1", b"2", b"3"):
        await publisher.publish(topic, payload, qos=qos)
    first = [await subscriber.expect(Publish, qos=qos, dup=False) for _ in range(3)]
    await subscriber.expect_nothing()  # [MQTT-4.4.0-1]: not resent while the connection lasts
    await subscriber.abort()
    subscriber = await resumed(join, name, version)
    for message in first:
        await subscriber.expect(Publish, packet_id=message.packet_id, payload=message.payload, qos=qos, dup=True)
    await subscriber.expect_nothing()


async def test_pubrel_comes_again_on_reconnection_and_publish_does_not(
    join: Join, version: int, name: str, topic: str
) -> None:
    """[MQTT-4.3.3-4] [MQTT-4.3.3-5] [MQTT-4.3.3-6] [MQTT-4.4.0-1]"""
    subscriber = await lasting(join, name, version)
    await subscriber.subscribe(topic, qos=2)
    await (await join()).publish(topic, b"x", qos=2)
    number = (await subscriber.expect(Publish)).packet_id
    await subscriber.send(Pubrec(number))
    await subscriber.expect(Pubrel, packet_id=number)
    await subscriber.abort()
    subscriber = await resumed(join, name, version)
    await subscriber.expect(Pubrel, packet_id=number)
    await subscriber.send(Pubcomp(number))
    await subscriber.expect_nothing()


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_acknowledged_does_not_come_again(
    join: Join, version: int, name: str, topic: str, qos: int
) -> None:
    """[MQTT-4.3.2-3] [MQTT-4.3.3-5]"""
    subscriber = await lasting(join, name, version)
    await subscriber.subscribe(topic, qos=2)
    await (await join()).publish(topic, b"x", qos=qos)
    await subscriber.receive(topic, qos=qos)
    await subscriber.expect_nothing()
    await subscriber.abort()
    await (await resumed(join, name, version)).expect_nothing()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_refused_message_is_done_with(join: Join, name: str, topic: str, qos: int) -> None:
    """[MQTT-4.4.0-2]: an acknowledgement of 0x80 or more ends the handshake."""
    subscriber = await lasting(join, name, MQTT_5)
    await subscriber.subscribe(topic, qos=2)
    publisher = await join()
    await publisher.publish(topic, b"unwanted", qos=qos)
    number = (await subscriber.expect(Publish, payload=b"unwanted")).packet_id
    await subscriber.send(Puback(number, 0x80) if qos == 1 else Pubrec(number, 0x80))
    await subscriber.expect_nothing()
    await subscriber.abort()
    subscriber = await resumed(join, name, MQTT_5)
    await subscriber.expect_nothing()
    await publisher.publish(topic, b"wanted", qos=qos)
    await subscriber.receive(topic, payload=b"wanted")


WRONG_ACKNOWLEDGEMENTS = [
    (1, Pubrec),
    (1, Pubcomp),
    (2, Puback),
    (2, Pubcomp),
]


@pytest.mark.parametrize(("qos", "kind"), WRONG_ACKNOWLEDGEMENTS)
async def test_a_wrong_acknowledgement_ends_the_connection(
    join: Join, version: int, topic: str, qos: int, kind: type[Puback] | type[Pubrec] | type[Pubcomp]
) -> None:
    """[MQTT-4.13.1-1] [MQTT311-4.8.0-1]"""
    subscriber = await join()
    await subscriber.subscribe(topic, qos=2)
    await (await join()).publish(topic, b"x", qos=qos)
    await subscriber.send(kind((await subscriber.expect(Publish)).packet_id))
    while (packet := await subscriber.next()) is not None:
        assert getattr(packet, "reason", None) == Reason.PROTOCOL_ERROR


async def test_an_acknowledgement_for_nothing_is_harmless(join: Join, version: int) -> None:
    """§4.3: a client may have acknowledged in an earlier connection; nothing is sent in answer."""
    client = await join()
    await client.send(Puback(99))
    await client.expect_nothing()


@pytest.mark.mosquitto_differs("answers with success")
async def test_pubrec_for_nothing_is_told_in_pubrel(join: Join) -> None:
    """[MQTT-3.6.2-1]"""
    client = await join()
    await client.send(Pubrec(99))
    await client.expect(Pubrel, packet_id=99, reason=Reason.PACKET_IDENTIFIER_NOT_FOUND)


async def test_pubrec_that_refuses_an_unknown_identifier_has_no_answer(join: Join) -> None:
    """A PUBREC with a reason of 0x80 or more ends the exchange; nothing is left to release (issue 17, item 25)."""
    peer = await join()
    for reason in (0x80, 0x87, 0x91, 0x97):
        await peer.send(Pubrec(77, reason))
        await peer.expect_nothing()


@pytest.mark.parametrize(
    "raw",
    [b"\x40\x04\0\x01\0\0", b"\x40\x03\0\x01\0", b"\x40\x0f\0\x01\0\x0b\x1f\0\x08anything"[:17], b"\x40\x02\0\x01"],
    ids=["with empty properties", "with a reason", "with a reason string", "plain"],
)
async def test_every_length_of_puback_is_understood(join: Join, topic: str, raw: bytes) -> None:
    """§3.4.2.1, §3.4.2.2.1"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=1)
    await publisher.publish(topic, b"1", qos=1)
    number = (await subscriber.expect(Publish)).packet_id
    await subscriber.send_raw(raw[:2] + number.to_bytes(2, "big") + raw[4:])
    await publisher.publish(topic, b"2", qos=1)
    await subscriber.receive(topic, payload=b"2")


@pytest.mark.parametrize("raw", [b"\x62\x03\0\x07\0", b"\x62\x04\0\x07\0\0", b"\x62\x02\0\x07"])
async def test_every_length_of_pubrel_is_understood(join: Join, topic: str, raw: bytes) -> None:
    """§3.6.2.1, §3.6.2.2.1"""
    client = await join()
    await client.send(Publish(topic, b"x", qos=2, packet_id=7))
    await client.expect(Pubrec, packet_id=7)
    await client.send_raw(raw)
    await client.expect(Pubcomp, packet_id=7, reason=0)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_messages_of_one_client_come_in_order(join: Join, version: int, topic: str, qos: int) -> None:
    """[MQTT-4.6.0-5] [MQTT-4.6.0-6] [MQTT311-4.6.0-6]"""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=qos)
    for index in range(15):
        await publisher.send(Publish(topic, b"%d" % index, qos=qos, packet_id=index + 1 if qos else 0))
    if qos == 2:
        for _ in range(15):
            await publisher.send(Pubrel((await publisher.expect(Pubrec)).packet_id))
    assert [int((await subscriber.expect(Publish, qos=qos)).payload) for _ in range(15)] == list(range(15))


async def test_acknowledgements_come_in_the_order_of_the_messages(join: Join, version: int, topic: str) -> None:
    """[MQTT311-4.6.0-2] [MQTT311-4.6.0-3] [MQTT311-4.6.0-4], of a server too"""
    client = await join()
    await client.send(*(Publish(topic, b"x", qos=1, packet_id=number) for number in range(1, 9)))
    assert [(await client.expect(Puback)).packet_id for _ in range(8)] == list(range(1, 9))
    await client.send(*(Publish(topic, b"x", qos=2, packet_id=number) for number in range(1, 9)))
    assert [(await client.expect(Pubrec)).packet_id for _ in range(8)] == list(range(1, 9))
    await client.send(*(Pubrel(number) for number in range(1, 9)))
    assert [(await client.expect(Pubcomp)).packet_id for _ in range(8)] == list(range(1, 9))


async def test_redelivery_comes_before_new_messages(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT311-4.6.0-1] [MQTT-4.6.0-5]"""
    subscriber, publisher = await lasting(join, name, version), await join()
    await subscriber.subscribe(topic, qos=1)
    await publisher.publish(topic, b"1", qos=1)
    await subscriber.expect(Publish, payload=b"1")
    await subscriber.abort()
    await publisher.publish(topic, b"2", qos=1)
    subscriber = await resumed(join, name, version)
    await subscriber.receive(topic, payload=b"1", dup=True)
    await subscriber.receive(topic, payload=b"2", dup=False)


async def test_clean_start_forgets_what_was_in_flight(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.2-4]: with it goes the memory of QoS 2 identifiers."""
    publisher = await lasting(join, name, version)
    await publisher.send(Publish(topic, b"x", qos=2, packet_id=8))
    await publisher.expect(Pubrec, packet_id=8)
    await publisher.abort()
    subscriber = await join()
    await subscriber.subscribe(topic)
    publisher = await join(None)
    await publisher.send(Connect(name, version=version, clean_start=True))
    await publisher.expect(Connack, session_present=False)
    await publisher.send(Publish(topic, b"new", qos=2, packet_id=8))
    await publisher.expect(Pubrec, packet_id=8)
    await publisher.send(Pubrel(8))
    await publisher.expect(Pubcomp, packet_id=8)
    await subscriber.receive(topic, payload=b"new")


@both_versions(mosquitto_5="closes without DISCONNECT")
@pytest.mark.parametrize("first", [0x60, 0x61, 0x6A, 0x6F])
async def test_wrong_flags_in_pubrel_are_malformed(join: Join, version: int, first: int) -> None:
    """[MQTT-3.6.1-1]"""
    client = await join()
    await client.send_raw(frame(first, b"\0\x01"))
    await client.expect_end(Reason.MALFORMED_PACKET)


@pytest.mark.mosquitto_differs("takes no notice")
@pytest.mark.parametrize("first", [0x41, 0x48, 0x52, 0x72])
async def test_wrong_flags_in_an_acknowledgement_are_malformed(join: Join, version: int, first: int) -> None:
    """[MQTT-2.1.3-1] [MQTT311-2.2.2-2]"""
    client = await join()
    await client.send_raw(frame(first, b"\0\x01"))
    await client.expect_end(Reason.MALFORMED_PACKET)


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0"])
async def test_an_acknowledgement_without_identifier_ends_the_connection(join: Join, version: int, body: bytes) -> None:
    """[MQTT-2.2.1-5]"""
    client = await join()
    await client.send_raw(frame(0x40, body))
    while (packet := await client.next()) is not None:
        assert getattr(packet, "reason", None) in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)


async def test_expiry_does_not_break_a_handshake_that_has_begun(join: Join, topic: str) -> None:
    """[MQTT-4.3.3-13] [MQTT-4.3.3-7]"""
    client = await join()
    await client.send_raw(frame(0x34, text(topic) + b"\0\x09\x05\x02\0\0\0\0" + b"x"))
    await client.expect(Pubrec, packet_id=9)
    await client.send(Pubrel(9))
    await client.expect(Pubcomp, packet_id=9, reason=0)
