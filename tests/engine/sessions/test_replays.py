"""Replays of retained messages take steps in turns, whatever is retained, replaced or removed meanwhile."""

import random

import pytest

from penstock.engine.events.entrances import MAX_REPLAYED
from penstock.model.topic import matches
from tests.support.memory.node import MemoryNode

FILTERS = ("#", "a/#", "+/b", "a/+/c", "+/+", "a/b", "c/#")


def some_topic(draw: random.Random) -> str:
    return "/".join(
        draw.choice("abc") + draw.choice(("", str(draw.randrange(30)))) for _ in range(draw.randrange(1, 4))
    )


@pytest.mark.parametrize("seed", range(40))
def test_each_topic_comes_once_while_retained_messages_come_and_go(seed: int) -> None:
    """Issue 17, item 21. What is not touched since the subscription comes once, marked as retained. What is, comes live
    as it was published, and nothing older after it."""
    draw = random.Random(seed)
    joined = MemoryNode()
    writer, reader = joined.connect("writer"), joined.connect("reader")
    held: dict[str, bytes] = {}
    for number in range(4 * MAX_REPLAYED):
        topic = some_topic(draw)
        held[topic] = b"old %d" % number
        writer.publish(topic, held[topic], retain=True)
    filter = draw.choice(FILTERS)
    live: dict[str, list[bytes]] = {}
    reader.subscribe(filter)
    while True:
        joined.turn()
        for number in range(draw.randrange(4)):
            topic = draw.choice(sorted(held)) if draw.random() < 0.5 else some_topic(draw)
            payload = draw.choice((b"", b"new %d" % number))
            live.setdefault(topic, []).append(payload)
            writer.publish(topic, payload, retain=True)
        assert reader.session is not None
        if not reader.session.replays:
            break
    got: dict[str, list[tuple[bool, bytes]]] = {}
    for message in reader.messages():
        got.setdefault(message.topic, []).append((message.retain, message.payload))
    for topic in {*held, *live}:
        if not matches(filter, topic):
            assert topic not in got
            continue
        published = [(False, payload) for payload in live.get(topic, [])]
        whole = [(True, held[topic]), *published] if topic in held else published
        assert got.get(topic, []) in ([whole] if topic not in live else [whole, published]), topic


def test_a_turn_sends_so_many_retained_messages_however_many_wait_for_them() -> None:
    joined = MemoryNode()
    writer = joined.connect("writer")
    for number in range(3 * MAX_REPLAYED):
        writer.publish(f"a/{number}", b"x", retain=True)
    readers = [joined.connect(f"reader {number}").subscribe("#") for number in range(30)]
    for reader in readers:
        reader.take()
    while joined.node.sessions.replaying:
        joined.turn()
        sent = [len(reader.messages()) for reader in readers]
        assert sum(sent) <= MAX_REPLAYED
    assert not any(reader.session.replays for reader in readers if reader.session is not None)
