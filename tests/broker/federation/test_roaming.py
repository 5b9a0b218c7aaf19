"""Clients that change their node, live: announced or not, with the link up or cut, with a node killed in between."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.wire.packet import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.support.clients.peer import Peer
from tests.support.processes.cable import Cable
from tests.support.processes.federation import Nodes
from tests.support.processes.mosquitto import HOST

DOMAIN: dict[str, Any] = {
    "nodes": {"a": {"store": "a.db"}, "b": {"store": "b.db"}},
    "links": [{"between": ["a", "b"]}],
    "clients": {"ann": {"node": "a"}, "eve": {"node": "b"}, "bob": {"node": ["a", "b"], "roams": True}},
}
KEPT = Properties(session_expiry=3600)


class Scene:
    """Two nodes with a cable between them, and clients by hand."""

    def __init__(self, nodes: Nodes, cable: Cable) -> None:
        self.nodes = nodes
        self.cable = cable

    async def connect(self, client: str, node: str) -> tuple[Peer, Connack]:
        peer = await Peer.open(HOST, self.nodes.ports[node])
        return peer, await peer.connect(client, clean_start=False, properties=KEPT)

    async def joins(self, client: str, node: str, is_present: bool = True) -> Peer:
        """Connect, with the session that the client has, or without one."""
        peer, connack = await self.connect(client, node)
        assert connack.session_present == is_present
        return peer

    async def new(self, client: str, node: str) -> Peer:
        return await self.joins(client, node, is_present=False)


@asynccontextmanager
async def scene(folder: Path, **more: Any) -> AsyncIterator[Scene]:
    domain = {**DOMAIN, **more}
    nodes = Nodes(folder, domain)
    async with Cable(nodes.ports["b"]) as cable:
        (link,) = domain["links"]
        nodes.write({**domain, "links": [{**link, "address": f"{HOST}:{cable.port}"}]})
        try:
            await asyncio.to_thread(nodes.start, "b")  # first: it is dialled
            await asyncio.to_thread(nodes.start, "a")
            await asyncio.to_thread(nodes.until_logged, "a", "linked")
            yield Scene(nodes, cable)
        finally:
            await asyncio.to_thread(nodes.stop)


async def until_wanted(publisher: Peer, subscriber: Peer, topic: str) -> None:
    """Go on once what one publishes reaches the other, which takes as long as nodes tell each other."""
    await until_answered(publisher, topic, b"wanted", 0)
    assert (await subscriber.receive(topic)).payload == b"wanted"


async def until_answered(publisher: Peer, topic: str, payload: bytes, reason: int) -> None:
    """Publish until the node answers with this reason."""
    async with asyncio.timeout(30):
        while await publisher.publish(topic, payload, qos=1) != reason:
            pass


async def take(peer: Peer, wanted: set[bytes], held: set[int] | None = None) -> list[Publish]:
    """Acknowledge messages until all with these payloads have come; `held`: identifiers of QoS 2 messages that are not
    released, which the client keeps with its session.
    """
    held = set() if held is None else held
    got: list[Publish] = []
    left = set(wanted)
    while left or held:
        packet = await peer.next()
        if isinstance(packet, Pubrel):
            held.discard(packet.packet_id)
            await peer.send(Pubcomp(packet.packet_id))
            continue
        assert isinstance(packet, Publish), f"{packet}, {left} left"
        if packet.qos == 2 and packet.packet_id in held:
            await peer.send(Pubrec(packet.packet_id))
            continue
        got.append(packet)
        left.discard(packet.payload)
        if packet.qos == 2:
            held.add(packet.packet_id)
        await peer.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
    return got


def of(got: list[Publish], topic: str) -> list[bytes]:
    return [packet.payload for packet in got if packet.topic == topic]


@pytest.mark.parametrize("how", ["just connects", "disconnects first", "says where it goes"])
async def test_a_consumer_changes_its_node_and_what_waits_follows(tmp_path: Path, how: str) -> None:
    async with scene(tmp_path) as play:
        ann, eve = await play.new("ann", "a"), await play.new("eve", "b")
        bob = await play.new("bob", "a")
        await bob.subscribe("t/#", qos=2)
        await until_wanted(eve, bob, "t/eve")
        await ann.publish("t/ann", b"offered", qos=2)
        offered = await bob.expect(Publish, payload=b"offered", dup=False)
        if how == "disconnects first":
            await bob.disconnect()
        elif how == "says where it goes":
            await bob.disconnect(properties=Properties(user_properties=(("node", "b"),)))
        for number in range(3):
            assert await ann.publish("t/ann", b"a%d" % number, qos=1 + number % 2) == 0
            assert await eve.publish("t/eve", b"e%d" % number, qos=1 + number % 2) == 0
        roamed = await play.joins("bob", "b")
        if how == "just connects":
            sent = [packet async for packet in until_end(bob)]
            assert isinstance(sent[-1], Disconnect)
            assert sent[-1].reason == Reason.SESSION_TAKEN_OVER
        assert await ann.publish("t/ann", b"a3", qos=2) == 0
        assert await eve.publish("t/eve", b"e3", qos=1) == 0
        got = await take(roamed, {b"a3", b"e3"})
        again = next(packet for packet in got if packet.payload == b"offered")
        assert (again.dup, again.packet_id) == (True, offered.packet_id), "as it was sent before"
        unique = {packet.packet_id: packet for packet in got}  # a repetition has the same identifier
        assert len(unique) == len(got) == 9
        assert of(got, "t/eve") == [b"e0", b"e1", b"e2", b"e3"]
        assert [payload for payload in of(got, "t/ann") if payload != b"offered"] == [b"a0", b"a1", b"a2", b"a3"]
        assert {packet.payload: packet.qos for packet in got}[b"a1"] == 2
        await roamed.expect_nothing()


async def until_end(peer: Peer) -> AsyncIterator[Any]:
    """The packets up to the end of the connection."""
    while (packet := await peer.next()) is not None:
        yield packet


async def test_it_comes_back_and_goes_on_as_if_it_had_stayed(tmp_path: Path) -> None:
    async with scene(tmp_path) as play:
        ann = await play.new("ann", "a")
        bob = await play.new("bob", "a")
        await bob.subscribe("t", qos=2)
        for number, node in enumerate("baba"):
            assert await ann.publish("t", b"%d" % number, qos=2) == 0
            bob = await play.joins("bob", node)
            await take(bob, {b"%d" % number})
        await bob.unsubscribe("t")
        bob = await play.joins("bob", "b")
        await until_answered(ann, "t", b"nobody", Reason.NO_MATCHING_SUBSCRIBERS)


async def test_who_begins_anew_leaves_nothing_behind(tmp_path: Path) -> None:
    async with scene(tmp_path) as play:
        ann = await play.new("ann", "a")
        bob = await play.new("bob", "a")
        await bob.subscribe("t", qos=2)
        await bob.disconnect()
        assert await ann.publish("t", b"old", qos=2) == 0
        peer = await Peer.open(HOST, play.nodes.ports["b"])
        connack = await peer.connect("bob", clean_start=True, properties=KEPT)
        assert not connack.session_present
        await until_answered(ann, "t", b"nobody", Reason.NO_MATCHING_SUBSCRIBERS)
        back = await play.joins("bob", "a")
        await back.expect_nothing()


async def test_with_the_link_cut_it_is_served_anew_and_what_waits_comes_when_the_link_is_there(tmp_path: Path) -> None:
    async with scene(tmp_path) as play:
        ann, eve = await play.new("ann", "a"), await play.new("eve", "b")
        bob = await play.new("bob", "a")
        await bob.subscribe("t/#", qos=2)
        await until_wanted(eve, bob, "t/eve")
        await bob.disconnect()
        assert await ann.publish("t/ann", b"waits", qos=2) == 0
        play.cable.cut()
        await asyncio.to_thread(play.nodes.until_logged, "b", "disconnected", "$node/a")
        roamed = await play.new("bob", "b")
        await roamed.subscribe("t/#", qos=2)
        assert await eve.publish("t/eve", b"here", qos=2) == 0
        await take(roamed, {b"here"})
        assert await ann.publish("t/ann", b"waits too", qos=1) == 0
        play.cable.plug()
        got = await take(roamed, {b"waits", b"waits too"})
        assert of(got, "t/ann") == [b"waits", b"waits too"]
        await until_answered(ann, "t/ann", b"again", 0)
        assert of(await take(roamed, {b"again"}), "t/ann") == [b"again"]
        await roamed.expect_nothing()
        await play.joins("bob", "a")


@pytest.mark.parametrize("killed", ["a", "b"])
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02])
async def test_a_node_that_is_killed_in_the_middle_loses_nothing(tmp_path: Path, killed: str, delay: float) -> None:
    async with scene(tmp_path) as play:
        ann, eve = await play.new("ann", "a"), await play.new("eve", "b")
        bob = await play.new("bob", "a")
        await bob.subscribe("t/#", qos=2)
        await until_wanted(eve, bob, "t/eve")
        await bob.disconnect()
        wanted = set[bytes]()
        for number in range(20):
            for name, peer in (("ann", ann), ("eve", eve)):
                payload = f"{name} {number}".encode()
                assert await peer.publish(f"t/{name}", payload, qos=1 + number % 2) == 0
                wanted.add(payload)
        first = await Peer.open(HOST, play.nodes.ports["b"])
        await first.send(Connect("bob", clean_start=False, properties=KEPT))
        await asyncio.sleep(delay)
        await asyncio.to_thread(play.nodes.kill, killed)
        await asyncio.to_thread(play.nodes.start, killed)
        await asyncio.to_thread(play.nodes.until_logged, "a", "linked", times=2)
        roamed, _ = await play.connect("bob", "b")
        got = await take(roamed, wanted)
        payloads = [packet.payload for packet in got if packet.payload != b"wanted"]
        assert sorted(payload for packet in got if packet.qos == 2 for payload in [packet.payload]) == sorted(
            payload for payload in wanted if int(payload.split()[1]) % 2
        ), "once each at QoS 2"
        assert set(payloads) == wanted
        await roamed.expect_nothing()


PRIVATE = {"filter": "bob/location", "rules": {"coarse": {"purpose": "health"}}}


async def test_contracts_follow_consumer_and_producer(tmp_path: Path) -> None:
    clients = {
        "bob": {"node": ["a", "b"], "roams": True},
        "doctor": {"node": ["a", "b"], "roams": True},
        "spy": {"node": "b"},
    }
    async with scene(tmp_path, clients=clients, contracts={"bring": ["bob", "doctor"]}) as play:
        bob, doctor, spy = await play.new("bob", "a"), await play.new("doctor", "a"), await play.new("spy", "b")
        brought = json.dumps({"name": "mine", "produces": PRIVATE}).encode()
        assert await bob.publish("$penstock/contract", brought, qos=1) == 0
        purpose = Properties(user_properties=(("contract", '{"purpose": "health"}'),))
        assert await doctor.subscribe("bob/#", qos=1, properties=purpose) == (1,)
        assert await spy.subscribe("#", qos=1) == (1,)
        await doctor.disconnect()
        assert await bob.publish("bob/location", b'{"lat": 1}', qos=1) == 0
        doctor = await play.joins("doctor", "b")
        assert (await doctor.receive("bob/location")).payload == b'{"lat": 1}'
        async with asyncio.timeout(30):  # until the node of the producer knows where the consumer is
            while (await arrives(doctor, bob)) is None:
                pass
        bob = await play.joins("bob", "b")
        assert await bob.publish("bob/location", b'{"lat": 3}', qos=1) == 0
        while (await doctor.receive("bob/location")).payload != b'{"lat": 3}':
            pass
        assert await bob.publish("public", b"for everybody", qos=1) == Reason.NOT_AUTHORIZED, "it has only advertised"
        await spy.expect_nothing()


async def arrives(doctor: Peer, bob: Peer) -> Publish | None:
    await bob.publish("bob/location", b'{"lat": 2}', qos=1)
    try:
        return await doctor.receive("bob/location", patience=0.2)
    except AssertionError:
        return None


async def test_what_may_not_go_to_the_other_node_stays(tmp_path: Path) -> None:
    domain = {
        "links": [{"between": ["a", "b"], "type": "public"}],
        "clients": {
            "ann": {"node": "a", "type": "private"},
            "eve": {"node": "a", "type": "public"},
            "bob": {"node": {"a": "private", "b": "public"}, "roams": True},
        },
        "brokering": {"types": ["private", "public"], "deny": [{"from": "private", "to": "public"}]},
    }
    async with scene(tmp_path, **domain) as play:
        ann, eve = await play.new("ann", "a"), await play.new("eve", "a")
        bob = await play.new("bob", "a")
        await bob.subscribe("#", qos=2)
        await bob.disconnect()
        assert await ann.publish("t", b"a secret of the house", qos=2) == 0
        assert await eve.publish("t", b"for everybody", qos=2) == 0
        roamed = await play.joins("bob", "b")
        got = await take(roamed, {b"for everybody"})
        assert of(got, "t") == [b"for everybody"]
        assert b"for everybody" in play.cable.carried
        assert b"a secret" not in play.cable.carried


async def test_packets_in_one_piece_with_a_connect_wait_with_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as live:
        await (await live.new("bob", "a")).close()
        peer = await Peer.open(HOST, live.nodes.ports["b"])
        subscription = Subscribe(1, (SubscriptionRequest("t"),))
        await peer.send(Connect("bob", clean_start=False, properties=KEPT), subscription, Pingreq())
        assert (await peer.expect(Connack)).session_present
        await peer.expect(Suback, packet_id=1)
        await peer.expect(Pingresp)
