"""Stage 3, conform: does the event keep its producer's advertisement?

A producer that has advertised anything may publish just what one of its advertisements says (contracts §2.1); one that
has not may publish anything.
"""

from penstock.engine.plan import Draft, Plan
from penstock.language.condition import Condition
from penstock.model.content import Content
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict


def plan(draft: Draft) -> None:
    """Decide by topic where that is enough; else the conditions of the advertisements are left to be asked."""
    if draft.link.is_admitted or not draft.link.advertised:
        return
    found = [one.condition for one in draft.link.advertised if matches(one.filter, draft.topic)]
    if not found:
        reason = f"its publisher advertises nothing on `{draft.topic}`"
        draft.verdict = Verdict("conform", Effect.SUPPRESS, "advertisement", reason)
    elif None not in found:
        draft.plan = Plan(draft.verdict)
        draft.plan.conforms = tuple(one for one in found if one is not None)


def judge(conditions: tuple[Condition, ...], content: Content) -> Verdict:
    """Whether content is as one of the advertisements says; an error is not as advertised."""
    said = []
    for condition in conditions:
        outcome = condition.holds(content)
        if outcome is True:
            return Verdict("conform", Effect.PASS, condition.text)
        said.append(f"`{condition.text}` is false" if outcome is False else f"`{condition.text}`: {outcome}")
    reason = f"not as its publisher advertises: {'; '.join(said)}"
    return Verdict("conform", Effect.SUPPRESS, "advertisement", reason)
