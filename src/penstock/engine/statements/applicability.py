"""The policies of subscriptions for one direction: looked up once for a target, applied to each event."""

from collections.abc import Sequence

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements.course import Course, Courses
from penstock.language.statements.statement import Message, Point
from penstock.model.content.content import Content
from penstock.model.topic import matches
from penstock.policy.statements.assignments import AssignedPolicy
from penstock.policy.statements.judging import Bound

_NOWHERE: frozenset[Point] = frozenset()
_INGRESS, _EGRESS, _ROUTING = (frozenset({point}) for point in (Point.INGRESS, Point.EGRESS, Point.ROUTING))


def is_outside(node: Node, session: Session | None) -> bool:
    """Return True if a session is beyond the overlay: a client, a foreign broker, a node of another part."""
    if session is None or session.neighbour is None:
        return True
    overlays = node.ensemble.overlays
    return overlays.get(session.neighbour) != overlays.get(node.name)


def is_node(node: Node, session: Session | None) -> bool:
    return session is not None and session.neighbour is not None and session.neighbour in node.ensemble.overlays


def came_from(node: Node, sender: Session | None) -> frozenset[Point]:
    """Return the points of a message that has come by a link, as far as they are known before it goes on."""
    return _INGRESS if is_outside(node, sender) else _NOWHERE


def points(node: Node, sender: Session | None, receiver: Session) -> frozenset[Point]:
    """Return the points of a message that goes from one to another (statements §3.4)."""
    return came_from(node, sender) | _goes_to(node, receiver)


def _goes_to(node: Node, receiver: Session) -> frozenset[Point]:
    places = _EGRESS if is_outside(node, receiver) else _NOWHERE
    return places | _ROUTING if is_node(node, receiver) else places


def make_course(
    node: Node,
    session: Session,
    topic: str,
    subscribed: Sequence[Subscribed],
    content: Content,
    came: frozenset[Point],
    known: Courses | None = None,
) -> Course:
    """Return the course of what goes to a session; `came` is from `came_from`. It is added to `known`."""
    own = bounds_for(session, topic, subscribed, content)
    course = Course(node.ensemble, own, came | _goes_to(node, session), subscribed)
    if known is not None and not session.place.policies:  # what the domain gives depends on topic and content
        known[came] = course
    return course


def as_bound(given: AssignedPolicy) -> Bound:
    """Wrap a policy that the domain gives."""
    return Bound(given.policy, given.name, given.filter, given.condition, given.to, is_given=True)


def bounds_for(session: Session, topic: str, subscribed: Sequence[Subscribed], content: Content) -> tuple[Bound, ...]:
    """Return the policies for what goes to a session by these subscriptions: the domain's first, so that they are
    asked whatever the client's own do. An element that refers to a filter refers to the client's.
    """
    bounds = []
    for given in session.place.policies:
        if (
            matches(given.filter, topic)
            and given.policy.concerns(Message.PUBLICATION)
            and as_bound(given).matches(content)
        ):
            asked = [subscription.condition for subscription in subscribed if subscription.condition is not None]
            condition = asked[0] if len(asked) == 1 else given.condition
            about = (given.filter, condition, Message.SUBSCRIPTION, True)
            bounds.append(Bound(given.policy, given.name, *about))
    own = [
        Bound(
            subscription.policy,
            f"{session.place.entity}: {subscription.filter}",
            subscription.filter,
            subscription.condition,
            Message.SUBSCRIPTION,
        )
        for subscription in subscribed
        if subscription.policy is not None and subscription.policy.concerns(Message.PUBLICATION)
    ]
    return (*bounds, *sorted(own, key=_order))


def _order(bound: Bound) -> tuple[str, str, str]:
    return bound.filter, "" if bound.condition is None else bound.condition.text, bound.policy.text
