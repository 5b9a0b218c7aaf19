"""The stage judge, asked without effect: what policy statements make of an event towards each who would get it."""

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from penstock.engine.events import user_properties
from penstock.engine.events.plan import Target
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages.satisfaction import satisfies
from penstock.engine.statements import bindings
from penstock.engine.statements.applicability import is_matched_late
from penstock.engine.statements.event_judging import Judging
from penstock.language.printer import show
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.printer import show_compact, show_use
from penstock.language.statements.statement import Message
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.judging import Bound, Judgement
from penstock.wire.properties import Properties, encode_properties


def refused_policy(node: Node, sender: Session | None, event: Event) -> Iterator[Verdict]:
    """Yield the verdict that a client may not attach its policy; none if it may, or attaches none."""
    if sender is None or sender.neighbour is not None:
        return
    for text in user_properties.told(event, user_properties.POLICY):
        policy = bindings.settable(node, sender, text, Message.PUBLICATION)
        if isinstance(policy, str):
            yield Verdict("admit", Effect.SUPPRESS, "policy", policy)
            return


def with_policy(text: str) -> bytes:
    """Return the property by which a client attaches a policy; raise `StatementError`."""
    attached = show_compact(parse_statement(text))
    return encode_properties(Properties(user_properties=((user_properties.POLICY, attached),)))


class ExplainedJudging(Judging):
    """An event that is only asked about: nothing that policies want done besides is done."""

    def __init__(self, node: Node, event: Event, sender: Session | None, now: float) -> None:
        bounds = bindings.own_bounds(node) if sender is None else bindings.bounds_of(node, sender)
        about = [bound for bound in bounds if matches(bound.filter, event.topic)]
        super().__init__(node, event, sender, now, about, satisfies=satisfies)

    def is_asked_late(self, subscribed: Subscribed) -> bool:
        """Return True if a subscription is asked only after rules before matching."""
        return self.is_late or is_matched_late(subscribed, self.event.topic)

    def _take_effects(self, judgement: Judgement) -> None:
        return

    @property
    def verdicts_before(self) -> tuple[Verdict, ...]:
        """The verdicts of the rules before matching, and of anything else that stops the event there."""
        stopped = () if self.verdict is None or self.verdict in self.before else (self.verdict,)
        return _with_conditions((*self.before, *stopped), self.bounds)

    def towards(self, target: Target) -> tuple[Event | None, tuple[Verdict, ...]]:
        """Return the event as a target gets it, if at all, and what rules say."""
        event, verdicts = self.explained(target.session, target.subscriptions)
        return event, _with_conditions(verdicts, self.bounds_of_all(target.session, target.subscriptions))

    def lets(self, member: Subscribed) -> bool:
        """Return True if a member of a group may have it."""
        return self.explained(member.session, (member,))[0] is not None


T = TypeVar("T")
_RULE = re.compile(r"(?P<policy>.*)#(?P<rule>[0-9]+)(?P<failed>!?)\.(?P<clause>[0-9]+)", re.DOTALL)


def _with_conditions(verdicts: Sequence[Verdict], bounds: Sequence[Bound]) -> tuple[Verdict, ...]:
    return tuple(_with_condition(verdict, bounds) for verdict in verdicts)


def _with_condition(verdict: Verdict, bounds: Sequence[Bound]) -> Verdict:
    """Return the verdict of a clause with the condition that held, if it is clear which clause it is of."""
    parts = _RULE.fullmatch(verdict.rule)
    if parts is None:
        return verdict
    policies = [bound.policy for bound in bounds if bound.name == parts["policy"]]
    rules = {rule for policy in policies for rule in _nth(policy.statement.rules, parts["rule"])}
    chains = (rule.on_exception if parts["failed"] else rule.clauses for rule in rules)
    clauses = {clause for chain in chains for clause in _nth(chain, parts["clause"])}
    held = {clause.condition for clause in clauses if ", ".join(map(show_use, clause.actions)) == verdict.reason}
    condition = held.pop() if len(held) == 1 else None
    if condition is None:
        return verdict
    return verdict._replace(reason=f"`{show(condition)}` holds: {verdict.reason or 'nothing is done'}")


def _nth(items: tuple[T, ...], number: str) -> tuple[T, ...]:
    """Return the item of this number, from 1 on, if there is one."""
    return items[int(number) - 1 : int(number)]
