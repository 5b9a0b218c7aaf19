"""An event goes to all that its plan names: each copy as policies leave it, once through the monitors of each link."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.events.plan import Group, Plan, Target
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import edit, emit, judge, match, route
from penstock.model.event import Event
from penstock.model.topic import matches

if TYPE_CHECKING:
    from penstock.engine.node import Node


def spread(
    node: "Node",
    plan: Plan,
    event: Event,
    sender: Session | None,
    now: float,
    judging: judge.Judging | None = None,
) -> bool:
    """Deliver to all that the plan names; whether there was any."""
    forms = Forms(event, now)
    kept = None
    if judging is not None:
        judging.plain = forms
        _flood(node, judging, plan, event)
    for session in plan.closed:
        session.denied += session.neighbour is None or session.neighbour not in event.path
    # [MQTT-4.5.0-1] [MQTT-4.6.0-5] [MQTT-4.6.0-6] [MQTT311-4.6.0-6]
    for target in plan.targets:
        session, withheld = target.session, node.withheld
        if target.no_local and session is sender:  # [MQTT-3.8.3-3]
            if target.own is None:
                _pass_over(node, (target,), sender)
                continue
            target = target.own
        if event.path and session.neighbour in event.path:
            _pass_over(node, (target,), sender)
            continue  # it has been there: graphs may have cycles, ways may not
        if event.id and session.neighbour is None and not node.once.is_first(event, session.id):
            _pass_over(node, (target,), sender)
            continue
        retain = event.retain and target.retain_as_published  # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
        if target.is_judged or (judging is not None and judging.is_for_all):
            if judging is None:
                judging = judge.Judging(node, event, sender, now)
                judging.plain = forms
            shown = judging.forms(session, target.subscriptions, target.courses)
            if shown is None:
                _pass_over(node, (target,), sender)
                continue
            if shown is not forms:
                counting = judging.counting(target)
                retain = event.retain and counting.retain_as_published
                qos = min(event.qos, counting.qos)
                shown.kept = emit.deliver(node, session, qos, retain, counting.ids, shown, shown.kept)
                if node.withheld != withheld:
                    _pass_over(node, (target,), sender)
                continue
        # [MQTT-3.8.4-8]
        kept = emit.deliver(node, session, min(event.qos, target.qos), retain, target.ids, forms, kept)
        if node.withheld != withheld:
            _pass_over(node, (target,), sender)
    for watch, targets in plan.watched:
        if event.id and not node.once.is_first(event, watch.link):
            _pass_over(node, targets, sender)
            continue
        if judging is None and any(target.is_judged for target in targets):
            judging = judge.Judging(node, event, sender, now)
        _spread_watched(node, watch, targets, event, sender, now, judging)
    for group in plan.groups:
        judging = judging or _of_members(node, group, event, sender, now)
        chosen = group.choose(partial(_may_take, node, event, now, judging))
        if chosen is not None and (not event.id or node.once.is_first(event, (group.name, group.filter))):
            retain = event.retain and chosen.retain_as_published
            # [MQTT-4.8.2-3]
            qos = min(event.qos, chosen.qos)
            shown = forms if judging is None else judging.forms(chosen.session, chosen.subscriptions)
            assert shown is not None  # it was asked for whoever was chosen
            if shown is forms:
                sent, kept = emit.notify(node, chosen.session, qos, retain, chosen.ids, forms, kept)
            else:
                sent, _ = emit.notify(node, chosen.session, qos, retain, chosen.ids, shown, None)
            if sent and node.recorder is not None and sender is not None:
                node.recorder.chose(chosen)
    if judging is not None:
        note_facts(node, judging, sender)
    return bool(plan.targets or plan.groups or any(targets for _, targets in plan.watched))


def _flood(node: "Node", judging: judge.Judging, plan: Plan, event: Event) -> None:
    """Send it to neighbours that have not asked, if a policy says so."""
    asked = {target.session.id for target in plan.targets}
    for session in judging.flooded():
        if session.id not in asked and route.may_have(node, event, session):
            shown = judging.forms(session, ())
            if shown is not None:
                shown.kept = emit.deliver(node, session, event.qos, event.retain, (), shown, shown.kept)


def _of_members(node: "Node", group: Group, event: Event, sender: Session | None, now: float) -> judge.Judging | None:
    is_judged = any(one.policy is not None or one.session.policies for one in group.members)
    return judge.Judging(node, event, sender, now) if is_judged else None


def _may_take(node: "Node", event: Event, now: float, judging: judge.Judging | None, member: Subscribed) -> bool:
    if not may_take(node, event, member, now):
        return False
    return judging is None or judging.forms(member.session, (member,)) is not None


def may_take(node: "Node", event: Event, member: Subscribed, now: float | None = None) -> bool:
    """Whether a member of a group may have the event or some of it, and asks for such. Of means it gets none."""
    if not route.may_have(node, event, member.session) or not match.satisfies(node, event, member, now):
        return False
    return match.shown(node, member.session, event, now).event is not None


def _spread_watched(
    node: "Node",
    watch: edit.Watch,
    targets: tuple[Target, ...],
    event: Event,
    sender: Session | None,
    now: float,
    judging: judge.Judging | None,
) -> None:
    """Put the event through the monitors of a link to a client, and notify whoever is behind the link: once for each
    form that policies give it, and that is one unless several come under one name with different subscriptions.
    """
    local = {target.session.id for target in targets if target.no_local and target.session is sender}
    sent: dict[int, Target] = {}
    for judged, several in _judged(targets, event, judging):
        for output in edit.run(node, watch, judged, now):
            forms = Forms(output, now)
            for target in behind(node, watch, several, output, sender, now):
                session = target.session
                if session.id not in local:
                    withheld = node.withheld
                    retain = output.retain and target.retain_as_published
                    emit.deliver(node, session, min(output.qos, target.qos), retain, target.ids, forms, None)
                    if node.withheld == withheld:
                        sent[session.id] = target
    if node.recorder is not None and sender is not None:
        _pass_over(node, tuple(target for target in targets if target.session.id not in sent), sender)
        for target in () if targets else sent.values():
            node.recorder.chose(target)


def _judged(
    targets: tuple[Target, ...], event: Event, judging: judge.Judging | None
) -> Iterator[tuple[Event, tuple[Target, ...]]]:
    """The event as policies let targets behind one link have it. Where only the monitor looks on, it looks at all."""
    if not targets or judging is None:
        yield event, targets
        return
    found: dict[Event, list[Target]] = {}
    for target in targets:
        shown = judging.forms(target.session, target.subscriptions)
        if shown is not None:
            found.setdefault(shown.event, []).append(target)
    yield from ((judged, tuple(several)) for judged, several in found.items())


def _pass_over(node: "Node", targets: tuple[Target, ...], sender: Session | None) -> None:
    """Tell the journal, if there is one, that these do not get the last event although its plan names them."""
    if node.recorder is not None and sender is not None:
        for target in targets:
            node.recorder.passed_over(target)


def behind(
    node: "Node",
    watch: edit.Watch,
    targets: tuple[Target, ...],
    output: Event,
    sender: Session | None,
    now: float | None = None,
) -> Iterator[Target]:
    """Who gets what a monitor lets out: those for whom its cause was, else those who subscribe to just this."""
    if targets:
        yield from (target for target in targets if route.may_have(node, output, target.session))
        return
    for session in watch.sessions:
        found = [
            one
            for one in session.subscriptions.values()
            if matches(one.filter, output.topic)
            and not (one.no_local and session is sender)
            and match.satisfies(node, output, one, now)
        ]
        if found and route.may_have(node, output, session):
            yield Target(found)


def note_facts(node: "Node", judging: judge.Judging, sender: Session | None) -> None:
    """Tell the journal, if there is one, what policies asked of the node about the last event."""
    if node.recorder is not None and sender is not None and judging.facts:
        node.recorder.judged(judging.facts)
