"""The stage judge, asked without effect: what policy statements make of an event towards each who would get it."""

from collections.abc import Iterator, Sequence

from penstock.engine import judge, travel
from penstock.engine.node import Node
from penstock.engine.plan import Target
from penstock.engine.session import Session, Subscribed
from penstock.language.statement import Message
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy.judging import Judgement


def refused_policy(node: Node, sender: Session | None, event: Event) -> Verdict | None:
    """That a client may not attach the policy that it attaches; None if it may, or does not."""
    if sender is None or sender.neighbour is not None:
        return None
    for text in travel.told(event, travel.POLICY):
        policy = judge.settable(node, sender, text, Message.PUBLICATION)
        if isinstance(policy, str):
            return Verdict("admit", Effect.SUPPRESS, "policy", policy)
    return None


class Asked(judge.Judging):
    """An event that is only asked about: nothing that policies want done besides is done."""

    def __init__(self, node: Node, event: Event, sender: Session | None, entity: str, now: float) -> None:
        bounds = judge.given_bounds(node, entity) if sender is None else judge.bounds_of(node, sender)
        super().__init__(node, event, sender, now, [one for one in bounds if matches(one.filter, event.topic)])

    def _take_effects(self, judgement: Judgement) -> None:
        return

    def towards(self, targets: Sequence[Target], verdicts: list[Verdict]) -> list[tuple[Target, Event]]:
        """The event as each of these gets it, if at all; what rules say is added to the verdicts."""
        found = []
        for target in targets:
            event, said = self.explained(target.session, target.subscriptions)
            verdicts += [one for one in said if one not in verdicts]
            if event is not None:
                found.append((target, event))
        return found

    def lets(self, member: Subscribed) -> bool:
        """Whether a member of a group may have it."""
        return self.explained(member.session, (member,))[0] is not None

    def asked_for(self) -> Iterator[Subscribed]:
        """What neighbours would have subscribed to that get it because a policy floods it."""
        for session in self.flooded():
            yield Subscribed(session, self.event.topic, 2, retain_as_published=True)
