"""`penstock.client` with a real node: publishing, subscribing, and what is refused."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, ConditionError, ContentError, Disconnected, Refused, TopicError
from tests.support.clients.library import all_until, client, payloads, take
from tests.support.processes.certificates import Authority
from tests.support.processes.mosquitto import HOST, free_port
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

# --- what is published arrives


@pytest.mark.parametrize(
    ("title", "content", "payload", "content_type", "attributes"),
    [
        (
            "an object",
            {"x": 1, "y": [0.5, None]},
            b'{"x":1,"y":[0.5,null]}',
            "application/json",
            {"x": 1, "y": [0.5, None]},
        ),
        ("a list", [1, 2], b"[1,2]", "application/json", {"value": [1, 2]}),
        ("a number", 21.5, b"21.5", "application/json", {"value": 21.5}),
        ("a truth", True, b"true", "application/json", {"value": True}),
        ("letters beyond ASCII", {"é": "ü"}, '{"é":"ü"}'.encode(), "application/json", {"é": "ü"}),
        ("text", "21.5 °C", "21.5 °C".encode(), "", {}),
        ("text that is JSON", '{"x": 1}', b'{"x": 1}', "", {"x": 1}),
        ("bytes", b"\x00\xff", b"\x00\xff", "", {}),
        ("nothing", b"", b"", "", {}),
    ],
)
async def test_content(
    node: LiveNode, name: str, title: str, content: Any, payload: bytes, content_type: str, attributes: Any
) -> None:
    async with client(node.port) as both:
        subscription = await both.subscribe(name)
        await both.publish(name, content)
        (event,) = await take(subscription)
    assert (event.payload, event.content_type, event.attributes) == (payload, content_type, attributes)


async def test_what_goes_with_an_event(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        await both.publish(
            name, "<a>1</a>", retain=True, content_type="application/xml", properties=[("k", "1"), ("k", "2")]
        )
        subscription = await both.subscribe(name, qos=0)
        (event,) = await take(subscription)
        await both.publish(name, b"", retain=True)
    assert (event.topic, event.qos, event.retain) == (name, 0, True)
    assert (event.content_type, event.properties) == ("application/xml", (("k", "1"), ("k", "2")))


async def test_damaged_content_is_an_error_when_asked_for(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        subscription = await both.subscribe(name)
        await both.publish(name, b"{", content_type="application/json")
        (event,) = await take(subscription)
    with pytest.raises(ContentError):
        _ = event.attributes


async def test_an_event_can_expire(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        await both.publish(name, "short-lived", retain=True, expiry=1)
        await asyncio.sleep(1.1)
        await both.publish(f"{name}/lasts", "long-lived", retain=True, expiry=1000)
        assert await payloads(await both.subscribe(f"{name}/#")) == [b"long-lived"]
        await both.publish(f"{name}/lasts", b"", retain=True)


@pytest.mark.parametrize("content", [float("nan"), {"x": float("inf")}, object()])
async def test_what_is_not_json_is_not_sent(node: LiveNode, name: str, content: object) -> None:
    async with client(node.port) as both:
        with pytest.raises((ValueError, TypeError)):
            await both.publish(name, content)


# --- subscriptions


async def test_each_subscription_gets_its_own_events(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        narrow = await both.subscribe(f"{name}/a")
        wide = await both.subscribe(f"{name}/#")
        await both.publish(f"{name}/a", "for both")
        await both.publish(f"{name}/b", "for the wide one")
        await both.publish(f"{name}/a", "last")
        assert await all_until(narrow, b"last") == [b"for both"]
        assert await all_until(wide, b"last") == [b"for both", b"for the wide one"]


async def test_unsubscribing_ends_the_loop(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        given_up, subscription = await both.subscribe(f"{name}/+"), await both.subscribe(f"{name}/#")
        await both.publish(f"{name}/a", "1")
        await take(subscription)
        await both.unsubscribe(given_up)
        await both.publish(f"{name}/a", "2")
        assert await payloads(subscription) == [b"2"]
        assert [event async for event in given_up] == []


async def test_several_tasks_share_a_subscription(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        subscription = await both.subscribe(name)
        workers = [asyncio.create_task(take(subscription, 5)) for _ in range(2)]
        for number in range(10):
            await both.publish(name, number)
        values = [event.attributes["value"] for worker in workers for event in await worker]
    assert sorted(values) == list(range(10))


async def test_publishing_from_many_tasks_at_once(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        subscription = await both.subscribe(name)
        await asyncio.gather(*(both.publish(name, number) for number in range(200)))
        values = [event.attributes["value"] for event in await take(subscription, 200)]
    assert values == list(range(200))


async def test_no_more_is_under_way_than_the_node_takes() -> None:
    with running({"limits": {"receive_maximum": 2}}) as narrow:
        async with client(narrow.port) as both:
            await asyncio.gather(*(both.publish("a", number) for number in range(50)))
        assert "receive maximum" not in narrow.log.lower()


# --- when there is no room


async def test_events_of_qos_0_that_find_no_room_are_counted(node: LiveNode, name: str) -> None:
    async with client(node.port, buffer=10) as both:
        subscription, marks = await both.subscribe(name, qos=0), await both.subscribe(f"{name}/mark", qos=0)
        for number in range(25):
            await both.publish(name, number, qos=0)
        await both.publish(f"{name}/mark", "sent", qos=0)
        await take(marks)
        assert subscription.dropped == 15
        assert [event.attributes["value"] for event in await take(subscription, 10)] == list(range(10))


async def test_events_of_qos_1_wait_at_the_node(node: LiveNode, name: str) -> None:
    async with client(node.port, buffer=10) as reader, client(node.port) as writer:
        subscription, marks = await reader.subscribe(name), await reader.subscribe(f"{name}/mark", qos=0)
        for number in range(50):
            await writer.publish(name, number)
        await writer.publish(f"{name}/mark", "sent", qos=0)
        await take(marks)
        assert subscription.waiting == 10
        assert [event.attributes["value"] for event in await take(subscription, 50)] == list(range(50))


async def test_what_waits_in_a_subscription_that_is_given_up_makes_room(node: LiveNode, name: str) -> None:
    async with client(node.port, buffer=5) as reader, client(node.port) as writer:
        idle, busy = await reader.subscribe(f"{name}/idle"), await reader.subscribe(f"{name}/busy")
        for number in range(5):
            await writer.publish(f"{name}/idle", number)
        await writer.publish(f"{name}/busy", "through")
        await reader.unsubscribe(idle)
        assert await payloads(busy) == [b"through"]


# --- what is refused


@pytest.fixture(scope="module")
def guarded() -> Iterator[LiveNode]:
    """A node that knows ann, who may do as she likes with her home, but for her diary."""
    files = {
        "passwords": passwords(ann="apple"),
        "acl": "user ann\ntopic readwrite home/ann/#\ntopic deny home/ann/diary/#\n",
    }
    with running({"passwords": "passwords", "acl": "acl"}, files) as live:
        yield live


def ann(node: LiveNode, password: str = "apple") -> Client:
    return client(node.port, username="ann", password=password)


async def test_a_refused_publication_raises_the_nodes_words(guarded: LiveNode) -> None:
    async with ann(guarded) as client:
        with pytest.raises(Refused) as caught:
            await client.publish("home/ann/diary", "dear diary")
    assert caught.value.code == 0x87
    assert caught.value.words.startswith("may not write to `home/ann/diary`: by ")
    assert str(caught.value) == f"publication to `home/ann/diary` was refused (0x87): {caught.value.words}"


async def test_a_refused_subscription_raises_and_others_go_on(guarded: LiveNode) -> None:
    async with ann(guarded) as client:
        good = await client.subscribe("home/ann/door")
        with pytest.raises(Refused, match=r"subscription to `home/ann/diary/#` was refused \(0x87\)"):
            await client.subscribe("home/ann/diary/#")
        await client.publish("home/ann/door", "open")
        assert await payloads(good) == [b"open"]


async def test_a_wrong_password_is_refused(guarded: LiveNode) -> None:
    with pytest.raises(Refused) as caught:
        async with ann(guarded, "guessed"):
            pass
    assert caught.value.code == 0x87


async def test_where_nobody_listens() -> None:
    port = free_port()
    with pytest.raises(Disconnected, match=f"cannot connect to `{HOST}:{port}`: "):
        async with client(port):
            pass


async def test_where_nobody_answers() -> None:
    async with await asyncio.start_server(lambda reader, writer: None, HOST, 0) as server:
        with pytest.raises(Disconnected, match="does not answer"):
            async with client(server.sockets[0].getsockname()[1], timeout=0.2):
                pass


async def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    tls = {"address": ANY_PORT, "tls": {"cert": str(cert), "key": str(key)}}
    with running({"listen": [tls]}) as secure:
        (port,) = secure.ports("mqtts")
        async with client(port, tls=authority.trusting()) as both:
            subscription = await both.subscribe("a")
            await both.publish("a", "by TLS")
            assert await payloads(subscription) == [b"by TLS"]
        with pytest.raises(Disconnected, match="certificate verify failed"):
            async with client(port, tls=True):
                pass


# --- mistakes that need no node


@pytest.mark.parametrize("buffer", [0, 65536])
def test_a_buffer_that_mqtt_does_not_have(buffer: int) -> None:
    with pytest.raises(ValueError, match="1 to 65535"):
        Client(buffer=buffer)


@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        ("publish", ("a/+", 1), TopicError),
        ("subscribe", ("a/#/b",), TopicError),
        ("subscribe", ("a", "x >"), ConditionError),
        ("advertise", ("#a",), TopicError),
        ("advertise", ("a", "x & y"), ConditionError),
    ],
)
async def test_a_mistake_is_found_before_anything_is_sent(
    node: LiveNode, call: str, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    async with client(node.port) as both:
        with pytest.raises(error):
            await getattr(both, call)(*arguments)


async def test_a_client_that_is_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="use `async with`"):
        await Client().publish("a", 1)


async def test_leaving_ends_the_loops_and_the_calls(node: LiveNode, name: str) -> None:
    async def count() -> int:
        return len([event async for event in subscription])

    async with client(node.port) as both:
        subscription = await both.subscribe(name)
        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
    assert await counting == 0
    with pytest.raises(Disconnected, match="the client has left"):
        await both.publish(name, 1)
    with pytest.raises(RuntimeError, match="entered once"):
        await both.__aenter__()
