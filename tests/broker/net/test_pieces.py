"""What one client asks for at once, or leaves behind, is done piece by piece: others are served in between. Order shows
it: times depend on the machine.
"""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from websockets.frames import Frame, Opcode

from penstock.wire.codec import encode
from penstock.wire.packet import (
    Connack,
    Connect,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    WillMessage,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.broker.net.test_websocket import framed
from tests.support.clients.peer import Peer
from tests.support.processes.node import ANY_PORT, LiveNode, running

FILTERS = tuple(f"crowd/{number}/+" for number in range(10_000))
PUBLICATION = encode(Publish("noise", b"x"), 5)
SOME = Properties(user_properties=(("where", "size(a) > 1 || b == 'x'"),))


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with running({"listen": [ANY_PORT, {"address": ANY_PORT, "websocket": True}]}) as node:
        yield node


async def connected(node: LiveNode, name: str, **settings: object) -> Peer:
    peer = await Peer.open("127.0.0.1", node.port)
    await peer.connect(name, **settings)
    return peer


async def subscribe_to_all(peer: Peer) -> None:
    for at in range(0, len(FILTERS), 1_000):
        await peer.subscribe(*FILTERS[at : at + 1_000])


@pytest.mark.parametrize("properties", [Properties(), SOME], ids=["plain", "conditions"])
async def test_a_packet_with_many_filters_does_not_hold_up_the_others(node: LiveNode, properties: Properties) -> None:
    """Attacked again: a SUBSCRIBE with 10,000 conditions stopped the node for 7.5 s, UNSUBSCRIBE for 0.7 s."""
    crowd, calm = await connected(node, "crowd"), await connected(node, "calm")
    await crowd.subscribe("answered")
    await calm.subscribe("calm", "answered")
    requests = tuple(SubscriptionRequest(filter) for filter in FILTERS)
    for packet, answer in (
        (Subscribe(1, requests, properties=properties), Suback),
        (Unsubscribe(2, FILTERS, properties=Properties()), Unsuback),
    ):
        await crowd.send(packet, Publish("answered", b"x"))
        for _ in range(3):
            await calm.send(Publish("calm", b"x"))
            assert (await calm.receive()).topic == "calm"  # and not yet what comes behind the packet
        await crowd.expect(answer)
        await calm.receive("answered")
        await crowd.receive("answered")
    await crowd.disconnect()
    await calm.disconnect()


async def test_a_session_with_many_subscriptions_ends_at_once_and_is_cleared_away_in_between(node: LiveNode) -> None:
    """Attacked again: a clean start over 10,000 subscriptions held up all others for 1.9 s. Nothing goes to the ended
    session from then on, whatever of it is still there: not by plain, conditional or shared subscriptions.
    """
    crowd, calm = (
        await connected(node, "crowd", properties=Properties(session_expiry=1_000)),
        await connected(node, "calm"),
    )
    await calm.subscribe("calm", "opened", "$share/all/turns")
    await crowd.subscribe("$share/all/turns", "opened")
    await subscribe_to_all(crowd)
    await crowd.subscribe("late/plain")
    await crowd.subscribe("late/some", properties=SOME)
    await crowd.close()
    anew = await Peer.open("127.0.0.1", node.port)
    await anew.send(Connect("crowd", clean_start=True), Publish("opened", b"x"))
    await anew.expect(Connack, session_present=False)
    await calm.receive("opened")
    told = [await calm.publish(topic, b"{}", qos=1) for topic in ("late/plain", "late/some", "crowd/9999/x")]
    assert told == [Reason.NO_MATCHING_SUBSCRIBERS] * 3
    for _ in range(4):
        await calm.send(Publish("turns", b"x"))
        await calm.receive("turns")
    await anew.expect_nothing()
    await anew.disconnect()
    await calm.disconnect()


@pytest.mark.parametrize("payload", [b"", PUBLICATION], ids=["pings", "one packet a frame"])
async def test_many_small_frames_do_not_hold_up_the_others(node: LiveNode, payload: bytes) -> None:
    """Attacked again: one read of 256 kB of WebSocket frames was handled at once; a flood of them held up a bystander
    for 22 s.
    """
    calm = await connected(node, "calm")
    await calm.subscribe("calm", "answered")
    async with framed(node) as crowd:
        await crowd.send(encode(Connect("crowd"), 5))
        await crowd.receive()
        opcode = Opcode.BINARY if payload else Opcode.PING
        small = Frame(opcode, payload).serialize(mask=True)
        last = Frame(Opcode.BINARY, encode(Publish("answered", b"x"), 5)).serialize(mask=True)
        crowd.inner.transport.write(small * (200_000 // len(small)) + last)
        await asyncio.sleep(0)
        for _ in range(5):
            await calm.send(Publish("calm", b"x"))
            assert (await calm.receive()).topic == "calm"  # and not yet what comes behind the frames
        await calm.receive("answered")
    await calm.disconnect()


async def test_many_connections_that_are_lost_at_once_do_not_hold_up_the_others(node: LiveNode) -> None:
    """Attacked again: 900 lost together, with wills, held up a bystander for 250 ms."""
    calm = await connected(node, "calm")
    await calm.subscribe("calm", "gone")
    crowd = [await connected(node, f"crowd-{number}", will=WillMessage("gone", b"")) for number in range(300)]
    os.kill(node.pid, signal.SIGSTOP)  # so that the node learns of all of them in one round of input
    for peer in crowd:
        await peer.close()
    os.kill(node.pid, signal.SIGCONT)
    await calm.receive("gone")
    await calm.send(Publish("calm", b"x"))
    order = [(await calm.receive()).topic for _ in range(300)]
    assert order.count("gone") == 299
    assert order.index("calm") < 250
    await calm.disconnect()
