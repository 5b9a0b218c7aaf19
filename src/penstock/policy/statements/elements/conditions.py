"""Conditions: what is known of the message, of its way, and of who sends and gets it."""

from typing import TYPE_CHECKING

from penstock.language.limits import MOST_TEXT
from penstock.language.statements.statement import Message
from penstock.language.types import BOOL, DOUBLE, STRING
from penstock.policy.statements.copies import FilterCopy, PublicationCopy
from penstock.policy.statements.elements.element import FILTERS, PUBLICATIONS, Element, ElementError, all_texts

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement, Party


def _message_size_index(on: "Judgement") -> float:
    """How large the message is, from 0 to 1: a publication beside the largest packet that the node takes, others
    beside the longest condition.
    """
    most = on.here.largest if isinstance(on.copy, PublicationCopy) else MOST_TEXT
    return min(1.0, on.copy.size() / most)


def _broker_load_index(on: "Judgement") -> float:
    """How busy the node is, from 0 to 1."""
    return on.here.load


def _party(party: "Party | None", which: str) -> "Party":
    if party is None:
        raise ElementError(f"there is no {which}")
    return party


def _authenticate_sender(on: "Judgement", group: str) -> bool:
    """Whether who sent the message here is known to be in a trust group."""
    return _party(on.sender, "sender").is_member(group)


def _authenticate_receiver(on: "Judgement", group: str) -> bool:
    """Whether who would get the message is known to be in a trust group."""
    return _party(on.receiver, "receiver").is_member(group)


def _strict_match(on: "Judgement") -> bool:
    """Whether a publication has just the attributes that the filter asks for, and a subscription is the same filter as
    the advertisement (statements §5.2).
    """
    bound = on.policy
    assert bound is not None  # judging
    if bound.carrier is None:  # of what was retained, the advertisement may be gone
        raise ElementError("the filter that it refers to is not known here")
    if isinstance(on.copy, FilterCopy):
        return on.copy.filter == bound.filter and on.copy.condition == bound.condition
    return on.copy.names() == frozenset(path[0] for path in bound.paths)


def _topic(on: "Judgement") -> str:
    """The topic of a publication, the topic filter of other messages."""
    return on.copy.event.topic if isinstance(on.copy, PublicationCopy) else on.copy.filter


def _sender(on: "Judgement") -> str:
    """The name of who sent the message here."""
    return _party(on.sender, "sender").name


def _receiver(on: "Judgement") -> str:
    """The name of who would get the message."""
    return _party(on.receiver, "receiver").name


def _broker(on: "Judgement") -> str:
    """The name of the node that judges."""
    return on.here.node


CONDITIONS = (
    Element("MessageSizeIndex", _message_size_index, DOUBLE, is_shared=True),
    Element("BrokerLoadIndex", _broker_load_index, DOUBLE, is_shared=True, is_blind=True),
    Element(
        "AuthenticateSender",
        _authenticate_sender,
        BOOL,
        least=1,
        most=1,
        check=all_texts,
        is_shared=True,
        is_blind=True,
    ),
    Element(
        "AuthenticateReceiver",
        _authenticate_receiver,
        BOOL,
        FILTERS | PUBLICATIONS,
        least=1,
        most=1,
        check=all_texts,
        needs_receiver=True,
        is_blind=True,
    ),
    Element(
        "StrictMatch", _strict_match, BOOL, PUBLICATIONS | {Message.SUBSCRIPTION}, needs_filter=True, is_shared=True
    ),
    Element("Topic", _topic, STRING, is_shared=True, is_blind=True),
    Element("Sender", _sender, STRING, is_shared=True, is_blind=True),
    Element("Receiver", _receiver, STRING, FILTERS | PUBLICATIONS, needs_receiver=True, is_blind=True),
    Element("Broker", _broker, STRING, is_shared=True, is_blind=True),
)
