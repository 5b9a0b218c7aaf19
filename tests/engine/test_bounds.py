"""Whatever clients do, nothing in a node grows without bound, and nothing turns for ever."""

import gc
from pathlib import Path

import pytest

from penstock.domain import LimitSettings
from penstock.engine.events import user_properties
from penstock.engine.events.entrances import MAX_REPLAYED
from penstock.engine.sessions import lifecycle
from penstock.engine.stages import runner
from penstock.policy.access.acl import Acl
from penstock.wire.packet import Puback, Publish, Pubrec, Pubrel, Subscribe, SubscriptionRequest
from penstock.wire.properties import Properties, encode_properties
from tests.support.memory.node import Client, MemoryNode
from tests.support.models.invariants import check_node


def reader(joined: MemoryNode, qos: int = 1) -> Client:
    """A client that keeps its session and subscribes to everything."""
    client = joined.connect("ann", session_expiry=1000, clean_start=False)
    client.subscribe("#", qos=qos)
    client.take()
    return client


# --- packet identifiers


def test_packet_identifiers_go_round_and_skip_those_in_use() -> None:
    joined = MemoryNode()
    ann = reader(joined)
    bob = joined.connect("bob")
    assert ann.session is not None
    bob.publish("a", b"first", qos=1)
    ann.session.outbox.last_id = 65533
    for payload in (b"1", b"2", b"3"):
        bob.publish("a", payload, qos=1)
    assert [one.packet_id for one in ann.messages()] == [1, 65534, 65535, 2]


def test_identifiers_do_not_run_out_for_a_client_that_never_completes() -> None:
    """It says that it has received each message, not that it is done, and comes back for more."""
    joined = MemoryNode(LimitSettings(inflight=10))
    bob = joined.connect("bob")
    ann = reader(joined, qos=2)
    for _ in range(20):
        for number in range(20):
            bob.publish("a", b"%d" % number, qos=2)
        bob.acknowledge()
        ann.sends(*(Pubrec(one.packet_id) for one in ann.messages()))
        ann = reader(joined, qos=2)
    assert ann.session is not None
    assert len(ann.session.outbox.inflight) == 10
    check_node(joined.node)


# --- retained messages


def retain(joined: MemoryNode, number: int, qos: int = 0) -> None:
    bob = joined.connect("bob")
    for each in range(number):
        bob.publish(f"retained/{each:05}", b"x", qos=qos, retain=True)


def test_a_long_replay_is_sent_in_steps_in_which_others_have_their_turn() -> None:
    joined = MemoryNode()
    retain(joined, 3 * MAX_REPLAYED + 1)
    bob = joined.connect("bob").subscribe("b")
    ann = joined.connect("ann")
    ann.take()
    ann.subscribe("#")
    bob.publish("b", b"meanwhile")
    assert bob.payloads() == ["meanwhile"]
    assert joined.node.sessions.replaying
    while joined.node.sessions.replaying:
        joined.turn()
    topics = [one.topic for one in ann.messages()]
    assert topics.index("b") < len(topics) - 1, "a message that came meanwhile did not wait for the end"
    topics.remove("b")
    assert topics == [f"retained/{each:05}" for each in range(3 * MAX_REPLAYED + 1)]


def test_a_replay_longer_than_the_window_comes_whole_and_rests_between_acknowledgements() -> None:
    joined = MemoryNode(LimitSettings(inflight=5))
    retain(joined, 250, qos=1)
    ann = joined.connect("ann").subscribe("#", qos=1)
    topics = []
    while messages := ann.messages():
        assert len(messages) <= 5
        assert not joined.node.sessions.replaying, "nothing to do before the client acknowledges"
        topics += [one.topic for one in messages]
        ann.sends(*(Puback(one.packet_id) for one in messages))
    assert topics == [f"retained/{each:05}" for each in range(250)]


def test_a_replay_rests_while_its_client_is_away() -> None:
    joined = MemoryNode()
    retain(joined, 3 * MAX_REPLAYED)
    ann = joined.connect("ann", session_expiry=100)
    ann.subscribe("#")
    assert joined.node.sessions.replaying
    ann.lose()
    joined.turn()
    assert not joined.node.sessions.replaying


def test_a_replay_rests_while_its_client_does_not_read() -> None:
    joined = MemoryNode()
    retain(joined, 3 * MAX_REPLAYED)
    ann = joined.connect("ann").subscribe("#")
    ann.goes_deaf()
    joined.turn()
    assert not joined.node.sessions.replaying
    ann.reads_on()
    while joined.node.sessions.replaying:
        joined.turn()
    assert len(ann.messages()) == 3 * MAX_REPLAYED


def test_subscribing_again_and_again_leaves_one_replay() -> None:
    joined = MemoryNode(LimitSettings(inflight=5))
    retain(joined, 50, qos=1)
    ann = joined.connect("ann")
    for _ in range(20):
        ann.subscribe("#", qos=1)
    assert ann.session is not None
    assert len(ann.session.replays) == 1


# --- slow readers


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_a_client_that_does_not_read_costs_no_more_than_its_outbox_and_its_queue(durable: bool) -> None:
    limits = LimitSettings(outbox_bytes=10_000, queued_messages=10)
    joined = MemoryNode(limits, durable=durable)
    ann = reader(joined)
    bob = joined.connect("bob")
    assert ann.session is not None
    ann.goes_deaf()
    for number in range(1000):
        bob.publish("a", bytes(100), qos=0)
        bob.publish("a", bytes(100), qos=1)
        if number % 10 == 0:
            ann.publish("b", b"it talks all the same", qos=1)
    assert sum(map(len, ann.session.buffer)) < 2 * limits.outbox_bytes
    assert ann.session.outbox.waiting() == 10
    assert joined.node.stats.dropped > 1000
    check_node(joined.node)


def test_what_was_held_for_the_store_counts_in_the_outbox_of_a_client_that_does_not_read() -> None:
    limits = LimitSettings(outbox_bytes=10_000)
    joined = MemoryNode(limits, durable=True, commits=False)
    ann = reader(joined)
    bob = joined.connect("bob")
    joined.commit()
    joined.turn()
    assert ann.session is not None
    ann.goes_deaf()
    for _ in range(100):
        ann.publish("b", b"answered only after the next commit", qos=1)
        for _ in range(10):
            bob.publish("a", bytes(100))
        joined.commit()
    assert sum(map(len, ann.session.buffer)) < 3 * limits.outbox_bytes


def test_an_operator_is_told_once_that_a_client_is_slow() -> None:
    joined = MemoryNode(LimitSettings(outbox_bytes=100, queued_messages=1))
    ann = reader(joined)
    bob = joined.connect("bob")
    for _ in range(2):
        ann.goes_deaf()
        for _ in range(50):
            bob.publish("a", bytes(100))
        ann.reads_on()
    assert [notice.kind for notice in joined.node.notices] == ["slow", "slow"]


# --- things of the past


def test_a_client_that_comes_and_goes_leaves_one_timer() -> None:
    joined = MemoryNode()
    for _ in range(500):
        joined.connect("ann", session_expiry=1_000_000).lose()
    assert len(joined.node.sessions.timers) == 1
    assert len(joined.node.sessions.timers._heap) < 100
    joined.wait(1_000_000)
    assert joined.node.sessions == {}
    assert len(joined.node.sessions.timers) == 0


def test_plans_of_clients_that_are_gone_are_gone(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("pattern readwrite of/%c/#\n")
    joined = MemoryNode(acl=Acl.read(tmp_path / "acl"))
    for number in range(50):
        client = joined.connect(f"client-{number}")
        client.publish(f"of/client-{number}/x", b"1")
        client.leave()
        del client
    gc.collect()
    assert len(joined.node.plans.by_class) < 10


def test_plans_are_made_anew_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MAX_PLANS", 20)
    joined = MemoryNode()
    ann = joined.connect("ann").subscribe("+/x")
    bob = joined.connect("bob")
    ann.take()
    for number in range(100):
        bob.publish(f"{number}/x", b"1")
        bob.publish(f"{number}/x", b"2")
    assert len(ann.messages()) == 200
    assert sum(len(plans.known) for plans in joined.node.plans.by_class.values()) <= 20
    assert len(joined.node.plans.interned) <= 20


def test_what_is_held_is_let_go_with_the_session() -> None:
    joined = MemoryNode(durable=True)
    ann = joined.connect("ann", session_expiry=10)
    ann.subscribe("#", qos=2)
    bob = joined.connect("bob")
    for number in range(100):
        bob.publish("a", b"%d" % number, qos=2)
        bob.sends(Pubrel(bob.last_id))
    ann.lose()
    bob.leave()
    changes = joined.node.ledger.changes
    joined.wait(10)
    assert joined.node.sessions == {}
    assert len(joined.node.subscriptions.index) == 0
    assert not joined.node.ledger.deferred
    assert not changes.deliveries


def test_the_subscriptions_of_an_ended_session_are_removed_a_few_in_a_turn() -> None:
    """Attacked again: a clean start over 10,000 of them held up all others. Nothing goes by what is left of them."""
    joined = MemoryNode()
    eve = joined.connect("eve", session_expiry=1_000)
    bob = joined.connect("bob").subscribe("$share/g/turns")
    eve.subscribe("$share/g/turns")
    for number in range(1_000):
        eve.subscribe(f"t/{number}")
    eve.sends(Subscribe(1, (SubscriptionRequest("where"),), Properties(user_properties=(("where", "a > 1"),))))
    index = joined.node.subscriptions.index
    joined.connect("eve", clean_start=True)
    first = len(index)
    assert first > 500
    bob.take()
    for topic, reason in (("t/999", 0x10), ("where", 0x10), ("turns", 0)):
        bob.sends(Publish(topic, b'{"a": 2}', 1, packet_id=1))
        (answer,) = [packet for packet in bob.take() if isinstance(packet, Puback)]
        assert answer.reason == reason
    while joined.node.sessions.undone:
        before = len(index)
        joined.turn()
        assert before - len(index) <= 500
    assert len(index) == 1
    assert not joined.node.sessions.ending


def test_sessions_whose_time_is_over_end_a_few_in_a_turn() -> None:
    joined = MemoryNode()
    for number in range(1_000):
        joined.connect(f"c{number}", session_expiry=10).leave()
    joined.now += 11
    lifecycle.tick(joined.node, joined.now)
    while joined.node.sessions:
        before = len(joined.node.sessions)
        joined.turn()
        assert before - len(joined.node.sessions) <= 500


def test_what_travels_with_an_event_is_read_once_however_large() -> None:
    """Attacked again: above 8 kB it was read again for each receiver, and more than once."""
    pairs = tuple(("penstock-trace-host" if number % 2 else "k", str(number)) for number in range(1_000))
    large = encode_properties(Properties(user_properties=pairs))
    assert len(large) > 10_000
    assert user_properties.carried(large) is user_properties.carried(bytes(bytearray(large)))
