"""What comes of policies besides: what they publish, have logged, or have kept."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from penstock.engine import travel
from penstock.engine.changes import Persisted
from penstock.engine.session import Session
from penstock.model.event import Event
from penstock.policy.elements.element import Made, Obligation
from penstock.policy.judging import EXCEPTION
from penstock.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from penstock.engine.node import Node

META = "$penstock/meta/"
"""Topics of meta-events; the class follows."""
MOST_MADE = 8
"""Policies that may make one event after the other: beyond, they are taken to go round in a circle."""
MOST_AT_ONCE = 1000
"""Events that policies may make because of one message."""


def count_made(event: Event) -> int:
    """How many policies in a row have made an event."""
    said = next(iter(travel.told(event, travel.MADE)), "0")
    return int(said) if said.isdecimal() and len(said) < 4 else MOST_MADE


def take_effects(
    node: "Node", effects: Iterable[Made | Obligation], sender: Session | None, now: float, made: int = 0
) -> None:
    """Have the node do what policies want done besides."""
    for effect in effects:
        if isinstance(effect, Made):
            _make(node, effect, sender, made)
        else:
            _oblige(node, effect, sender, now)


def _make(node: "Node", made: Made, sender: Session | None, before: int) -> None:
    kind = str(made.content.get("class", ""))
    topic = made.topic or f"{META}{kind}"
    if kind == EXCEPTION:
        node.notice("policy failed", sender, topic, f"{made.content['policy']}: {made.content['reason']}")
    if before >= MOST_MADE or len(node.made) >= MOST_AT_ONCE:
        why = "go round in a circle" if before >= MOST_MADE else "make too much of one message"
        node.notice("policy loop", sender, topic, f"policies {why}: `{topic}` is not published")
        return
    told = Properties(content_type="application/json", user_properties=((travel.MADE, str(before + 1)),))
    node.made.append((sender, Event(topic, msgspec.json.encode(made.content), 0, False, encode_properties(told))))


def _oblige(node: "Node", obligation: Obligation, sender: Session | None, now: float) -> None:
    if obligation.kind == "log":
        said = f"{obligation.about}: " if obligation.about else ""
        node.notice("policy log", sender, obligation.topic, f"{obligation.policy}: {said}{obligation.message}")
        return
    row = Persisted(now, obligation.about, obligation.policy, obligation.topic, obligation.payload)
    if node.ledger.persist(row, node.limits.persisted_messages) and not node.is_persisted_full:
        node.is_persisted_full = True
        reason = f"there are {node.limits.persisted_messages} persisted messages: the oldest are dropped from now on"
        node.notice("full", sender, obligation.topic, reason)


def drain(node: "Node", publish: Callable[[Session | None, Event], None]) -> None:
    """Publish what policies have made; what these events make in turn too."""
    if node.draining:
        return
    node.draining = True
    try:
        at = 0
        while at < len(node.made):
            publish(*node.made[at])
            at += 1
        node.made.clear()
    finally:
        node.draining = False
