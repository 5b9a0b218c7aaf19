"""Stage 4, edit: what does the link's execution monitor make of the event? (brokering §4.2)"""

from penstock.engine.contracts import privacy
from penstock.engine.events import publishers
from penstock.engine.events.passage import Delivery, Outputs, Passage
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.stages.draft import Draft
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.monitors.monitor import MAX_OUTPUTS, MonitorError


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
        if not steady:
            reason = f"monitor `{monitor.name}` suppresses `{draft.topic}` in state `{state}`"
            draft.suppress(Verdict("edit", Effect.SUPPRESS, monitor.name, reason))
            return


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
    for link in publishers.way_of(node, event, publisher, publishers.entry_of(node, publisher)):
        for monitor in () if link is None else node.ensemble.monitors(link):
            if not monitor.may_pass(event):
                return Verdict("edit", Effect.SUPPRESS, monitor.name, f"monitor `{monitor.name}` suppresses it now")
    return None


def run(passage: Passage) -> Verdict | Outputs:
    """Put the event through the monitors of the link that it came by."""
    assert passage.sender is not None  # only links have monitors
    watch = passage.sender.place.watch_in
    assert watch is not None
    outputs = run_monitors(passage.node, watch, passage.event, passage.now)
    return Outputs(outputs) if outputs else _suppressed(watch)


def _suppressed(watch: Watch) -> Verdict:
    """Return what is said of an event of which a link's monitors made nothing."""
    names = [monitor.name for monitor in watch.monitors]
    why = f": {watch.said}" if watch.said else ""
    listed = ", ".join(f"`{name}`" for name in names)
    return Verdict("edit", Effect.SUPPRESS, ", ".join(names), f"suppressed by monitor {listed}{why}")


def run_monitors(node: Node, watch: Watch, event: Event, now: float) -> tuple[Event, ...]:
    """Put the event through the monitors of a link, in order."""
    events: tuple[Event, ...] = (event,)
    for place in range(len(watch.monitors)):
        events = ask(node, watch, place, events, now)
    return events


def ask(node: Node, watch: Watch, place: int, events: tuple[Event, ...], now: float) -> tuple[Event, ...]:
    """Return what one of the link's monitors makes of these events. One that fails suppresses, and is reported."""
    if len(events) == 1:
        return _step(node, watch, place, events[0], now)
    outputs = tuple(output for each in events for output in _step(node, watch, place, each, now))
    if len(outputs) <= MAX_OUTPUTS:
        return outputs
    _report(node, watch, events[0], f"monitor `{watch.monitors[place].name}`: more than {MAX_OUTPUTS} events of one")
    return ()


def _step(node: Node, watch: Watch, place: int, event: Event, now: float) -> tuple[Event, ...]:
    before = watch.states[place]
    monitor = watch.monitors[place]
    try:
        state, outputs = monitor.step(before, event, now)
    except MonitorError as error:
        _report(node, watch, event, str(error))
        watch.said = ""
        return ()
    if not outputs:
        watch.said = monitor.why(before, (event,))
    if state is not before and state != before:
        watch.move(place, state)
        node.ledger.monitor(watch.link, monitor.name, state)
    return outputs if node.contracts is None else tuple(privacy.inheriting(node, event, output) for output in outputs)


def _report(node: Node, watch: Watch, event: Event, text: str) -> None:
    node.notice("monitor failed", None, event.topic, f"link {watch.link}: {text}")
    node.stats.monitor_errors += 1
