"""Each client has a number of steps of conditions in a second, and is told when it has used them."""

import json
import random

import pytest

from penstock.domain import LimitSettings
from penstock.engine.matching.step_budget import StepBudget, at_once
from penstock.language.limits import MAX_EVENT_WORK, MAX_WORK
from penstock.wire.packet import Puback
from penstock.wire.reason import Reason
from tests.support.memory.node import MemoryNode

NESTED = "a.all(x, a.all(y, x + y >= 0))"
COSTLY = json.dumps({"a": list(range(100))}).encode()
LIMITS = LimitSettings(condition_steps=1_000_000)


def test_a_subscriber_whose_conditions_take_too_many_steps_is_not_asked_for_a_while() -> None:
    """Issue 17, item 18. Nobody else is concerned: neither the publisher, nor who asks for little."""
    joined = MemoryNode(LIMITS)
    greedy, modest, writer = [joined.connect(name) for name in ("greedy", "modest", "writer")]
    greedy.subscribe("t", user_properties=(("where", NESTED),))
    modest.subscribe("t", user_properties=(("where", "a.exists(x, x == 1)"),))
    for _ in range(20):
        writer.publish("t", COSTLY, qos=1)
    received = len(greedy.messages())
    assert 0 < received < 20
    assert len(modest.messages()) == 20
    assert {packet.reason for packet in writer.take() if isinstance(packet, Puback)} == {0}
    denied = [notice for notice in joined.node.notices if notice.kind == "delivery denied"]
    assert len(denied) == 20 - received
    assert {(notice.client_id, notice.reason) for notice in denied} == {
        ("greedy", "its conditions take more than 1000000 steps a second")
    }
    joined.now += 1
    writer.publish("t", COSTLY)
    assert len(greedy.messages()) == 1


@pytest.mark.parametrize("seed", range(20))
def test_no_client_uses_more_than_its_steps_whenever_it_asks(seed: int) -> None:
    draw = random.Random(seed)
    budget, limit, now, used = StepBudget(), draw.randrange(100, 10_000), 0.0, 0
    most = 0
    for _ in range(1_000):
        now += draw.choice((0, 0, 0.001, 0.1))
        if budget.is_left(now, limit):
            steps = draw.randrange(limit // 10)
            most = max(most, steps)
            budget.charge(steps)
            used += steps
    assert used <= at_once(limit) + limit * now + most
    assert used > 0


def test_what_one_event_may_cost_at_a_node_is_within_what_the_language_allows() -> None:
    assert at_once(LIMITS.condition_steps) < MAX_WORK < MAX_EVENT_WORK
    assert LIMITS.condition_steps == LimitSettings().condition_steps


def test_a_full_node_refuses_new_sessions_and_keeps_those_it_has() -> None:
    """Issue 17, item 19."""
    joined = MemoryNode(LimitSettings(sessions=2))
    joined.connect("ann", session_expiry=60).lose()
    joined.connect("bob")
    stranger = joined.connect("eve")
    assert stranger.refused is not None
    assert stranger.refused.reason is Reason.QUOTA_EXCEEDED
    assert joined.connect("ann", clean_start=False, session_expiry=60).session is not None


def test_retained_messages_have_a_bound_in_bytes() -> None:
    joined = MemoryNode(LimitSettings(retained_bytes=3_000))
    writer = joined.connect("writer")
    for number in range(10):
        writer.publish(f"t/{number}", bytes(1_000), retain=True)
    assert joined.node.retained.size <= 3_000
    kept = len(joined.node.retained)
    assert kept == 2
    writer.publish("t/0", bytes(4_000), retain=True)  # what is too large removes what is older
    assert joined.node.retained.get("t/0") is None
    writer.publish("t/1", b"", retain=True)
    assert joined.node.retained.size == sum(event.size() for event in joined.node.retained.values())


def test_every_limit_of_what_clients_make_grow_is_set_by_default() -> None:
    limits = LimitSettings()
    for name in ("connections", "sessions", "subscriptions_per_client", "retained_messages", "retained_bytes"):
        assert getattr(limits, name) > 0, name
