"""Publications and other packets with very many user properties: each costs time wherever it comes, at every node."""

import pytest

from penstock.wire.packet import Connect, Packet, Pingreq, Publish, Subscribe, SubscriptionRequest, WillMessage
from penstock.wire.properties import MAX_USER_PROPERTIES, Properties
from penstock.wire.reason import Reason
from tests.support.clients.paho import Paho
from tests.support.clients.peer import Peer
from tests.support.processes.commands import until
from tests.support.processes.federation import chain, federated
from tests.support.processes.mosquitto import HOST, free_port, mosquitto
from tests.support.processes.node import LiveNode


def having(count: int) -> Properties:
    return Properties(user_properties=(("k", "v"),) * count)


@pytest.mark.parametrize(
    "packet",
    [
        Publish("a", b"", properties=having(MAX_USER_PROPERTIES + 1)),
        Subscribe(1, (SubscriptionRequest("a"),), having(MAX_USER_PROPERTIES + 1)),
    ],
    ids=["PUBLISH", "SUBSCRIBE"],
)
async def test_a_packet_of_a_client_has_a_thousand_user_properties_at_most(node: LiveNode, packet: Packet) -> None:
    """Attacked again: a publication with 20,000 stopped its node for 1.1 s, a node beyond for 9.8 s."""
    peer = await Peer.open(HOST, node.port)
    await peer.connect("many")
    assert await peer.publish("a", qos=1, properties=having(MAX_USER_PROPERTIES)) == Reason.NO_MATCHING_SUBSCRIBERS
    await peer.send(packet)
    await peer.expect_end(Reason.QUOTA_EXCEEDED)


@pytest.mark.parametrize(
    "packet",
    [
        Connect("many", properties=having(MAX_USER_PROPERTIES + 1)),
        Connect("many", will=WillMessage("a", b"", properties=having(MAX_USER_PROPERTIES + 1))),
    ],
    ids=["CONNECT", "will"],
)
async def test_nor_has_who_has_not_logged_in_more(node: LiveNode, packet: Packet) -> None:
    """Attacked again: a CONNECT may have as many as a publication, before any password."""
    peer = await Peer.open(HOST, node.port)
    await peer.send(packet, Pingreq())
    await peer.expect_close()


def test_a_foreign_broker_that_passes_more_on_is_refused_them_and_keeps_its_link() -> None:
    port, domain = free_port(), chain("a", "b")
    domain["foreign"] = {"legacy": {"address": f"{HOST}:{port}", "version": 5}}
    domain["links"] += [{"between": ["a", "legacy"]}]
    with (
        mosquitto(port=port),
        federated(domain) as nodes,
        Paho("right").connects(nodes.ports["b"]) as right,
        Paho("there").connects(port) as there,
    ):
        right.subscribe("#", 1)

        def arrives() -> bool:
            there.publish("settle", b"", 1)
            return not right.messages.empty()

        until(arrives, "an event has come through")
        for count in (MAX_USER_PROPERTIES + 1, MAX_USER_PROPERTIES, 0):
            there.publish(f"many/{count}", b"", 1, UserProperty=[("k", "v")] * count)
        topics: list[str] = []
        while not topics or topics[-1] != "many/0":
            topics.append(right.receive().topic)
        assert [topic for topic in topics if topic != "settle"] == [f"many/{MAX_USER_PROPERTIES}", "many/0"]
        nodes.until_logged("a", "publish denied", "user properties on one publication")
        assert nodes.log("a").count("linked neighbour=legacy") <= 1
