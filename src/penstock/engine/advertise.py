"""Advertisements of clients: what a producer says that it will publish, told on two control topics."""

from typing import TYPE_CHECKING, Literal

import msgspec

from penstock.engine.session import Session
from penstock.engine.tell import Outcome
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError
from penstock.model.errors import TopicError
from penstock.model.topic import parse_filter
from penstock.policy.advertisement import Advertisement
from penstock.wire.reason import Reason

if TYPE_CHECKING:
    from penstock.engine.node import Node

ADVERTISE = "$penstock/advertise"
UNADVERTISE = "$penstock/unadvertise"
TOPICS = frozenset({ADVERTISE, UNADVERTISE})

MOST_ADVERTISEMENTS = 1000
"""Advertisements that one session may have."""
LONGEST_NAME = 200


class _Advertised(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/advertise`."""

    name: str
    filter: str
    where: str = ""
    scope: Literal["global", "local"] = "global"


class _Unadvertised(msgspec.Struct, forbid_unknown_fields=True):
    """The payload on `$penstock/unadvertise`."""

    name: str


def receive(node: "Node", session: Session, topic: str, payload: bytes) -> Outcome:
    """A client advertises, or takes an advertisement back."""
    outcome = _advertise(node, session, payload) if topic == ADVERTISE else _unadvertise(node, session, payload)
    if outcome.reason >= 0x80:
        node.deny("advertise denied", session, topic, outcome.text)
    return outcome


def _advertise(node: "Node", session: Session, payload: bytes) -> Outcome:
    try:
        told = msgspec.json.decode(payload, type=_Advertised)
        made = make_advertisement(node, told.name, told.filter, told.where, told.scope)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"not an advertisement: {error}")
    except (TopicError, ConditionError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"advertisement `{told.name}`: {error}")
    if not 0 < len(told.name) <= LONGEST_NAME:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"an advertisement's name has 1 to {LONGEST_NAME} characters")
    if len(session.advertisements) >= MOST_ADVERTISEMENTS and told.name not in session.advertisements:
        return Outcome(Reason.QUOTA_EXCEEDED, f"session has {MOST_ADVERTISEMENTS} advertisements already")
    session.advertisements[made.name] = made
    node.ledger.advertisement(session, made.name, made)
    changed(node, session)
    return Outcome(Reason.SUCCESS)


def _unadvertise(node: "Node", session: Session, payload: bytes) -> Outcome:
    try:
        told = msgspec.json.decode(payload, type=_Unadvertised)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Outcome(Reason.PAYLOAD_FORMAT_INVALID, f"does not say which advertisement: {error}")
    if session.advertisements.pop(told.name, None) is None:
        return Outcome(Reason.UNSPECIFIED_ERROR, f"session has no advertisement `{told.name}`")
    node.ledger.advertisement(session, told.name, None)
    changed(node, session)
    return Outcome(Reason.SUCCESS)


def make_advertisement(
    node: "Node", name: str, filter: str, where: str, scope: Literal["global", "local"]
) -> Advertisement:
    """The advertisement that a client tells of; raises `TopicError` or `ConditionError`."""
    parsed = parse_filter(filter)
    if parsed.group is not None:
        raise TopicError(f"`{filter}` is a shared subscription, not topics to publish on")
    condition = make_condition(where, node.ensemble.declared(filter)) if where else None
    return Advertisement(name, filter, condition, scope)


def changed(node: "Node", session: Session) -> None:
    """What a session may publish has changed, and what other nodes are told of it."""
    session.advertised = (*session.given, *session.advertisements.values())
    session.plans = None
    node.interest_changed = True


def forget(node: "Node", session: Session) -> None:
    """The session ends, and its advertisements with it."""
    session.advertisements.clear()
    node.interest_changed = True
