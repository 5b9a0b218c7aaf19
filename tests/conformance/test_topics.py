"""Topic names, filters and shared subscriptions: MQTT 5 §4.7, §4.8; MQTT 3.1.1 §4.7."""

import asyncio
from collections import Counter

import pytest

from penstock.wire.packet import MQTT_5, Disconnect, Puback, Publish, Suback, Subscribe, SubscriptionRequest
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, titled

# filter, names it matches, names it does not; `*` stands for the test's own first level
MATCHES = {
    "itself": ("*/a", ["*/a"], ["*", "*/a/", "*/A", "*/a/b", "*/b"]),
    "`#` and its parent": ("*/a/#", ["*/a", "*/a/", "*/a/b", "*/a/b/c"], ["*/ab", "*/b", "*"]),
    "`+` one level": ("*/+/c", ["*/a/c", "*//c"], ["*/c", "*/a/b/c", "*/a/c/"]),
    "`+` last": ("*/a/+", ["*/a/b", "*/a/"], ["*/a", "*/a/b/c"]),
    "`+` and `#`": ("*/+/#", ["*/a", "*/", "*/a/b/c"], ["*"]),
    "empty levels": ("*//+", ["*//", "*//a"], ["*/", "*/a"]),
    "blanks and case": ("*/A b", ["*/A b"], ["*/a b", "*/A", "*/A  b"]),
    "no normalisation [MQTT-4.7.3-4]": ("*/\u00e9", ["*/\u00e9"], ["*/e\u0301", "*/e"]),
}


@pytest.mark.parametrize("case", titled(MATCHES))
async def test_filters_match_by_levels(
    join: Join, version: int, topic: str, case: tuple[str, list[str], list[str]]
) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-4] [MQTT-3.3.2-3]"""
    own = topic.replace("/", "-")
    pattern = case[0].replace("*", own)
    yes, no = ([name.replace("*", own) for name in names] for names in case[1:])
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(pattern)
    for name in [*yes, *no]:
        await publisher.publish(name)
    for name in yes:
        await subscriber.receive(name)
    await subscriber.expect_nothing()


@pytest.mark.parametrize("pattern", ["a/#/b", "a#", "#/a", "a/b#", "a+", "+a", "a/+b/c", "##", "++"])
async def test_a_misplaced_wildcard_is_refused(join: Join, version: int, pattern: str) -> None:
    """[MQTT-4.7.1-1] [MQTT-4.7.1-2]: by a failure code, or by the end of the connection."""
    client = await join()
    await client.send(Subscribe(1, (SubscriptionRequest(pattern),)))
    answer = await client.next()
    if isinstance(answer, Suback):
        wanted = (Reason.TOPIC_FILTER_INVALID, Reason.UNSPECIFIED_ERROR) if version == MQTT_5 else (0x80,)
        assert answer.reasons[0] in wanted
    else:
        assert answer is None or (isinstance(answer, Disconnect) and answer.reason >= 0x80)


@pytest.mark.parametrize("pattern", ["#", "+/#", "+/broker/#", "+/+/uptime"])
async def test_wildcards_do_not_match_dollar_topics(join: Join, version: int, pattern: str) -> None:
    """[MQTT-4.7.2-1]: neither live nor retained."""
    client, publisher = await join(), await join()
    await client.send(Subscribe(1, (SubscriptionRequest(pattern), SubscriptionRequest("end/of/test"))))
    while not isinstance(packet := await client.next(), Suback):
        assert isinstance(packet, Publish)
        assert not packet.topic.startswith("$")
    await publisher.publish("$dollar/broker/uptime", b"x")
    await publisher.publish("end/of/test", b"x")
    while (message := await client.expect(Publish)).topic != "end/of/test":
        assert not message.topic.startswith("$")


async def test_dollar_topics_can_be_asked_for(join: Join, version: int) -> None:
    """§4.7.2: `$SYS/#` is the server's own."""
    client = await join()
    await client.subscribe("$SYS/#")
    assert (await client.receive()).topic.startswith("$SYS/")


async def test_a_topic_of_the_greatest_length_passes(join: Join, version: int) -> None:
    """[MQTT-4.7.3-3]"""
    long = "l/" * 100 + "x" * (65535 - 200)
    subscriber, publisher = await join(), await join()
    await subscriber.subscribe(long)
    await publisher.publish(long, b"x")
    await subscriber.receive(long)


# --- shared subscriptions


async def test_a_group_gets_each_message_once(join: Join, topic: str) -> None:
    """§4.8.2"""
    members = [await join() for _ in range(3)]
    for member in members:
        await member.subscribe(f"$share/group/{topic}")
    other, publisher = await join(), await join()
    await other.subscribe(topic)
    for index in range(30):
        await publisher.publish(topic, b"%d" % index)
    got: Counter[bytes] = Counter()
    shares = []
    for member in members:
        await member.send(Subscribe(99, (SubscriptionRequest("end"),)))
        share = 0
        while isinstance(packet := await member.next(), Publish):
            got[packet.payload] += 1
            share += 1
        shares.append(share)
    assert got == Counter(b"%d" % index for index in range(30))
    assert all(shares)
    for _ in range(30):
        await other.receive(topic)


async def test_groups_do_not_know_each_other(join: Join, topic: str) -> None:
    """§4.8.2"""
    first, second, publisher = await join(), await join(), await join()
    await first.subscribe(f"$share/one/{topic}")
    await second.subscribe(f"$share/two/{topic}")
    await publisher.publish(topic, b"x")
    await first.receive(topic)
    await second.receive(topic)


async def test_a_member_gets_the_qos_it_was_granted(join: Join, topic: str) -> None:
    """[MQTT-4.8.2-3]"""
    low, high, publisher = await join(), await join(), await join()
    await low.subscribe(f"$share/group/{topic}", qos=0)
    await high.subscribe(f"$share/group/{topic}", qos=1)
    for _ in range(6):
        await publisher.publish(topic, b"x", qos=2)
    counts = []
    for member, qos in ((low, 0), (high, 1)):
        await member.send(Subscribe(99, (SubscriptionRequest("end"),)))
        count = 0
        while isinstance(packet := await member.next(), Publish):
            assert packet.qos == qos
            if qos:
                await member.send(Puback(packet.packet_id))
            count += 1
        counts.append(count)
    assert sum(counts) == 6


async def test_a_member_that_leaves_gets_no_more(join: Join, topic: str) -> None:
    """§4.8.2, [MQTT-3.10.4-1]"""
    leaver, stayer, publisher = await join(), await join(), await join()
    for member in (leaver, stayer):
        await member.subscribe(f"$share/group/{topic}")
    assert await leaver.unsubscribe(f"$share/group/{topic}") == (0,)
    for _ in range(4):
        await publisher.publish(topic, b"x")
        await stayer.receive(topic)
    await leaver.expect_nothing()


async def test_a_member_that_ended_is_passed_over(join: Join, topic: str) -> None:
    """§4.8.2"""
    gone, stayer, publisher = await join(), await join(), await join()
    for member in (gone, stayer):
        await member.subscribe(f"$share/group/{topic}", qos=1)
    await gone.disconnect()
    for _ in range(4):
        await publisher.publish(topic, b"x", qos=1)
        await stayer.receive(topic)


async def test_a_message_refused_by_a_member_goes_to_no_other(join: Join, topic: str) -> None:
    """[MQTT-4.8.2-6]"""
    first, second, publisher = await join(), await join(), await join()
    for member in (first, second):
        await member.subscribe(f"$share/group/{topic}", qos=1)
    await publisher.publish(topic, b"x", qos=1)
    waiting = {asyncio.create_task(member.next()): member for member in (first, second)}
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    (taken,) = done
    message, member = taken.result(), waiting[taken]
    assert isinstance(message, Publish)
    await member.send(Puback(message.packet_id, Reason.UNSPECIFIED_ERROR))
    for each in (first, second):
        await each.expect_nothing()


async def test_a_message_begun_with_a_member_that_ends_goes_to_no_other(join: Join, topic: str) -> None:
    """[MQTT-4.8.2-5]"""
    member, publisher = await join(), await join()
    await member.subscribe(f"$share/group/{topic}", qos=1)
    await publisher.publish(topic, b"x", qos=1)
    await member.expect(Publish)
    other = await join()
    await other.subscribe(f"$share/group/{topic}", qos=1)
    await member.abort()
    await other.expect_nothing()


async def test_a_message_begun_with_a_member_waits_for_it(join: Join, name: str, topic: str) -> None:
    """[MQTT-4.8.2-4]"""
    member = await join(name, properties=Properties(session_expiry=60))
    await member.subscribe(f"$share/group/{topic}", qos=2)
    publisher = await join()
    await publisher.publish(topic, b"x", qos=2)
    await member.expect(Publish)
    await member.abort()
    other = await join()
    await other.subscribe(f"$share/group/{topic}", qos=2)
    await other.expect_nothing()
    member = await join(None)
    assert (await member.connect(name, clean_start=False)).session_present
    await member.receive(topic, payload=b"x", dup=True)
    await other.expect_nothing()


BAD_SHARES = {
    "no filter": "$share/group",
    "empty name": "$share//a",
    "`+` in the name": "$share/gr+up/a",
    "`#` in the name": "$share/gr#up/a",
    "empty filter": "$share/group/",
    "nothing": "$share/",
}
TAKEN_BY_MOSQUITTO = ("no filter", "empty name", "empty filter", "nothing")


@pytest.mark.parametrize("pattern", titled(BAD_SHARES, dict.fromkeys(TAKEN_BY_MOSQUITTO, "grants it")))
async def test_a_bad_shared_filter_is_refused(join: Join, version: int, pattern: str) -> None:
    """[MQTT-4.8.2-1] [MQTT-4.8.2-2]"""
    client = await join()
    await client.send(Subscribe(1, (SubscriptionRequest(pattern),)))
    answer = await client.next()
    if isinstance(answer, Suback):
        assert answer.reasons[0] >= 0x80
    else:
        assert answer is None or (isinstance(answer, Disconnect) and answer.reason >= 0x80)


async def test_shared_and_plain_subscriptions_are_two(join: Join, topic: str) -> None:
    """§4.8.2: a session may have both, and is served by both."""
    client, publisher = await join(), await join()
    await client.subscribe(topic)
    await client.subscribe(f"$share/group/{topic}")
    await publisher.publish(topic, b"x")
    await client.receive(topic)
    await client.receive(topic)
    await client.expect_nothing()
