"""Bounds, and clients that do everything wrong."""

import asyncio
import contextlib
import resource
from collections.abc import Iterator

import pytest

from penstock.wire.codec import encode
from penstock.wire.packet import Connack, Connect, Disconnect, Packet, Pingreq, Publish, Subscribe, SubscriptionRequest
from tests.support.clients.deaf import Deaf, is_closed
from tests.support.clients.paho import Paho
from tests.support.clients.peer import Peer
from tests.support.processes.admin import ask
from tests.support.processes.commands import until
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode, open_files, running, settled

MIB = 2**20
CONNECT = encode(Connect("", 5), 5)


# --- limits


@pytest.fixture(scope="module")
def limited() -> Iterator[LiveNode]:
    """Five connections, two of them on the second listener, and a second to say CONNECT in."""
    listeners = [ANY_PORT, {"address": ANY_PORT, "max_connections": 2}]
    with running({"listen": listeners, "limits": {"connections": 5, "connect_timeout": 1}}) as live:
        yield live
        assert "Traceback" not in live.log


def _is_accepted(port: int) -> bool:
    with Paho() as client:
        try:
            return client.tries(port).reason.value == 0
        except OSError:
            return False


@pytest.mark.parametrize(("listener", "most"), [(0, 5), (1, 2)])
def test_connection_limits(limited: LiveNode, listener: int, most: int) -> None:
    port = limited.ports("mqtt")[listener]
    until(lambda: _is_accepted(port), "connections of other tests are gone")
    clients = [Paho().connects(port) for _ in range(most)]
    assert is_closed(port, CONNECT) == b""
    limited.until_logged("refused", "too many connections", f"listener=main/{listener}")
    clients.pop().leaves()
    until(lambda: _is_accepted(port), "there is room again")
    for client in clients:
        client.leaves()


@pytest.mark.parametrize("said", [b"", CONNECT[:1], CONNECT[:-1]], ids=["nothing", "one byte", "half a CONNECT"])
def test_connect_timeout(limited: LiveNode, said: bytes) -> None:
    assert is_closed(limited.port, said) == b""
    limited.until_logged("refused", "no CONNECT in time")


def test_a_connected_client_is_not_under_the_connect_timeout(limited: LiveNode) -> None:
    with Paho().connects(limited.port) as ann:
        ann.subscribe("a", 1)
        is_closed(limited.port, b"")  # lasts longer than the timeout
        ann.publish("a", b"still here", 1)
        assert ann.receive().payload == b"still here"


# --- clients that do everything wrong


async def test_one_byte_at_a_time(node: LiveNode, name: str) -> None:
    peer = await Peer.open(HOST, node.port)
    packets: list[Packet] = [
        Connect("", 5),
        Subscribe(1, (SubscriptionRequest(name, 1),)),
        Publish(name, b"x" * 200, 1, packet_id=2),
    ]
    for byte in b"".join(encode(packet, 5) for packet in packets):
        await peer.send_raw(bytes([byte]))
        await asyncio.sleep(0)
    await peer.expect(Connack, reason=0)
    await peer.next()
    assert {type(await peer.next()).__name__ for _ in range(2)} == {"Publish", "Puback"}
    await peer.close()


async def test_a_large_packet_right_behind_connect(node: LiveNode, name: str) -> None:
    peer = await Peer.open(HOST, node.port)
    await peer.send(
        Connect("", 5), Subscribe(1, (SubscriptionRequest(name),)), Publish(name, bytes(2 * MIB)), Pingreq()
    )
    await peer.expect(Connack, reason=0)
    await peer.next()
    assert len((await peer.receive(name)).payload) == 2 * MIB
    await peer.close()


GARBAGE = {
    "zeroes": bytes(100),
    "ones": b"\xff" * 100,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "publish first": encode(Publish("a", b"x"), 5),
    "endless length": b"\x10\xff\xff\xff\xff\x01",
    "a CONNECT of 256 MiB": b"\x10\xff\xff\xff\x7f" + bytes(100),
    "another protocol": encode(Connect("", 5), 5).replace(b"MQTT", b"AMQP"),
    "reserved type": b"\x00\x00",
    "connect twice": CONNECT + CONNECT,
    "answers to nothing": CONNECT + b"\x20\x03\x00\x00\x00",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_the_connection(node: LiveNode, data: bytes) -> None:
    is_closed(node.port, data)
    with Paho().connects(node.port) as ann:
        ann.subscribe("a")


def test_connections_leave_nothing_open(node: LiveNode) -> None:
    before = open_files(node)
    for data in (b"", CONNECT, CONNECT[:5], b"\x00\x00"):
        for _ in range(20):
            peer = Deaf(node.port)
            peer.socket.sendall(data)
            peer.close()
    until(lambda: open_files(node) <= before, "all connections are closed on the node's side too")


# --- memory

BOUND = 40 * MIB
"""The memory that the node may use in addition after a flood: its outbox, its queue, and what Python keeps for
later."""
TIGHT = {"outbox_bytes": "256 KiB", "queued_bytes": "16 MiB", "queued_messages": 1000}


@pytest.fixture(scope="module", params=["memory", "main.db"])
def tight(request: pytest.FixtureRequest) -> Iterator[LiveNode]:
    with running({"store": request.param, "admin": ANY_PORT, "limits": TIGHT, "synchronous": "normal"}) as live:
        with Paho().connects(live.port) as ann:  # so that everything that is made once is there
            ann.subscribe("warm/#", 2)
            for number in range(300):
                ann.client.publish(f"warm/{number % 3}", bytes(10_000), number % 3)
            ann.payloads(300)
        yield live
        assert "Traceback" not in live.log


def _metric(node: LiveNode, name: str) -> float:
    lines = ask(f"http://{HOST}:{node.ports('http')[0]}/metrics")[2].splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name}{{")))


async def _flood(node: LiveNode, topic: str, qos: int, count: int, size: int) -> None:
    """Publish, with as many at a time as the node takes."""
    peer = await Peer.open(HOST, node.port)
    await peer.connect()
    payload = bytes(size)
    for start in range(0, count, 20):
        await peer.send(
            *(Publish(topic, payload, qos, packet_id=start + number + 1 if qos else 0) for number in range(20))
        )
        if qos:
            for _ in range(20):
                await peer.next()
        else:
            await peer.expect_nothing()
    await peer.disconnect()


@pytest.mark.parametrize(("qos", "count", "size"), [(0, 10_000, 10_000), (1, 10_000, 4_000)])
async def test_a_subscriber_that_never_reads(tight: LiveNode, name: str, qos: int, count: int, size: int) -> None:
    deaf = Deaf(tight.port, name, qos, client_id=name, lasting=True)
    healthy = await Peer.open(HOST, tight.port)
    await healthy.connect()
    await healthy.subscribe(f"{name}/other", qos=1)
    before, dropped = tight.rss(), _metric(tight, "penstock_publications_dropped_total")
    await _flood(tight, name, qos, count, size)
    assert settled(tight.rss, 0.3) - before < BOUND
    assert _metric(tight, "penstock_publications_dropped_total") - dropped > count / 2
    assert len([line for line in tight.log.splitlines() if f"client={name} " in line and "dropped" in line]) == 1
    await _flood(tight, f"{name}/other", 1, 20, 10)  # the others do not notice
    for _ in range(20):
        await healthy.receive(f"{name}/other")
    await healthy.disconnect()
    deaf.close()


FLOODS = {
    "PINGREQ": encode(Pingreq(), 5),
    "SUBSCRIBE": encode(Subscribe(1, (SubscriptionRequest("a/b/c"),)), 5),
    "PUBLISH QoS 1": encode(Publish("nobody/listens", b"", 1, packet_id=1), 5),
    "PUBLISH QoS 2": encode(Publish("nobody/listens", b"", 2, packet_id=1), 5),
    "PUBREL": bytes.fromhex("62020001"),
}


@pytest.mark.parametrize("packet", FLOODS.values(), ids=FLOODS.keys())
def test_a_client_that_asks_and_never_reads_the_answers(tight: LiveNode, packet: bytes) -> None:
    before = tight.rss()
    deaf = Deaf(tight.port)
    with contextlib.suppress(ConnectionError):  # it may be thrown out
        deaf.floods(packet, 3 * MIB)
    assert tight.rss() - before < BOUND
    deaf.close()
    with Paho().connects(tight.port) as ann:
        ann.subscribe("a", 1)


def test_retained_messages_for_those_who_never_read(tight: LiveNode, name: str) -> None:
    with Paho().connects(tight.port) as bob:
        for number in range(1000):
            bob.client.publish(f"{name}/{number}", bytes(20_000), 0, retain=True)
        bob.publish(f"{name}/last", b"x", 1)
        before = tight.rss()
        deaf = [Deaf(tight.port, f"{name}/#", qos) for qos in (0, 1) for _ in range(5)]
        bob.publish(f"{name}/last", b"x", 1)
        assert settled(tight.rss, 0.5) - before < BOUND
        for peer in deaf:
            peer.close()
        for number in range(1000):
            bob.client.publish(f"{name}/{number}", b"", 0, retain=True)
        bob.publish(f"{name}/last", b"x", 1)


async def test_queues_of_those_who_come_back_and_never_read(tight: LiveNode, name: str) -> None:
    names = [f"{name}-{number}" for number in range(8)]
    for client_id in names:
        Deaf(tight.port, name, 2, client_id, lasting=True).close()
    await _flood(tight, name, 2, 20, 800_000)
    before = tight.rss()
    deaf = [Deaf(tight.port, client_id=client_id, lasting=True, clean=False) for client_id in names]
    with Paho().connects(tight.port) as bob:
        bob.publish(name, b"x", 1)
    assert settled(tight.rss, 0.5) - before < BOUND
    for client_id, peer in zip(names, deaf, strict=True):
        peer.close()
        Paho(client_id).connects(tight.port).leaves()


@pytest.mark.parametrize("closes", [True, False], ids=["and goes", "and stays"])
def test_a_burst_that_gets_ahead_of_the_store(tight: LiveNode, name: str, closes: bool) -> None:
    """Far more QoS 1 messages at once than may wait for the disk."""
    away = Paho(name, clean=False).connects(tight.port, SessionExpiryInterval=60)
    away.subscribe(name, 1)
    away.leaves()
    burst = [Deaf(tight.port, client_id=f"{name}-{number}") for number in range(3)]
    for peer in burst:
        peer.floods(encode(Publish(name, b"x" * 20, 1, packet_id=1), 5), MIB)
        if closes:
            peer.close()
    with Paho().connects(tight.port) as bob:
        assert bob.publish(name, b"x", 1) == 0
    for peer in burst:
        peer.close()
    Paho(name).connects(tight.port).leaves()


# --- many


def _few_files() -> None:
    """The limit of a login shell: the node has to raise it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


MANY = 5_000


async def test_5000_idle_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MANY + 500:
        pytest.skip(f"this process may open {hard} files at most, {MANY + 500} are needed: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 500), hard))
    with running(before=_few_files) as live:
        peers: list[Peer] = []
        for start in range(0, MANY, 100):
            opened = await asyncio.gather(*(Peer.open(HOST, live.port) for _ in range(100)))
            await asyncio.gather(*(peer.connect(f"idle-{start + place}") for place, peer in enumerate(opened)))
            peers += opened
        assert open_files(live) >= MANY
        await asyncio.gather(*(peer.subscribe(f"idle/{place}") for place, peer in enumerate(peers)))
        bob = await Peer.open(HOST, live.port)
        await bob.connect()
        for place in range(0, MANY, 50):
            await bob.publish(f"idle/{place}", b"%d" % place)
            await peers[place].receive(f"idle/{place}", payload=b"%d" % place)
        await asyncio.gather(*(peer.expect_nothing() for peer in peers))
        for peer in peers:
            await peer.send(Disconnect())
        until(lambda: open_files(live) < 100, "all connections are closed")
        await asyncio.gather(*(peer.close() for peer in peers), bob.close())
        assert "Traceback" not in live.log
