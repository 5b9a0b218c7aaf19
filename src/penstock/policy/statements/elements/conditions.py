"""Conditions: what is known of the message, of its way, and of who sends and gets it."""

from functools import partial
from typing import TYPE_CHECKING

from penstock.language.limits import MAX_TEXT
from penstock.language.statements.statement import Message
from penstock.language.types import BOOL, DOUBLE, STRING
from penstock.policy.statements.copies import FilterCopy, PublicationCopy
from penstock.policy.statements.elements.element import FILTERS, PUBLICATIONS, Element, ElementError, all_texts

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement, MessageParty


def _message_size_index(on: "Judgement") -> float:
    """Return the size of the message from 0 to 1: of a publication relative to the largest packet that the node
    accepts, of other messages relative to the longest condition.
    """
    return min(1.0, on.copy.size() / (on.here.largest if isinstance(on.copy, PublicationCopy) else MAX_TEXT))


def _broker_load_index(on: "Judgement") -> float:
    """Return the load of the node, from 0 to 1."""
    return on.here.load


def _party(party: "MessageParty | None", which: str) -> "MessageParty":
    if party is None:
        raise ElementError(f"there is no {which}")
    return party


def _authenticate_sender(on: "Judgement", group: str) -> bool:
    """Return whether the sender of the message to this node is a known member of a trust group."""
    sender = _party(on.sender, "sender")
    is_member = sender.is_member(group)
    if not is_member and (why := sender.why_no_member(group)):
        on.reasons = (*on.reasons, why)
    return is_member


def _authenticate_receiver(on: "Judgement", group: str) -> bool:
    """Return whether the receiver of the message is a known member of a trust group."""
    return _party(on.receiver, "receiver").is_member(group)


def _strict(on: "Judgement") -> bool:
    """Return whether a publication has exactly the attributes that the filter asks for, or a subscription is the same
    filter as the advertisement (statements §5.2).
    """
    bound = on.policy
    assert bound is not None  # judging
    if bound.carrier is None:  # the advertisement of a retained message may be gone
        raise ElementError("the filter that it refers to is not known here")
    if isinstance(on.copy, FilterCopy):
        return on.copy.filter == bound.filter and on.copy.condition == bound.condition
    return on.copy.leaves() == bound.paths


def _topic(on: "Judgement") -> str:
    """Return the topic of a publication, or the topic filter of another message."""
    return on.copy.event.topic if isinstance(on.copy, PublicationCopy) else on.copy.filter


def _sender(on: "Judgement") -> str:
    """Return the name of the sender of the message to this node."""
    return _party(on.sender, "sender").name


def _receiver(on: "Judgement") -> str:
    """Return the name of the receiver of the message."""
    return _party(on.receiver, "receiver").name


def _broker(on: "Judgement") -> str:
    """Return the name of the node that judges the message."""
    return on.here.node


_of_group = partial(Element, gives=BOOL, least=1, most=1, check=all_texts, is_blind=True)
CONDITIONS = (
    Element("MessageSizeIndex", _message_size_index, DOUBLE, is_shared=True),
    Element("BrokerLoadIndex", _broker_load_index, DOUBLE, is_shared=True, is_blind=True),
    _of_group("AuthenticateSender", _authenticate_sender, is_shared=True),
    _of_group("AuthenticateReceiver", _authenticate_receiver, messages=FILTERS | PUBLICATIONS, needs_receiver=True),
    Element("StrictMatch", _strict, BOOL, PUBLICATIONS | {Message.SUBSCRIPTION}, needs_filter=True, is_shared=True),
    Element("Topic", _topic, STRING, is_shared=True, is_blind=True),
    Element("Sender", _sender, STRING, is_shared=True, is_blind=True),
    Element("Receiver", _receiver, STRING, FILTERS | PUBLICATIONS, needs_receiver=True, is_blind=True),
    Element("Broker", _broker, STRING, is_shared=True, is_blind=True),
)
