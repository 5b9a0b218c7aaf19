"""Stage 7, judge: what do the policy statements of matched advertisements and subscriptions, and of the event, do?

The policies that are attached to an event act on every copy of it; those of advertisements on what comes by the link
that the advertisement came by; those of a subscription on the copy that goes to its session.
`policy/statements/judging.py` applies them; here is what they are applied to, and what comes of it. Filters are judged
in `engine/statements/filter_policies.py`.
"""

from collections.abc import Sequence
from itertools import pairwise

from penstock.engine.events import publishers, user_properties
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.events.plan import WaitingPlace
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages.draft import Draft
from penstock.engine.stages.satisfaction import satisfies
from penstock.engine.statements import bindings
from penstock.engine.statements.applicability import bounds_for, points
from penstock.engine.statements.context import EntityParty, SessionParty, here
from penstock.engine.statements.event_judging import BLOCKED as BLOCKED
from penstock.engine.statements.event_judging import Judging
from penstock.engine.statements.facts import Facts
from penstock.engine.trust import publication_proofs
from penstock.language.statements.statement import Matching, Message, Point, Verb
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Verdict
from penstock.policy.statements.copies import PublicationCopy
from penstock.policy.statements.judging import Bound, Here, Judgement, attach, judge


def plan(draft: Draft) -> None:
    """Find the policies of advertisements that may concern the topic; those of subscriptions are with these."""
    if draft.link.statements:
        draft.statements = tuple(bound for bound in draft.link.statements if matches(bound.filter, draft.topic))
    if draft.waits not in (None, WaitingPlace.RETAINED):
        draft.for_each_delivery(ask_queued)
        return
    draft.for_each_delivery(run, is_for_plain=False)


def begin_retained(delivery: Delivery) -> Verdict | None:
    """Ask about a retained event by the policies of now. Those of a client's own advertisements are kept with it."""
    passage, event, target = delivery.passage, delivery.event, delivery.target
    assert target is not None
    node = passage.node
    sender = node.sessions.get(event.origin)
    is_neighbour = sender is not None and sender.neighbour is not None
    bounds = bindings.bounds_of(node, sender) if sender is not None and is_neighbour else _given(node, event)
    publisher = publishers.publisher_of(node, event) if is_neighbour else None
    if publisher is not None and publisher.statements != publishers.present_digests(node)[0]:
        given = [bound for bound in _given(node, event) if matches(bound.filter, event.topic)]
        left = still(node, event, delivery.session, given, target.subscriptions, passage.now)
        if left is None:
            return BLOCKED
        if left is not event:
            event = passage.event = left
            passage.forms = Forms(left, passage.now)
            delivery.show(passage.forms)
    statements = [bound for bound in bounds if matches(bound.filter, event.topic)]
    if not statements and not target.is_judged and user_properties.RESERVED_BYTES not in event.properties:
        return None
    judging = passage.judging = Judging(node, event, sender, passage.now, statements, satisfies=satisfies)
    if judging.verdict is None and judging.event is not event:
        passage.event, passage.forms = judging.event, Forms(judging.event, passage.now)
        delivery.show(passage.forms)
    return judging.verdict


def ask_queued(delivery: Delivery) -> Verdict | None:
    """Ask about what was judged before and waits, by the policies that the domain gives now."""
    passage, event, session = delivery.passage, delivery.event, delivery.session
    node = passage.node
    is_outlived = publication_proofs.has_outlived(node, event)
    if delivery.revision.statements == node.revision.statements and not is_outlived:
        return None  # what was made of it may not be what its policies would ask for
    given = [bound for bound in _given(node, event) if matches(bound.filter, event.topic)]
    if not session.place.policies and not given and not is_outlived:
        return None
    subscribed = tuple(
        subscription
        for subscription in session.subscriptions.values()
        if matches(parse_filter(subscription.filter).filter, event.topic)
    )
    left = still(node, event, session, given, subscribed, passage.now, with_own=is_outlived)
    if left is None:
        return BLOCKED
    if left is not event:
        delivery.show(Forms(left, passage.now))
    return None


def _given(node: Node, event: Event) -> Sequence[Bound]:
    """Return the policies that the domain gives to what the publisher of an event says."""
    publisher = publishers.publisher_of(node, event)
    entry = None if publisher is None else publishers.entry_of(node, publisher)
    return bindings.own_bounds(node) if entry is None else bindings.given_bounds(node, entry.name)


def begin(passage: Passage) -> Verdict | None:
    """Ask the rules that come before matching, of policies that act on every copy of the event."""
    plan, event = passage.plan, passage.event
    assert plan is not None
    if not plan.statements and not (event.properties and user_properties.concerns_policies(event.properties)):
        return None
    judging = passage.judging = Judging(
        passage.node, event, passage.sender, passage.now, plan.statements, satisfies=satisfies
    )
    if judging.verdict is None:
        passage.event = judging.event
    return judging.verdict


def run(delivery: Delivery) -> Verdict | None:
    """Go on with the copy that policies leave for the receiver."""
    passage, target = delivery.passage, delivery.target
    judging = passage.judging
    if target is None or not (target.is_judged or (judging is not None and judging.is_for_all)):
        return None
    if judging is None:
        judging = passage.judging = Judging(
            passage.node, passage.event, passage.sender, passage.now, satisfies=satisfies
        )
    if judging.plain is None:
        judging.plain = passage.forms
    copy = judging.forms(delivery.session, target.subscriptions, target.courses)
    if copy is None:
        return judging.why()
    if copy is not passage.forms:
        if copy.event.payload != passage.forms.event.payload:
            passage.withhold(delivery.session, judging.why())
        delivery.retarget(judging.counting(target), copy)
    return None


def judging_of(node: Node, event: Event, now: float) -> Judging:
    """Begin to judge an event whose sender is not here any more, by the policies that the domain gives."""
    statements = [bound for bound in _given(node, event) if matches(bound.filter, event.topic)]
    return Judging(node, event, None, now, statements, satisfies=satisfies)


def left_of_cause(judging: Judging, session: Session, output: Event) -> Event | None:
    """Return what a monitor has made of an event that a session has not asked for, as far as policies let the session
    have the event itself. What the monitor would have made of less is not known, unless it has not looked at it.
    """
    cause = judging.event
    if judging.verdict is not None:
        return None
    left, _ = judging.explained(session, (Subscribed(session, cause.topic, 2),))
    if left is None or left.payload == cause.payload:
        return None if left is None else output
    return output._replace(payload=left.payload) if output.payload == cause.payload else None


def left_of_output(
    node: Node,
    output: Event,
    sender: Session | None,
    session: Session,
    subscribed: Sequence[Subscribed],
    now: float,
    with_own: bool,
    judging: Judging | None,
) -> Event | None:
    """Return what policies leave for a receiver of what a monitor has made. Only removals count: effects are those of
    its cause, whose judging this is. `with_own`: the policies of who subscribes have not been asked about the cause.
    """
    is_client = sender is not None and sender.neighbour is None
    bounds = bindings.bounds_of(node, sender) if sender is not None and is_client else _given(node, output)
    given = [bound for bound in bounds if matches(bound.filter, output.topic)]
    own = with_own and any(subscription.policy is not None for subscription in subscribed)
    if not given and not session.place.policies and not own:
        return output
    return still(node, output, session, given, subscribed, now, with_own, judging)


def still(
    node: Node,
    event: Event,
    session: Session,
    given: Sequence[Bound],
    subscribed: Sequence[Subscribed],
    now: float,
    with_own: bool = False,
    judging: Judging | None = None,
) -> Event | None:
    """Judge again by the domain's policies for publisher (`given`) and reader as they are now: only removals count.
    `with_own`: by the reader's own too. `judging`: what is asked of the node is noted with it.
    """
    at, facts = (here(node, now), None) if judging is None else (judging.here, judging.facts)
    content = node.ensemble.reader.read(event)
    matching = [bound for bound in given if bound.matches(content)]
    attached = [bound._replace(carrier=None) for bound in matching if bound.carrier is Message.PUBLICATION]
    associated = [bound for bound in matching if bound.carrier is not Message.PUBLICATION]
    policies = (*attach(attached, associated), *associated)
    own, first = (
        [bound for bound in bounds_for(session, event.topic, subscribed, asked) if with_own or bound.is_given]
        for asked in (content, None)
    )
    copy = _on_its_way(node, event, PublicationCopy(event, content), policies, at)
    if copy is None:
        return None
    judgement = Judgement(
        Message.PUBLICATION,
        copy,
        at,
        _proven_sender(node, event, now, facts),
        SessionParty(node, session, now, facts),
        is_again=True,
    )
    where = frozenset({Point.INGRESS, *points(node, None, session)})
    judge(judgement, Verb.FORWARD, where, (*policies, *first), Matching.BEFORE)
    if not judgement.blocked:
        judge(judgement, Verb.FORWARD, where, (*policies, *own), Matching.AFTER)
    if judgement.blocked:
        return None
    left = judgement.copy
    return event._replace(payload=left.payload) if isinstance(left, PublicationCopy) and left.is_changed else event


def _proven_sender(node: Node, event: Event, now: float, facts: Facts | None) -> SessionParty | None:
    """Return who an event that waits came from, if it has proven a trust group itself."""
    sender = node.sessions.get(event.origin) if user_properties.told(event, user_properties.PROVEN) else None
    return None if sender is None else SessionParty(node, sender, now, facts, True, event)


def _on_its_way(
    node: Node, event: Event, copy: PublicationCopy, policies: Sequence[Bound], at: Here
) -> PublicationCopy | None:
    """Return what the publisher's policies leave of an event at the nodes that it has come by; None: it is blocked."""
    publisher = publishers.publisher_of(node, event) if policies else None
    entry = None if publisher is None else publishers.entry_of(node, publisher)
    links = [link for link in publishers.way_of(node, event, publisher, entry) if link is not None] if entry else []
    overlays = node.ensemble.overlays
    for before, link in pairwise(links):
        where = {Point.ROUTING}
        where |= {Point.INGRESS} if overlays.get(before.source) != overlays[link.source] else set()
        where |= {Point.EGRESS} if overlays[link.source] != overlays[link.target] else set()
        judgement = Judgement(
            Message.PUBLICATION,
            copy,
            at.moved_to(link.source),
            EntityParty(node, before.source),
            EntityParty(node, link.target),
            is_again=True,
        )
        for matching in (Matching.BEFORE, Matching.AFTER):
            if not judgement.blocked:
                judge(judgement, Verb.FORWARD, frozenset(where), policies, matching)
        if judgement.blocked:
            return None
    return copy
