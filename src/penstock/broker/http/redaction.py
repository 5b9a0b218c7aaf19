"""Redaction of decisions for callers that may not read payloads.

Reasons quote what was evaluated: values, results, states of monitors. So only reasons that depend on topic, links,
rights and tokens alone are shown; of all others no more than stage, effect and rule.
"""

from itertools import takewhile

from msgspec.structs import replace

from penstock.engine.explain.report import Account, DecisionAccount, EventAccount, ReceiverAccount
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.advertisement import GIVEN, OWN

HIDDEN = "hidden"
"""In place of an encoding: whether there is a payload is not shown."""
WITHHELD = "the reason depends on the content: reading it needs the right `content`"
"""In place of a reason."""
_BLIND = {
    "admit": {"topic", "reserved", "acl", "token", "trust", "foreign"},
    "route": {"brokering", "path"},
    "match": {"", "no local", "acl", "token"},
    "emit": {""},
}
"""By stage, the rules whose reasons do not depend on the content. Monitors and subscriptions have names of their
own, which may be like one of these: no rule that one of them could be named like is here."""
_REFUSED = Verdict("match", Effect.SUPPRESS, "withheld", WITHHELD)
"""In place of the verdicts of the stages from `match` on."""


def redact_reasons(decision: Decision) -> Decision:
    """Return the decision with only those reasons that reveal nothing of the payload.

    A caller who filters by content could otherwise find out by asking whether its own condition refuses an event, or
    a later stage.
    """
    verdicts = decision.verdicts
    if decision.by_content:
        before = tuple(takewhile(lambda verdict: verdict.stage != "match", verdicts))
        after = (_REFUSED,) if decision.effect is Effect.SUPPRESS else verdicts[len(before) + 1 :]
        verdicts = (*before, *after)
    return decision._replace(verdicts=tuple(map(redact_verdict, verdicts)))


def redact_foreign_content(decision: Decision, own: Event) -> Decision:
    """Return the decision on an event that the caller has made up: reasons about its own content are shown too, as
    long as the payload is the caller's. What a node makes of it may contain data of others, which nodes remember."""
    is_own, verdicts = decision.event.payload == own.payload, []
    for verdict in decision.verdicts:
        is_about_it = (verdict.stage, verdict.rule) in (("match", "condition"), ("conform", OWN), ("conform", GIVEN))
        verdicts.append(verdict if is_own and is_about_it else redact_verdict(verdict))
        is_own = is_own and verdict.effect in (Effect.PASS, Effect.SUPPRESS)
    return decision._replace(verdicts=tuple(verdicts))


def redact_verdict(verdict: Verdict) -> Verdict:
    """Return a verdict, with its reason only if that cannot reveal anything of the payload."""
    is_blind = verdict.rule in _BLIND.get(verdict.stage, ())
    if verdict.stage == "match" and verdict.effect is Effect.PASS:
        # otherwise it is a filter, which a client may name as it likes, and conditions that hold
        is_blind = verdict.rule == ""
    return verdict if is_blind or not verdict.reason else verdict._replace(reason=WITHHELD)


def hide_payloads(decision: DecisionAccount) -> DecisionAccount:
    """Return the decision with its verdicts, but no payload."""
    return replace(decision, event=_blank(decision.event), outputs=tuple(map(_blank, decision.outputs)))


def hide_foreign_payloads(explained: Account) -> Account:
    """Return the explanation of an event that the caller has made up: its payload is known, others are left out."""

    def shown(event: EventAccount) -> EventAccount:
        is_own = (event.payload, event.encoding) == (explained.event.payload, explained.event.encoding)
        return event if is_own else _blank(event)

    decisions = (
        replace(decision, event=shown(decision.event), outputs=tuple(map(shown, decision.outputs)))
        for decision in explained.decisions
    )
    receivers = {
        name: ReceiverAccount(tuple(map(shown, receiver.gets)), receiver.why_not)
        for name, receiver in explained.receivers.items()
    }
    return replace(explained, decisions=tuple(decisions), receivers=receivers)


def _blank(event: EventAccount) -> EventAccount:
    return EventAccount(event.topic, "", HIDDEN, event.qos, event.retain)
