"""The examples of statements §3.2 and §3.3 with a real node: which publications reach which subscriptions."""

import pytest

from penstock.client import Client, Event, Refused, Subscription
from tests.support.clients.library import client, payloads, take
from tests.support.processes.node import LiveNode

# --- §3.2

A1, A2 = "x < 100 && y < 50", "x > 75 && y < 100"
S1, S2 = "x > 25 && y < 75", "x < 100 && y > 75"
PUBLICATIONS = {
    "P1, which satisfies A1 and A2": ((90, 30), {"S1"}),
    "P2, which satisfies A1 alone": ((30, 30), {"S1"}),
    "one that satisfies A2 alone": ((80, 90), {"S2"}),
    "one that satisfies A1, and no subscription": ((20, 30), set[str]()),
    "one that satisfies A2, and no subscription": ((110, 80), set[str]()),
}
NOT_ADVERTISED = {
    "y is too much for A1 and x too little for A2": {"x": 30, "y": 60},
    "y is too much for both": {"x": 80, "y": 100},
    "there is no y": {"x": 30},
    "x is no number": {"x": "30", "y": 30},
}


async def reached(subscriptions: dict[str, Subscription], publisher: Client, topic: str, content: object) -> set[str]:
    """The names of the subscriptions that a publication reaches; all must let a mark through, whose x is 80."""
    await publisher.publish(topic, content)
    await publisher.publish(topic, {"x": 80, "y": 30, "mark": 1})
    await publisher.publish(topic, {"x": 80, "y": 90, "mark": 1})
    topics = set()
    for name, subscription in subscriptions.items():
        (event,) = await take(subscription)
        if "mark" not in event.attributes:
            topics.add(name)
            await take(subscription)
    return topics


@pytest.mark.parametrize("title", PUBLICATIONS)
async def test_publications_reach(node: LiveNode, name: str, title: str) -> None:
    (x, y), names = PUBLICATIONS[title]
    async with client(node.port) as producer, client(node.port) as consumer:
        for advertisement in (A1, A2):
            await producer.advertise(name, advertisement)
        subscriptions = {"S1": await consumer.subscribe(name, S1), "S2": await consumer.subscribe(name, S2)}
        assert await reached(subscriptions, producer, name, {"x": x, "y": y}) == names


@pytest.mark.parametrize("title", NOT_ADVERTISED)
async def test_what_no_advertisement_says_is_refused(node: LiveNode, name: str, title: str) -> None:
    async with client(node.port) as producer, client(node.port) as consumer:
        await producer.advertise(name, A1)
        await producer.advertise(name, A2)
        subscription = await consumer.subscribe(name)
        with pytest.raises(Refused) as caught:
            await producer.publish(name, NOT_ADVERTISED[title])
        assert caught.value.code == 0x87
        await producer.publish(name, {"x": 30, "y": 30, "as": "advertised"})
        (event,) = await take(subscription)
        assert event.attributes["as"] == "advertised"


async def test_an_advertisement_that_is_taken_back_no_longer_counts(node: LiveNode, name: str) -> None:
    p2, beyond = {"x": 30, "y": 30}, {"x": 30, "y": 60}
    async with client(node.port) as producer:
        a1, a2 = await producer.advertise(name, A1), await producer.advertise(name, A2)
        await producer.publish(name, p2)
        await producer.unadvertise(a1)
        with pytest.raises(Refused, match="0x87"):
            await producer.publish(name, p2)
        await producer.unadvertise(a2)
        await producer.publish(name, beyond)  # who has advertised nothing is not held to anything
        with pytest.raises(Refused, match=f"taking back the advertisement `{a2.name}`"):
            await producer.unadvertise(a2)


async def test_an_advertisement_of_the_same_name_is_replaced(node: LiveNode, name: str) -> None:
    async with client(node.port) as producer:
        await producer.advertise(name, "x < 10", name="range")
        await producer.advertise(name, "x > 10", name="range")
        await producer.publish(name, {"x": 11})
        with pytest.raises(Refused):
            await producer.publish(name, {"x": 9})


# --- §3.3: reports on the inventory, of which management wants the high and the low

X_HIGH, X_LOW = 900, 100
HIGH, LOW = f"class == 'report' && d1 > {X_HIGH}", f"class == 'report' && d1 < {X_LOW}"


async def test_the_supply_chain(node: LiveNode, name: str) -> None:
    async with client(node.port) as warehouse, client(node.port) as management:
        high, low = await management.subscribe(name, HIGH), await management.subscribe(name, LOW)
        for d1 in (950, 500, 50, 900, 100, 901, 99):
            await warehouse.publish(name, {"class": "report", "d1": d1, "d2": "and many more"})
        await warehouse.publish(name, {"class": "order", "d1": 950})
        await warehouse.publish(name, {"class": "report", "d1": 1000})
        await warehouse.publish(name, {"class": "report", "d1": 0})
        assert [event.attributes["d1"] for event in await take(high, 3)] == [950, 901, 1000]
        assert [event.attributes["d1"] for event in await take(low, 3)] == [50, 99, 0]


# --- several subscriptions of one client


async def test_one_event_for_two_subscriptions_to_the_same_filter(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        warm, hot = await both.subscribe(name, "t > 20"), await both.subscribe(name, "t > 80")
        for t in (10, 50, 90):
            await both.publish(name, {"t": t})
        await both.publish(name, {"t": 100})

        def ts(events: list[Event]) -> list[int]:
            return [event.attributes["t"] for event in events]

        assert ts(await take(warm, 3)) == [50, 90, 100]
        assert ts(await take(hot, 2)) == [90, 100]


async def test_giving_up_one_of_two_subscriptions_to_the_same_filter(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        warm, hot = await both.subscribe(name, "t > 20"), await both.subscribe(name, "t > 80")
        await both.unsubscribe(warm)
        await both.publish(name, {"t": 90})
        assert (await take(hot))[0].attributes == {"t": 90}
        assert [event async for event in warm] == []


async def test_a_subscription_of_the_same_name_is_replaced(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        old = await both.subscribe(name, "t > 20", name="watch")
        new = await both.subscribe(name, "t > 80", name="watch")
        await both.publish(name, {"t": 50})
        await both.publish(name, {"t": 90})
        assert (await take(new))[0].attributes == {"t": 90}
        assert [event async for event in old] == []


async def test_a_replacement_that_is_refused_leaves_what_was_there(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        old = await both.subscribe(name, "t > 20", name="watch")
        with pytest.raises(Refused):
            await both.subscribe(name, "t > 80", name="watch", scope="elsewhere")  # type: ignore[arg-type]
        await both.publish(name, {"t": 50})
        assert (await take(old))[0].attributes == {"t": 50}


async def test_what_is_retained_is_given_to_whom_it_satisfies(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        for room, t in (("kitchen", 50), ("cellar", 10)):
            await both.publish(f"{name}/{room}", {"t": t}, retain=True)
        subscription = await both.subscribe(f"{name}/+", "t > 20")
        await both.publish(f"{name}/hall", {"t": 30})
        assert [event.topic for event in await take(subscription, 2)] == [f"{name}/kitchen", f"{name}/hall"]
        for room in ("kitchen", "cellar"):
            await both.publish(f"{name}/{room}", b"", retain=True)


async def test_content_that_a_condition_cannot_judge_does_not_reach_it(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        subscription = await both.subscribe(name, "t > 20")
        for content in (b"\x00", "text", {"u": 1}, {"t": "50"}, 50):
            await both.publish(name, content)
        await both.publish(name, b"{", content_type="application/json")
        await both.publish(name, '{"t": 21}')
        assert await payloads(subscription) == [b'{"t": 21}']


async def test_xml(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        subscription = await both.subscribe(name, "xpath('count(//alarm)') > 1.0")
        await both.publish(name, "<log><alarm/></log>")
        await both.publish(name, "<log><alarm/><alarm/></log>")
        assert await payloads(subscription) == [b"<log><alarm/><alarm/></log>"]


# --- what a node refuses


async def test_a_node_refuses_what_a_client_cannot_know(node: LiveNode, name: str) -> None:
    async with client(node.port) as both:
        with pytest.raises(Refused, match="0x99") as caught:
            await both.advertise(f"$share/group/{name}")
        assert "is a shared subscription" in caught.value.words
        with pytest.raises(Refused, match="0x99"):
            await both.advertise(name, name="n" * 201)
        with pytest.raises(Refused, match="0x83"):
            await both.subscribe(name, name="n" * 201)
