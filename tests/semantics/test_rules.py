"""§5.2 and §5.3: the initial state, select, and each transition rule, its precondition and its effect."""

from collections import Counter
from dataclasses import replace

import pytest

from penstock.semantics.ordering import Ordering, by_publication, fifo, in_order_links, unordered
from penstock.semantics.rules import (
    Notification,
    RuleError,
    process,
    steps,
    t_broker,
    t_deliver,
    t_notify,
    t_publish,
)
from penstock.semantics.schema import ConnectionGraph, EventPolicy, LinkMonitor, Schema, liberal
from penstock.semantics.state import SystemState, initial, monitor_state, select
from penstock.semantics.task import AnnotatedTask, BrokerTask, TransmitTask
from tests.support.models.ensembles import both_ways, smart_home

TOPICS = frozenset("abc")


def twice(state: object, topic: str) -> tuple[int, tuple[str, ...]]:
    """Counts; suppresses a, doubles b, turns c into a b."""
    assert isinstance(state, int)
    return state + 1, {"a": (), "b": ("b", "b"), "c": ("a", "b")}[topic]


GRAPH = ConnectionGraph(frozenset("de"), frozenset("xyz"), both_ways([("d", "x"), ("e", "x"), ("x", "y"), ("x", "z")]))
SCHEMA = Schema(
    GRAPH,
    liberal(GRAPH),
    EventPolicy(TOPICS, {("d", "x"): LinkMonitor(twice, 0)}),
    {("x", "e"): frozenset("ab"), ("x", "d"): TOPICS},
    unordered,
)


def holding(*tasks: AnnotatedTask, t: int = 9) -> SystemState:
    return initial(SCHEMA)._replace(t=t, wl=frozenset(tasks))


def test_the_initial_state() -> None:
    home = smart_home()
    state = initial(home)
    assert state.t == 0
    assert state.wl == frozenset()
    assert {link for link, _ in state.st} == {link for link in home.graph.link if home.graph.monitored(*link)}
    assert {q for _, q in state.st} == {"q0"}


def test_publish_adds_a_task_with_both_timestamps_now() -> None:
    step = t_publish(SCHEMA, holding(t=4), "d", "x", "a")
    assert step.state == holding(AnnotatedTask(TransmitTask("d", "x", "a"), 4, 4), t=5)


@pytest.mark.parametrize(("x", "y", "a"), [("x", "d", "a"), ("x", "y", "a"), ("d", "y", "a"), ("d", "x", "q")])
def test_publish_needs_a_publication_link_and_a_known_topic(x: str, y: str, a: str) -> None:
    with pytest.raises(RuleError, match="does not hold"):
        t_publish(SCHEMA, holding(), x, y, a)


def test_notify_consumes_the_task() -> None:
    alpha, other = AnnotatedTask(TransmitTask("x", "e", "a"), 3, 1), AnnotatedTask(TransmitTask("x", "y", "a"), 3, 1)
    step = t_notify(SCHEMA, holding(alpha, other), alpha)
    assert step.state == holding(other, t=10)
    assert step.notifications == (Notification("x", "e", "a"),)


def test_notify_is_for_links_to_devices_only() -> None:
    alpha = AnnotatedTask(TransmitTask("x", "y", "a"), 3, 1)
    with pytest.raises(RuleError, match=r"notify\(x, y\)"):
        t_notify(SCHEMA, holding(alpha), alpha)


def test_notify_shows_what_a_monitor_towards_the_device_makes_of_it() -> None:
    schema = replace(SCHEMA, events=EventPolicy(TOPICS, {("x", "e"): LinkMonitor(twice, 0)}))
    alpha = AnnotatedTask(TransmitTask("x", "e", "c"), 3, 1)
    step = t_notify(schema, initial(schema)._replace(wl=frozenset({alpha})), alpha)
    assert [notification.topic for notification in step.notifications] == ["a", "b"]
    assert monitor_state(step.state, "x", "e") == 1


def test_deliver_steps_the_monitor_and_hands_its_output_to_the_broker() -> None:
    alpha = AnnotatedTask(TransmitTask("d", "x", "c"), 3, 1)
    step = t_deliver(SCHEMA, holding(alpha), alpha)
    assert step.state.wl == {AnnotatedTask(BrokerTask("d", "x", ("a", "b")), 9, 1)}
    assert step.state.t == 10
    changed = step.state.st ^ holding().st
    assert changed == {(("d", "x"), 0), (("d", "x"), 1)}, "the state of no other monitor changes"


def test_deliver_makes_no_task_of_a_suppressed_event() -> None:
    alpha = AnnotatedTask(TransmitTask("d", "x", "a"), 3, 1)
    step = t_deliver(SCHEMA, holding(alpha), alpha)
    assert step.state.wl == frozenset()
    assert monitor_state(step.state, "d", "x") == 1


def test_deliver_is_for_monitored_links_only() -> None:
    alpha = AnnotatedTask(TransmitTask("x", "e", "a"), 3, 1)
    with pytest.raises(RuleError, match=r"monitored\(x, e\)"):
        t_deliver(SCHEMA, holding(alpha), alpha)


def test_broker_transmits_the_first_event_and_keeps_the_rest() -> None:
    alpha = AnnotatedTask(BrokerTask("d", "x", ("a", "b")), 3, 1)
    step = t_broker(SCHEMA, holding(alpha), alpha)
    assert step.state == holding(
        AnnotatedTask(BrokerTask("d", "x", ("b",)), 9, 1),
        AnnotatedTask(TransmitTask("x", "e", "a"), 9, 1),
        AnnotatedTask(TransmitTask("x", "y", "a"), 9, 1),
        AnnotatedTask(TransmitTask("x", "z", "a"), 9, 1),
        t=10,
    )


def test_broker_leaves_nothing_after_the_last_event() -> None:
    alpha = AnnotatedTask(BrokerTask("y", "x", ("c",)), 3, 1)
    step = t_broker(SCHEMA, holding(alpha), alpha)
    assert {task.task for task in step.state.wl} == {TransmitTask("x", "d", "c"), TransmitTask("x", "z", "c")}, (
        "not to e, which is not subscribed, and not back to y"
    )


def test_broker_keeps_to_the_brokering_policy() -> None:
    home = smart_home(unordered)
    alpha = AnnotatedTask(BrokerTask("MD", "H", ("MD_motion",)), 3, 1)
    step = t_broker(home, initial(home)._replace(wl=frozenset({alpha})), alpha)
    assert {task.task.y for task in step.state.wl} == {"S", "DB", "SC"}, "not to I: from sensitive to internet"


@pytest.mark.parametrize("rule", [t_notify, t_deliver])
def test_a_rule_for_transmissions_refuses_another_task(rule: object) -> None:
    alpha = AnnotatedTask(BrokerTask("d", "x", ("a",)), 3, 1)
    assert callable(rule)
    with pytest.raises(RuleError, match=r"transmit\(x, y, a\)"):
        rule(SCHEMA, holding(alpha), alpha)


def test_the_rule_for_brokers_refuses_another_task() -> None:
    alpha = AnnotatedTask(TransmitTask("d", "x", "a"), 3, 1)
    with pytest.raises(RuleError, match=r"broker\(x, y, aw\)"):
        t_broker(SCHEMA, holding(alpha), alpha)


def test_a_task_that_is_not_selected_must_wait() -> None:
    schema = replace(SCHEMA, ordering=fifo)
    first, second = AnnotatedTask(TransmitTask("d", "x", "b"), 1, 1), AnnotatedTask(TransmitTask("d", "x", "c"), 2, 2)
    state = holding(first, second)
    with pytest.raises(RuleError, match="select"):
        process(schema, state, second)
    assert process(schema, state, first).rule == "T-Deliver"


def test_the_step_relation_is_every_publication_and_every_selected_task() -> None:
    state = holding(AnnotatedTask(BrokerTask("d", "x", ("a",)), 3, 1), AnnotatedTask(TransmitTask("x", "e", "a"), 3, 1))
    rules = [step.rule for step in steps(SCHEMA, state)]
    assert sorted(rules) == ["T-Broker", "T-Notify"] + ["T-Publish"] * 6


# Four tasks: two on the link d -> x, of which the older is of the younger publication, and two on other links.
TASKS = {
    "slow": AnnotatedTask(TransmitTask("d", "x", "a"), 4, 2),
    "late": AnnotatedTask(TransmitTask("d", "x", "b"), 5, 1),
    "rest": AnnotatedTask(BrokerTask("d", "x", ("c",)), 6, 3),
    "else": AnnotatedTask(TransmitTask("x", "e", "c"), 4, 3),
}


@pytest.mark.parametrize(
    ("ordering", "selected"),
    [
        (unordered, {"slow", "late", "rest", "else"}),
        (fifo, {"slow", "else"}),
        (by_publication, {"late"}),
        (in_order_links, {"rest", "else"}),
    ],
    ids=lambda value: str(value) if isinstance(value, Ordering) else "",
)
def test_select_takes_the_minimal_elements(ordering: Ordering, selected: set[str]) -> None:
    schema = replace(SCHEMA, ordering=ordering)
    assert set(select(schema, frozenset(TASKS.values()))) == {TASKS[name] for name in selected}


@pytest.mark.parametrize("ordering", [unordered, fifo, by_publication, in_order_links], ids=str)
def test_an_ordering_is_a_strict_partial_order(ordering: Ordering) -> None:
    tasks, precedes = TASKS.values(), ordering.precedes
    assert not any(precedes(task, task) for task in tasks)
    for a in tasks:
        for b in tasks:
            assert not (precedes(a, b) and precedes(b, a))
            for c in tasks:
                assert not (precedes(a, b) and precedes(b, c)) or precedes(a, c)


@pytest.mark.parametrize("ordering", [unordered, fifo, by_publication, in_order_links], ids=str)
def test_what_an_ordering_forgets_it_does_not_compare(ordering: Ordering) -> None:
    again = AnnotatedTask(TransmitTask("x", "e", "c"), 7, 2)  # as `else`, but for its times
    tasks = frozenset({*TASKS.values(), again})
    forgotten = ordering.forget(tasks)
    assert Counter(alpha.task for alpha in forgotten) == Counter(alpha.task for alpha in tasks)
    assert _relation(ordering, forgotten) == _relation(ordering, tasks)
    assert ordering.forget(forgotten) == forgotten


def _relation(ordering: Ordering, tasks: frozenset[AnnotatedTask]) -> Counter[tuple[object, object]]:
    return Counter((a.task, b.task) for a in tasks for b in tasks if ordering.precedes(a, b))
