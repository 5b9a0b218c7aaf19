"""Stage 5, match: which subscriptions does the event satisfy, by topic and by content?"""

from collections.abc import Iterable, Iterator
from functools import partial

from penstock.engine.contracts import situations
from penstock.engine.events import retained
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
from penstock.engine.stages.satisfaction import conditions, is_kept_beyond, may_read, satisfies, shown, unmet
from penstock.engine.statements.applicability import is_matched_late
from penstock.language.condition import all_of
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Effect, Verdict
from penstock.policy.tokens.rights import TokenRights


def plan(draft: Draft) -> None:
    """Collect the subscriptions and groups whose filter matches and whose subject may read the topic."""
    topic, node = draft.topic, draft.node
    draft.end_link_part()
    if draft.waits is not None:
        if draft.waits is WaitingPlace.RETAINED:
            draft.for_each_delivery(read_again)
            draft.for_each_delivery(judge.begin_retained)  # rules of policy statements that come before matching
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
    for entry in entries(node, topic):
        if isinstance(entry, Subscribed):  # first: most are
            if not may_read(entry.session, topic):
                if node.recorder is not None:
                    draft.withheld.append((entry.session, _unreadable(entry.session, topic)))
                continue
            if (entry.condition is None and not entry.also) or is_matched_late(entry, topic):
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


def entries(node: Node, topic: str) -> Iterable[Subscribed | Group | Watch | Predicates[Subscribed]]:
    """Return what the index has for a topic, without the subscriptions of sessions that have ended."""
    matching, ending = node.subscriptions.index.match(topic), node.sessions.ending
    if not ending:
        return matching
    return [entry for entry in matching if not isinstance(entry, Subscribed) or entry.session.id not in ending]


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
    is_late = passage.judging is not None and passage.judging.is_late
    matched = [*sure, *satisfied(passage, predicates, is_late)]
    about = (((), plan.delivery_steps), plan.statements, plan.closed, plan.withheld)
    return interned_plan(node.plans.resolved, matched, plan.groups, onlookers, *about)


def is_asked_for(passage: Passage, unresolved: Unresolved | None) -> bool:
    """Return True if a conditional subscription may have such an event, whatever the event says: a publisher must not
    find out the conditions of others.
    """
    if unresolved is None:
        return False
    node, link, topic = passage.node, passage.plans.key, passage.event.topic
    asking = (subscribed.session for predicates in unresolved.predicates for subscribed in predicates.values())
    there = (session for session in asking if session.id not in node.sessions.ending)
    return any(may_read(session, topic) and route.is_open(node, link, session) for session in there)


def read_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the receiver may read a retained event."""
    return None if may_read(delivery.session, delivery.passage.event.topic) else _UNREADABLE


def ask_again(delivery: Delivery) -> Verdict | None:
    """Ask a subscription for a retained event what it asks for."""
    passage, target = delivery.passage, delivery.target
    assert target is not None
    (subscribed,) = target.subscriptions
    is_late = is_matched_late(subscribed, passage.event.topic) or (
        passage.judging is not None and passage.judging.is_late
    )
    return None if is_late or satisfies(passage.node, passage.event, subscribed, passage.now) else _UNSATISFIED


def choose_again(delivery: Delivery) -> Verdict | None:
    """Find the subscriptions that ask for an event which was held back; it is already what its receiver may see."""
    passage = delivery.passage
    wanted = wanting(passage.node, passage.event, delivery.session)
    if not wanted:
        return _UNSATISFIED
    target = Target(wanted)
    delivery.target, delivery.ids, delivery.qos = target, target.ids, min(passage.event.qos, target.qos)
    return None if may_read(delivery.session, passage.event.topic) else _UNREADABLE


def want_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the session still wants, and may read, what waits for it."""
    passage = delivery.passage
    if not may_read(delivery.session, delivery.event.topic):
        return _UNREADABLE
    return None if is_wanted(passage.node, delivery.event, delivery.session) else _UNSATISFIED


def obey_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the session may still read what it was sent, and whether that is as the domain says for it. What it
    subscribes to now does not count: a delivery that was begun is completed.
    """  # [MQTT-3.10.4-3]
    passage, event, session = delivery.passage, delivery.event, delivery.session
    if not may_read(session, event.topic):
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
_UNREADABLE = Verdict("match", Effect.SUPPRESS, "acl", "the access list does not let it read the topic")
_NOT_IN_TOKEN = Verdict("match", Effect.SUPPRESS, "token", "its token does not let it read the topic")
_UNSATISFIED = Verdict("match", Effect.SUPPRESS, "condition")
MAX_RESOLVED = 10_000
"""Plans for single contents that are kept: contents may satisfy subscriptions in any combination."""


def _unreadable(session: Session, topic: str) -> Verdict:
    """Return why a session may not read a topic; for all topics and sessions alike, so that plans are shared."""
    rights = session.rights
    return _NOT_IN_TOKEN if isinstance(rights, TokenRights) and not rights.reads(topic) else _UNREADABLE


def satisfied(
    passage: Passage, conditional: tuple[Predicates[Subscribed], ...], is_late: bool = False
) -> list[Subscribed]:
    """Return the conditional subscriptions that the event satisfies and that may have it. Those that are asked only
    after rules before matching, or with `is_late` all, are among them: stage judge asks them.
    """
    node, link, event, now = passage.node, passage.plans.key, passage.event, passage.now
    is_projected = project.concerns(node, event.topic) or release.concerns_event(node, event)
    matched: Iterable[Subscribed]
    if is_projected or is_late:
        matched = (subscribed for predicates in conditional for subscribed in predicates.values())
    else:
        content = node.ensemble.reader.read(event)
        ask = partial(_ask, node, event.topic, now)
        matched = [subscribed for predicates in conditional for subscribed in predicates.match(content, ask)]
        if event.retain:
            matched = dict.fromkeys((*matched, *_kept_beyond(node, event.topic)))
        if node.statements.preceding:
            matched = dict.fromkeys((*matched, *_matched_late(node, event.topic)))
    asking, matched = matched, []
    for subscribed in asking:
        session = subscribed.session
        if session.id in node.sessions.ending:
            continue
        if may_read(session, event.topic) and route.is_open(node, link, session):
            matched.append(subscribed)
        elif node.recorder is not None and satisfies(node, event, subscribed, now):
            if not may_read(session, event.topic):
                passage.withhold(session, _unreadable(session, event.topic))
            elif route.is_closed(node, link, session):
                passage.withhold(session, route.closed_to(session))
    if is_late:
        return matched
    if is_projected:
        return list(_satisfied_by_views(node, conditional, event, matched, now))
    return [
        subscribed
        for subscribed in matched
        if not subscribed.also or is_matched_late(subscribed, event.topic) or satisfies(node, event, subscribed, now)
    ]


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
        if is_kept_beyond(node, event, subscribed) or is_matched_late(subscribed, event.topic):
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


def _kept_beyond(node: Node, topic: str) -> Iterator[Subscribed]:
    """Return the neighbours' conditional subscriptions to a topic."""
    for session in node.federation.neighbours.values():
        for subscribed in session.subscriptions.values():
            if subscribed.condition is not None and matches(subscribed.filter, topic):
                yield subscribed


def _matched_late(node: Node, topic: str) -> Iterator[Subscribed]:
    """Return the conditional subscriptions to a topic that stage judge asks, after rules before matching."""
    for session in node.statements.preceding.values():
        for subscribed in session.subscriptions.values():
            if subscribed.condition is not None and is_matched_late(subscribed, topic):
                filter = parse_filter(subscribed.filter)
                if filter.group is None and matches(filter.filter, topic):
                    yield subscribed


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
