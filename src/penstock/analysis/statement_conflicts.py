"""Conflicts between policies of a domain that demand opposite things of one message, as far as they can be foreseen.

Only policies that act on the same messages are reported, as far as conditions can hold. Two can also conflict by what
an element does at run time: then the node publishes a meta-event `PolicyConflict`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from penstock.language.condition import Condition, all_of, make_condition
from penstock.language.errors import ConditionError
from penstock.language.ranges.ranges import intersects
from penstock.language.statements.statement import Message, Point, Verb
from penstock.model.topic import covers, overlaps
from penstock.policy.statements.assignments import AssignedPolicy, Statements
from penstock.policy.statements.copies import touches
from penstock.policy.statements.redact import path_of
from penstock.policy.statements.statement import Act, CompiledClause, CompiledRule

MAX_PAIRS = 100_000
"""Pairs of clauses that are compared, to bound the time."""


class Conflict(NamedTuple):
    """Two policies in conflict."""

    place: int
    """The entry of `apply` where it is reported; the other one stands before it."""
    other: int
    what: str


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause of a policy that is given, and the messages on which its actions are carried out."""

    place: int
    given: AssignedPolicy
    rule: CompiledRule
    actions: tuple[Act, ...]
    condition: Condition | None
    """None: whatever the content."""

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Sorts policies as they are applied to one message (docs/statements.md)."""
        return _ORDER[self.given.to], not self.given.nodes, self.place

    @property
    def blocks(self) -> bool:
        return any(act.element.name in ("BlockMessage", "UninsertMessage") for act in self.actions)


_ORDER = {Message.PUBLICATION: 0, Message.ADVERTISEMENT: 1, Message.SUBSCRIPTION: 2}


def conflicts(statements: Statements) -> Iterator[Conflict]:
    """Yield all conflicts; the same conflict of two policies once."""
    clauses = [clause for place, assigned in enumerate(statements.given) for clause in _clauses(place, assigned)]
    seen: set[tuple[int, int, str]] = set()
    for count, (clause, other) in enumerate(combinations(clauses, 2)):
        if count >= MAX_PAIRS:
            return
        if clause.place == other.place or not _meet(clause, other):
            continue
        first, second = sorted((clause, other), key=lambda clause: clause.rank)
        for what in _at_odds(first, second):
            key = (min(clause.place, other.place), max(clause.place, other.place), what)
            if key not in seen:
                seen.add(key)
                yield Conflict(max(clause.place, other.place), min(clause.place, other.place), what)


def _clauses(place: int, assigned: AssignedPolicy) -> Iterator[_Clause]:
    for rule in assigned.policy.rules:
        before: list[str] = []
        for clause in rule.chain:
            condition = _reached(assigned, clause, before)
            if isinstance(condition, Condition) or condition is None:
                yield _Clause(place, assigned, rule, clause.actions, condition)
            if clause.test is None or clause.test.acts:
                break  # nothing comes after it, or what does is not known
            before.append(clause.test.condition.text)


def _reached(assigned: AssignedPolicy, clause: CompiledClause, before: list[str]) -> Condition | bool | None:
    """Return the condition on content under which a clause is carried out; False if that is not known."""
    own = [] if clause.test is None else [clause.test.condition]
    if clause.test is not None and clause.test.acts:
        return False
    try:
        negated = [make_condition(f"!({text})") for text in before]
    except ConditionError:
        return False
    conditions = [*([] if assigned.condition is None else [assigned.condition]), *negated, *own]
    return all_of(conditions) if conditions else None


def _meet(clause: _Clause, other: _Clause) -> bool:
    """Return whether there are messages on which both are carried out."""
    if clause.rule.verb is not other.rule.verb or clause.rule.message is not other.rule.message:
        return False
    if not _same_place(clause.rule, other.rule) or not overlaps(clause.given.filter, other.given.filter):
        return False
    return _same_scope(clause.given, other.given, clause.rule.message) and _same_content(
        clause.condition, other.condition
    )


def _same_place(rule: CompiledRule, other: CompiledRule) -> bool:
    """Return whether a message can be at a point of both. One that goes on from where it came in is at two points."""
    if not rule.points.isdisjoint(other.points):
        return True
    return rule.verb is Verb.FORWARD and (Point.INGRESS in rule.points or Point.INGRESS in other.points)


def _same_scope(policy: AssignedPolicy, other: AssignedPolicy, message: Message) -> bool:
    """Return whether both are for one message: the same publisher's, or one publisher's and one reader's."""
    if message not in (Message.PUBLICATION, Message.SUBSCRIPTION):
        return False  # a policy acts on advertisements of its own
    if policy.nodes and other.nodes and policy.nodes.isdisjoint(other.nodes):
        return False  # each node judges for itself
    sides = {_side(policy, message), _side(other, message)}
    if sides == {"publisher", "reader"}:
        alone = policy.clients == other.clients and policy.clients is not None and len(policy.clients) == 1
        return not alone  # a client does not receive its own messages here
    if len(sides) == 2 or sides == {"advertiser"}:
        return True
    return bool(policy.nodes or other.nodes) or _common(policy.clients, other.clients)


def _side(policy: AssignedPolicy, message: Message) -> str:
    if policy.to is Message.SUBSCRIPTION:
        return "reader"
    return "publisher" if message is Message.PUBLICATION else "advertiser"


def _common(clients: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    return clients is None or other is None or not clients.isdisjoint(other)


def _same_content(condition: Condition | None, other: Condition | None) -> bool:
    if condition is None or other is None:
        present = condition or other
        return present is None or present.ranges is None or not present.ranges.is_empty
    met = intersects(condition.ranges, other.ranges)
    return condition.text == other.text if met is None else met


# --- what is at odds


def _at_odds(first: _Clause, second: _Clause) -> Iterator[str]:
    """Yield the conflicts of two clauses on one message; `first` is applied first."""
    for mine in first.actions:
        for theirs in second.actions:
            end = _opposite(mine, theirs, second.given.name)
            if end:
                names = f"`{first.given.name}` and `{second.given.name}`"
                yield f"{names} ask the opposite of one message, `{mine.text}` and `{theirs.text}`: {end}"
    if first.blocks and not second.blocks and second.actions and _has_all(first, second):
        done = ", ".join(f"`{act.text}`" for act in second.actions)
        verb = "lets in none of what" if first.rule.verb is Verb.INSERT else "blocks all that"
        yield f"{done} of `{second.given.name}` is never done: `{first.given.name}` comes first and {verb} it is for"


def _opposite(mine: Act, theirs: Act, later: str) -> str:
    """Return the result of two actions that undo each other; empty if they do not."""
    names = {mine.element.name: mine, theirs.element.name: theirs}
    if names.keys() == {"BlockMessage", "FloodMessage"}:
        return "it is blocked"
    if names.keys() == {"RemoveAttributes", "KeepOnlyAttributes"}:
        removing = [path_of(str(name)) for name in names["RemoveAttributes"].arguments]
        kept = map(str, names["KeepOnlyAttributes"].arguments)
        removed = [name for name in kept if touches([path_of(name)], removing)]
        listed = ", ".join(f"`{name}`" for name in removed)
        return f"{listed} {'is' if len(removed) == 1 else 'are'} removed" if removed else ""
    if names.keys() == {"ToXML", "ToJSON"}:
        return f"`{theirs.text}` of `{later}` comes later and holds"
    return ""


def _has_all(first: _Clause, second: _Clause) -> bool:
    """Return whether the first clause is carried out wherever the second is, and before it."""
    mine, theirs = first.given, second.given
    if first.condition is not None or not covers(mine.filter, theirs.filter):
        return False
    if not first.rule.points >= second.rule.points or first.rule.matching is not second.rule.matching:
        return False
    if _side(mine, first.rule.message) != _side(theirs, second.rule.message):
        return mine.clients is None and not mine.nodes
    if mine.nodes or theirs.nodes:
        return mine.clients is None and not mine.nodes
    return mine.clients is None or (theirs.clients is not None and theirs.clients <= mine.clients)
