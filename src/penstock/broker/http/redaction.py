"""What is told to who may not see payloads.

Reasons quote what was looked at: values, what is made of them, what monitors remember. So only those are told that are
made of topic, links, rights and tokens alone; of all others no more than stage, effect and rule.
"""

from itertools import takewhile

from msgspec.structs import replace

from penstock.engine.explain.report import Account, DecisionAccount, EventAccount, ReceiverAccount
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.advertisement import GIVEN, OWN

HIDDEN = "hidden"
"""In place of an encoding: there is a payload, or none, and it is not told."""
WITHHELD = "the content was looked at, and why this came of it takes the right `content`"
"""In place of a reason."""
_BLIND = {
    "admit": {"topic", "reserved", "acl", "token", "trust", "foreign"},
    "route": {"brokering", "path"},
    "match": {"", "no local", "acl", "token"},
    "emit": {""},
}
"""By stage, the rules whose reasons are made without a look at the content. Monitors and subscriptions have names of
their own, which may be like one of these: no rule that one of them could be named like is here.
"""
_REFUSED = Verdict("match", Effect.SUPPRESS, "withheld", WITHHELD)
"""In place of what the stages from `match` on say."""


def without_reasons(decision: Decision) -> Decision:
    """The decision, of each verdict what says nothing of the payload.

    Who asks by content could otherwise find out by asking, even what it may not have: whether it is its condition that
    refuses, or a later stage.
    """
    verdicts = decision.verdicts
    if decision.by_content:
        before = tuple(takewhile(lambda one: one.stage != "match", verdicts))
        after = (_REFUSED,) if decision.effect is Effect.SUPPRESS else verdicts[len(before) + 1 :]
        verdicts = (*before, *after)
    return decision._replace(verdicts=tuple(map(discreet, verdicts)))


def without_others(decision: Decision, own: Event) -> Decision:
    """The decision on an event that the asker has made up: what is said of its own content may be told too, as long as
    it is that. What a node makes of it may hold something of others', which nodes remember.
    """
    is_own, told = decision.event.payload == own.payload, []
    for one in decision.verdicts:
        is_about_it = (one.stage == "match" and one.rule == "condition") or (
            one.stage == "conform" and one.rule in (OWN, GIVEN)
        )
        told.append(one if is_own and is_about_it else discreet(one))
        is_own = is_own and one.effect in (Effect.PASS, Effect.SUPPRESS)
    return decision._replace(verdicts=tuple(told))


def discreet(verdict: Verdict) -> Verdict:
    """A verdict, with its reason only if that cannot say anything of the payload."""
    is_blind = verdict.rule in _BLIND.get(verdict.stage, ())
    if verdict.stage == "match" and verdict.effect is Effect.PASS:
        # else it is a filter, which a client may call as it likes, and conditions that hold
        is_blind = verdict.rule == ""
    return verdict if is_blind or not verdict.reason else verdict._replace(reason=WITHHELD)


def without_payloads(told: DecisionAccount) -> DecisionAccount:
    """The decision with its verdicts, but no payload."""
    return replace(told, event=_blank(told.event), outputs=tuple(map(_blank, told.outputs)))


def with_own_payload(told: Account) -> Account:
    """The explanation of an event that the asker has made up: its payload is known, others are left out."""

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
