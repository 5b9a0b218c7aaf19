"""One client that asks for much does not keep the others waiting. Order shows it: times depend on the machine."""

import asyncio
import json

import pytest

from penstock.wire.codec import encode
from penstock.wire.packet import Connack, Connect, Publish, Subscribe, SubscriptionRequest
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.support.clients.peer import Peer
from tests.support.processes.node import running

FLOOD = 60_000
ROUNDS = 10


async def connected(port: int, name: str) -> Peer:
    peer = await Peer.open("127.0.0.1", port)
    await peer.connect(name)
    return peer


@pytest.mark.parametrize("retain", [False, True], ids=["fresh topics", "retained"])
async def test_a_flood_of_publications_does_not_hold_up_the_others(retain: bool) -> None:
    """Issue 17, item 17: a bystander has its answers while the flood of another client is still being handled."""
    with running() as node:
        flooder, watcher, bystander = [await connected(node.port, name) for name in ("flooder", "watcher", "bystander")]
        await watcher.subscribe("flood/first")
        await watcher.subscribe("flood/last")
        await watcher.subscribe("calm")
        flood = [Publish(f"flood/{number:x}/x", b"x", retain=retain) for number in range(FLOOD)]
        packets = [Publish("flood/first", b"x"), *flood, Publish("flood/last", b"x")]
        sending = asyncio.create_task(flooder.send_raw(b"".join(encode(packet, 5) for packet in packets)))
        await watcher.receive("flood/first")
        for _ in range(ROUNDS):
            await bystander.publish("calm", b"x")
            assert (await watcher.receive()).topic == "calm"  # and not yet the last one of the flood
        await watcher.receive("flood/last")
        await sending


async def test_subscriptions_over_many_retained_topics_do_not_hold_up_the_others() -> None:
    """Issue 17, item 21: also when the client that has asked for all of it has gone."""
    with running() as node:
        flooder, watcher, bystander = [await connected(node.port, name) for name in ("flooder", "watcher", "bystander")]
        await watcher.subscribe("calm", "flood/last")
        kept = b"".join(encode(Publish(f"kept/{number}", b"x", retain=True), 5) for number in range(20_000))
        await flooder.send_raw(kept)
        await flooder.expect_nothing()
        asked = [Subscribe(number, (SubscriptionRequest("kept/#"),)) for number in range(1, 301)]
        await flooder.send(*asked, Publish("flood/last", b"x"))
        for _ in range(3):
            await bystander.publish("calm", b"x")
            assert (await watcher.receive()).topic == "calm"  # and not yet what comes behind the subscriptions
        await flooder.close()
        await watcher.receive("flood/last")
        await bystander.publish("calm", b"x")
        await watcher.receive("calm")


async def test_conditions_that_take_too_many_steps_are_not_asked_for_a_while() -> None:
    """Issue 17, item 18: of a subscriber's conditions and of those on what a publisher publishes, with the reason."""
    nested = "a.all(x, a.all(y, x + y >= 0))"
    payload = json.dumps({"a": list(range(120))}).encode()
    clients = {
        "reader": {"node": "main"},
        "writer": {"node": "main"},
        "advertiser": {"node": "main", "advertises": [{"name": "own", "filter": "own/#", "where": nested}]},
    }
    with running({"limits": {"condition_steps": 200_000}}, clients=clients) as node:
        reader, writer, advertiser = [await connected(node.port, name) for name in clients]
        for number in range(20):
            named = Properties(user_properties=(("where", f"{nested} || size(a) == {number}"), ("name", f"n{number}")))
            await reader.subscribe("t", properties=named)
        for _ in range(20):
            assert await writer.publish("t", payload, qos=1) in (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)
        line = node.until_logged("delivery denied", "reader")
        assert "its conditions take more than 200000 steps a second" in line
        outcomes = {await advertiser.publish("own/t", payload, qos=1) for _ in range(60)}
        assert Reason.QUOTA_EXCEEDED in outcomes
        line = node.until_logged("publish denied", "advertiser")
        assert "conditions on what `advertiser` publishes take more than 200000 steps a second" in line
        assert await writer.publish("t", b"{}", qos=1) in (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)


async def test_what_clients_leave_at_a_node_has_bounds_by_default() -> None:
    """Issue 17, item 19: subscriptions of a client; and where the bounds are set lower, sessions and retained bytes."""
    with running({"limits": {"sessions": 2, "retained_bytes": 5_000}}) as node:
        client = await connected(node.port, "client")
        filters = [f"some/{number}/+" for number in range(10_001)]
        for at in range(0, 10_000, 1_000):
            assert set(await client.subscribe(*filters[at : at + 1_000])) == {Reason.SUCCESS}
        assert await client.subscribe(filters[-1]) == (Reason.QUOTA_EXCEEDED,)
        for number in range(10):
            await client.publish(f"kept/{number}", bytes(1_000), retain=True)
        node.until_logged("full", "too many bytes in retained messages")
        another = await connected(node.port, "another")
        stranger = await Peer.open("127.0.0.1", node.port)
        await stranger.send(Connect("stranger"))
        await stranger.expect(Connack, reason=Reason.QUOTA_EXCEEDED)
        await another.disconnect()
