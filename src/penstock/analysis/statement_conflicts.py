"""Policies that a domain gives and that demand opposite things of one message, where that can be told beforehand.

Told are only policies that act on the same messages, as far as conditions can hold. Two can be at odds by what an
element says at run time too: then the node tells of it by a meta-event `PolicyConflict`.
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
from penstock.policy.statements.assignments import Given, Statements
from penstock.policy.statements.statement import Act, CompiledClause, CompiledRule

MOST_PAIRS = 100_000
"""Pairs of clauses that are looked at: what is found must not take for ever."""


class Conflict(NamedTuple):
    """Two policies at odds."""

    place: int
    """Which of the entries of `apply` it is told at; the other one stands before it."""
    other: int
    what: str


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause of a policy that is given, and the messages on which its actions are carried out."""

    place: int
    given: Given
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
    """All that is found; of two policies the same is told once."""
    clauses = [one for place, given in enumerate(statements.given) for one in _clauses(place, given)]
    seen: set[tuple[int, int, str]] = set()
    for count, (one, other) in enumerate(combinations(clauses, 2)):
        if count >= MOST_PAIRS:
            return
        if one.place == other.place or not _meet(one, other):
            continue
        first, second = sorted((one, other), key=lambda each: each.rank)
        for what in _at_odds(first, second):
            key = (min(one.place, other.place), max(one.place, other.place), what)
            if key not in seen:
                seen.add(key)
                yield Conflict(max(one.place, other.place), min(one.place, other.place), what)


def _clauses(place: int, given: Given) -> Iterator[_Clause]:
    for rule in given.policy.rules:
        before: list[str] = []
        for clause in rule.chain:
            condition = _reached(given, clause, before)
            if isinstance(condition, Condition) or condition is None:
                yield _Clause(place, given, rule, clause.actions, condition)
            if clause.test is None or clause.test.acts:
                break  # nothing comes after it, or what does is not known
            before.append(clause.test.condition.text)


def _reached(given: Given, clause: CompiledClause, before: list[str]) -> Condition | bool | None:
    """What content must be like for a clause to be carried out; False if that is not known."""
    own = [] if clause.test is None else [clause.test.condition]
    if clause.test is not None and clause.test.acts:
        return False
    try:
        others = [make_condition(f"!({text})") for text in before]
    except ConditionError:
        return False
    wanted = [*([] if given.condition is None else [given.condition]), *others, *own]
    return all_of(wanted) if wanted else None


def _meet(one: _Clause, other: _Clause) -> bool:
    """Whether there are messages on which both are carried out."""
    if one.rule.verb is not other.rule.verb or one.rule.message is not other.rule.message:
        return False
    if not _same_place(one.rule, other.rule) or not overlaps(one.given.filter, other.given.filter):
        return False
    return _same_scope(one.given, other.given, one.rule.message) and _same_content(one.condition, other.condition)


def _same_place(one: CompiledRule, other: CompiledRule) -> bool:
    """Whether a message can be where both are asked. One that goes on from where it came in is at two places."""
    if not one.points.isdisjoint(other.points):
        return True
    return one.verb is Verb.FORWARD and (Point.INGRESS in one.points or Point.INGRESS in other.points)


def _same_scope(one: Given, other: Given, message: Message) -> bool:
    """Whether both are for one message: the same publisher's, or one publisher's and one reader's."""
    if message not in (Message.PUBLICATION, Message.SUBSCRIPTION):
        return False  # a policy acts on advertisements of its own
    if one.nodes and other.nodes and one.nodes.isdisjoint(other.nodes):
        return False  # each node judges for itself
    sides = {_side(one, message), _side(other, message)}
    if sides == {"publisher", "reader"}:
        alone = one.clients == other.clients and one.clients is not None and len(one.clients) == 1
        return not alone  # nobody is sent its own
    if len(sides) == 2 or sides == {"advertiser"}:
        return True
    return bool(one.nodes or other.nodes) or _common(one.clients, other.clients)


def _side(given: Given, message: Message) -> str:
    if given.to is Message.SUBSCRIPTION:
        return "reader"
    return "publisher" if message is Message.PUBLICATION else "advertiser"


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    return one is None or other is None or not one.isdisjoint(other)


def _same_content(one: Condition | None, other: Condition | None) -> bool:
    if one is None or other is None:
        present = one or other
        return present is None or present.ranges is None or not present.ranges.is_empty
    met = intersects(one.ranges, other.ranges)
    return one.text == other.text if met is None else met


# --- what is at odds


def _at_odds(first: _Clause, second: _Clause) -> Iterator[str]:
    """What two clauses on one message have against each other; `first` is applied first."""
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
    """What comes of two actions of which each undoes the other; empty if they do not."""
    names = {mine.element.name: mine, theirs.element.name: theirs}
    if names.keys() == {"BlockMessage", "FloodMessage"}:
        return "it is blocked"
    if names.keys() == {"RemoveAttributes", "KeepOnlyAttributes"}:
        kept = map(str, names["KeepOnlyAttributes"].arguments)
        both = [name for name in kept if name in names["RemoveAttributes"].arguments]
        listed = ", ".join(f"`{name}`" for name in both)
        return f"{listed} {'is' if len(both) == 1 else 'are'} removed" if both else ""
    if names.keys() == {"ToXML", "ToJSON"}:
        return f"`{theirs.text}` of `{later}` comes later and holds"
    return ""


def _has_all(first: _Clause, second: _Clause) -> bool:
    """Whether whatever the second is carried out on, the first is too, and before it."""
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
