"""Advertisements of clients: what a producer says that it will publish, told on two control topics."""

from dataclasses import replace
from typing import Literal

import msgspec

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.plan import Plans
from penstock.engine.federation import offers
from penstock.engine.federation.state import Withdrawal
from penstock.engine.node import Node
from penstock.engine.sessions.refusal import Outcome, problem_of_name
from penstock.engine.sessions.session import Session
from penstock.engine.stages import edit
from penstock.engine.stages.draft import Draft
from penstock.engine.statements import advertised_policies, bindings, filter_policies, set_policy
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError
from penstock.language.statements.statement import Message
from penstock.model.content.json_members import check_members
from penstock.model.errors import UNREADABLE, AmbiguityError, TopicError
from penstock.model.topic import parse_filter
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.policy.statements.judging import Bound
from penstock.wire.primitives import is_name
from penstock.wire.reason import Reason

ADVERTISE = "$penstock/advertise"
UNADVERTISE = "$penstock/unadvertise"
SET_POLICY = "$penstock/policy"
TOPICS = frozenset({ADVERTISE, UNADVERTISE, SET_POLICY})

MAX_ADVERTISEMENTS = 1000
"""Advertisements that one session may have."""


class _Advertised(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/advertise`."""

    name: str
    filter: str
    where: str | msgspec.UnsetType = msgspec.UNSET
    scope: Literal["global", "local"] | None = None
    policy: str | msgspec.UnsetType = msgspec.UNSET


class _Unadvertised(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/unadvertise`."""

    name: str
    policy: str | msgspec.UnsetType = msgspec.UNSET


def judge(node: Node, link: LinkClass, topic: str) -> Verdict:
    """May a client on such a link advertise, or take an advertisement back? Its rights must grant it, as for any topic,
    and its monitors must not suppress the topic. They are not asked about content: it is no event.
    """
    if link.rights is not None and not link.rights.may_write(topic):
        return Verdict("admit", Effect.SUPPRESS, "acl", link.rights.why_write(topic))
    draft = Draft(node, topic, Plans(link, {}))
    edit.plan(draft)
    return draft.verdict


def receive(node: Node, session: Session, topic: str, payload: bytes, now: float) -> Outcome:
    """Take or withdraw a client's advertisement, or set its policy, if it may do so."""
    if topic == SET_POLICY:
        outcome = set_policy.receive(node, session, payload, now)
    elif topic == ADVERTISE:
        outcome = _advertise(node, session, payload, now)
    else:
        outcome = _unadvertise(node, session, payload, now)
    if outcome.reason >= 0x80:
        node.deny("advertise denied", session, topic, outcome.text)
    return outcome


def _advertise(node: Node, session: Session, payload: bytes, now: float) -> Outcome:
    try:
        check_members(payload, msgspec.json.decode(payload))
        message = msgspec.json.decode(payload, type=_Advertised)
    except (*UNREADABLE, AmbiguityError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"not an advertisement: {error}")
    problem = problem_of_name(message.name) if message.name else "an advertisement has a name"
    if problem:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, problem)
    try:
        advertised = _made(node, message)
    except (TopicError, ConditionError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"advertisement `{message.name}`: {error}")
    if message.policy is not msgspec.UNSET:
        policy = bindings.settable(node, session, message.policy, Message.ADVERTISEMENT, message.filter)
        if isinstance(policy, str):
            return Outcome(Reason.NOT_AUTHORIZED, f"advertisement `{message.name}`: {policy}")
        advertised = replace(advertised, policy=policy)
        problem = filter_policies.nothing_to_trim(policy, advertised.condition)
        if problem:
            return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"advertisement `{message.name}`: {problem}")
    if (
        len(session.declared.advertisements) >= MAX_ADVERTISEMENTS
        and message.name not in session.declared.advertisements
    ):
        return Outcome(Reason.QUOTA_EXCEEDED, f"session has {MAX_ADVERTISEMENTS} advertisements already")
    problem = filter_policies.insert_advertisement(
        node, session, advertised.filter, advertised.condition, advertised.policy, now
    )
    if problem:
        return Outcome(Reason.NOT_AUTHORIZED, f"advertisement `{message.name}`: {problem}")
    session.declared.advertisements[advertised.name] = advertised
    node.ledger.advertisement(session, advertised.name, advertised)
    changed(node, session, advertised.name)
    return Outcome(Reason.SUCCESS)


def _unadvertise(node: Node, session: Session, payload: bytes, now: float) -> Outcome:
    try:
        message = msgspec.json.decode(payload, type=_Unadvertised)
    except UNREADABLE as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"does not say which advertisement: {error}")
    known = session.declared.advertisements.get(message.name)
    if known is None:
        return Outcome(Reason.UNSPECIFIED_ERROR, f"session has no advertisement `{message.name}`")
    bounds = filter_policies.given_to_advertisement(node, session.place.entity, known.filter)
    if known.policy is not None:
        bounds.append(Bound(known.policy, known.name, known.filter, known.condition, Message.ADVERTISEMENT))
    policy = None
    if message.policy is not msgspec.UNSET:
        settable = bindings.settable(node, session, message.policy, Message.UNADVERTISEMENT)
        if isinstance(settable, str):
            return Outcome(Reason.NOT_AUTHORIZED, settable)
        policy = settable
    attached, text = filter_policies.attached_to_withdrawal(policy)
    what = (session, known.filter, known.condition, (*bounds, *attached), text)
    filter_policies.taken_back(
        node, offers.offer_id_of(node, session, known), Withdrawal(Message.UNADVERTISEMENT, *what), now
    )
    del session.declared.advertisements[message.name]
    node.ledger.advertisement(session, message.name, None)
    changed(node, session, message.name)
    return Outcome(Reason.SUCCESS)


def _made(node: Node, message: _Advertised) -> ProducerAdvertisement:
    """Return the advertisement that a client sends; raise `TopicError` or `ConditionError`."""
    filter, where = message.filter, message.where
    if not is_name(filter):
        raise TopicError(f"topic filter {filter[:80]!r} contains a control character or a non-character")
    if filter.count("/") >= node.limits.topic_levels:
        raise TopicError(f"filter has more than {node.limits.topic_levels} levels")
    if parse_filter(filter).group is not None:
        raise TopicError(f"`{filter}` is a shared subscription, not topics to publish on")
    # An empty condition is a mistake; read as no condition, it would advertise more than was meant.
    condition = None if where is msgspec.UNSET else make_condition(where, node.ensemble.declared(filter))
    return ProducerAdvertisement(message.name, filter, condition, message.scope)


def changed(node: Node, session: Session, name: str) -> None:
    """Update plans and neighbours after a change of a session's advertisements."""
    session.plans = session.edited_plans = None
    advertised_policies.note(node, session)
    offers.changed(node, session, name)


def forget(node: Node, session: Session) -> None:
    """Remove the advertisements of a session that ends."""
    names = list(session.declared.advertisements)
    session.declared.advertisements.clear()
    advertised_policies.note(node, session)
    for name in names:
        offers.changed(node, session, name)
