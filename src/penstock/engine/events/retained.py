"""Retained messages: kept for later subscribers, one for each topic, until they are replaced or their time is over."""

from penstock.engine.contracts import privacy
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust import client_tokens
from penstock.model.event import Event
from penstock.policy.tokens.token import may_publish


def keep(node: Node, event: Event, sender: Session | None) -> None:
    """Keep the event for later subscribers, or forget the topic's last one if it is empty."""
    if not event.payload:  # [MQTT-3.3.1-6], [MQTT-3.3.1-7]
        forget(node, event.topic)
        return
    limits, before = node.limits, node.retained.get(event.topic)
    size = node.retained.size + event.size() - (0 if before is None else before.size())
    full = "too many retained messages" if before is None and len(node.retained) >= limits.retained_messages else ""
    full = full or ("too many bytes in retained messages" if size > limits.retained_bytes else "")
    if full:
        node.stats.dropped += 1
        node.notice("full", sender, event.topic, f"{full}, this one is not kept")
        if before is not None:  # nobody is sent an older one later than this one
            forget(node, event.topic)
        return
    if before is not None and node.contracts is not None and privacy.is_again(node, before, event):
        event = privacy.kept_with(before, event)
    event = _with_token(node, event, sender)
    node.retained.hold(event)
    if not event.topic.startswith("$SYS/"):
        node.ledger.retained(event.topic, event)


def _with_token(node: Node, event: Event, sender: Session | None) -> Event:
    """Return the event with its publisher's token, so that a revocation withdraws it. Without neighbours to send it
    to, events have no token.
    """
    if event.token or node.federation.neighbours or sender is None:
        return event
    carried = client_tokens.carry(node, sender)
    return event if carried is None or not may_publish(carried, event.topic) else event._replace(token=carried.digest)


def forget(node: Node, topic: str) -> None:
    """Forget the retained message of a topic."""
    if node.retained.pop(topic) is not None:
        node.ledger.retained(topic, None)


def expire(node: Node, now: float) -> None:
    """Forget retained messages whose time is over."""  # [MQTT-3.3.2-5]
    for topic in node.retained.expired(now):
        forget(node, topic)
