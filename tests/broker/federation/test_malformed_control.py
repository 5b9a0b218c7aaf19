"""Control messages between nodes that a neighbour gets wrong: the link ends with a reason, and nothing else does."""

from collections.abc import Iterator

import pytest

from penstock.wire.packet import Connack, Connect, Disconnect, Publish
from penstock.wire.reason import Reason
from tests.support.clients.peer import Peer
from tests.support.processes.federation import Nodes, chain, federated
from tests.support.processes.mosquitto import HOST

SECRET = "what nodes show each other"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    domain = chain("a", "b")
    for link in domain["links"]:
        link["secret"] = SECRET
    with federated(domain) as found:
        yield found
        assert "Traceback" not in found.log("b")


@pytest.mark.parametrize("topic", ["$penstock/interest", "$penstock/rights"])
@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"node":"\xff"}', b'{"at":1e999}'],
    ids=["empty", "list", "deep", "no UTF-8", "large number"],
)
async def test_a_control_message_that_cannot_be_read_ends_the_link_with_a_reason(
    nodes: Nodes, topic: str, body: bytes
) -> None:
    """Attacked again: one that was nested deeply wrote a traceback to the log."""
    liar = await Peer.open(HOST, nodes.ports["b"])
    await liar.send(Connect("$node/a", username="a", password=SECRET.encode()))
    await liar.expect(Connack, reason=0)
    await liar.send(Publish(topic, body, 1, packet_id=1))
    while not isinstance(packet := await liar.next(), Disconnect):
        assert packet is not None
    assert packet.reason in {Reason.PROTOCOL_ERROR, Reason.SESSION_TAKEN_OVER}
    nodes.until_logged("b", "closing", "client=$node/a", "reason=PROTOCOL_ERROR")
