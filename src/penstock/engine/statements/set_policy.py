"""Set the policy of a subscription or an advertisement that has been issued already (statements §4.1)."""

from dataclasses import replace

import msgspec

from penstock.engine.federation import offers
from penstock.engine.node import Node
from penstock.engine.sessions.refusal import Outcome
from penstock.engine.sessions.session import Session, key_of
from penstock.engine.statements import advertised_policies, bindings, filter_policies
from penstock.language.statements.statement import Message
from penstock.model.errors import UNREADABLE
from penstock.model.topic import parse_filter
from penstock.policy.statements.statement import Policy
from penstock.wire.reason import Reason


class _Subscription(msgspec.Struct, forbid_unknown_fields=True):
    filter: str
    name: str = ""


class _Set(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/policy`."""

    policy: str | None
    """None takes the policy away."""
    subscription: _Subscription | None = None
    advertisement: str | None = None


def receive(node: Node, session: Session, payload: bytes, now: float) -> Outcome:
    """Set the policy of a client that may do so."""
    try:
        message = msgspec.json.decode(payload, type=_Set)
    except UNREADABLE as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"does not say which policy is to be set: {error}")
    if (message.subscription is None) is (message.advertisement is None):
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, "expected one of `subscription` and `advertisement`")
    carrier = Message.SUBSCRIPTION if message.subscription is not None else Message.ADVERTISEMENT
    known = session.declared.advertisements.get(message.advertisement or "")
    about = (carrier, "" if known is None else known.filter)
    policy = None if message.policy is None else bindings.settable(node, session, message.policy, *about)
    if isinstance(policy, str):
        return Outcome(Reason.NOT_AUTHORIZED, policy)
    if message.subscription is not None:
        return _of_subscription(node, session, message.subscription, policy, now)
    return _of_advertisement(node, session, message.advertisement or "", policy, now)


def _of_subscription(
    node: Node, session: Session, message: _Subscription, policy: Policy | None, now: float
) -> Outcome:
    key = key_of(message.filter, message.name)
    subscribed = session.subscriptions.get(key)
    if subscribed is None:
        return Outcome(Reason.UNSPECIFIED_ERROR, f"session has no subscription `{message.filter}`")
    before, subscribed.policy = subscribed.policy, policy
    filter = parse_filter(subscribed.filter)
    problem = filter_policies.nothing_to_trim(policy, subscribed.condition)
    problem = problem or filter_policies.insert_subscription(node, subscribed, filter.filter, now)
    if problem:
        subscribed.policy = before
        node.deny("subscribe denied", session, subscribed.filter, problem)
        return Outcome(Reason.NOT_AUTHORIZED, filter_policies.REFUSED)
    subscribed.target = None
    node.statements.note_preceding(session)
    node.plans.forget(filter)
    node.federation.news.subscription(session, key)
    node.ledger.subscription(session, key, subscribed)
    return Outcome(Reason.SUCCESS)


def _of_advertisement(node: Node, session: Session, name: str, policy: Policy | None, now: float) -> Outcome:
    known = session.declared.advertisements.get(name)
    if known is None:
        return Outcome(Reason.UNSPECIFIED_ERROR, f"session has no advertisement `{name}`")
    problem = filter_policies.insert_advertisement(node, session, known.filter, known.condition, policy, now)
    if problem:
        return Outcome(Reason.NOT_AUTHORIZED, problem)
    session.declared.advertisements[name] = changed = replace(known, policy=policy)
    node.ledger.advertisement(session, name, changed)
    session.plans = session.edited_plans = None
    advertised_policies.note(node, session)
    offers.changed(node, session, name)
    return Outcome(Reason.SUCCESS)
