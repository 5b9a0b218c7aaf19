"""Stage 5, match: which subscriptions does the event satisfy, by topic and by content?"""

from collections.abc import Iterable, Iterator
from functools import partial

from penstock.engine.contracts import privacy, situations
from penstock.engine.events import retained
from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.events.plan import Group, Plan, Target, Unresolved, WaitingPlace, interned_plan
from penstock.engine.matching.block import Entry
from penstock.engine.matching.predicates import Predicates
from penstock.engine.matching.step_budget import StepBudget
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.sparkplug import learning
from penstock.engine.sparkplug.state import governed
from penstock.engine.stages import judge, project, release, route
from penstock.engine.stages.draft import Draft
from penstock.engine.stages.release import Preview
from penstock.language.condition import Condition, all_of
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Effect, Verdict


def plan(draft: Draft) -> None:
    """Collect the subscriptions and groups whose filter matches and whose subject may read the topic."""
    topic, node = draft.topic, draft.node
    draft.end_link_part()
    if draft.waits is not None:
        draft.for_each_delivery(_ASKED_AGAIN[draft.waits])
        return
    known = draft.plans.routes.get(topic)
    if known is not None and known.valid and not draft.delivery_steps:
        draft.plan = known  # found for another class of links already
        return
    if node.sparkplug is not None and governed(topic):
        draft.for_each_event(learning.learn)
    if node.contracts is not None and node.contracts.concerns(topic):
        draft.for_each_event(situations.run)
    draft.for_each_event(judge.begin, is_for_plain=False)  # rules of policy statements that come before matching
    draft.for_each_event(run, is_for_plain=False)
    narrowed: Predicates[Subscribed] | None = None
    # [MQTT-3.3.2-3] [MQTT-4.7.3-4]
    for entry in node.subscriptions.index.match(topic):
        if isinstance(entry, Subscribed):  # first: most are
            if not _may_read(entry.session, topic):
                continue
            if entry.condition is None and not entry.also:
                draft.matched.append(entry)
            elif also := tuple(conditions(entry, topic)):
                narrowed = narrowed or Predicates()
                narrowed.add(entry, all_of(also), entry)
            else:
                draft.matched.append(entry)
        elif isinstance(entry, Group):
            draft.groups.append(entry)
        elif isinstance(entry, Watch):
            draft.onlookers.append(entry)
        else:
            draft.predicates.append(entry)
    if narrowed is not None:
        draft.predicates.append(narrowed)


def run(passage: Passage) -> None:
    """Keep an event that is to be retained, and ask which subscriptions by content it satisfies."""
    node, event, plan = passage.node, passage.event, passage.plan
    assert plan is not None
    # [MQTT-3.3.1-5] [MQTT-3.3.1-8] [MQTT311-3.3.1-7] [MQTT311-3.3.1-12]
    if event.retain:
        retained.keep(node, event if passage.judging is None else passage.judging.kept, passage.sender)
    if plan.unresolved is not None:
        passage.plan = _resolved(passage, plan, plan.unresolved)


def _resolved(passage: Passage, plan: Plan, unresolved: Unresolved) -> Plan:
    """Return the plan for an event whose content decides too: with the conditional subscriptions that it satisfies."""
    node = passage.node
    if len(node.plans.resolved) >= MAX_RESOLVED:
        node.plans.resolved.clear()
    predicates, sure, onlookers = unresolved
    matched = [*sure, *satisfied(node, predicates, passage.plans.key, passage.event, passage.now)]
    about = (((), plan.delivery_steps), plan.statements, plan.closed)
    return interned_plan(node.plans.resolved, matched, plan.groups, onlookers, *about)


def is_asked_for(passage: Passage, unresolved: Unresolved | None) -> bool:
    """Return True if a conditional subscription may have such an event, whatever the event says: a publisher must not
    find out the conditions of others.
    """
    if unresolved is None:
        return False
    node, link, topic = passage.node, passage.plans.key, passage.event.topic
    asking = (subscribed.session for predicates in unresolved.predicates for subscribed in predicates.values())
    return any(_may_read(session, topic) and route.is_open(node, link, session) for session in asking)


def ask_again(delivery: Delivery) -> Verdict | None:
    """Ask a subscription for a retained event: what it may read, and what it asks for."""
    passage, target = delivery.passage, delivery.target
    assert target is not None
    if not _may_read(delivery.session, passage.event.topic):
        return _UNREADABLE
    (subscribed,) = target.subscriptions
    return None if satisfies(passage.node, passage.event, subscribed, passage.now) else _UNSATISFIED


def choose_again(delivery: Delivery) -> Verdict | None:
    """Find the subscriptions that ask for an event which was held back; it is already what its receiver may see."""
    passage = delivery.passage
    wanted = wanting(passage.node, passage.event, delivery.session)
    if not wanted:
        return _UNSATISFIED
    target = Target(wanted)
    delivery.target, delivery.ids, delivery.qos = target, target.ids, min(passage.event.qos, target.qos)
    return None if _may_read(delivery.session, passage.event.topic) else _UNREADABLE


def want_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the session still wants, and may read, what waits for it."""
    passage = delivery.passage
    if not _may_read(delivery.session, delivery.event.topic):
        return _UNREADABLE
    return None if is_wanted(passage.node, delivery.event, delivery.session) else _UNSATISFIED


def obey_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the session may still read what it was sent, and whether that is as the domain says for it. What it
    subscribes to now does not count: a delivery that was begun is completed.
    """  # [MQTT-3.10.4-3]
    passage, event, session = delivery.passage, delivery.event, delivery.session
    if not _may_read(session, event.topic):
        return _UNREADABLE
    content = passage.node.ensemble.reader.read(event)
    demanded = (condition for filter, condition in session.place.where if matches(filter, event.topic))
    return None if all(condition.holds(content) is True for condition in demanded) else _UNSATISFIED


_ASKED_AGAIN = {
    WaitingPlace.RETAINED: ask_again,
    WaitingPlace.DELAYED: choose_again,
    WaitingPlace.QUEUED: want_again,
    WaitingPlace.RESENT: obey_again,
}
_UNREADABLE = Verdict("match", Effect.SUPPRESS, "acl")
_UNSATISFIED = Verdict("match", Effect.SUPPRESS, "condition")
MAX_RESOLVED = 10_000
"""Plans for single contents that are kept: contents may satisfy subscriptions in any combination."""


def satisfied(
    node: Node, conditional: tuple[Predicates[Subscribed], ...], link: LinkClass, event: Event, now: float
) -> list[Subscribed]:
    """Return the conditional subscriptions that the event satisfies and that may have it."""
    is_projected = project.concerns(node, event.topic) or release.concerns_event(node, event)
    matched: Iterable[Subscribed]
    if is_projected:
        matched = (subscribed for predicates in conditional for subscribed in predicates.values())
    else:
        content = node.ensemble.reader.read(event)
        ask = partial(_ask, node, event.topic, now)
        matched = [subscribed for predicates in conditional for subscribed in predicates.match(content, ask)]
        if event.retain:
            matched = dict.fromkeys((*matched, *_kept_beyond(node, event.topic)))
    matched = (
        subscribed
        for subscribed in matched
        if _may_read(subscribed.session, event.topic) and route.is_open(node, link, subscribed.session)
    )
    if is_projected:
        return list(_satisfied_by_views(node, conditional, event, matched, now))
    return [subscribed for subscribed in matched if not subscribed.also or satisfies(node, event, subscribed, now)]


def _ask(node: Node, topic: str, now: float, entry: Entry, content: Content) -> bool:
    """Ask a condition that counts steps, at the cost of those who subscribe with it and have steps left. Without any,
    it is not asked, and counts as not satisfied; that is a denial, which its subscribers are told of as of others.
    """
    limit = node.limits.condition_steps
    sessions = [subscribed.session for subscribed in entry.waiting()]
    paying = [
        each
        for each in sessions
        if each.connection.subscribing is None or each.connection.subscribing.is_left(now, limit)
    ]
    if not paying:
        for session in sessions:
            node.deny("delivery denied", session, topic, f"its conditions take more than {limit} steps a second")
        return False
    before = content.spent
    is_true = entry.condition.holds(content) is True
    node.runtime.paid_steps += content.spent - before
    share = (content.spent - before) // len(paying)
    for session in paying:
        session.connection.subscribing = session.connection.subscribing or StepBudget()
        session.connection.subscribing.charge(share)
    return is_true


def _satisfied_by_views(
    node: Node,
    conditional: tuple[Predicates[Subscribed], ...],
    event: Event,
    asking: Iterable[Subscribed],
    now: float,
) -> Iterator[Subscribed]:
    """Return those satisfied by what each may see: each client is asked once, and all with the same view together."""
    views: dict[int, Preview] = {}
    seen: dict[tuple[bytes, str], set[int]] = {}
    for subscribed in asking:
        if _is_kept_beyond(node, event, subscribed):
            yield subscribed
            continue
        session = subscribed.session
        if session.id not in views:
            views[session.id] = shown(node, session, event, now)
        view, in_mean = views[session.id]
        if in_mean:
            yield subscribed
        if view is None:
            continue
        key = (view.payload, view.content_type)
        if key not in seen:
            content = node.ensemble.reader.view(view, event)
            ask = partial(_ask, node, event.topic, now)
            seen[key] = {id(each) for predicates in conditional for each in predicates.match(content, ask)}
        if id(subscribed) in seen[key] and not (subscribed.also and any(unmet(node, view, subscribed))):
            yield subscribed


def satisfies(node: Node, event: Event, subscribed: Subscribed, now: float | None = None) -> bool:
    """Return True if the event's content satisfies the subscription; a condition that fails is not satisfied.

    It is asked of what the subscriber may see: otherwise it could find out the rest by asking. If that is a mean, then
    when it is made.
    """
    if _is_kept_beyond(node, event, subscribed) or next(conditions(subscribed, event.topic), None) is None:
        return True
    view, in_mean = shown(node, subscribed.session, event, now)
    return in_mean or (view is not None and not any(unmet(node, view, subscribed)))


def shown(node: Node, session: Session, event: Event, now: float | None) -> Preview:
    """Return what a subscriber may see of an event, without side effects."""
    preview = release.preview(node, session, event, now)
    return preview if preview.event is None else Preview(project.preview(node, session, preview.event, now))


def unmet(node: Node, event: Event, subscribed: Subscribed) -> Iterator[str]:
    """Return the condition that the event's content does not satisfy, and why."""
    if _is_kept_beyond(node, event, subscribed):
        return
    for condition in conditions(subscribed, event.topic):
        outcome = condition.holds(node.ensemble.reader.read(event))
        if outcome is not True:
            yield f"`{condition.text}` {'is false' if outcome is False else f'fails: {outcome}'}"


def _is_kept_beyond(node: Node, event: Event, subscribed: Subscribed) -> bool:
    """Return True if a neighbour must have the event whatever it asks for: it may retain an older one of the topic and
    go on giving it to new subscribers. Of a private event, only it knows what its consumers see.
    """
    return subscribed.session.neighbour is not None and (event.retain or privacy.is_private(node, event))


def _kept_beyond(node: Node, topic: str) -> Iterator[Subscribed]:
    """Return the neighbours' conditional subscriptions to a topic."""
    for session in node.federation.neighbours.values():
        for subscribed in session.subscriptions.values():
            if subscribed.condition is not None and matches(subscribed.filter, topic):
                yield subscribed


def conditions(subscribed: Subscribed, topic: str) -> Iterator[Condition]:
    """Return the conditions for content on a topic that the subscription matches."""
    if subscribed.condition is not None:
        yield subscribed.condition
    for filter, condition in subscribed.also:
        if matches(filter, topic):
            yield condition


def wanting(node: Node, event: Event, session: Session) -> list[Subscribed]:
    """Return the subscriptions of a session that are for an event that it may see as it is."""
    return [
        subscribed
        for subscribed in session.subscriptions.values()
        if matches(parse_filter(subscribed.filter).filter, event.topic) and not any(unmet(node, event, subscribed))
    ]


def is_wanted(node: Node, event: Event, session: Session) -> bool:
    """Return True if no subscription of the session is for this topic, or the event satisfies one that is.

    The event is one that waits for the session: already what it may see.
    """
    subscriptions = [
        subscribed
        for subscribed in session.subscriptions.values()
        if matches(parse_filter(subscribed.filter).filter, event.topic)
    ]
    return not subscriptions or not all(any(unmet(node, event, subscribed)) for subscribed in subscriptions)


def _may_read(session: Session, topic: str) -> bool:
    return session.rights is None or session.rights.may_read(topic)
