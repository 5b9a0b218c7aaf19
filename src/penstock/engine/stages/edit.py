"""Stage 4, edit: what does the link's execution monitor make of the event? (brokering §4.2)"""

from collections.abc import Iterable

from penstock.engine.contracts import privacy
from penstock.engine.events import publishers, user_properties
from penstock.engine.events.passage import Delivery, Outputs, Passage
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.stages.draft import Draft
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.monitors.monitor import MAX_OUTPUTS, Monitor, MonitorError, State


def tell_failures(node: Node, watch: Watch) -> None:
    """Report what went wrong when the link's monitors began or ended."""
    for text in watch.failures:
        node.notice("monitor failed", None, "", f"link {watch.link}: {text}")
        node.stats.monitor_errors += 1
    watch.failures.clear()


def plan(draft: Draft) -> None:
    """Add a step where a monitor may change its state or the event; else a monitor costs nothing."""
    if draft.waits is not None and draft.node.ensemble.has_monitors:
        draft.for_each_delivery(ask_again)
    if not draft.link.monitors:
        return
    for monitor, state in zip(draft.link.monitors, draft.link.states, strict=True):
        steady = monitor.steady(state, draft.topic)
        if steady is None:
            draft.end_with(run)
            return
        if not steady and _is_marked(draft):
            draft.end_with(run)
            return
        if not steady:
            draft.suppress(Verdict("edit", Effect.SUPPRESS, monitor.name, _reason(monitor, state, draft.topic)))
            return


def _is_marked(draft: Draft) -> bool:
    """Return whether the node at the other end of the link marks events that it has put through monitors."""
    ends = Link(draft.link.neighbour or "", draft.node.name, draft.link.link_type)
    placing = draft.node.ensemble.placing(ends)
    return placing is not None and bool(placing.mark)


def ask_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the present monitors of all links by which an event came may let it pass, in some state. What a
    monitor has made is not asked about, nor what was judged by the same monitors.
    """
    passage, event = delivery.passage, delivery.event
    node = passage.node
    publisher = publishers.publisher_of(node, event)
    if publisher is None or publishers.cause_of(event) is not None:
        return None
    if passage.is_replay:
        is_same = publisher.node != node.name and publisher.monitors == publishers.present_digests(node)[1]
    else:
        is_same = delivery.revision.monitors == node.revision.monitors
    if is_same:
        return None
    links = publishers.way_of(node, event, publisher, publishers.entry_of(node, publisher))
    return stopped("edit", (monitor for link in links if link for monitor in node.ensemble.monitors(link)), event)


def stopped(stage: str, monitors: Iterable[Monitor], event: Event) -> Verdict | None:
    """Return what is said of an event that one of these monitors lets pass in no state; None if all may."""
    for monitor in monitors:
        if not monitor.may_pass(event):
            return Verdict(stage, Effect.SUPPRESS, monitor.name, f"monitor `{monitor.name}` suppresses it now")
    return None


def run(passage: Passage) -> Verdict | Outputs:
    """Put the event through the monitors of the link that it came by."""
    assert passage.sender is not None  # only links have monitors
    watch = passage.sender.place.watch_in
    assert watch is not None
    first, passage.event = first_to_ask(watch, passage.event)
    outputs = run_monitors(passage.node, watch, passage.event, passage.now, first)
    return Outputs(outputs) if outputs else suppressed(watch)


def suppressed(watch: Watch, stage: str = "edit") -> Verdict:
    """Return what is said of an event of which a link's monitors made nothing."""
    return Verdict(stage, Effect.SUPPRESS, *watch.stopped)


def _reason(monitor: Monitor, state: State, topic: str, why: str = "") -> str:
    where = f" in state `{state}`" if isinstance(state, str) else ""
    return f"monitor `{monitor.name}` suppresses `{topic}`{where}" + (f": {why}" if why else "")


def first_to_ask(watch: Watch, event: Event) -> tuple[int, Event]:
    """Return which of the monitors on a link is the first that is left to ask about what has come by it, and the event
    without its mark. The node that sent it may have asked those before. A mark that cannot be true counts for nothing.
    """
    if user_properties.SHAPED_BYTES not in event.properties:
        return 0, event
    placing, marks = watch.placing, user_properties.told(event, user_properties.SHAPED)
    event = user_properties.having(event, None, (), without=user_properties.SHAPED)
    is_done = placing.mark in marks and placing.is_plausible(watch.monitors, event)
    return placing.done if is_done else 0, event


def run_monitors(node: Node, watch: Watch, event: Event, now: float, first: int = 0) -> tuple[Event, ...]:
    """Put the event through the monitors of a link, in order, from the first that is left to ask."""
    events: tuple[Event, ...] = (event,)
    for place in range(first, len(watch.monitors)):
        events = ask(node, watch, place, events, now)
    return events


def ask(node: Node, watch: Watch, place: int, events: tuple[Event, ...], now: float) -> tuple[Event, ...]:
    """Return what one of the link's monitors makes of these events. One that fails suppresses, and is reported."""
    if len(events) == 1:
        return _step(node, watch, place, events[0], now)
    outputs = tuple(output for each in events for output in _step(node, watch, place, each, now))
    if len(outputs) <= MAX_OUTPUTS:
        return outputs
    name, reason = watch.monitors[place].name, f"more than {MAX_OUTPUTS} events of one"
    _report(node, watch, events[0], f"monitor `{name}`: {reason}")
    watch.stopped = name, f"monitor `{name}` failed on `{events[0].topic}`: {reason}"
    return ()


def _step(node: Node, watch: Watch, place: int, event: Event, now: float) -> tuple[Event, ...]:
    before = watch.states[place]
    monitor = watch.monitors[place]
    try:
        state, outputs = monitor.step(before, event, now)
    except MonitorError as error:
        _report(node, watch, event, str(error))
        watch.stopped = monitor.name, f"monitor `{monitor.name}` failed on `{event.topic}`"
        return ()
    if not outputs:
        watch.stopped = monitor.name, _reason(monitor, before, event.topic, monitor.why(before, (event,)))
    if state is not before and state != before:
        watch.move(place, state)
        node.ledger.monitor(watch.link, monitor.name, state)
    return outputs if node.contracts is None else tuple(privacy.inheriting(node, event, output) for output in outputs)


def _report(node: Node, watch: Watch, event: Event, text: str) -> None:
    node.notice("monitor failed", None, event.topic, f"link {watch.link}: {text}")
    node.stats.monitor_errors += 1
