"""Policies that were set before the domain was another: held against what it says now.

What a client may no longer set is taken away from what it had set it on. What policies of the domain no longer let into
the tables goes out of them.
"""

from dataclasses import replace

from penstock.engine.federation import overlay
from penstock.engine.node import Node
from penstock.engine.sessions import advertise, subscribe
from penstock.engine.sessions.session import PolicyRevision, Session, Subscribed
from penstock.engine.statements import bindings, filter_policies
from penstock.language.statements.statement import Message
from penstock.model.errors import PolicyError
from penstock.model.topic import parse_filter
from penstock.policy.statements.statement import Policy, make_policy

DROPPED = "policy dropped"
"""The kind of notices that tell of it."""
_NOTHING = "PolicyStatement { On(Forward, Publication) { If {} Then {BlockMessage()} } }"


def review(node: Node, before: PolicyRevision, now: float) -> None:
    """Review clients' policies after a domain change: remove those that it no longer grants or lets in."""
    for session in list(node.sessions.values()):
        if session.neighbour is None:
            take_away(node, session)
    if before.statements == node.revision.statements:
        return
    for session in list(node.sessions.values()):
        if session.id in node.federation.refused:
            overlay.take_refused(node, session, now)
        for subscribed in list(session.subscriptions.values()):
            filter = parse_filter(subscribed.filter).filter
            problem = filter_policies.insert_subscription(node, subscribed, filter, now)
            if problem:
                if session.neighbour is not None:
                    overlay.refuse(node, session, subscribed)
                subscribe.remove(node, session, subscribed.key)
                node.deny("subscribe denied", session, subscribed.filter, problem)


def take_away(node: Node, session: Session) -> None:
    """Remove the policies that a client has set and that the domain does not let it set."""
    for subscribed in session.subscriptions.values():
        why = _why_not(node, session, subscribed.policy, Message.SUBSCRIPTION)
        if why:
            _of_subscription(node, subscribed)
            node.notice(DROPPED, session, subscribed.filter, f"a subscription's policy is dropped: {why}")
    for name, advertised in list(session.declared.advertisements.items()):
        why = _why_not(node, session, advertised.policy, Message.ADVERTISEMENT, advertised.filter)
        if why:
            session.declared.advertisements[name] = changed = replace(advertised, policy=None)
            node.ledger.advertisement(session, name, changed)
            advertise.changed(node, session, name)
            node.notice(DROPPED, session, advertised.filter, f"the policy of advertisement `{name}` is dropped: {why}")


def _why_not(node: Node, session: Session, policy: Policy | None, carrier: Message, filter: str = "") -> str:
    return "" if policy is None or policy == nothing() else bindings.why_not(node, session, policy, carrier, filter)


def _of_subscription(node: Node, subscribed: Subscribed) -> None:
    session = subscribed.session
    subscribed.policy = subscribed.target = None
    node.plans.forget(parse_filter(subscribed.filter))
    node.federation.news.subscription(session, subscribed.key)
    node.ledger.subscription(session, subscribed.key, subscribed)


# --- stored policies


def nothing() -> Policy:
    """Return the policy that lets no publication through."""
    return make_policy(_NOTHING)


def restore_subscription(node: Node, subscribed: Subscribed, text: str) -> bool:
    """Give a subscription its policy back. Without it the subscription would be to more: whether it may be restored."""
    try:
        subscribed.policy = _read(text)
    except PolicyError as error:
        session = subscribed.session
        reason = f"the subscription is not restored, its policy cannot be read: {error}"
        node.notice(DROPPED, session, subscribed.filter, reason)
        node.ledger.subscription(session, subscribed.key, None)
        return False
    return True


def restore_advertised(node: Node, session: Session, about: str, text: str) -> Policy | None:
    """Return the policy of a stored advertisement; if it cannot be read, one that lets nothing through."""
    try:
        return _read(text)
    except PolicyError as error:
        reason = f"an advertisement's policy cannot be read, and nothing is published under it: {error}"
        node.notice(DROPPED, session, about, reason)
        return nothing()


def _read(text: str) -> Policy | None:
    return bindings.readable(text) if text else None
