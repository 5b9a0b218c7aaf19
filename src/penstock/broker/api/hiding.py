"""Accounts of decisions for who may not see payloads."""

from msgspec.structs import replace

from penstock.engine.account import Account, DecisionAccount, EventAccount, ReceiverAccount

HIDDEN = "hidden"
"""In place of an encoding: there is a payload, or none, and it is not told."""


def without_payloads(told: DecisionAccount) -> DecisionAccount:
    """The decision with its verdicts, but no payload."""
    return replace(told, event=_blank(told.event), outputs=tuple(map(_blank, told.outputs)))


def with_own_payload(told: Account) -> Account:
    """The explanation of an event that the asker has made up: its payload is known, what a node makes of it may hold
    something of others' (metrics that were withheld before, what monitors remember).
    """

    def shown(event: EventAccount) -> EventAccount:
        is_own = (event.payload, event.encoding) == (told.event.payload, told.event.encoding)
        return event if is_own else _blank(event)

    decisions = (replace(one, event=shown(one.event), outputs=tuple(map(shown, one.outputs))) for one in told.decisions)
    receivers = {
        name: ReceiverAccount(tuple(map(shown, one.gets)), one.why_not) for name, one in told.receivers.items()
    }
    return replace(told, decisions=tuple(decisions), receivers=receivers)


def _blank(event: EventAccount) -> EventAccount:
    return EventAccount(event.topic, "", HIDDEN, event.qos, event.retain)
