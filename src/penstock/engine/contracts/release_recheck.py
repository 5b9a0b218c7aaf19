"""Re-check of released events that waited, and of windows, at the moment of delivery."""

from penstock.engine.contracts import privacy, registry
from penstock.engine.contracts.held import Collected, Collecting, HeldEvent
from penstock.engine.contracts.quality import claimed
from penstock.engine.contracts.release_decision import ReleaseDecision, asked_of, decide, shown
from penstock.engine.contracts.state import ContractState, Governed
from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.policy.contracts.aggregate import Mean, absorb, begin_of, due
from penstock.policy.contracts.contract import ConsumerContract
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.contracts.release import (
    PRIVACY,
    RELEASED,
    RETAIN_UNTIL,
    ReleaseMark,
    mark_of,
    mark_of_policy,
    read_marks,
    read_retain,
)

MARKED = RELEASED.encode()
"""In the properties of what waits that a rule has released."""


def may_go(node: Node, event: Event, session: Session, now: float) -> bool:
    """Return True if a released event that waited may still go out: its rules are unchanged, still name this consumer,
    and the situation they need is open.
    """
    if user_properties.RESERVED_BYTES not in event.properties:
        return True
    texts = user_properties.told(event, RELEASED)
    if not texts:
        return True
    state = node.contracts
    if state is None:
        return True  # the domain has no contracts any more, and nobody has brought one
    try:
        marks = [mark for text in texts for mark in read_marks(text)]
    except ContentError:
        return False
    if _is_over(event, now):
        return False
    if not all(state.situations.issuperset(mark.outside) for mark in marks):
        return False  # whether it is such a situation is not known any more
    situations, content = state.open_at(now), node.ensemble.reader.read(event)
    if not {policy.name for policy in state.contracts.private(event.topic)} <= {mark.rule for mark in marks}:
        return False  # there is a policy that has not been asked
    return all(mark.is_on(situations) and _still(state, session, event, content, mark, now) for mark in marks)


def _is_over(event: Event, now: float) -> bool:
    """Return True if the consumer would have to delete it at once."""
    try:
        return any(read_retain(text) <= now for text in user_properties.told(event, RETAIN_UNTIL))
    except ContentError:
        return True


def _still(
    state: ContractState, session: Session, event: Event, content: Content, mark: ReleaseMark, now: float
) -> bool:
    asking = state.asking(session, event.topic, now)
    if mark.contract.startswith(PRIVACY):
        policy = next((candidate for candidate in state.contracts.privacy if candidate.name == mark.rule), None)
        if policy is None:
            return True
        alternatives: list[tuple[ConsumerContract, ...]] = [(wants.contract,) for wants in asking] or [()]
        return any(_permits(state, session, event, content, policy, mark, consumers, now) for consumers in alternatives)
    producer = state.contracts.named(mark.contract)
    if producer is None:
        return mark.contract.startswith(registry.BROUGHT)  # it was with the event, which cannot change
    if mark not in [mark_of(producer, rule.id) for rule in producer.rules]:
        return False
    return any(
        state.releaser(wants.client, producer, wants.contract, wants.want).permits(mark.rule) for wants in asking
    )


def _permits(
    state: ContractState,
    session: Session,
    event: Event,
    content: Content,
    policy: PrivacyPolicy,
    mark: ReleaseMark,
    consumers: tuple[ConsumerContract, ...],
    now: float,
) -> bool:
    """Return True if an XACML policy decides the same for what is left of the event as for the event."""
    origin = "" if event.path else event.origin
    topic = mark.topic or event.topic
    permitted = policy.decide(asked_of(state, session, consumers, topic, origin, now), content, now)
    return not isinstance(permitted, str) and mark_of_policy(policy.name, topic, permitted) == mark


def still(node: Node, session: Session, event: Event, now: float) -> Event | None:
    """Return a waiting event as the changed contracts let the client have it; an event released before anything was
    private here is decided now.
    """
    state = node.contracts
    if state is None or (session.neighbour is not None and session.neighbour in node.ensemble.nodes):
        return event
    if not may_go(node, event, session, now):
        return None
    if user_properties.told(event, RELEASED):
        return event
    bound, policies = registry.of_origin(node, event), privacy.of_topic(state.contracts, event.topic)
    if not policies and not any(contract.is_private for contract in bound):
        return event
    content = node.ensemble.reader.read(event)
    quality = claimed(node, event, content, now)
    decided = decide(node, session, event, Governed(bound, quality, content, True, {}, policies), now)
    return decided.event


def absorb_into(node: Node, session: Session, event: Event, decided: ReleaseDecision, now: float) -> None:
    """Put an event into a window."""
    assert decided.aggregate is not None
    about, content, quality = decided.aggregate
    assert node.contracts is not None
    key, begin = (session.id, about), begin_of(about.aggregate, now)
    if key in node.later.windows:
        _close_over(node, key, now)
    known = node.later.windows.get(key)
    if not is_whole(session, event.topic, begin, known is not None):
        node.later.close(key)
        return
    if event.retain and not _is_since(event, begin):
        return  # it is told again, and was counted in its own time
    if not node.later.has_room(session, about):
        session.since = now  # what is collected once there is room would be a part
        node.stats.dropped += 1
        node.notice("full", session, event.topic, "too much is collected for the session, new messages are dropped")
        return
    catalogue = node.contracts.contracts.catalogue
    try:
        window, _ = absorb(about.aggregate, known and known.window, content, quality, catalogue, now, event.expires)
    except ContentError:
        return  # nothing of it can be released
    node.later.collect(Collected(session, about, event, window))


def is_whole(session: Session, topic: str, begin: float, is_known: bool) -> bool:
    """Return True if a session gets all events of a topic in a window; `is_known`: some are collected already.

    Of two means that are made of almost the same events, it could be told what one of these said. So who subscribes, or
    may get something, from the middle of a time on gets no mean of it; nor do those who share a subscription.
    """
    if session.since >= begin and not is_known:
        return False
    filters = (
        parse_filter(subscription.filter)
        for subscription in session.subscriptions.values()
        if subscription.since < begin
    )
    return any(parsed.group is None and matches(parsed.filter, topic) for parsed in filters)


def _is_since(event: Event, begin: float) -> bool:
    """Return True if an event says that it was published in the window that began then."""
    try:
        return any(float(text) >= begin for text in user_properties.told(event, user_properties.AT))
    except ValueError:
        return False


def tick(node: Node, now: float) -> None:
    """Close windows that are over, and hold what they release back until it may go out."""
    for key in list(node.later.windows):
        _close_over(node, key, now)


def _close_over(node: Node, key: tuple[int, Collecting], now: float) -> None:
    state, window = node.contracts, node.later.windows[key]
    assert state is not None
    left, mean = due(window.about.aggregate, window.window, state.contracts.catalogue, now)
    if left is None:
        node.later.close(key)
    if mean is not None:
        _release(node, window, mean, now)


def _release(node: Node, window: Collected, mean: Mean, now: float) -> None:
    released = of_mean(node, window, mean, now)
    if released is not None:
        at, event = released
        hold_back(node, HeldEvent(at, window.session, event, window.session.outbox.revision))


def of_mean(node: Node, window: Collected, mean: Mean, now: float) -> tuple[float, Event] | None:
    """Return the time and the form in which a mean goes out, if its rules are unchanged and it has the quality that
    its consumer needs; the rest is checked when it goes.
    """
    state = node.contracts
    assert state is not None
    session, about = window.session, window.about
    asking = [
        each
        for each in state.asking(session, about.topic, now)
        if (each.contract.name, each.want.name) == (about.consumer, about.want)
    ]
    if asking and asking[0].want.unmet(Content(mean.payload, Format.JSON)):
        return None
    if about.producer:
        try:
            producer = registry.contract_of(state.contracts, about.producer)
        except PolicyError:
            return None
        if not asking:
            return None
        releaser = state.releaser(asking[0].client, producer, asking[0].contract, asking[0].want)
        if releaser.why_not(about.rule, mean):
            return None
    at = mean.at + about.delay
    until = None if about.retention is None else at + about.retention
    shown_event = shown(
        session,
        user_properties.bare(window.event),
        Content(mean.payload, Format.JSON),
        mean.quality,
        until,
        read_marks(about.marks),
    )
    return at, shown_event._replace(retain=False, expires=mean.expires)


def hold_back(node: Node, held: HeldEvent, number: int = 0) -> None:
    """Hold an event back until its time, if there is room. `number`: as the store has it."""
    session, event = held.session, held.event
    if not node.later.put(node.limits, held, number):
        node.stats.dropped += 1
        node.notice("full", session, event.topic, "too much is held back for the session, new messages are dropped")
