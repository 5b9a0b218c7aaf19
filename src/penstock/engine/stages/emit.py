"""Stage 10, emit: out to the subscribers, within their windows, in order, and after what must be durable is."""

from typing import TYPE_CHECKING

from penstock.engine.contracts import release_recheck
from penstock.engine.events import user_properties
from penstock.engine.events.plan import Draft, Group, Plan, Target
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Kept, Session, Subscribed
from penstock.engine.sessions.window import send_or_queue
from penstock.engine.stages import edit, match, project, release, route
from penstock.engine.stages.edit import Watch
from penstock.engine.trust import token_exchange
from penstock.model.verdict import Verdict
from penstock.policy.statements.judging import Bound

if TYPE_CHECKING:
    from penstock.engine.node import Node


def plan(draft: Draft) -> None:
    """Sort the matched subscriptions into targets, and find those that take a packet's own bytes."""
    groups, onlookers = tuple(draft.groups), tuple(draft.onlookers)
    telling = _telling(draft)
    if draft.predicates:
        plan = Plan(draft.verdict)
        plan.predicates, plan.matched = tuple(draft.predicates), tuple(draft.matched)
        plan.groups, plan.onlookers, plan.statements = groups, onlookers, draft.statements
        plan.closed = draft.closed
    else:
        known = draft.node.interned
        about = (draft.is_projected, draft.statements, telling, draft.closed)
        plan = known_plan(known, draft.verdict, draft.matched, groups, onlookers, *about)
    draft.plans.routes[draft.topic] = draft.plan = plan


def _telling(draft: Draft) -> tuple[Session, ...]:
    """The neighbours that must be told with each event which token it has."""
    node = draft.node
    if node.tokens is None:
        return ()
    digest = token_exchange.outgoing(node, draft.link)
    sessions = dict.fromkeys(one.session for one in draft.matched if one.session.tokens is not None)
    return tuple(session for session in sessions if not token_exchange.bind(node, session, draft.topic, digest))


def known_plan(
    known: dict[tuple[object, ...], Plan],
    verdict: Verdict,
    matched: list[Subscribed],
    groups: tuple[Group, ...],
    onlookers: tuple[Watch, ...],
    is_projected: bool = False,
    statements: tuple[Bound, ...] = (),
    telling: tuple[Session, ...] = (),
    closed: tuple[Session, ...] = (),
) -> Plan:
    """The plan for these subscriptions, of those that are known; it is made if it is not there."""
    key = (*matched, is_projected, *groups, *onlookers, *statements, *telling, False, *closed)
    plan = known.get(key)
    if plan is None:
        plan = known[key] = _make_plan(verdict, matched, groups, onlookers, telling)
        plan.simple = plan.simple and not is_projected and not statements
        plan.statements = statements
        plan.closed = closed
        plan.key = key
    return plan


def _make_plan(
    verdict: Verdict,
    matched: list[Subscribed],
    groups: tuple[Group, ...],
    onlookers: tuple[Watch, ...],
    telling: tuple[Session, ...],
) -> Plan:
    of_session: dict[int, list[Subscribed]] = {}
    for subscribed in matched:
        of_session.setdefault(subscribed.session.id, []).append(subscribed)
    targets = [_target(found) for found in of_session.values()]
    plan = Plan(verdict)
    plan.groups = groups
    plan.watched = _watched(onlookers, targets)
    if plan.watched:
        targets = [target for target in targets if target.session.watch_out is None]
    plan.targets = tuple(targets)
    direct = [target.session for target in targets if target.is_direct() and target.session not in telling]
    plan.direct4 = tuple(session for session in direct if session.version == 4)
    plan.direct5 = tuple(session for session in direct if session.version == 5)
    plan.simple = len(direct) == len(targets) and not plan.groups and not plan.watched
    return plan


def _target(found: list[Subscribed]) -> Target:
    if len(found) > 1:
        return Target(found)
    subscribed = found[0]
    if subscribed.target is None:
        subscribed.target = Target(found)
    return subscribed.target


def _watched(onlookers: tuple[Watch, ...], targets: list[Target]) -> tuple[tuple[Watch, tuple[Target, ...]], ...]:
    behind: dict[Watch, list[Target]] = {watch: [] for watch in onlookers}
    for target in targets:
        if target.session.watch_out is not None:
            behind.setdefault(target.session.watch_out, []).append(target)
    return tuple((watch, tuple(found)) for watch, found in behind.items())


# --- messages to a session


def notify(
    node: "Node", session: Session, qos: int, retain: bool, ids: tuple[int, ...], forms: Forms, kept: Kept | None
) -> tuple[bool, Kept | None]:
    """Deliver to one session alone, through the monitors of its link: whether anything was sent, and its place in the
    store, to be shared.
    """
    if session.watch_out is None:
        return True, deliver(node, session, qos, retain, ids, forms, kept)
    made = edit.run(node, session.watch_out, forms.event, forms.now)
    outputs = [event for event in made if route.may_have(node, event, session)]
    for event in outputs:
        deliver(node, session, min(qos, event.qos), retain and event.retain, ids, Forms(event, forms.now), None)
    return bool(outputs), kept


def deliver(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
) -> Kept | None:
    """Send the event, or queue it. Returns its place in the store, to be shared with its other deliveries."""
    if node.contracts is not None:
        released = release.show(node, session, forms, qos, retain)
        if released is None:
            return kept
        if released is not forms:
            released.kept = _project(node, session, qos, retain, ids, released, released.kept)
            return kept
    return _project(node, session, qos, retain, ids, forms, kept)


def _project(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
) -> Kept | None:
    if node.sparkplug is not None:
        shown = project.show(node, session, forms)
        if shown is None:
            return kept
        if shown is not forms:
            shown.kept = _deliver(node, session, qos, retain, ids, shown, shown.kept)
            return kept
    return _deliver(node, session, qos, retain, ids, forms, kept)


def _deliver(
    node: "Node",
    session: Session,
    qos: int,
    retain: bool,
    ids: tuple[int, ...],
    forms: Forms,
    kept: Kept | None,
) -> Kept | None:
    if session.neighbour is None or session.neighbour not in node.ensemble.overlays:
        if forms.has_reserved:
            event, forms = forms.event, forms.for_clients()
            marked = event if release_recheck.MARKED in event.properties else None
            forms.kept = send_or_queue(node, session, qos, retain, ids, forms, forms.kept, marked)
            return kept
    elif node.ensemble.is_cyclic:
        forms, kept = Forms(user_properties.with_path(forms.event, node.name), forms.now), None
    return send_or_queue(node, session, qos, retain, ids, forms, kept)


def hand_out(node: "Node", now: float) -> None:
    """Send what was held back until now by contracts, as far as they still release it; it is already what its receivers
    may see.
    """
    for _, session, event in node.later.take(node, now):
        if event.expires is not None and event.expires <= now:  # [MQTT-3.3.2-5]
            node.stats.expired += 1
            continue
        wanted = match.wanting(node, event, session)
        if wanted and route.may_have(node, event, session) and release_recheck.may_go(node, event, session, now):
            target = Target(wanted)
            deliver(node, session, min(event.qos, target.qos), event.retain, target.ids, Forms(event, now), None)
