"""Stage 3, conform: does the event keep its producer's advertisements?

A producer that has advertised anything may publish just what one of its advertisements says (contracts §2.1); one that
has not may publish anything. The domain can advertise for it: then what it publishes must be as one of the domain's
advertisements says too, whatever it advertises itself.
"""

from typing import TYPE_CHECKING

from penstock.engine.events.plan import Demand, Draft, LinkClass, Plan, Plans
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.advertisement import OWN, Claim

if TYPE_CHECKING:
    from penstock.engine.node import Node


def plan(draft: Draft) -> None:
    """Decide by topic where that is enough; else the conditions of the advertisements are left to be asked."""
    if draft.link.is_admitted or not draft.link.claims:
        return
    asked = [one for one in (_demand(claim, draft.topic) for claim in draft.link.claims) if one is not None]
    if asked and not asked[0].conditions:
        draft.verdict = _nothing(asked[0].rule, draft.topic)
    elif asked:
        draft.plan = Plan(draft.verdict)
        draft.plan.conforms = tuple(asked)


def _demand(claim: Claim, topic: str) -> Demand | None:
    """What is left to ask of events on a topic; None if the topic is enough."""
    found = [one.condition for one in claim.advertisements if matches(one.filter, topic)]
    conditions = tuple(condition for condition in found if condition is not None)
    return None if len(conditions) < len(found) else Demand(claim.rule, conditions)


def judged(node: "Node", claims: tuple[Claim, ...], event: Event) -> tuple[Verdict, ...]:
    """What the stage says of one event, whoever asks; nothing if nothing is advertised."""
    if not claims:
        return ()
    draft = Draft(node, event.topic, Plans(LinkClass(claims=claims), {}))
    plan(draft)
    if draft.plan is not None and not takes_back(event):
        return (judge(draft.plan.conforms, event.topic, node.ensemble.reader.read(event)),)
    if draft.verdict.effect is Effect.SUPPRESS:
        return (draft.verdict,)
    return (Verdict("conform", Effect.PASS, "advertisement"),)


def takes_back(event: Event) -> bool:
    """Whether it takes a retained message back: there is no content to ask about, and its topic is advertised."""
    return event.retain and not event.payload


def judge(demands: tuple[Demand, ...], topic: str, content: Content) -> Verdict:
    """Whether content is as one of the advertisements of each demand says; an error is not as advertised."""
    kept = []
    for rule, conditions in demands:
        said = []
        for condition in conditions:
            outcome = condition.holds(content)
            if outcome is True:
                kept.append(condition.text)
                break
            said.append(f"`{condition.text}` is false" if outcome is False else f"`{condition.text}`: {outcome}")
        else:
            if not conditions:
                return _nothing(rule, topic)
            whose = "its publisher advertises" if rule == OWN else "the domain advertises for its publisher"
            return Verdict("conform", Effect.SUPPRESS, rule, f"not as {whose}: {'; '.join(said)}")
    return Verdict("conform", Effect.PASS, ", ".join(kept))


def _nothing(rule: str, topic: str) -> Verdict:
    if rule == OWN:
        return Verdict("conform", Effect.SUPPRESS, rule, f"its publisher advertises nothing on `{topic}`")
    return Verdict("conform", Effect.SUPPRESS, rule, f"the domain advertises nothing on `{topic}` for its publisher")
