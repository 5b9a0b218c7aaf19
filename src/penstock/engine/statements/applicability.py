"""The policies of subscriptions for one direction: looked up once for a target, applied to each event."""

from collections.abc import Sequence

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
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
    places = came_from(node, sender) | (_EGRESS if is_outside(node, receiver) else _NOWHERE)
    return places | _ROUTING if is_node(node, receiver) else places


def as_bound(given: AssignedPolicy) -> Bound:
    """Wrap a policy that the domain gives."""
    return Bound(given.policy, given.name, given.filter, given.condition, given.to, is_given=True)


def is_matched_late(subscribed: Subscribed, topic: str) -> bool:
    """Return True if its condition is asked only after rules that come before matching: stage judge asks it."""
    policy = subscribed.policy
    return (policy is not None and policy.precedes_matching) or any(
        given.policy.precedes_matching and matches(given.filter, topic) for given in subscribed.session.place.policies
    )


def bounds_for(
    session: Session, topic: str, subscribed: Sequence[Subscribed], content: Content | None
) -> tuple[Bound, ...]:
    """Return the policies for what goes to a session by these subscriptions: the domain's, then the client's own.
    `content`: None, if whatever it says those of the topic are meant.
    """
    bounds, own = list[Bound](), list[Bound]()
    for given in session.place.policies:
        is_meant = matches(given.filter, topic) and given.policy.concerns(Message.PUBLICATION)
        if is_meant and (content is None or as_bound(given).matches(content)):
            # An element that refers to a filter refers to the client's.
            asked = [subscription.condition for subscription in subscribed if subscription.condition is not None]
            condition = asked[0] if len(asked) == 1 else given.condition
            bounds.append(Bound(given.policy, given.name, given.filter, condition, Message.SUBSCRIPTION, True))
    for subscription in subscribed:
        policy, filter = subscription.policy, subscription.filter
        if policy is not None and policy.concerns(Message.PUBLICATION):
            name = f"{session.place.entity}: {filter}"
            own.append(Bound(policy, name, filter, subscription.condition, Message.SUBSCRIPTION))
    return (*bounds, *sorted(own, key=_order))


def _order(bound: Bound) -> tuple[str, str, str]:
    return bound.filter, "" if bound.condition is None else bound.condition.text, bound.policy.text
