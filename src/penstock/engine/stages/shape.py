"""Stage 8, shape: what does the outgoing link's execution monitor make of the event? (brokering §7.3.2)

On links to nodes the monitor works where the event arrives. Clients and foreign brokers cannot do that themselves, so
what must not leave is stopped here, before it leaves. Monitors are asked once for all sessions behind a link, and once
for each form that policy statements have given the event.
"""

from collections.abc import Iterator

from penstock.engine.events import dedup, publishers
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.events.plan import Target, WaitingPlace
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session
from penstock.engine.stages import edit, match, route
from penstock.engine.stages.draft import Draft
from penstock.model.event import Event
from penstock.model.topic import matches


def plan(draft: Draft) -> None:
    """Add a step if any link of the domain has a monitor, except for events that were held back or queued after it."""
    if draft.node.ensemble.has_monitors and draft.waits in (None, WaitingPlace.RETAINED):
        draft.for_each_delivery(run, is_for_plain=False)


def run(delivery: Delivery) -> list[Delivery] | None:
    """Go on with what the monitors of the link make of the event."""
    passage, watch, target = delivery.passage, delivery.watch, delivery.target
    if watch is None:
        return None
    outputs = _shaped(passage, watch, delivery)
    dedup.taken(passage.node.once, delivery)
    if target is None:
        return list(_to_subscribers(passage, watch, outputs))
    if delivery.is_echo:
        return []
    if len(outputs) == 1 and outputs[0] is delivery.forms:
        return None if route.may_have(passage.node, delivery.event, delivery.session) else []
    delivery.is_planned = False  # others go on in its place
    allowed = (forms for forms in outputs if route.may_have(passage.node, forms.event, delivery.session))
    return [_to_target(delivery, target, forms) for forms in allowed]


def _shaped(passage: Passage, watch: Watch, delivery: Delivery) -> tuple[Forms, ...]:
    """Return what the monitors of a link make of a form of the event. A member of a group is asked for by itself."""
    forms = delivery.forms
    if passage.shaped is None:
        passage.shaped = {}
    is_shared = delivery.is_planned or delivery.target is None
    key = id(watch), forms.event
    outputs = passage.shaped.get(key) if is_shared else None
    if outputs is None:
        events = edit.run_monitors(passage.node, watch, forms.event, passage.now)
        outputs = tuple(
            forms if event is forms.event else Forms(publishers.made(event, forms.event), passage.now)
            for event in events
        )
        if is_shared:
            passage.shaped[key] = outputs
    return outputs


def _to_target(delivery: Delivery, target: Target, forms: Forms) -> Delivery:
    passage, event = delivery.passage, forms.event
    retain = event.retain and (passage.is_replay or target.retain_as_published)  # [MQTT-3.3.1-8]
    shaped = Delivery(delivery.session, event, min(event.qos, target.qos), retain, delivery.ids)
    shaped.passage, shaped.target, shaped.forms = passage, target, forms
    return shaped


def _to_subscribers(passage: Passage, watch: Watch, outputs: tuple[Forms, ...]) -> Iterator[Delivery]:
    """Nobody asks for what the monitors saw: what they let out goes to those who subscribe to just that."""
    for forms in outputs:
        for target in subscribers(passage.node, watch, forms.event, passage.sender, passage.now):
            event = forms.event
            retain = event.retain and target.retain_as_published
            shaped = Delivery(target.session, event, min(event.qos, target.qos), retain, target.ids)
            shaped.passage, shaped.target, shaped.forms = passage, target, forms
            yield shaped


def receivers(
    node: Node,
    watch: Watch,
    targets: tuple[Target, ...],
    output: Event,
    sender: Session | None = None,
    now: float | None = None,
) -> Iterator[Target]:
    """Return who gets what monitors let out: those for whom its cause was, else those who subscribe to just this."""
    if targets:
        return (target for target in targets if route.may_have(node, output, target.session))
    return subscribers(node, watch, output, sender, now)


def subscribers(
    node: Node, watch: Watch, event: Event, sender: Session | None, now: float | None = None
) -> Iterator[Target]:
    """Return who behind a link subscribes to an event."""
    for session in node.monitors.notified.get(watch.ends, ()):
        subscribed = [
            subscription
            for subscription in session.subscriptions.values()
            if matches(subscription.filter, event.topic)
            and not (subscription.no_local and session is sender)
            and match.satisfies(node, event, subscription, now)
        ]
        if subscribed and route.may_have(node, event, session):
            yield Target(subscribed)
