"""Stage 11, emit: out to the subscribers, within their windows, in order, and after what must be durable is."""

from penstock.engine.capsules import taking
from penstock.engine.capsules.state import RunningCapsule
from penstock.engine.contracts.release_recheck import MARKED
from penstock.engine.events import dedup, publishers, user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.events.plan import PASS, Plan, Unresolved, interned_plan
from penstock.engine.recorder import Recorder
from penstock.engine.sessions.session import Session
from penstock.engine.sessions.window import send_or_queue
from penstock.engine.stages.draft import Draft
from penstock.engine.trust import outgoing_tokens, publication_proofs
from penstock.model.verdict import Effect, Verdict


def plan(draft: Draft) -> None:
    """Sort the matched subscriptions into targets, and find those that take a packet's own bytes."""
    if draft.waits is None or not draft.waits.is_rechecked:
        draft.for_each_delivery(run_or_take if draft.node.capsules.running else run, is_for_plain=False)
    plans, steps = draft.node.plans, (tuple(draft.steps), tuple(draft.delivery_steps))
    if draft.waits is not None:
        draft.plan = Plan(PASS)
        draft.plan.steps, draft.plan.delivery_steps = steps
        return
    steps = plans.steps.setdefault(steps, steps)
    groups, onlookers = tuple(draft.groups), tuple(draft.onlookers)
    telling = (*_telling(draft), *_proving(draft))
    if draft.predicates:
        plan = Plan(PASS)
        plan.unresolved = Unresolved(tuple(draft.predicates), tuple(draft.matched), onlookers)
        plan.steps, plan.delivery_steps = steps
        plan.groups, plan.statements, plan.closed = groups, draft.statements, draft.closed
        plan.withheld = tuple(draft.withheld)
        plan.is_open = True
    else:
        about = (steps, draft.statements, draft.closed, tuple(draft.withheld), telling, draft.passes_bytes)
        plan = interned_plan(plans.interned, draft.matched, groups, onlookers, *about)
    draft.plans.routes[draft.topic] = draft.plan = plan


def _telling(draft: Draft) -> tuple[Session, ...]:
    """Return the neighbours to which each event must name its token."""
    node = draft.node
    if node.trust.tokens is None:
        return ()
    digest = outgoing_tokens.outgoing(node, draft.link)
    sessions = dict.fromkeys(
        subscribed.session for subscribed in draft.matched if subscribed.session.trust.tokens is not None
    )
    return tuple(session for session in sessions if not outgoing_tokens.bind(node, session, draft.topic, digest))


def _proving(draft: Draft) -> tuple[Session, ...]:
    """Return the neighbours to which each event must prove a trust group of this node."""
    if not draft.node.ensemble.uncached_groups:
        return ()
    sessions = dict.fromkeys(subscribed.session for subscribed in draft.matched)
    return tuple(session for session in sessions if publication_proofs.may_carry(draft.node, session))


NOT_TAKEN = Verdict("emit", Effect.SUPPRESS)


def run_or_take(delivery: Delivery) -> Verdict | None:
    """Hand the event to the capsule that receives it; send or queue it if the receiver is none."""
    running = delivery.passage.node.capsules.running.get(delivery.session.id)
    return run(delivery) if running is None else run(delivery, running)


def run(delivery: Delivery, capsule: RunningCapsule | None = None) -> Verdict | None:
    """Send the event, or queue it, without what is only for nodes if its receiver is none."""
    passage, session, forms = delivery.passage, delivery.session, delivery.forms
    node = passage.node
    if session.neighbour is None or session.neighbour not in node.ensemble.overlays:
        if forms.has_reserved:
            delivery.event, forms = forms.event, forms.for_clients()  # while it waits, it has all
            delivery.is_timed |= MARKED in delivery.event.properties  # the rule that has released it
        if session.neighbour is not None and forms.event.id:
            forms = forms.view_of(user_properties.for_foreign(delivery.event))
    else:
        event = forms.event
        if event.qos or event.retain or forms.has_reserved or _has_policies(passage.plan):  # or it may wait there
            event = publishers.carried(node, event)
        if forms.has_reserved:
            event = publishers.hide_cause(node, event)
        if passage.is_replay:
            event = user_properties.as_replay(event)
        if node.ensemble.is_cyclic:
            event = user_properties.with_path(dedup.with_served(node.once, delivery, event), node.name)
        if event is not forms.event:
            forms = forms.view_of(event)
            delivery.event = event
    if capsule is not None:
        taking.take(node, capsule, forms.event, forms.now)
    elif not send_or_queue(node, delivery, forms):
        return NOT_TAKEN
    dedup.sent(node.once, delivery)
    if node.recorder is not None:
        as_planned = delivery.is_planned and delivery.forms.event is passage.came and passage.source is None
        if not as_planned:
            _record(node.recorder, delivery)
    if delivery.qos and capsule is None:
        delivery.wait()
    return None


def _has_policies(plan: Plan | None) -> bool:
    """Return True if its publisher's advertisements have policies: at other nodes they concern just its events."""
    return plan is not None and any(not bound.is_given for bound in plan.statements)


def _record(recorder: Recorder, delivery: Delivery) -> None:
    """Tell the journal of a form that differs from what is recorded, and of a receiver that the plan does not name."""
    passage, target, event = delivery.passage, delivery.target, delivery.forms.event
    if passage.sender is not None and (event is passage.came or user_properties.is_alike(event, passage.came)):
        if not delivery.is_planned and target is not None:
            recorder.chose(target)
    elif passage.sender is not None or passage.source is not None:
        delivery.is_planned = False  # not as it is
        qos = delivery.qos if target is None else target.qos
        recorder.show(user_properties.for_record(event), delivery.session, qos)
