"""`penstock.client` when connections are lost: what goes on, what is done again, and what is over."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.client import Disconnected, Refused
from penstock.wire.codec import encode
from penstock.wire.packet import Connack, Puback, Publish
from penstock.wire.stream import StreamDecoder
from tests.support.clients.library import all_until, client, payloads, take
from tests.support.processes.cable import Cable
from tests.support.processes.commands import PATIENCE
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import LiveNode, passwords, running


@pytest.fixture
async def cable(node: LiveNode) -> AsyncIterator[Cable]:
    async with Cable(node.port) as cable:
        yield cable


async def test_what_is_published_meanwhile_arrives(node: LiveNode, name: str, cable: Cable) -> None:
    async with client(cable.port) as reader, client(node.port) as writer:
        subscription = await reader.subscribe(name)
        cable.cut()
        await writer.publish(name, "meanwhile")
        cable.plug()
        await writer.publish(name, "later")
        assert await payloads(subscription, 2) == [b"meanwhile", b"later"]


async def test_what_was_not_taken_comes_once_and_in_order(node: LiveNode, name: str, cable: Cable) -> None:
    async with client(cable.port) as reader, client(node.port) as writer:
        subscription, marks = await reader.subscribe(name), await reader.subscribe(f"{name}/mark")
        for number in range(6):
            await writer.publish(name, number)
        assert await payloads(subscription, 3) == [b"0", b"1", b"2"]
        await reader.publish(f"{name}/answered", "so the node has the acknowledgements before it")
        cable.cut()
        cable.plug()
        await writer.publish(f"{name}/mark", "back")
        await take(marks)
        await writer.publish(name, "last")
        assert await all_until(subscription, b"last") == [b"3", b"4", b"5"]


async def test_calls_wait_for_the_connection(name: str, cable: Cable) -> None:
    async with client(cable.port) as both:
        first, given_up = await both.subscribe(f"{name}/1"), await both.subscribe(f"{name}/2")
        cable.cut()
        calls = asyncio.gather(
            both.publish(f"{name}/1", "with an answer"),
            both.subscribe(f"{name}/3"),
            both.unsubscribe(given_up),
            both.publish(f"{name}/3", "without", qos=0),
        )
        await asyncio.sleep(0.1)
        assert not calls.done()
        cable.plug()
        async with asyncio.timeout(PATIENCE):
            await calls
        assert await payloads(first) == [b"with an answer"]


async def test_a_session_that_the_node_has_forgotten_is_made_again(name: str) -> None:
    with running() as node:
        async with Cable(node.port) as cable, client(cable.port) as both:
            first, second = await both.subscribe(f"{name}/+"), await both.subscribe(f"{name}/#", qos=0)
            await both.publish(f"{name}/a", "not taken yet")
            cable.cut()
            await asyncio.to_thread(node.stop)
            await asyncio.to_thread(node.start)
            cable.plug(node.port)
            await both.publish(f"{name}/a", "last")
            assert await payloads(first, 2) == [b"not taken yet", b"last"]
            assert await payloads(second, 2) == [b"not taken yet", b"last"]


async def test_conditions_and_advertisements_are_made_again(name: str, cable: Cable) -> None:
    async with client(cable.port, session_expiry=0) as both:
        await both.advertise(name, "x < 100")
        await both.unadvertise(await both.advertise(f"{name}/other"))
        subscription = await both.subscribe(name, "x > 50")
        cable.cut()
        cable.plug()
        await both.subscribe(f"{name}/other")  # is answered over the new connection
        for x in (10, 60):
            await both.publish(name, {"x": x})
        assert await payloads(subscription) == [b'{"x":60}']
        for topic, x in ((name, 100), (f"{name}/other", 10)):
            with pytest.raises(Refused, match="0x87"):
                await both.publish(topic, {"x": x})


async def test_a_session_that_has_expired_is_made_again(name: str, cable: Cable) -> None:
    async with client(cable.port, session_expiry=0) as both:
        subscription = await both.subscribe(name)
        cable.cut()
        cable.plug()
        await both.subscribe(f"{name}/other")  # is answered over the new connection
        await both.publish(name, "again")
        assert await payloads(subscription) == [b"again"]


async def test_leaving_while_there_is_no_connection(name: str, cable: Cable) -> None:
    async with client(cable.port) as both:
        subscription = await both.subscribe(name)
        cable.cut()
        publishing = asyncio.create_task(both.publish(name, "too late"))
        await asyncio.sleep(0.1)
    assert [event async for event in subscription] == []
    with pytest.raises(Disconnected, match="the client has left"):
        await publishing


async def test_another_client_of_the_same_id_takes_over(node: LiveNode, name: str) -> None:
    async with client(node.port, name) as first:
        subscription = await first.subscribe(name)
        async with client(node.port, name):
            with pytest.raises(Disconnected, match=f"another client with the id `{name}`"):
                await take(subscription)
            with pytest.raises(Disconnected):
                await first.publish(name, "too late")


async def test_what_had_come_is_given_before_the_error(node: LiveNode, name: str) -> None:
    async with client(node.port, name) as first:
        subscription, idle = await first.subscribe(f"{name}/a"), await first.subscribe(f"{name}/b")
        await first.publish(f"{name}/a", "in time")
        async with client(node.port, name):
            with pytest.raises(Disconnected):
                await take(idle)
        assert await payloads(subscription) == [b"in time"]
        with pytest.raises(Disconnected):
            await take(subscription)


async def test_a_client_that_is_no_longer_let_in_is_told(name: str) -> None:
    files = {"passwords": passwords(ann="apple")}
    with running({"passwords": "passwords"}, files) as node:
        async with Cable(node.port) as cable, client(cable.port, username="ann", password="apple") as ann:
            subscription = await ann.subscribe(name)
            cable.cut()
            node.write("passwords", passwords(ann="banana"))
            node.reload()
            cable.plug()
            with pytest.raises(Refused, match=r"connection to .* was refused"):
                await take(subscription)
            with pytest.raises(Refused, match=r"connection to .* was refused"):
                await ann.publish(name, "nobody listens")


async def test_a_node_that_is_busy_is_asked_again() -> None:
    codes = [0x00, 0x88, 0x89, 0x00]  # of the first connection, and of those after it is lost

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(encode(Connack(reason=codes.pop(0)), 5))
        if not codes:
            published = StreamDecoder(version=5).feed(await reader.read(4096))
            writer.writelines(
                encode(Puback(packet.packet_id), 5) for packet in published if isinstance(packet, Publish)
            )
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server, client(server.sockets[0].getsockname()[1]) as both, asyncio.timeout(PATIENCE):
        await both.publish("a", "at last")
    assert codes == []


async def test_a_subscription_that_is_no_longer_granted_is_told_and_others_go_on(name: str) -> None:
    settings = {"acl": "acl", "anonymous": True}
    with running(settings, {"acl": "topic readwrite #\n"}) as node:
        async with Cable(node.port) as cable, client(cable.port, session_expiry=0) as both:
            secret, open_ = await both.subscribe("secret/#"), await both.subscribe("open/#")
            cable.cut()
            node.write("acl", "topic readwrite #\ntopic deny secret/#\n")
            node.reload()
            cable.plug()
            with pytest.raises(Refused, match="subscription to `secret/#` was refused"):
                await take(secret)
            await both.publish("open/door", "goes on")
            assert await payloads(open_) == [b"goes on"]
