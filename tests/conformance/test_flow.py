"""Flow control and packet sizes: MQTT 5 §3.1.2.11.3, §3.1.2.11.4, §3.3.4, §4.9."""

import pytest

from penstock.wire.packet import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join


@pytest.mark.mosquitto_differs("sends more after the first acknowledgement")
@pytest.mark.parametrize("qos", [1, 2])
async def test_the_server_keeps_to_the_clients_receive_maximum(join: Join, topic: str, qos: int) -> None:
    """[MQTT-3.3.4-9] [MQTT-3.3.4-10] [MQTT-4.9.0-1] [MQTT-4.9.0-2] [MQTT-4.9.0-3]"""
    subscriber, publisher = await join(properties=Properties(receive_maximum=2)), await join()
    await subscriber.subscribe(topic, qos=2)
    for index in range(4):
        await publisher.publish(topic, b"%d" % index, qos=qos)
    flying = [await subscriber.expect(Publish, payload=b"%d" % index) for index in range(2)]
    await subscriber.expect_nothing()  # but what is not PUBLISH is answered all the same
    for index in (2, 3):
        done = flying.pop(0)
        if qos == 1:
            await subscriber.send(Puback(done.packet_id))
        else:
            await subscriber.send(Pubrec(done.packet_id))
            await subscriber.expect(Pubrel, packet_id=done.packet_id)
            await subscriber.expect_nothing()  # PUBREC does not free the place
            await subscriber.send(Pubcomp(done.packet_id))
        flying.append(await subscriber.expect(Publish, payload=b"%d" % index))
        await subscriber.expect_nothing()


async def test_a_refusal_frees_the_place(join: Join, topic: str) -> None:
    """[MQTT-3.3.4-9], §4.9"""
    subscriber, publisher = await join(properties=Properties(receive_maximum=1)), await join()
    await subscriber.subscribe(topic, qos=2)
    for payload in (b"1", b"2"):
        await publisher.publish(topic, payload, qos=2)
    first = await subscriber.expect(Publish, payload=b"1")
    await subscriber.expect_nothing()
    await subscriber.send(Pubrec(first.packet_id, Reason.QUOTA_EXCEEDED))
    await subscriber.expect(Publish, payload=b"2")


async def test_qos_0_passes_a_full_window(join: Join, topic: str) -> None:
    """[MQTT-4.9.0-2] [MQTT-4.9.0-3]: the window is for QoS 1 and 2."""
    subscriber, publisher = await join(properties=Properties(receive_maximum=1)), await join()
    await subscriber.subscribe(topic, qos=1)
    await publisher.publish(topic, b"1", qos=1)
    await subscriber.expect(Publish, payload=b"1")
    await publisher.publish(topic, b"2", qos=0)
    await subscriber.expect(Publish, payload=b"2", qos=0)


async def test_the_window_is_empty_again_after_a_reconnection(join: Join, name: str, topic: str) -> None:
    """§4.9: and what was in flight fills it first."""
    two = Properties(receive_maximum=2, session_expiry=60)
    subscriber, publisher = await join(name, properties=two), await join()
    await subscriber.subscribe(topic, qos=1)
    for index in range(3):
        await publisher.publish(topic, b"%d" % index, qos=1)
    for index in range(2):
        await subscriber.expect(Publish, payload=b"%d" % index, dup=False)
    await subscriber.abort()
    subscriber = await join(name, clean_start=False, properties=two)
    for index in range(2):
        await subscriber.receive(topic, payload=b"%d" % index, dup=True)
    await subscriber.receive(topic, payload=b"2", dup=False)


@pytest.mark.mosquitto_differs("counts otherwise")
async def test_more_than_the_servers_receive_maximum_ends_the_connection(join: Join, topic: str) -> None:
    """[MQTT-3.3.4-7]: with what the server has acknowledged so far before it."""
    client = await join(None)
    most = (await client.connect()).properties.receive_maximum
    assert most is not None
    await client.send(*(Publish(topic, b"x", qos=2, packet_id=number) for number in range(1, most + 2)))
    for number in range(1, most + 1):
        await client.expect(Pubrec, packet_id=number)
    await client.expect_end(Reason.RECEIVE_MAXIMUM_EXCEEDED)


async def test_as_many_as_the_servers_receive_maximum_are_taken(join: Join, topic: str) -> None:
    """[MQTT-3.3.4-7] [MQTT-3.3.4-8]: again and again, if each is completed."""
    client = await join(None)
    most = (await client.connect()).properties.receive_maximum
    assert most is not None
    for _ in range(2):
        await client.send(*(Publish(topic, b"x", qos=2, packet_id=number) for number in range(1, most + 1)))
        for number in range(1, most + 1):
            await client.expect(Pubrec, packet_id=number)
        await client.send(*(Pubrel(number) for number in range(1, most + 1)))
        for number in range(1, most + 1):
            await client.expect(Pubcomp, packet_id=number)
    await client.expect_nothing()


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_too_large_for_the_client_is_left_out(join: Join, topic: str, qos: int) -> None:
    """[MQTT-3.1.2-24] [MQTT-3.1.2-25]"""
    subscriber, publisher = await join(properties=Properties(maximum_packet_size=60)), await join()
    await subscriber.subscribe(topic, qos=2)
    await publisher.publish(topic, bytes(60), qos=qos)
    await publisher.publish(topic, b"small", qos=qos)
    await subscriber.receive(topic, payload=b"small", qos=qos)
    await subscriber.expect_nothing()


@pytest.mark.mosquitto_differs("takes no account of the fixed header")
async def test_the_greatest_packet_that_fits_is_sent(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.2-24]: header and all, to the byte."""
    size = 2 + 2 + len(topic) + 1 + 20
    subscriber, publisher = await join(name, properties=Properties(maximum_packet_size=size)), await join()
    await subscriber.subscribe(topic)
    await publisher.publish(topic, b"a" * 21)
    await publisher.publish(topic, b"b" * 20)
    await subscriber.receive(topic, payload=b"b" * 20)


@pytest.mark.mosquitto_differs("stops sending")
async def test_too_large_messages_do_not_fill_the_window(join: Join, topic: str) -> None:
    """[MQTT-3.1.2-25]: they count as done."""
    narrow = Properties(maximum_packet_size=60, receive_maximum=1)
    subscriber, publisher = await join(properties=narrow), await join()
    await subscriber.subscribe(topic, qos=1)
    for _ in range(3):
        await publisher.publish(topic, bytes(60), qos=1)
    for _ in range(2):
        await publisher.publish(topic, b"small", qos=1)
        await subscriber.receive(topic, payload=b"small")


async def test_a_large_message_reaches_those_who_take_it(join: Join, topic: str) -> None:
    """[MQTT-3.1.2-25]"""
    narrow, wide = await join(properties=Properties(maximum_packet_size=60)), await join()
    publisher = await join()
    for subscriber in (narrow, wide):
        await subscriber.subscribe(topic, qos=1)
    await publisher.publish(topic, bytes(600), qos=1)
    await wide.receive(topic, payload=bytes(600))
    await narrow.expect_nothing()


async def test_311_clients_have_a_window_too(join: Join, version: int, topic: str) -> None:
    """[MQTT-3.3.4-9]: without a receive maximum it is at most 65,535; nothing is lost beyond it."""
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(topic, qos=1)
    for index in range(200):
        await publisher.publish(topic, b"%d" % index, qos=1)
    for index in range(200):
        await subscriber.receive(topic, payload=b"%d" % index)
