"""Re-check of released events that waited, and of windows, at the moment of delivery."""

from penstock.engine.contracts import privacy, registry, subscribers
from penstock.engine.contracts.held import CollectedWindow, HeldEvent, WindowKey
from penstock.engine.contracts.quality import claimed
from penstock.engine.contracts.release_decision import Consumers, ReleaseDecision, asked_of, decide, shown
from penstock.engine.contracts.state import ContractState, Governed
from penstock.engine.events import publishers, user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches, parse_filter
from penstock.policy.contracts import release as rules
from penstock.policy.contracts.aggregate import Mean, absorb, begin_of, due
from penstock.policy.contracts.privacy import policy_in
from penstock.policy.contracts.release import PRIVACY, RELEASED, ReleaseMark

MARKED = RELEASED.encode()
"""In the properties of what waits that a rule has released."""


def may_go(node: Node, event: Event, session: Session, now: float) -> bool:
    """Return True if a released event that waited may still go out: its rules still apply to this consumer."""
    state = node.contracts
    if state is None or user_properties.RESERVED_BYTES not in event.properties:
        return True  # without a state: the domain has no contracts any more, and nobody has brought one
    texts = user_properties.told(event, RELEASED)
    if not texts:
        return True
    try:
        marks = [mark for text in texts for mark in rules.read_marks(text)]
    except ContentError:
        return False
    if _is_over(event, now) or not all(state.situations.issuperset(mark.outside) for mark in marks):
        return False  # it must be deleted, or whether it is such a situation is not known any more
    situations, content = state.open_at(now), node.ensemble.reader.read(event)
    if not {policy.name for policy in state.contracts.private(event.topic)} <= {mark.rule for mark in marks}:
        return False  # there is a policy that has not been asked
    producer = registry.producer_of(node, event)
    return all(
        mark.is_on(situations) and _still(node, state, session, event, content, mark, now, producer) for mark in marks
    )


def _is_over(event: Event, now: float) -> bool:
    """Return True if the consumer would have to delete it at once."""
    try:
        return any(rules.read_retain(text) <= now for text in user_properties.told(event, rules.RETAIN_UNTIL))
    except ContentError:
        return True


def _still(
    node: Node,
    state: ContractState,
    session: Session,
    event: Event,
    content: Content,
    mark: ReleaseMark,
    now: float,
    producer_id: str,
) -> bool:
    asking = state.asking(session, event.topic, now)
    if mark.contract.startswith(PRIVACY):
        contract = state.contracts.named(mark.rule)
        given = next((candidate for candidate in state.contracts.privacy if candidate.name == mark.rule), None)
        policy = policy_in(contract) if given is None and contract is not None else given
        if policy is None:
            return True
        alternatives: list[Consumers] = [(wants.contract,) for wants in asking] or [()]
        # It must decide the same for what is left of the event as for the event.
        topic = mark.topic or event.topic
        receiver = subscribers.here(session, now)
        quality = claimed(node, event, content, now)
        requests = (
            asked_of(state, receiver, consumers, topic, producer_id, quality, now) for consumers in alternatives
        )
        permitted = (policy.decide(request, content, now) for request in requests)
        return mark in (rules.mark_of_policy(mark.rule, topic, by) for by in permitted if not isinstance(by, str))
    producer = state.contracts.named(mark.contract)
    if producer is None:
        return mark.contract.startswith(registry.BROUGHT)  # it was with the event, which cannot change
    if mark not in [rules.mark_of(producer, rule.id) for rule in producer.rules]:
        return False
    releasers = (state.releaser(wants.client, producer, wants.contract, wants.want) for wants in asking)
    return any(releaser.permits(mark.rule) for releaser in releasers)


def still(node: Node, session: Session, event: Event, now: float) -> ReleaseDecision:
    """Decide how, and from when on, the changed contracts let the client have a waiting event. What a rule has released
    goes by that rule or not at all.
    """
    state, whole = node.contracts, ReleaseDecision(event)
    if state is None:
        return whole
    if not may_go(node, event, session, now):
        return ReleaseDecision(None)
    if user_properties.told(event, RELEASED):
        return whole
    bound, policies = registry.of_origin(node, event), privacy.of_topic(state.contracts, event.topic)
    if not policies and not any(contract.is_private for contract in bound):
        return whole
    policies += privacy.of_contracts(bound, event.topic)
    content = node.ensemble.reader.read(event)
    quality = claimed(node, event, content, now)
    governed = Governed(bound, quality, content, True, {}, policies, since=registry.LONG_AGO)
    return decide(node, session, event, governed, now)


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
    catalogue, publisher = node.contracts.contracts.catalogue, publishers.counted(node, session, event)
    before = known and known.window
    try:
        window, _ = absorb(about.aggregate, before, content, quality, catalogue, now, event.expires, publisher)
    except ContentError:
        return  # nothing of it can be released
    node.later.collect(CollectedWindow(session, about, event, window))


def is_whole(session: Session, topic: str, begin: float, is_known: bool) -> bool:
    """Return True if a session gets all events of a topic in a window; `is_known`: some are collected already.

    Of two means that are made of almost the same events, it could be told what one of these said. So who subscribes, or
    may get something, from the middle of a time on gets no mean of it; nor do those who share a subscription.
    """
    if session.since >= begin and not is_known:
        return False
    earlier = (subscribed for subscribed in session.subscriptions.values() if subscribed.since < begin)
    filters = (parse_filter(subscribed.filter) for subscribed in earlier)
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


def _close_over(node: Node, key: tuple[int, WindowKey], now: float) -> None:
    state, window = node.contracts, node.later.windows[key]
    assert state is not None
    left, mean = due(window.about.aggregate, window.window, state.contracts.catalogue, now)
    if left is None:
        node.later.close(key)
    released = of_mean(node, window, mean, now) if mean is not None else None
    if released is not None:
        at, event = released
        hold_back(node, HeldEvent(at, window.session, event, window.session.outbox.revision))


def of_mean(node: Node, window: CollectedWindow, mean: Mean, now: float) -> tuple[float, Event] | None:
    """Return when and how a mean goes out, if its rules are unchanged and its quality is what its consumer needs."""
    state = node.contracts
    assert state is not None
    session, about, content = window.session, window.about, Content(mean.payload, Format.JSON)
    wants = state.asking(session, about.topic, now)
    asking = [asked for asked in wants if (asked.contract.name, asked.want.name) == (about.consumer, about.want)]
    if asking and asking[0].want.unmet(content):
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
    event, marks = user_properties.bare(window.event), rules.read_marks(about.marks)
    shown_event = shown(session, event, content, mean.quality, until, marks)
    return at, shown_event._replace(retain=False, expires=mean.expires)


def hold_back(node: Node, held: HeldEvent, number: int = 0) -> None:
    """Hold an event back until its time, if there is room. `number`: as the store has it."""
    session, event = held.session, held.event
    if not node.later.put(node.limits, held, number):
        node.stats.dropped += 1
        node.notice("full", session, event.topic, "too much is held back for the session, new messages are dropped")
