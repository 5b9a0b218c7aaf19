"""`kill -9` under load: nothing acknowledged is lost, and QoS 2 is not delivered twice."""

import asyncio
import os
import random
import resource
import urllib.error
import urllib.request

import psutil
import pytest

from penstock.wire.packet import Puback, Publish, WillMessage
from penstock.wire.properties import Properties
from tests.support.clients.paho import Paho
from tests.support.clients.peer import Peer
from tests.support.clients.strict_session import Receiver, Sender, numbers
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode, running

ROUNDS = 20 if os.environ.get("PENSTOCK_SOAK") else 1
"""The factor by which the node is killed more often than usual."""
ROOMY = {"queued_messages": 10_000_000, "queued_bytes": "4 GiB"}
SEED = 20261115


class Load:
    """Senders and receivers of all kinds."""

    def __init__(self) -> None:
        self.senders = [
            Sender(f"qos{qos}-v{version}", version, topic=f"load/{qos}/{version}", qos=qos)
            for qos in (1, 2)
            for version in (4, 5)
        ]
        self.keeper = Sender("keeper", 5, 1, topic="kept", qos=1, retain=True)
        self.receivers = [
            Receiver("all-v5", 5, filter="load/#"),
            Receiver("all-v4", 4, filter="load/#"),
            Receiver("narrow", 5, 1, filter="load/2/#"),
            Receiver("once", 5, filter="load/+/5", qos=1),
        ]
        self.away = Receiver("away", 5, filter="load/#")

    async def for_a_while(self, node: LiveNode, seconds: float) -> None:
        """Everybody at work, until the node is killed."""
        sending = [sender.run(node.port) for sender in (*self.senders, self.keeper)]
        tasks = asyncio.gather(*sending, *(receiver.run(node.port) for receiver in self.receivers))
        await asyncio.sleep(seconds)
        assert not tasks.done(), tasks.result()
        node.kill()
        await tasks

    async def to_the_end(self, node: LiveNode) -> None:
        """Everything sent is acknowledged, then everything acknowledged is delivered."""
        for sender in (*self.senders, self.keeper):
            sender.stopping = True
        await asyncio.gather(*(sender.run(node.port) for sender in (*self.senders, self.keeper)))
        everybody = (*self.receivers, self.away)
        await asyncio.gather(*(client.run(node.port, self.due(client)) for client in everybody))

    def due(self, receiver: Receiver) -> frozenset[bytes]:
        """The messages that a receiver must get."""
        expected = [sender for sender in self.senders if _matches(receiver.filter, sender.topic)]
        return frozenset(payload for sender in expected for payload in sender.acknowledged)


def _matches(filter: str, topic: str) -> bool:
    return {"load/#": True, "load/2/#": topic.startswith("load/2/"), "load/+/5": topic.endswith("/5")}[filter]


async def _kept(node: LiveNode) -> int:
    """The number in the retained message."""
    peer = await Peer.open(HOST, node.port)
    await peer.connect()
    await peer.subscribe("kept")
    number = int((await peer.receive("kept")).payload.rpartition(b":")[2])
    await peer.disconnect()
    return number


@pytest.mark.soak
@pytest.mark.parametrize(("synchronous", "kills"), [("full", 5 * ROUNDS), ("normal", 2 * ROUNDS)])
async def test_kill_9_under_load(synchronous: str, kills: int) -> None:
    chance = random.Random(SEED)
    load = Load()
    with running({"store": "main.db", "synchronous": synchronous, "limits": ROOMY}) as node:
        for receiver in (*load.receivers, load.away):
            await receiver.subscribe(node.port)
        for _ in range(kills):
            await load.for_a_while(node, chance.uniform(0.05, 0.35))
            node.start()
            last = max((int(payload.rpartition(b":")[2]) for payload in load.keeper.acknowledged), default=0)
            if last:
                assert await _kept(node) >= last, "a retained message that was acknowledged is gone"
        await load.to_the_end(node)
        assert "Traceback" not in node.log
    for sender in load.senders:
        assert len(sender.acknowledged) == sender.sent > 20
    for receiver in (*load.receivers, load.away):
        _check(load, receiver)


def _check(load: Load, receiver: Receiver) -> None:
    lost = load.due(receiver) - receiver.delivered.keys()
    assert not lost, f"{receiver.client_id} never got {len(lost)} messages, such as {min(lost)!r}"
    for sender in load.senders:
        got = numbers(receiver, sender)
        if min(sender.qos, receiver.qos) == 2:
            assert len(got) == len(set(got)), f"{receiver.client_id} got messages of {sender.client_id} twice"
            assert got == sorted(got), f"{receiver.client_id} got messages of {sender.client_id} out of order"


async def test_wills_of_sessions_that_end_with_their_connection_outlive_their_node() -> None:
    """Issue 17, item 23. A will is published once: not again if it was due, or was given up, before the kill."""
    with running({"store": "store"}) as node:
        watcher = await Peer.open(HOST, node.port)
        lasting = Properties(session_expiry=600)
        await watcher.connect("watcher", clean_start=False, properties=lasting)
        await watcher.subscribe("wills/#", qos=1)
        peers: dict[str, Peer] = {}
        for name, version in (("old", 4), ("new", 5), ("polite", 5), ("gone", 5), ("delayed", 5), ("resumed", 5)):
            peers[name] = await Peer.open(HOST, node.port, version)
            will_properties = Properties(will_delay=300) if name == "delayed" else Properties()
            will = WillMessage(f"wills/{name}", name.encode(), 1, name == "old", will_properties)
            if name == "resumed":
                await peers[name].connect(name, properties=lasting)
                await peers[name].subscribe("anything", qos=1)
                await peers[name].disconnect()
                peers[name] = await Peer.open(HOST, node.port)
            await peers[name].connect(name, clean_start=name != "resumed", will=will)
        await peers["polite"].disconnect()
        await peers["gone"].abort()
        await watcher.receive("wills/gone")
        await watcher.subscribe("anything", qos=1)  # its answer waits for the store
        node.kill()
        node.start()
        back = await Peer.open(HOST, node.port)
        await back.connect("watcher", clean_start=False, properties=lasting)
        names = {(await back.receive()).topic for _ in range(4)}
        assert names == {"wills/old", "wills/new", "wills/delayed", "wills/resumed"}
        await back.subscribe("anything", qos=1)
        node.kill()
        node.start()
        again = await Peer.open(HOST, node.port)
        await again.connect("watcher", clean_start=False, properties=lasting)
        later = await Peer.open(HOST, node.port)
        await later.connect("later")
        await later.publish("wills/last", b"", 1)
        await again.receive("wills/last")
        await later.subscribe("wills/old")
        await later.receive("wills/old", payload=b"old", retain=True)


async def test_a_will_outlives_its_node() -> None:
    with running({"store": "main.db"}) as node:
        watcher = await Peer.open(HOST, node.port)
        lasting = Properties(session_expiry=600)
        await watcher.connect("watcher", clean_start=False, properties=lasting)
        await watcher.subscribe("wills/#", qos=1)
        doomed = await Peer.open(HOST, node.port)
        await doomed.connect("doomed", will=WillMessage("wills/doomed", b"gone", 1), properties=lasting)
        node.kill()
        node.start()
        back = await Peer.open(HOST, node.port)
        await back.connect("watcher", clean_start=False, properties=lasting)
        await back.receive("wills/doomed", payload=b"gone")
        for peer in (watcher, doomed, back):
            await peer.close()


def test_sessions_of_one_connection_are_forgotten() -> None:
    with running({"store": "main.db"}) as node:
        with Paho("fleeting").connects(node.port) as ann:
            ann.subscribe("a", 1)
            ann.publish("a", b"x", 1)
            node.kill()
        node.start()
        with Paho("fleeting", clean=False) as back:
            assert not back.tries(node.port).session_present


def test_unsubscribed_and_removed_stays_so() -> None:
    lasting = {"SessionExpiryInterval": 600}
    with running({"store": "main.db"}) as node:
        with Paho("ann", clean=False).connects(node.port, **lasting) as ann:
            for topic in ("a", "b"):
                ann.subscribe(topic, 1)
            ann.publish("kept/1", b"x", 1, retain=True)
            ann.publish("kept/2", b"x", 1, retain=True)
            ann.publish("kept/1", b"", 1, retain=True)
            ann.client.unsubscribe("a")
            ann.publish("b", b"after the unsubscription", 1)
            ann.receive()
            node.kill()
        node.start()
        with Paho("ann", clean=False).connects(node.port, **lasting) as back:
            back.publish("a", b"no", 1)
            back.publish("b", b"yes", 1)
            message = back.receive()
            while message.dup:  # whose PUBACK the node may not have stored
                message = back.receive()
            assert message.payload == b"yes"
            back.subscribe("kept/#", 1)
            assert back.receive().topic == "kept/2"


def _health(node: LiveNode) -> int:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{node.ports('http')[0]}/health", timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


async def test_a_full_disk_holds_acknowledgements_back() -> None:
    lasting = Properties(session_expiry=600)
    with running({"store": "main.db", "admin": ANY_PORT, "limits": ROOMY}) as node:
        away = await Peer.open(HOST, node.port)
        await away.connect("away", properties=lasting)
        await away.subscribe("a", qos=2)
        await away.disconnect()
        bob = await Peer.open(HOST, node.port)
        await bob.connect("bob", properties=lasting)
        assert await bob.publish("a", b"before", 1) == 0
        process = psutil.Process(node.pid)
        largest = max(path.stat().st_size for path in node.folder.iterdir())
        process.rlimit(psutil.RLIMIT_FSIZE, (largest + 8192, resource.RLIM_INFINITY))
        await bob.send(Publish("a", bytes(100_000), 1, packet_id=2))
        await bob.send(Publish("a", b"small", 1, packet_id=3))
        node.until_logged("error", "the store cannot be written")
        assert await asyncio.to_thread(_health, node) == 503
        with pytest.raises(TimeoutError):
            await bob.next(1.5)  # it has tried again by then
        process.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert [(await bob.expect(Puback)).packet_id for _ in range(2)] == [2, 3]
        assert await asyncio.to_thread(_health, node) == 200
        assert node.log.count("the store cannot be written") == 1
        await bob.close()
        node.kill()
        node.start()
        back = await Peer.open(HOST, node.port)
        await back.connect("away", clean_start=False, properties=lasting)
        assert [len((await back.receive("a")).payload) for _ in range(3)] == [6, 100_000, 5]
        await back.disconnect()
