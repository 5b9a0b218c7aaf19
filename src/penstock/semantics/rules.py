"""§5.3, state transition: one function for each rule, each giving the successor state gamma' of gamma.

By default t' = t + 1, ST' = ST and WL' = WL. A rule whose precondition does not hold raises `RuleError`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.model.errors import PenstockError

from .schema import Schema
from .state import SystemState, monitor_state, select, with_monitor_state
from .task import AnnotatedTask, BrokerTask, TransmitTask


class RuleError(PenstockError):
    """A rule whose precondition does not hold."""


class Notification(NamedTuple):
    """A notification of a device by a broker."""

    broker: str
    device: str
    topic: str


class StateTransition(NamedTuple):
    """gamma -> gamma': the rule, the successor, and what a device was notified of on the way."""

    rule: str
    state: SystemState
    notifications: tuple[Notification, ...] = ()


def t_publish(schema: Schema, state: SystemState, x: str, y: str, a: str) -> StateTransition:
    """Apply T-Publish: generate an event publication task."""
    _require(schema.graph.publish(x, y), f"publish({x}, {y})")
    _require(a in schema.events.topics, f"{a} in Sigma")
    task = AnnotatedTask(TransmitTask(x, y, a), state.t, state.t)
    return StateTransition("T-Publish", _tick(state, state.wl | {task}))


def t_notify(schema: Schema, state: SystemState, alpha: AnnotatedTask) -> StateTransition:
    """Apply T-Notify: consume an event notification task.

    What the device sees is what the link's monitor makes of the event, if it has one (§7.3.2; in §5 it has none).
    """
    x, y, a = _selected_transmit(schema, state, alpha)
    _require(schema.graph.notify(x, y), f"notify({x}, {y})")
    q, w = schema.events.monitor(x, y).step(monitor_state(state, x, y), a)
    after = _tick(with_monitor_state(state, x, y, q), state.wl - {alpha})
    return StateTransition("T-Notify", after, tuple(Notification(x, y, topic) for topic in w))


def t_deliver(schema: Schema, state: SystemState, alpha: AnnotatedTask) -> StateTransition:
    """Apply T-Deliver: transmit an event over a link, and apply the execution monitor to the transmitted event."""
    x, y, a = _selected_transmit(schema, state, alpha)
    _require(schema.graph.monitored(x, y), f"monitored({x}, {y})")
    q, w = schema.events.monitor(x, y).step(monitor_state(state, x, y), a)
    wl_1 = state.wl - {alpha}
    wl_2 = _rest(x, y, w, state.t, alpha.t_pub)
    return StateTransition("T-Deliver", _tick(with_monitor_state(state, x, y, q), wl_1 | wl_2))


def t_broker(schema: Schema, state: SystemState, alpha: AnnotatedTask) -> StateTransition:
    """Apply T-Broker: process a sequence of received events to create further transmissions."""
    _require_selected(schema, state, alpha)
    if not isinstance(alpha.task, BrokerTask):
        raise RuleError(f"`{alpha.task} = broker(x, y, aw)` does not hold")
    x, y, (a, *w) = alpha.task
    graph = schema.graph
    receivers = {  # Z
        z for z in graph.entities if graph.bridge(y, z) or (graph.notify(y, z) and a in schema.subscribed(y, z))
    }
    wl_1 = state.wl - {alpha}
    wl_2 = _rest(x, y, tuple(w), state.t, alpha.t_pub)
    wl_3 = frozenset(
        AnnotatedTask(TransmitTask(y, z, a), state.t, alpha.t_pub)
        for z in receivers
        if z != x and schema.propagate(x, y, z)
    )
    return StateTransition("T-Broker", _tick(state, wl_1 | wl_2 | wl_3))


def process(schema: Schema, state: SystemState, alpha: AnnotatedTask) -> StateTransition:
    """Process a selected task by its rule: T-Notify, T-Deliver or T-Broker."""
    if isinstance(alpha.task, BrokerTask):
        return t_broker(schema, state, alpha)
    if schema.graph.notify(alpha.task.x, alpha.task.y):
        return t_notify(schema, state, alpha)
    return t_deliver(schema, state, alpha)


def steps(schema: Schema, state: SystemState) -> Iterator[StateTransition]:
    """Yield every gamma -> gamma': any publication, and any selected task by the rule that is for it."""
    for x, y in schema.graph.link:
        if schema.graph.publish(x, y):
            yield from (t_publish(schema, state, x, y, a) for a in schema.events.topics)
    yield from (process(schema, state, alpha) for alpha in select(schema, state.wl))


def _selected_transmit(schema: Schema, state: SystemState, alpha: AnnotatedTask) -> TransmitTask:
    _require_selected(schema, state, alpha)
    if not isinstance(alpha.task, TransmitTask):
        raise RuleError(f"`{alpha.task} = transmit(x, y, a)` does not hold")
    return alpha.task


def _require_selected(schema: Schema, state: SystemState, alpha: AnnotatedTask) -> None:
    _require(alpha in select(schema, state.wl), f"select({alpha}, WL)")


def _require(holds: bool, precondition: str) -> None:
    if not holds:
        raise RuleError(f"`{precondition}` does not hold")


def _rest(x: str, y: str, w: tuple[str, ...], t: int, t_pub: int) -> frozenset[AnnotatedTask]:
    """Return WL_2 of T-Deliver and of T-Broker: {broker(x, y, w)[t, t_pub]}, or {} if w is empty."""
    return frozenset({AnnotatedTask(BrokerTask(x, y, w), t, t_pub)}) if w else frozenset()


def _tick(state: SystemState, wl: frozenset[AnnotatedTask]) -> SystemState:
    return state._replace(t=state.t + 1, wl=wl)
