"""SUBSCRIBE and UNSUBSCRIBE: the index, the shared groups, and the retained messages that a subscription brings."""

from collections import deque
from typing import TYPE_CHECKING

from penstock.engine import emit, travel
from penstock.engine.plan import Group
from penstock.engine.render import Forms
from penstock.engine.session import Replay, Session, Subscribed
from penstock.engine.tell import Outcome, encode_told
from penstock.model.errors import TopicError
from penstock.model.event import Event
from penstock.model.topic import Filter, parse_filter
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from penstock.wire.reason import Reason

if TYPE_CHECKING:
    from penstock.engine.node import Node

REPLAY_STEP = 100
"""Retained messages sent to one session before others have their turn."""


def subscribe(node: "Node", session: Session, packet: Subscribe, now: float) -> None:
    """Take the subscriptions, answer, then send what is retained."""
    identifier = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
    reasons: list[int] = []
    texts: list[str] = []
    replays: list[Replay] = []
    filters = [_parse(subscription.filter) for subscription in packet.subscriptions]  # all, before any is taken
    # [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7] [MQTT-3.9.3-1] [MQTT311-3.8.4-4]
    for filter, subscription in zip(filters, packet.subscriptions, strict=True):
        refusal = _refusal(node, session, filter)
        if refusal is not None:
            reason, text = refusal
            node.deny("subscribe denied", session, filter.text, text)
            texts.append(text)
        else:
            # [MQTT-3.2.2-10]
            reason = Reason(min(subscription.qos, node.limits.max_qos))
            is_new = filter.text not in session.subscriptions
            subscribed = _add(node, session, filter, subscription, reason, identifier)
            handling = subscription.retain_handling
            # [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.8.4-4] [MQTT311-3.3.1-6] [MQTT311-3.8.4-3]
            if filter.group is None and (handling == 0 or (handling == 1 and is_new)):  # [MQTT-3.3.1-9] to -11
                left = deque(node.retained.match(filter.filter))
                if left:
                    replays.append(Replay(subscribed, left))
        # [MQTT311-3.9.3-2]
        reasons.append(0x80 if session.version == 4 and reason >= 0x80 else reason)
    answer = Suback(packet.packet_id, tuple(reasons))
    told = encode_told(answer, "; ".join(texts), session.version, session.problem_info, session.maximum_packet_size)
    emit.push_durable(node, session, told)  # [MQTT-3.8.4-1]
    if replays:
        again = {replay.subscribed.filter for replay in replays}  # what is left of an earlier replay is in the new one
        session.replays = [one for one in session.replays if one.subscribed.filter not in again] + replays
        advance(node, session, now)


def unsubscribe(node: "Node", session: Session, packet: Unsubscribe) -> None:
    """Drop the subscriptions and answer."""
    reasons: list[int] = []
    # [MQTT-3.10.4-6] [MQTT-3.11.3-1] [MQTT-3.11.3-2]
    for filter in [_parse(text) for text in packet.filters]:
        existed = remove(node, session, filter.text)
        reasons.append(Reason.SUCCESS if existed else Reason.NO_SUBSCRIPTION_EXISTED)
    # [MQTT-3.10.4-4] [MQTT-3.10.4-5]
    answer = Unsuback(packet.packet_id, tuple(reasons) if session.version == 5 else ())
    emit.push_durable(node, session, encode(answer, session.version))


def add(node: "Node", subscribed: Subscribed, filter: Filter) -> None:
    """Put a subscription into the index; one with the same filter is replaced."""  # [MQTT-3.8.4-3]
    session = subscribed.session
    previous = session.subscriptions.get(filter.text)
    session.subscriptions[filter.text] = subscribed
    if filter.group is None:
        node.index.add(filter.filter, session.id, subscribed)
    else:
        group = node.groups.get((filter.group, filter.filter))
        if group is None:
            group = node.groups[filter.group, filter.filter] = Group(filter.group, filter.filter)
            node.index.add(filter.filter, f"$share/{filter.group}", group)
        if previous in group.members:
            group.members[group.members.index(previous)] = subscribed
        else:
            group.members.append(subscribed)
    node.interest_changed = True
    node.forget(filter)


def remove(node: "Node", session: Session, text: str) -> bool:
    """Take a subscription out of the index; whether it was there."""
    # [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-3]
    subscribed = session.subscriptions.pop(text, None)
    if subscribed is None:
        return False
    filter = parse_filter(text)
    if filter.group is None:
        node.index.remove(filter.filter, session.id)
    else:
        group = node.groups[filter.group, filter.filter]
        group.members.remove(subscribed)
        if not group.members:
            del node.groups[filter.group, filter.filter]
            node.index.remove(filter.filter, f"$share/{filter.group}")
    if session.replays:
        session.replays = [one for one in session.replays if one.subscribed.filter != text]
    node.ledger.subscription(session, text, None)
    node.interest_changed = True
    node.forget(filter)
    return True


def advance(node: "Node", session: Session, now: float) -> None:
    """Send the next retained messages; what is left goes on in a later turn, as the client reads."""
    budget, room = REPLAY_STEP, emit.STEP_BYTES
    while session.replays and budget and room > 0 and not session.blocked and session.outlet is not None:
        replay = session.replays[0]
        if not replay.left:
            session.replays = session.replays[1:]
            continue
        topic, event = replay.left[0]
        subscribed = replay.subscribed
        qos = min(event.qos, subscribed.qos)
        if qos and (session.queue or session.resend or session.quota <= 0):
            return  # goes on with the next acknowledgement
        replay.left.popleft()
        budget -= 1
        if node.retained.get(topic) is not event:
            continue  # replaced meanwhile, and the newer one has been delivered live
        if event.expires is not None and event.expires <= now:
            node.unretain(topic)
            continue
        if _may_pass(node, event, session):
            ids = (subscribed.identifier,) if subscribed.identifier else ()
            told = event if session.neighbour is None else travel.as_replay(event)
            room -= event.size()
            emit.notify(node, session, qos, True, ids, Forms(told, now), None)  # [MQTT-3.3.1-8]
    if session.replays and not session.blocked and session.outlet is not None:
        node.go_on(session)


def _may_pass(node: "Node", event: Event, session: Session) -> bool:
    """What was retained is judged as of now: may its publisher still say this, and may this subscriber hear it?"""
    if session.neighbour is not None and (event.origin == session.client_id or session.neighbour in event.path):
        return False  # brokering §5.3 T-Broker: z != x; what comes back would also replace what is newer there
    publisher = node.rights_of(event.origin, event.user) if event.origin else None
    if publisher is not None and not publisher.may_write(event.topic):
        return False
    return emit.may_have(node, event, session)


def _add(
    node: "Node", session: Session, filter: Filter, subscription: Subscription, qos: int, identifier: int
) -> Subscribed:
    subscribed = Subscribed(
        session, filter.text, qos, subscription.no_local, subscription.retain_as_published, identifier
    )
    add(node, subscribed, filter)
    node.ledger.subscription(session, filter.text, subscribed)
    return subscribed


def _parse(text: str) -> Filter:
    try:
        return parse_filter(text)
    except TopicError as error:
        raise WireError(Reason.MALFORMED_PACKET, str(error)) from None  # [MQTT-4.7.1-1]


def _refusal(node: "Node", session: Session, filter: Filter) -> Outcome | None:
    limits = node.limits
    if filter.filter.count("/") >= limits.topic_levels:
        return Outcome(Reason.TOPIC_FILTER_INVALID, f"filter has more than {limits.topic_levels} levels")
    if session.rights is not None and not session.rights.may_subscribe(filter.filter):
        return Outcome(Reason.NOT_AUTHORIZED, session.rights.why_subscribe(filter.filter))
    most = limits.subscriptions_per_client
    if most is not None and len(session.subscriptions) >= most and filter.text not in session.subscriptions:
        return Outcome(Reason.QUOTA_EXCEEDED, f"session has {most} subscriptions already")
    return None
