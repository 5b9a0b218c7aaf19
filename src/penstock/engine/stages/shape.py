"""Stage 8, shape: what does the outgoing link's execution monitor make of the event? (brokering §7.3.2)

What must not leave is stopped here, before it leaves. On links to clients and foreign brokers all monitors are asked
here; on links to nodes those that can be (`policy/monitors/placing.py`), and where the event arrives the others, and
again those that only select. Monitors are asked once for all sessions behind a link, and once for each form that policy
statements have given the event.
"""

from collections.abc import Iterator

from penstock.engine.events import dedup, publishers, user_properties
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.events.plan import Target, WaitingPlace
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session
from penstock.engine.stages import edit, judge, route, satisfaction
from penstock.engine.stages.draft import Draft
from penstock.engine.statements.event_judging import Judging
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict


def plan(draft: Draft) -> None:
    """Add a step if any link of the domain has a monitor; another for what was held back or queued after it."""
    if not draft.node.ensemble.has_monitors:
        return
    if draft.waits in (None, WaitingPlace.RETAINED):
        draft.for_each_delivery(run, is_for_plain=False)
    else:
        draft.for_each_delivery(ask_again)


def ask_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the present monitors of the link may let an event pass, in some state, that waited behind others.
    What a monitor has made is not asked about.
    """
    node, event, watch = delivery.passage.node, delivery.event, delivery.session.place.watch_out
    if watch is None or delivery.revision.monitors == node.revision.monitors:
        return None
    return None if publishers.cause_of(event) is not None else edit.stopped("shape", watch.monitors, event)


def run(delivery: Delivery) -> Verdict | list[Delivery] | None:
    """Go on with what the monitors of the link make of the event."""
    passage, watch, target = delivery.passage, delivery.watch, delivery.target
    if watch is None:
        return None
    outputs = _shaped(passage, watch, delivery)
    node = passage.node
    if passage.judging is None and node.recorder is not None and node.ensemble.statements:
        judging = Judging(node, passage.event, passage.sender, passage.now, satisfies=satisfaction.satisfies)
        passage.judging = judging  # for the journal: what policies ask about the outputs
    dedup.taken(node.once, delivery)
    if target is None:
        return list(_to_subscribers(passage, watch, outputs))
    if delivery.is_echo:  # its own event: only by subscriptions that ask for such [MQTT-3.8.3-3]
        if target.own is None:
            return []
        target = target.own
    elif len(outputs) == 1 and outputs[0] is delivery.forms:
        return None if route.may_have(node, delivery.event, delivery.session) else _NOT_FOR_IT
    delivery.is_planned = False  # others go on in its place
    if not outputs:
        return edit.suppressed(watch, "shape")
    allowed = [
        _to_target(delivery, target, forms if event is forms.event else Forms(event, passage.now))
        for forms in outputs
        for _, event in receivers(
            node, watch, (target,), delivery.event, forms.event, passage.sender, passage.now, passage.judging
        )
    ]
    if not allowed:
        return _NOT_FOR_IT
    if all(forms.event[:2] != delivery.event[:2] for forms in outputs):
        names = ", ".join(monitor.name for monitor in watch.monitors)
        topics = ", ".join(f"`{topic}`" for topic in dict.fromkeys(forms.event.topic for forms in outputs))
        passage.withhold(delivery.session, Verdict("shape", Effect.REPLACE, names, f"it becomes {topics}"))
    return allowed


_NOT_FOR_IT = Verdict("shape", Effect.SUPPRESS, "", "it may not have what the monitors of its link let out")


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
            forms if event is forms.event else Forms(event, passage.now)
            for event in leaving(watch, forms.event, events)
        )
        if is_shared:
            passage.shaped[key] = outputs
    return outputs


def leaving(watch: Watch, cause: Event, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return what monitors have made of an event as it leaves: for another node, with the mark that tells which of them
    it has been through. For what is on another topic the node itself vouches.
    """
    made = tuple(publishers.made(event, cause) for event in events)
    placing = watch.placing
    if not placing.mark or (made == (cause,) and made[0] is cause and not placing.marks_all):
        return made
    mark = ((user_properties.SHAPED, placing.mark),)
    marked = (user_properties.having(event, None, mark, without=user_properties.SHAPED) for event in made)
    return dedup.told_apart(
        tuple(event if event.topic == cause.topic else event._replace(token="") for event in marked)
    )


def _to_target(delivery: Delivery, target: Target, forms: Forms) -> Delivery:
    passage, event = delivery.passage, forms.event
    retain = event.retain and (passage.is_replay or target.retain_as_published)  # [MQTT-3.3.1-8]
    shaped = Delivery(delivery.session, event, min(event.qos, target.qos), retain, target.ids)
    shaped.passage, shaped.target, shaped.forms = passage, target, forms
    return shaped


def _to_subscribers(passage: Passage, watch: Watch, outputs: tuple[Forms, ...]) -> Iterator[Delivery]:
    """Nobody asks for what the monitors saw: what they let out goes to those who subscribe to just that."""
    cause, sender, now = passage.event, passage.sender, passage.now
    for forms in outputs:
        for target, event in receivers(passage.node, watch, (), cause, forms.event, sender, now, passage.judging):
            retain = event.retain and target.retain_as_published
            shaped = Delivery(target.session, event, min(event.qos, target.qos), retain, target.ids)
            shaped.passage, shaped.target = passage, target
            shaped.forms = forms if event is forms.event else Forms(event, passage.now)
            yield shaped


def receivers(
    node: Node,
    watch: Watch,
    targets: tuple[Target, ...],
    cause: Event,
    output: Event,
    sender: Session | None,
    now: float,
    judging: Judging | None = None,
) -> Iterator[tuple[Target, Event]]:
    """Return who gets what monitors let out: those for whom its cause was, else those who subscribe to just this; and
    what policy statements leave of it. `judging`: that of the cause.
    """
    for target in targets or subscribers(node, watch, output, sender, now):
        session = target.session
        left: Event | None = output
        if not route.may_have(node, output, session):
            continue
        if not targets:
            if judging is None and session.place.policies:
                judging = Judging(node, cause, sender, now, satisfies=satisfaction.satisfies)
            left = output if judging is None else judge.left_of_cause(judging, session, output)
        if left is not None and (not targets or output[:2] != cause[:2]):  # else it has been judged
            about = (sender, session, target.subscriptions, now)
            left = judge.left_of_output(node, left, *about, with_own=not targets, judging=judging)
        if left is not None:
            yield target, left


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
            and satisfaction.satisfies(node, event, subscription, now)
        ]
        if subscribed and route.may_have(node, event, session):
            yield Target(subscribed)
