"""The deliveries of an event: to all that its plan names, and to those that policies or monitors add."""

from collections.abc import Iterable, Iterator
from functools import partial

from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.events.plan import Group, Plan, Target
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import route, satisfaction
from penstock.engine.statements.applicability import is_matched_late
from penstock.engine.statements.event_judging import Judging
from penstock.model.event import Event
from penstock.model.subject import Subject

_NOBODY = Session(0, Subject("", None, "", ""), 5)
"""In the place of a receiver, where only monitors see the event."""


def deliveries(passage: Passage, plan: Plan) -> Iterable[Delivery]:
    """Return the deliveries that an event's plan leads to, in order.

    Foreign brokers that other nodes have links with too come first, so that these nodes know that they are served.
    """
    shared, every = passage.node.ensemble.shared_brokers, _deliveries(passage, plan)
    if not shared:
        return every
    brokers = passage.node.ensemble.brokers
    return sorted(every, key=lambda delivery: brokers.get(delivery.session.neighbour or "") not in shared)


def _deliveries(passage: Passage, plan: Plan) -> Iterator[Delivery]:
    event, sender = passage.event, passage.sender
    forms = passage.forms = Forms(event, passage.now)
    if passage.judging is not None:
        passage.judging.plain = forms
        yield from _flooded(passage, plan)
    for session in plan.closed:
        session.denied += not route.has_been(passage.node, event, session.neighbour)
    for target in plan.targets:
        session, is_planned = target.session, True
        if target.no_local and session is sender:  # [MQTT-3.8.3-3]
            _pass_over(passage, target)
            if target.own is None:
                continue
            target, is_planned = target.own, False
        # [MQTT-3.8.4-8] [MQTT-3.3.1-12] [MQTT-3.3.1-13]
        retain = event.retain and target.retain_as_published
        qos = event.qos if event.qos < target.qos else target.qos
        receiver = session.id if session.neighbour is None else None
        yield Delivery(session, event, qos, retain, target.ids, passage, target, forms, receiver, is_planned)
    for watch, targets in plan.watched:
        yield from _behind(passage, watch, targets)
    for group in plan.groups:
        yield from _to_member(passage, group)


def to_target(passage: Passage, target: Target, watch: Watch | None = None) -> Delivery:
    """Return the delivery of an event to a session, by these of its subscriptions."""
    event = passage.event
    retain = event.retain and target.retain_as_published
    delivery = Delivery(target.session, event, min(event.qos, target.qos), retain, target.ids)
    delivery.passage, delivery.target, delivery.forms, delivery.watch = passage, target, passage.forms, watch
    return delivery


def _flooded(passage: Passage, plan: Plan) -> Iterator[Delivery]:
    """Return the deliveries to neighbours that have not asked, if a policy says so."""
    assert passage.judging is not None
    watched = (target for _, targets in plan.watched for target in targets)
    asked = {target.session.id for target in (*plan.targets, *watched)}
    for session in passage.judging.flooded():
        if session.id not in asked and route.may_have(passage.node, passage.event, session):
            topic = Subscribed(session, passage.event.topic, 2, retain_as_published=True)
            yield to_target(passage, Target([topic]), session.place.watch_out)


def _behind(passage: Passage, watch: Watch, targets: tuple[Target, ...]) -> Iterator[Delivery]:
    """Return the deliveries by a link with monitors; where nobody asks for the event, one that only they see."""
    for target in targets:
        delivery = to_target(passage, target, watch)
        delivery.is_planned = True
        if target.session.neighbour not in passage.node.ensemble.overlays:
            delivery.receiver = watch.link
        delivery.is_echo = target.no_local and target.session is passage.sender
        yield delivery
    if not targets:
        delivery = Delivery(_NOBODY, passage.event, 0, False, ())
        delivery.passage, delivery.forms, delivery.watch = passage, passage.forms, watch
        delivery.receiver = watch.link
        yield delivery


def _to_member(passage: Passage, group: Group) -> Iterator[Delivery]:
    """Return the delivery to the member of a group whose turn it is."""
    if passage.judging is None and any(
        member.policy is not None or member.session.place.policies for member in group.members
    ):
        passage.judging = Judging(
            passage.node, passage.event, passage.sender, passage.now, satisfies=satisfaction.satisfies
        )
        passage.judging.plain = passage.forms
    chosen = group.choose(partial(_may_take, passage))
    if chosen is not None:
        delivery = to_target(passage, chosen, chosen.session.place.watch_out)  # [MQTT-4.8.2-3]
        delivery.receiver = group.name, group.filter
        yield delivery


def _may_take(passage: Passage, member: Subscribed) -> bool:
    judging = passage.judging
    if not may_take(passage.node, passage.event, member, passage.now, judging is not None and judging.is_late):
        return False
    return judging is None or judging.forms(member.session, (member,)) is not None


def may_take(node: Node, event: Event, member: Subscribed, now: float | None = None, is_late: bool = False) -> bool:
    """Return True if a group's member may have the event or some of it, and asks for such. Members get no means.
    `is_late`: what it asks for is found out later, after rules before matching.
    """
    if member.session.id in node.sessions.ending or not route.may_have(node, event, member.session):
        return False
    is_late = is_late or is_matched_late(member, event.topic)
    if not is_late and not satisfaction.satisfies(node, event, member, now):
        return False
    return satisfaction.shown(node, member.session, event, now).event is not None


def _pass_over(passage: Passage, target: Target) -> None:
    """Tell the journal, if there is one, that a session does not get the last event although its plan names it."""
    if passage.node.recorder is not None and passage.sender is not None:
        passage.node.recorder.passed_over(target)
