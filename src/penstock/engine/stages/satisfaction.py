"""The satisfaction of subscriptions by events: asked of what their subscribers may see."""

from collections.abc import Iterator

from penstock.engine.contracts import privacy
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import project, release
from penstock.engine.stages.release import Preview
from penstock.language.condition import Condition
from penstock.model.event import Event
from penstock.model.topic import matches


def satisfies(node: Node, event: Event, subscribed: Subscribed, now: float | None = None) -> bool:
    """Return True if the event's content satisfies the subscription; a condition that fails is not satisfied.

    It is asked of what the subscriber may see: otherwise it could find out the rest by asking. If that is a mean, then
    when it is made.
    """
    if is_kept_beyond(node, event, subscribed) or next(conditions(subscribed, event.topic), None) is None:
        return True
    view, in_mean = shown(node, subscribed.session, event, now)
    return in_mean or (view is not None and not any(unmet(node, view, subscribed)))


def shown(node: Node, session: Session, event: Event, now: float | None) -> Preview:
    """Return what a subscriber may see of an event, without side effects."""
    preview = release.preview(node, session, event, now)
    return preview if preview.event is None else Preview(project.preview(node, session, preview.event, now))


def unmet(node: Node, event: Event, subscribed: Subscribed) -> Iterator[str]:
    """Return the condition that the event's content does not satisfy, and why."""
    if is_kept_beyond(node, event, subscribed):
        return
    for condition in conditions(subscribed, event.topic):
        outcome = condition.holds(node.ensemble.reader.read(event))
        if outcome is not True:
            yield f"`{condition.text}` {'is false' if outcome is False else f'fails: {outcome}'}"


def is_kept_beyond(node: Node, event: Event, subscribed: Subscribed) -> bool:
    """Return True if a neighbour must have the event whatever it asks for: it may retain an older one of the topic and
    go on giving it to new subscribers. Of a private event, only it knows what its consumers see.
    """
    return subscribed.session.neighbour is not None and (event.retain or privacy.is_private(node, event))


def conditions(subscribed: Subscribed, topic: str) -> Iterator[Condition]:
    """Return the conditions for content on a topic that the subscription matches."""
    if subscribed.condition is not None:
        yield subscribed.condition
    for filter, condition in subscribed.also:
        if matches(filter, topic):
            yield condition


def may_read(session: Session, topic: str) -> bool:
    """Return True if the subject may read the topic."""
    return session.rights is None or session.rights.may_read(topic)
