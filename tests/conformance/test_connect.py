"""CONNECT and CONNACK: MQTT 5 §3.1, §3.2; MQTT 3.1.1 §3.1, §3.2."""

import pytest

from penstock.wire.packet import (
    MQTT_5,
    MQTT_311,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    SubscriptionRequest,
    WillMessage,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, titled
from tests.support.clients.peer import frame, text

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def connect_body(
    version: int, *, protocol: bytes = b"MQTT", level: int | None = None, flags: int = 2, rest: bytes = b""
) -> bytes:
    """A CONNECT by hand; `rest` follows the properties."""
    head = text(protocol) + bytes([version if level is None else level, flags]) + b"\0\x3c"
    return head + (b"\0" if version == MQTT_5 else b"") + rest


async def test_an_accepted_connect_is_answered_with_connack(join: Join, version: int, name: str) -> None:
    """[MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2] [MQTT-3.2.2-1] [MQTT-3.2.2-8]"""
    client = await join(None)
    await client.send(Connect(name, version=version))
    await client.expect(Connack, session_present=False, reason=Reason.SUCCESS)
    await client.expect_nothing()


async def test_what_follows_connect_at_once_is_answered_after_connack(join: Join, version: int, name: str) -> None:
    """[MQTT-3.2.0-1]"""
    client = await join(None)
    await client.send(Connect(name, version=version), Pingreq())
    await client.expect(Connack, reason=0)
    await client.expect(Pingresp)


FIRST_PACKETS = {
    "PINGREQ": b"\xc0\0",
    "DISCONNECT": b"\xe0\0",
    "PUBLISH": b"\x30\x03\0\x01a",
    "SUBSCRIBE": b"\x82\x06\0\x01\0\x01a\0",
    "CONNACK": b"\x20\x02\0\0",
    "AUTH": b"\xf0\0",
}


@pytest.mark.parametrize("first", titled(FIRST_PACKETS))
async def test_the_first_packet_must_be_connect(join: Join, first: bytes) -> None:
    """[MQTT-3.1.0-1] [MQTT-3.14.0-1]: closed, and nothing is sent before a CONNACK."""
    client = await join(None)
    await client.send_raw(first)
    await client.expect_close()


async def test_a_first_packet_that_is_no_connect_is_not_waited_for(join: Join) -> None:
    """[MQTT-3.1.0-1]: its first byte is enough, however long it says it will be."""
    client = await join(None)
    await client.send_raw(b"\x30\xff\xff\xff\x7f" + bytes(1000))
    await client.expect_close()


@pytest.mark.mosquitto_differs("closes without DISCONNECT")
async def test_a_second_connect_is_a_protocol_error(join: Join, name: str) -> None:
    """[MQTT-3.1.0-2]"""
    client = await join(name)
    await client.send(Connect(name))
    await client.expect_end(Reason.PROTOCOL_ERROR)


async def test_a_second_connect_ends_a_311_connection(join: Join, name: str) -> None:
    """[MQTT311-3.1.0-2]"""
    client = await join(name, version=MQTT_311)
    await client.send(Connect(name, version=MQTT_311))
    await client.expect_close()


@pytest.mark.parametrize("protocol", [b"MQTTX", b"mqtt", b"hj", b""], ids=["longer", "lower case", "other", "empty"])
async def test_another_protocol_name_is_refused(join: Join, version: int, protocol: bytes) -> None:
    """[MQTT-3.1.2-1] [MQTT311-3.1.2-1]: closed, with or without an unsupported version said first."""
    client = await join(None)
    await client.send_raw(frame(0x10, connect_body(version, protocol=protocol, rest=text("a"))))
    assert await client.rest() in (b"", b"\x20\x02\0\x01", b"\x20\x03\0\x84\0")


@pytest.mark.parametrize("level", [0, 2, 6, 127])
async def test_an_unknown_protocol_level_is_told_in_311(join: Join, level: int) -> None:
    """[MQTT311-3.1.2-2] [MQTT-3.1.2-2]"""
    client = await join(None, version=MQTT_311)
    await client.send_raw(frame(0x10, connect_body(MQTT_311, level=level, rest=text("a"))))
    await client.expect(Connack, reason=1, session_present=False)
    await client.expect_close()


BAD_CONNECTS = {
    "reserved flag set [MQTT-3.1.2-3]": (3, text("a")),
    "will QoS 3 [MQTT-3.1.2-12]": (2 | 4 | 0x18, text("a") + b"%" + text("w") + text("m")),
    "will QoS without will [MQTT-3.1.2-11]": (2 | 0x08, text("a")),
    "will retain without will [MQTT-3.1.2-13]": (2 | 0x20, text("a")),
    "will flag, no will [MQTT-3.1.2-9]": (2 | 4, text("a")),
    "will topic, no payload [MQTT-3.1.2-9]": (2 | 4, text("a") + b"%" + text("w")),
    "will topic empty [MQTT-4.7.3-1]": (2 | 4, text("a") + b"%" + text("") + text("m")),
    "will topic with wildcard [MQTT-4.7.0-1]": (2 | 4, text("a") + b"%" + text("w/#") + text("m")),
    "will topic not UTF-8 [MQTT-3.1.3-11]": (2 | 4, text("a") + b"%" + text(b"\xff") + text("m")),
    "user name flag, no user name [MQTT-3.1.2-17]": (2 | 0x80, text("a")),
    "user name, no flag [MQTT-3.1.2-16]": (2, text("a") + text("user")),
    "password flag, no password [MQTT-3.1.2-19]": (2 | 0xC0, text("a") + text("user")),
    "password, no flag [MQTT-3.1.2-18]": (2 | 0x80, text("a") + text("user") + text("secret")),
    "user name not UTF-8 [MQTT-3.1.3-12]": (2 | 0x80, text("a") + text(b"\xc3\x28")),
    "client id missing [MQTT-3.1.3-3]": (2, b""),
    "client id longer than the packet [MQTT-3.1.3-1]": (2, b"\0\x09abc"),
    "client id not UTF-8 [MQTT-3.1.3-4]": (2, text(b"\xff\xfe")),
    "client id with a surrogate [MQTT-1.5.4-1]": (2, text(b"a\xed\xa0\x80")),
    "client id with U+0000 [MQTT-1.5.4-2]": (2, text(b"a\0b")),
}


@pytest.mark.parametrize("flags_and_payload", titled(BAD_CONNECTS))
async def test_a_connect_that_breaks_the_format_ends_the_connection(
    join: Join, version: int, flags_and_payload: tuple[int, bytes]
) -> None:
    """[MQTT-3.1.4-1] [MQTT311-3.1.4-1] [MQTT311-3.2.2-6]: 3.1.1 forbids a CONNACK, MQTT 5 allows one that says why."""
    flags, payload = flags_and_payload
    # `%` stands for the will properties, which 3.1.1 does not have.
    payload = payload.replace(b"%", b"\0" if version == MQTT_5 else b"", 1)
    client = await join(None)
    await client.send_raw(frame(0x10, connect_body(version, flags=flags, rest=payload)))
    answer = await client.next()
    if version == MQTT_5 and isinstance(answer, Connack):
        assert answer.reason >= 0x80
        answer = await client.next()
    assert answer is None


@pytest.mark.parametrize("first", [0x11, 0x12, 0x18, 0x1F])
async def test_flags_in_the_first_byte_of_connect_are_refused(join: Join, version: int, first: int) -> None:
    """[MQTT-2.1.3-1] [MQTT311-2.2.2-2]"""
    client = await join(None)
    await client.send_raw(frame(first, connect_body(version, rest=text("a"))))
    await client.expect_close()


async def test_a_password_without_user_name_is_for_mqtt_5_only(join: Join, version: int) -> None:
    """[MQTT311-3.1.2-22]; MQTT 5 §3.1.2.9 allows it."""
    client = await join(None)
    await client.send_raw(frame(0x10, connect_body(version, flags=0x42, rest=text("a") + text("secret"))))
    if version == MQTT_5:
        await client.expect(Connack, reason=0)
    else:
        await client.expect_close()


@pytest.mark.parametrize("client_id", ["a", LETTERS[:23], LETTERS[23:46], LETTERS[-23:]])
async def test_ids_of_up_to_23_letters_and_digits_are_accepted(join: Join, version: int, client_id: str) -> None:
    """[MQTT-3.1.3-5]"""
    client = await join(client_id)
    await client.disconnect()


async def test_a_long_id_with_any_characters_is_accepted(join: Join, version: int) -> None:
    """[MQTT-3.1.3-4] [MQTT-3.1.3-5]: a server may allow more, and this one does."""
    client = await join("é/+#€ " * 300)
    await client.expect_nothing()


async def test_an_empty_id_gets_one_assigned(join: Join) -> None:
    """[MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.2.2-16]"""
    first, second = await join(None), await join(None)
    ids = {(await client.connect("")).properties.assigned_client_id for client in (first, second)}
    assert None not in ids
    assert "" not in ids
    assert len(ids) == 2


async def test_an_assigned_id_is_the_sessions_own(join: Join) -> None:
    """[MQTT-3.1.3-7]: the session can be resumed under the id that was assigned."""
    client = await join(None)
    connack = await client.connect("", clean_start=False, properties=Properties(session_expiry=60))
    await client.disconnect()
    assigned = connack.properties.assigned_client_id
    assert assigned
    again = await join(None)
    connack = await again.connect(assigned, clean_start=False)
    assert connack.session_present
    assert connack.properties.assigned_client_id is None
    await again.disconnect(properties=Properties(session_expiry=0))


async def test_an_empty_id_in_311_needs_a_clean_session(join: Join) -> None:
    """[MQTT311-3.1.3-7] [MQTT311-3.1.3-8]"""
    client = await join(None, version=MQTT_311)
    await client.send(Connect("", version=MQTT_311, clean_start=False))
    await client.expect(Connack, reason=2, session_present=False)
    await client.expect_close()
    await join("", version=MQTT_311)


async def test_the_same_id_again_takes_a_311_connection_over(join: Join, name: str) -> None:
    """[MQTT311-3.1.4-2]"""
    first = await join(name, version=MQTT_311)
    second = await join(name, version=MQTT_311)
    await first.expect_close()
    await second.expect_nothing()


@pytest.mark.mosquitto_differs("closes without DISCONNECT")
async def test_the_same_id_again_takes_the_connection_over(join: Join, name: str) -> None:
    """[MQTT-3.1.4-3] [MQTT-3.14.2-2]"""
    first = await join(name, properties=Properties(session_expiry=60))
    second = await join(name)
    goodbye = await first.expect(Disconnect, reason=Reason.SESSION_TAKEN_OVER)
    assert goodbye.properties.session_expiry is None
    await first.expect_close()
    await second.expect_nothing()


async def test_a_takeover_keeps_the_session(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.4-3] [MQTT-3.1.2-5]"""
    expiry = Properties(session_expiry=60) if version == MQTT_5 else Properties()
    first = await join(name, clean_start=False, properties=expiry)
    await first.subscribe(topic)
    second = await join(None)
    connack = await second.connect(name, clean_start=False, properties=expiry)
    assert connack.session_present
    await (await join()).publish(topic, b"still here")
    await second.receive(topic, payload=b"still here")


async def test_clean_start_discards_the_session(join: Join, version: int, name: str, topic: str) -> None:
    """[MQTT-3.1.2-4] [MQTT-3.2.2-2] [MQTT-3.1.4-4] [MQTT311-3.1.2-6]"""
    expiry = Properties(session_expiry=60) if version == MQTT_5 else Properties()
    first = await join(name, clean_start=False, properties=expiry)
    await first.subscribe(topic, qos=1)
    await first.disconnect()
    again = await join(None)
    assert not (await again.connect(name, clean_start=True)).session_present
    await (await join()).publish(topic, b"lost", qos=1)
    await again.expect_nothing()


async def test_session_present_tells_whether_there_was_a_session(join: Join, version: int, name: str) -> None:
    """[MQTT-3.2.2-3] [MQTT-3.1.2-6] [MQTT311-3.2.2-2] [MQTT311-3.2.2-3]"""
    expiry = Properties(session_expiry=60) if version == MQTT_5 else Properties()
    present = []
    for _ in range(2):
        client = await join(None)
        present.append((await client.connect(name, clean_start=False, properties=expiry)).session_present)
        await client.disconnect()
    assert present == [False, True]


@pytest.mark.parametrize("receive_maximum", [b"!\0\0", b"'\0\0\0\0", b"\x19\x02", b"\x17\x02"])
async def test_a_connect_property_with_a_forbidden_value_is_refused(join: Join, receive_maximum: bytes) -> None:
    """§3.1.2.11: receive maximum 0, maximum packet size 0, flags that are neither 0 nor 1."""
    client = await join(None)
    body = text("MQTT") + b"\x05\x02\0\x3c" + bytes([len(receive_maximum)]) + receive_maximum + text("a")
    await client.send_raw(frame(0x10, body))
    answer = await client.next()
    if isinstance(answer, Connack):
        assert answer.reason in (Reason.PROTOCOL_ERROR, Reason.MALFORMED_PACKET)
        answer = await client.next()
    assert answer is None


async def test_authentication_data_without_method_is_refused(join: Join) -> None:
    """§3.1.2.11.10"""
    client = await join(None)
    await client.send_raw(frame(0x10, text("MQTT") + b"\x05\x02\0\x3c" + b"\x05\x16" + text("abc")[:4] + text("a")))
    answer = await client.next()
    if isinstance(answer, Connack):
        assert answer.reason >= 0x80
        answer = await client.next()
    assert answer is None


async def test_an_unknown_authentication_method_is_refused(join: Join, name: str) -> None:
    """[MQTT-4.12.0-1] [MQTT-3.2.2-6] [MQTT-3.2.2-7] [MQTT-4.13.2-1]"""
    client = await join(None)
    await client.send(Connect(name, properties=Properties(auth_method="NONE-OF-OURS")))
    await client.expect(Connack, reason=Reason.BAD_AUTHENTICATION_METHOD, session_present=False)
    await client.expect_close()


async def test_without_authentication_method_there_is_none_in_connack(join: Join, name: str) -> None:
    """[MQTT-4.12.0-6]"""
    client = await join(None)
    connack = await client.connect(name)
    assert connack.properties.auth_method is None
    assert connack.properties.auth_data is None


async def test_nothing_after_a_refused_connect_is_processed(join: Join, name: str, topic: str) -> None:
    """[MQTT-3.1.4-6] [MQTT311-3.1.4-5]"""
    watcher = await join()
    await watcher.subscribe(topic)
    client = await join(None)
    refused = Connect(name, properties=Properties(auth_method="NONE-OF-OURS"))
    await client.send(refused, Publish(topic, b"through the back door"))
    await client.expect(Connack, reason=Reason.BAD_AUTHENTICATION_METHOD)
    await client.expect_close()
    await watcher.expect_nothing()


async def test_response_information_comes_only_when_asked_for(join: Join, name: str) -> None:
    """[MQTT-3.1.2-28]"""
    for properties in (Properties(), Properties(request_response_info=False)):
        client = await join(None)
        assert (await client.connect(name, properties=properties)).properties.response_info is None


async def test_without_problem_information_no_reason_string_is_sent(join: Join, topic: str) -> None:
    """[MQTT-3.1.2-29]"""
    client = await join(properties=Properties(request_problem_info=False))
    for wrong in ("$share/group", "a/#/b"):
        await client.send(Subscribe(7, (SubscriptionRequest(wrong),)))
        answer = await client.next()
        if isinstance(answer, Disconnect):
            return
        assert answer is not None
        assert answer.properties.reason_string is None  # type: ignore[union-attr]
        assert answer.properties.user_properties == ()  # type: ignore[union-attr]


async def test_a_keep_alive_within_the_limit_is_the_clients_own(join_limited: Join, name: str) -> None:
    """[MQTT-3.2.2-22]"""
    client = await join_limited(None)
    assert (await client.connect(name, keepalive=30)).properties.server_keepalive is None


async def test_a_keep_alive_above_the_limit_is_answered_with_the_servers(join_limited: Join, name: str) -> None:
    """[MQTT-3.1.2-21] [MQTT-3.2.2-21]"""
    client = await join_limited(None)
    assert (await client.connect(name, keepalive=120)).properties.server_keepalive == 60


async def test_what_the_server_cannot_do_is_in_connack(join_limited: Join, name: str) -> None:
    """[MQTT-3.2.2-9], §3.2.2.3.5, §3.2.2.3.6"""
    client = await join_limited(None)
    properties = (await client.connect(name)).properties
    assert properties.maximum_qos == 1
    assert properties.retain_available is False
    assert properties.maximum_packet_size == 500


async def test_a_will_above_the_maximum_qos_is_refused(join_limited: Join, name: str) -> None:
    """[MQTT-3.2.2-12]"""
    client = await join_limited(None)
    await client.send(Connect(name, will=WillMessage("a", b"", qos=2)))
    await client.expect(Connack, reason=Reason.QOS_NOT_SUPPORTED)
    await client.expect_close()


async def test_a_retained_will_is_refused_without_retained_messages(join_limited: Join, name: str) -> None:
    """[MQTT-3.2.2-13]"""
    client = await join_limited(None)
    await client.send(Connect(name, will=WillMessage("a", b"", retain=True)))
    await client.expect(Connack, reason=Reason.RETAIN_NOT_SUPPORTED)
    await client.expect_close()


async def test_a_connack_too_large_for_the_client_is_not_sent(join: Join, name: str) -> None:
    """[MQTT-3.1.2-24]"""
    client = await join(None)
    await client.send(Connect(name, properties=Properties(maximum_packet_size=2)))
    await client.expect_close()
