"""The side effects of policies: events published, log entries, kept messages."""

from collections.abc import Callable, Iterable

import msgspec

from penstock.engine.contracts import privacy
from penstock.engine.events import user_properties
from penstock.engine.ledger import Persisted
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.event import Event
from penstock.policy.statements.elements.element import KeptMessage, PolicyPublication
from penstock.policy.statements.judging import EXCEPTION
from penstock.wire.properties import Properties, encode_properties

META = "$penstock/meta/"
"""Topics of meta-events; the class follows."""
MAX_MADE_EVENTS = 32
"""Events that policies may make at a node because of one message; of one that they have made themselves, an eighth of
what was left for that. So those that go round in a circle come to an end, and soon: the third is not made.
"""
_SHARE = 8


def may_make(event: Event) -> int:
    """Return how many events policies may still make because of this one."""
    text = next(iter(user_properties.told(event, user_properties.MADE)), None)
    if text is None:
        return MAX_MADE_EVENTS
    return min(int(text), MAX_MADE_EVENTS) if text.isdecimal() and len(text) < 4 else 0


def take_effects(
    node: Node,
    effects: Iterable[PolicyPublication | KeptMessage],
    sender: Session | None,
    now: float,
    left: int = MAX_MADE_EVENTS,
    cause: Event | None = None,
) -> int:
    """Have the node do what policies want done besides; how many more events may be made because of the message."""
    share = left // _SHARE if left < MAX_MADE_EVENTS else MAX_MADE_EVENTS // _SHARE
    for effect in effects:
        if isinstance(effect, KeptMessage):
            _oblige(node, effect, sender, now)
        elif left > 0:
            left -= 1
            _make(node, effect, sender, share, cause)
        elif not node.statements.is_looping:
            node.statements.is_looping = True  # once for all that comes of a message
            topic = made_topic(effect)
            reason = f"policies go round in a circle, or make too much of one message: `{topic}` is not published"
            node.notice("policy loop", sender, topic, reason)
    return left


def made_topic(publication: PolicyPublication) -> str:
    """Return the topic on which it is published."""
    return publication.topic or f"{META}{publication.content.get('class', '')}"


def _make(node: Node, publication: PolicyPublication, sender: Session | None, share: int, cause: Event | None) -> None:
    kind = str(publication.content.get("class", ""))
    topic = made_topic(publication)
    if kind == EXCEPTION:
        node.notice("policy failed", sender, topic, f"{publication.content['policy']}: {publication.detail}")
    properties = Properties(content_type="application/json", user_properties=((user_properties.MADE, str(share)),))
    event = Event(topic, msgspec.json.encode(publication.content), 0, False, encode_properties(properties))
    node.statements.made.append((sender, event if cause is None else privacy.inheriting(node, cause, event)))


def _oblige(node: Node, obligation: KeptMessage, sender: Session | None, now: float) -> None:
    if obligation.kind == "log":
        prefix = f"{obligation.about}: " if obligation.about else ""
        node.notice("policy log", sender, obligation.topic, f"{obligation.policy}: {prefix}{obligation.message}")
        return
    row = Persisted(now, obligation.about, obligation.policy, obligation.topic, obligation.payload)
    if node.ledger.persist(row, node.limits.persisted_messages) and not node.statements.is_persisted_full:
        node.statements.is_persisted_full = True
        reason = f"there are {node.limits.persisted_messages} persisted messages: the oldest are dropped from now on"
        node.notice("full", sender, obligation.topic, reason)


def drain(node: Node, publish: Callable[[Session | None, Event], None]) -> None:
    """Publish what policies have made; what these events make in turn too."""
    if node.statements.draining:
        return
    node.statements.draining = True
    try:
        at = 0
        while at < len(node.statements.made):
            publish(*node.statements.made[at])
            at += 1
        node.statements.made.clear()
    finally:
        node.statements.draining = node.statements.is_looping = False
