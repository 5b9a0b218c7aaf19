"""Stage 9, release: do the consumer's purpose and attributes satisfy the producer's privacy policy, and the event's
quality the consumer's needs? (contracts §2.2, §2.3)

It is asked for each receiver when an event is delivered, so that there is no way around it. The producer's node decides
for all whose guarantees it knows, and tells the other nodes by the event's ACE set
(`policy/contracts/release_place.py`). Towards a node it is asked for all who have subscribed beyond it: what none of
them may have stays (`contracts/link_release.py`), and so does what none of them asks for (`contracts/link_needs.py`).
What is released by a rule is marked with it while it waits, and does not go out when the rule no longer releases it.
"""

from typing import NamedTuple

from penstock.engine.contracts import (
    link_needs,
    link_release,
    privacy,
    registry,
    release_recheck,
    situation_audit,
    subscribers,
)
from penstock.engine.contracts.held import HeldEvent
from penstock.engine.contracts.release_decision import decide, needed
from penstock.engine.contracts.state import CONSUMER, SITUATION, Governed
from penstock.engine.events import dedup, user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.events.plan import WaitingPlace
from penstock.engine.events.user_properties import AT
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session
from penstock.engine.stages.draft import Draft
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.contracts.contract_set import subscription_id
from penstock.policy.contracts.release_place import ACE, LATE, ace_digest, write_ace
from penstock.policy.quality.carriage import ATTACHED


def plan(draft: Draft) -> None:
    """Add a step for each delivery, so no packet's own bytes are passed on. Events may bring contracts with them."""
    if draft.node.contracts is None:
        return
    if draft.waits is not None and draft.waits.is_rechecked:
        draft.for_each_delivery(ask_queued if draft.waits is WaitingPlace.QUEUED else ask_resent)
        return
    if draft.waits is WaitingPlace.DELAYED:
        draft.for_each_delivery(ask_delayed)
    is_for_plain = concerns(draft.node, draft.topic) or any(map(link_needs.needs_in, draft.matched))
    draft.for_each_delivery(run, is_for_plain=is_for_plain)


def concerns(node: Node, topic: str) -> bool:
    """Return True if contracts may concern events on this topic."""
    return node.contracts is not None and node.contracts.concerns(topic)


def concerns_event(node: Node, event: Event) -> bool:
    """Return True if contracts may concern an event, which may also carry one."""
    return node.contracts is not None and (
        node.contracts.concerns(event.topic) or user_properties.CONTRACT_BYTES in event.properties
    )


FOR_NODES_ONLY = Verdict("release", Effect.SUPPRESS, "", "it is for nodes only")
HELD = Verdict("release", Effect.PASS, "", "it goes out later")
IN_MEAN = Verdict("release", Effect.SUPPRESS, "", "it goes into a mean")


def run(delivery: Delivery) -> Verdict | None:
    """Go on with what contracts and privacy policies release to the receiver, or hold it back until they do."""
    passage, session, forms = delivery.passage, delivery.session, delivery.forms
    node = passage.node
    is_node = session.neighbour is not None and session.neighbour in node.ensemble.nodes
    if forms.event.topic.startswith((SITUATION, CONSUMER)) and not is_node:
        return FOR_NODES_ONLY  # what situation somebody is in is not for everybody
    governed, now = _governed(node, forms), registry.recorded(forms.now)
    if is_node:
        return _cross(delivery, governed, now)
    governed = governed or needed(node, session, forms.event, now)
    if governed is None:
        situation_audit.count(node, session, forms.event)
        return None
    decided = decide(node, session, forms.event, governed, now)
    if decided.aggregate is not None:
        release_recheck.absorb_into(node, session, forms.event._replace(qos=delivery.qos), decided, now)
        dedup.taken(node.once, delivery)
        return IN_MEAN
    if decided.event is None:
        node.stats.expired += decided.is_expired
        return Verdict("release", Effect.SUPPRESS, decided.rule, "; ".join(decided.reasons))
    if decided.not_before > now:
        dedup.taken(node.once, delivery)
        return _hold(delivery, decided.event, decided.not_before)
    situation_audit.count(node, session, decided.event)
    if decided.event.payload != forms.event.payload:
        verdict = Verdict("release", Effect.REPLACE, decided.rule, "; ".join(decided.reasons))
        passage.withhold(session, verdict)
    delivery.show(forms.view_of(decided.event))
    return None


def _cross(delivery: Delivery, governed: Governed | None, now: float) -> Verdict | None:
    """Go on towards a node with what somebody beyond it may have."""
    node, session, forms = delivery.passage.node, delivery.session, delivery.forms
    only = _newcomer(delivery)
    if governed is None or not link_release.is_private(governed):
        if only:
            return NOT_NEW
        unasked = link_needs.why_unasked(node, delivery.target, forms.event, governed, now)
        return Verdict("release", Effect.SUPPRESS, "", unasked) if unasked else None
    event = forms.event
    if delivery.passage.is_replay and governed.since == registry.LONG_AGO:
        event = privacy.dated(node, event, now)
    made = link_release.crossing(node, session, event, governed, now, only, delivery.passage.is_replay)
    if made.event is None:
        withdrawn = None if only else withdrawn_from(node, session, forms.event)
        if withdrawn is None:
            return Verdict("release", Effect.SUPPRESS, "", made.reason)
        delivery.show(forms.view_of(withdrawn))
        return None
    delivery.is_timed = True
    crossed(node, session, made.event)
    delivery.show(forms.view_of(made.event))
    return None


NOT_NEW = Verdict("release", Effect.SUPPRESS, "", "it is not private, and was sent with what the others there ask for")


def _newcomer(delivery: Delivery) -> str:
    """Return the subscriber beyond a neighbour because of whom a retained event is sent there again; empty: nobody."""
    if not delivery.passage.is_replay or delivery.target is None:
        return ""
    (subscribed,) = delivery.target.subscriptions
    return subscribers.consumer_in(subscribed.name)


def crossed(node: Node, session: Session, event: Event) -> None:
    """Note that a neighbour retains a private event on a topic, or no longer."""
    if event.retain and node.contracts is not None:
        node.contracts.crossed[session.id, event.topic] = user_properties.told(event, AT)


def withdrawn_from(node: Node, session: Session, event: Event) -> Event | None:
    """Return the empty event that takes an older one back which the neighbour retains; None: it retains none.

    Nothing of the newer one is in it, and nobody beyond gets it: its ACE set is empty.
    """
    state, key = node.contracts, (session.id, event.topic)
    if state is None or not event.retain or state.crossed.get(key) in (None, user_properties.told(event, AT)):
        return None
    del state.crossed[key]
    empty = user_properties.having(user_properties.bare(event)._replace(payload=b""), None, (), without=ATTACHED)
    return user_properties.having(empty, None, ((ACE, text) for text in write_ace({})), without=ACE)


def ask_delayed(delivery: Delivery) -> Verdict | None:
    """Ask whether the rules that have released what was held back are as they were."""
    passage = delivery.passage
    is_released = release_recheck.may_go(passage.node, delivery.event, delivery.session, passage.now)
    return None if is_released else NO_LONGER


def ask_queued(delivery: Delivery) -> Verdict | None:
    """Go on with what contracts, as they are now, let the receiver have of what waits for it, or hold it back."""
    return _ask_waiting(delivery, is_held=True)


def ask_resent(delivery: Delivery) -> Verdict | None:
    """Ask the same about what was sent and not acknowledged. It would go out later with another identifier, so its
    receiver could take it for another message: QoS 2 does not allow that.
    """
    return _ask_waiting(delivery, is_held=delivery.qos < 2)


def _ask_waiting(delivery: Delivery, is_held: bool) -> Verdict | None:
    passage, session, event = delivery.passage, delivery.session, delivery.event
    node = passage.node
    if session.neighbour is not None and session.neighbour in node.ensemble.nodes:
        now = registry.recorded(passage.now)
        governed = registry.governed(node, event, now)
        if governed is None or not event.payload:
            return None
        left, not_before = link_release.crossing(node, session, event, governed, now).event, 0.0
    else:
        decided = release_recheck.still(node, session, event, passage.now)
        left, not_before = decided.event, decided.not_before
    if left is None or (not_before > passage.now and not is_held):
        return NO_LONGER
    if not_before > passage.now:
        return _hold(delivery, left, not_before)
    delivery.event = left
    return None


def _hold(delivery: Delivery, event: Event, until: float) -> Verdict:
    """Hold what is released to the receiver back until its time."""
    node, session = delivery.passage.node, delivery.session
    event = event._replace(qos=delivery.qos, retain=delivery.retain)
    release_recheck.hold_back(node, HeldEvent(until, session, event, session.outbox.revision))
    return HELD


NO_LONGER = Verdict("release", Effect.SUPPRESS, "", "it is no longer released")


class Preview(NamedTuple):
    """The part of an event that a client may see."""

    event: Event | None
    """None: nothing, or nothing of this event alone."""
    in_mean: bool = False
    """It goes into a mean: what would be asked of it is asked of that, when it is made."""


def preview(node: Node, session: Session, event: Event, now: float | None) -> Preview:
    """Return the event as a client may see it, without side effects: conditions are evaluated on that."""
    if node.contracts is None or (session.neighbour is not None and session.neighbour in node.ensemble.nodes):
        return Preview(event)
    at = registry.recorded(node.runtime.clock() if now is None else now)
    governed = registry.governed(node, event, at) or needed(node, session, event, at)
    if governed is None:
        return Preview(event)
    decided = decide(node, session, event, governed, at)
    return Preview(decided.event, decided.aggregate is not None)


def late(node: Node, session: Session, event: Event) -> Event:
    """Return a retained event for a client that subscribed after it was published."""
    is_node = session.neighbour is not None and session.neighbour in node.ensemble.nodes
    if is_node or not privacy.is_private(node, event):
        return event
    return user_properties.having(event, None, ((ACE, LATE),))


def _governed(node: Node, forms: Forms) -> Governed | None:
    if not forms.is_asked:
        forms.is_asked = True
        forms.governed = registry.governed(node, forms.event, registry.recorded(forms.now))
    return forms.governed


def for_nodes(node: Node, event: Event, governed: Governed, now: float) -> Event:
    """Return the event as other nodes get it if everybody whom the domain knows has subscribed there: where events are
    only worked out, nobody has.
    """
    if not governed.is_first or not governed.is_private or governed.wrong:
        return event
    assert node.contracts is not None
    clients = {client for contract in node.contracts.contracts.consumers for client in contract.consumers}
    ace = {key: rule for client in clients for key, rule in enabled(node, event.topic, governed, now, client).items()}
    return user_properties.having(event, None, [(ACE, text) for text in write_ace(ace)], without=ACE)


def enabled(node: Node, topic: str, governed: Governed, now: float, client: str) -> dict[str, str]:
    """Return the ACE set of an event for one client, as the domain knows it: wherever it is, whether it subscribes or
    not.
    """
    state = node.contracts
    assert state is not None
    enabled_for: dict[str, str] = {}
    situations = state.open_at(now)
    for _, consumer, want in state.of_client(client, (), topic):
        for producer in governed.contracts if want.scope != "local" else ():
            released = state.releaser(client, producer, consumer, want).decide(
                governed.content, governed.quality, situations, now, governed.since
            )
            if released.is_released:
                enabled_for[ace_digest(f"{subscription_id(client, consumer, want)} {producer.name}")] = released.rule
    return enabled_for
