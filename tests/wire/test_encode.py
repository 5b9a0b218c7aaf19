"""What cannot be encoded is our fault, and said so."""

import pytest

from penstock.wire.codec import decode, encode, encode_varint
from penstock.wire.errors import PacketError
from penstock.wire.kinds import CONNACK, PUBLISH
from penstock.wire.packet import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    WillMessage,
)
from penstock.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties
from penstock.wire.stream import StreamDecoder

IMPOSSIBLE: dict[str, tuple[Packet, int]] = {
    "a client id over 65,535 bytes": (Connect("x" * 65_536), 5),
    "a client id with U+0000": (Connect("a\0b"), 5),
    "a client id with a surrogate": (Connect("\ud800"), 5),
    "a keep alive over 65,535": (Connect("a", keepalive=65_536), 5),
    "protocol version 3": (Connect("a", version=3), 3),
    "a password without a user name in 3.1.1": (Connect("a", version=4, password=b"x"), 4),
    "a will of QoS 3": (Connect("a", will=WillMessage("w", qos=3)), 5),
    "a will payload over 65,535 bytes": (Connect("a", will=WillMessage("w", b"x" * 65_536)), 5),
    "a topic over 65,535 bytes": (Publish("x" * 65_536), 4),
    "a PUBLISH of QoS 3": (Publish("a", qos=3, packet_id=1), 5),
    "a PUBLISH of QoS 1 without a packet identifier": (Publish("a", qos=1), 5),
    "a PUBLISH of QoS 0 with a packet identifier": (Publish("a", packet_id=1), 5),
    "a PUBLISH of QoS 0 that is again": (Publish("a", dup=True), 4),
    "a packet identifier over 65,535": (Puback(65_536), 4),
    "packet identifier 0": (Puback(0), 5),
    "a reason code over 255": (Puback(1, 256), 5),
    "a reason code under 0": (Disconnect(-1), 5),
    "a SUBSCRIBE without a filter": (Subscribe(1, ()), 5),
    "a subscription with QoS 3": (Subscribe(1, (SubscriptionRequest("a", 3),)), 4),
    "a subscription with retain handling 3": (Subscribe(1, (SubscriptionRequest("a", retain_handling=3),)), 5),
    "an UNSUBSCRIBE without a filter": (Unsubscribe(1, ()), 4),
    "a SUBACK with a reason code over 255": (Suback(1, (0, 300)), 5),
    "an AUTH in 3.1.1": (Auth(), 4),
    "a property in a packet that may not carry it": (
        Publish("a", properties=Properties(receive_maximum=1)),
        5,
    ),
    "two subscription identifiers in SUBSCRIBE": (
        Subscribe(1, (SubscriptionRequest("a"),), Properties(subscription_ids=(1, 2))),
        5,
    ),
    "topic alias 0": (Publish("a", properties=Properties(topic_alias=0)), 5),
    "a message expiry over four bytes": (Publish("a", properties=Properties(message_expiry=2**32)), 5),
    "a subscription identifier over four bytes": (
        Publish("a", properties=Properties(subscription_ids=(2**28,))),
        5,
    ),
    "maximum QoS 2": (Connack(properties=Properties(maximum_qos=2)), 5),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_mqtt_cannot_carry_is_a_packet_error(name: str) -> None:
    packet, version = IMPOSSIBLE[name]
    with pytest.raises(PacketError):
        encode(packet, version)


def test_mqtt_311_leaves_properties_and_reasons_out() -> None:
    properties = Properties(reason_string="why", user_properties=(("a", "b"),))
    assert encode(Puback(1, 0x87, properties), 4) == encode(Puback(1), 4)
    assert encode(Publish("a", b"x", properties=properties), 4) == encode(Publish("a", b"x"), 4)
    assert encode(Disconnect(0x8B, properties), 4) == encode(Disconnect(), 4)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "80 01"),
        (16_383, "ff 7f"),
        (16_384, "80 80 01"),
        (2_097_151, "ff ff 7f"),
        (2_097_152, "80 80 80 01"),
        (268_435_455, "ff ff ff 7f"),
    ],
)
def test_a_variable_byte_integer_is_as_the_standard_tabulates(number: int, expected: str) -> None:
    assert encode_varint(number) == bytes.fromhex(expected)


@pytest.mark.parametrize("number", [-1, 268_435_456])
def test_a_variable_byte_integer_has_its_bounds(number: int) -> None:
    with pytest.raises(PacketError):
        encode_varint(number)


def test_properties_are_rendered_without_their_length() -> None:
    properties = Properties(user_properties=(("k", "1"), ("k", "2")), payload_format=1, topic_alias=258)
    rendered = encode_properties(properties)
    assert rendered == bytes.fromhex("01 01 23 0102 26 0001 6b 0001 31 26 0001 6b 0001 32")
    assert encode_properties(NO_PROPERTIES) == b""


def test_properties_are_read_from_their_length_to_their_end() -> None:
    data = b"??" + bytes.fromhex("05 02 00000001") + b"rest"
    assert decode_properties(data, 2, PUBLISH) == (Properties(message_expiry=1), 8)
    assert decode_properties(b"\0rest", 0, CONNACK) == (NO_PROPERTIES, 1)


def test_a_packet_of_many_user_properties_is_read() -> None:
    pairs = tuple(("k", str(number)) for number in range(50_000))
    packet = Publish("a", properties=Properties(user_properties=pairs))
    assert StreamDecoder(version=5).feed(encode(packet, 5)) == [packet]


def test_packets_are_frozen_and_hashable() -> None:
    packet = decode(0x30, b"\0\x01ahi", 4)
    with pytest.raises(AttributeError):
        packet.topic = "b"  # type: ignore[misc,union-attr]
    assert hash(packet) == hash(Publish("a", b"hi"))


def test_a_server_learns_the_version_from_connect_and_insists_on_it_first() -> None:
    decoder = StreamDecoder()
    assert decoder.feed(encode(Connect("a", version=4), 4) + encode(Puback(1), 4)) == [
        Connect("a", version=4),
        Puback(1),
    ]
    assert decoder.version == 4
    stranger = StreamDecoder()
    assert stranger.feed(encode(Puback(1), 4)) == []
    assert str(stranger.error) == "first packet is not CONNECT"
