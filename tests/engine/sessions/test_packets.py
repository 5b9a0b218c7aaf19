"""The corpus of packet cases on a node: whatever a client sends, the node answers or parts, and goes on for others."""

import pytest

from penstock.wire import kinds
from penstock.wire.packet import Publish
from penstock.wire.reason import Reason
from tests.support.cases.packets import PacketCase, invalid_cases, valid_cases
from tests.support.memory.node import Client, MemoryNode
from tests.support.models.invariants import check_node


class Scene:
    """A node with two clients that have nothing to do with the third."""

    def __init__(self) -> None:
        self.joined = MemoryNode()
        self.reader = self.joined.connect("reader").subscribe("watched/#", qos=1)
        self.writer = self.joined.connect("writer", version=4)
        self.reader.take()

    def client_for(self, case: PacketCase) -> Client:
        """Ready for the packet: connected, unless it is a CONNECT."""
        if case.kind == kinds.CONNECT:
            # [MQTT-3.1.2-2] a protocol that the node does not speak is refused in the words of 3.1.1
            version = 4 if case.error is Reason.UNSUPPORTED_PROTOCOL_VERSION else case.version
            return Client(self.joined, version)
        return self.joined.connect("client", case.version)

    def check(self) -> None:
        self.writer.publish("watched/topic", b"still here", qos=1)
        assert [message.payload for message in self.reader.acknowledge()] == [b"still here"]
        check_node(self.joined.node)


@pytest.mark.parametrize("case", [case for case in invalid_cases() if case.from_client], ids=str)
def test_an_invalid_packet_ends_its_connection_and_nothing_else(case: PacketCase) -> None:
    scene = Scene()
    client = scene.client_for(case)
    client.sends_bytes(case.data)
    assert client.closed is case.error
    assert client.session is None or client.session.outlet is None
    scene.check()


@pytest.mark.parametrize("case", valid_cases(), ids=str)
def test_a_valid_packet_is_answered_or_refused(case: PacketCase) -> None:
    scene = Scene()
    client = scene.client_for(case)
    client.sends_bytes(case.data)
    if not case.from_client and case.kind != kinds.DISCONNECT:  # whoever takes leave may do so in any words
        assert client.closed is Reason.PROTOCOL_ERROR
    scene.check()


MESSAGES = [
    (case, case.packet)
    for case in valid_cases()
    if isinstance(case.packet, Publish) and case.from_client and case.packet.topic[:1] not in ("", "$")
]


@pytest.mark.parametrize(("case", "message"), MESSAGES, ids=[str(case) for case, _ in MESSAGES])
def test_a_publication_goes_on_as_it_came(case: PacketCase, message: Publish) -> None:
    joined = MemoryNode()
    reader = joined.connect("reader").subscribe("#", qos=2, retain_as_published=True)
    reader.take()
    joined.connect("client", case.version).sends_bytes(case.data)
    got = reader.messages()
    assert [(one.topic, one.payload, one.qos, one.retain) for one in got] == [
        (message.topic, message.payload, message.qos, message.retain)
    ]
    sent, received = message.properties, got[0].properties
    for name in ("payload_format", "content_type", "response_topic", "correlation_data", "user_properties"):
        assert getattr(received, name) == getattr(sent, name)
