"""The smallest automaton that keeps the order of a protocol.

A run of the protocol is one sequence that its tree allows; runs follow one another. An event that can come next moves
the run on. One that cannot is out of order: it is suppressed if it is guarded, else it passes and changes nothing. An
unguarded event that can only begin a new run does so once the present run has nothing left that could follow; a guarded
one, which would be suppressed otherwise, does so as soon as the present run may be over.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.model.errors import PolicyError
from penstock.model.topic import covers, intersection, overlaps
from penstock.policy.access.covering import is_covered
from penstock.policy.monitors import protocol_text

MAX_STATES = 500
MAX_KINDS = 200

Places = frozenset[int]
"""Places in the tree: the events that may have been the last one. 0 is the place before the first."""


@dataclass(frozen=True, slots=True)
class TopicKind:
    """Topics that the same events of a protocol match; `filter` matches them once those of earlier kinds are gone."""

    filter: str
    events: frozenset[str]


Move = tuple[bool, int]
"""A move: whether the event passes, and the number of the next state."""
Row = dict[TopicKind, Move]


def kinds_of(events: Iterable[str]) -> tuple[TopicKind, ...]:
    """Return the kinds of topics that events, as topic filters, distinguish; the narrower before the wider."""
    filters: dict[str, None] = {}
    for event in events:
        met = {meet for other in filters for meet in intersection(event, other)}
        filters.update(dict.fromkeys([event, *sorted(met)]))
        if len(filters) > MAX_KINDS:
            raise PolicyError(f"the events overlap in more than {MAX_KINDS} ways")
    listed = list(filters)
    distinct = [a for at, a in enumerate(listed) if not any(covers(a, b) and covers(b, a) for b in listed[:at])]
    ordered: list[str] = []
    while distinct:
        narrowest = next(a for a in distinct if not any(a != b and covers(a, b) for b in distinct))
        distinct.remove(narrowest)
        if not is_covered(narrowest, ordered):
            ordered.append(narrowest)
    return tuple(TopicKind(kind, frozenset(event for event in events if covers(event, kind))) for kind in ordered)


def edges_of(kinds: Collection[TopicKind], action: Callable[[TopicKind], object]) -> dict[str, object]:
    """Return the edges of a state that does this on each kind of topic, without those that `*: pass` does as well."""
    actions = [(kind.filter, action(kind)) for kind in kinds]
    kept: list[tuple[str, object]] = []
    for filter, does in reversed(actions):
        if does != "pass" or any(overlaps(filter, other) for other, _ in kept):
            kept.append((filter, does))
    return {**dict(reversed(kept)), "*": "pass"}


def order_states(tree: protocol_text.Tree, guard: Collection[str]) -> dict[str, dict[str, object]]:
    """Return the states, as a domain file writes them, of the smallest automaton that keeps the protocol's order."""
    kinds = kinds_of(protocol_text.events_of(tree))
    return _written(kinds, _smallest(_determined(_Follow(tree), kinds, frozenset(guard))))


def sending_states(
    tree: protocol_text.Tree, guard: Collection[str], own: Collection[str], others: Collection[str]
) -> dict[str, dict[str, object]]:
    """Return the states of the smallest automaton for the link *from* a participant, which has only what it sends.

    It lets pass what some events of others in between make right: it never stops who keeps to the protocol. `own` are
    the events that the participant may send, `others` those that somebody else may.
    """
    kinds = kinds_of(protocol_text.events_of(tree))
    order = _smallest(_determined(_Follow(tree), kinds, frozenset(guard)))
    return _written(kinds, _smallest(_sending(order, kinds, frozenset(own), frozenset(others))))


def successions(tree: protocol_text.Tree) -> set[tuple[str, str]]:
    """Return the pairs of events of which the second can come next after the first, in a run or in the next one."""
    follow = _Follow(tree)
    places = {(place, after) for place in follow.event for after in follow.after[place]}
    places |= {(place, first) for place in follow.last if place for first in follow.after[0]}
    return {(follow.event[place], follow.event[after]) for place, after in places}


def _written(kinds: Collection[TopicKind], rows: list[Row]) -> dict[str, dict[str, object]]:
    return {f"q{number}": edges_of(kinds, _actions(number, row)) for number, row in enumerate(rows)}


def _actions(number: int, row: Row) -> Callable[[TopicKind], object]:
    """Return the action of a state on a kind of topic, as a domain file writes it."""

    def action(kind: TopicKind) -> object:
        passes, following = row[kind]
        word = "pass" if passes else "suppress"
        return word if following == number else {word: True, "next": f"q{following}"}

    return action


class _Follow:
    """The places of the tree that can follow each other (Glushkov's construction: one place for each event)."""

    def __init__(self, tree: protocol_text.Tree) -> None:
        self.event: dict[int, str] = {}
        self.after: dict[int, set[int]] = {0: set()}
        first, self.last, _ = self._add(tree)
        self.after[0] |= first

    def _add(self, tree: protocol_text.Tree) -> tuple[set[int], set[int], bool]:
        """Return the first places, the last places, and whether it may be left out."""
        match tree:
            case protocol_text.ProtocolEvent(filter):
                place = len(self.event) + 1
                self.event[place] = filter
                self.after[place] = set()
                return {place}, {place}, False
            case protocol_text.EventChoice(items):
                parts = [self._add(item) for item in items]
                firsts, lasts, empties = zip(*parts, strict=True)
                return set().union(*firsts), set().union(*lasts), any(empties)
            case protocol_text.EventRepeat(item, operator):
                first, last, empty = self._add(item)
                if operator in "*+":
                    self._join(last, first)
                return first, last, empty or operator in "?*"
            case protocol_text.EventSequence(items):
                return self._add_sequence(items)

    def _add_sequence(self, items: tuple[protocol_text.Tree, ...]) -> tuple[set[int], set[int], bool]:
        first, last, empty = self._add(items[0])
        for item in items[1:]:
            next_first, next_last, next_empty = self._add(item)
            self._join(last, next_first)
            first = first | next_first if empty else first
            last = last | next_last if next_empty else next_last
            empty = empty and next_empty
        return first, last, empty

    def _join(self, last: set[int], first: set[int]) -> None:
        for place in last:
            self.after[place] |= first


def _determined(follow: _Follow, kinds: tuple[TopicKind, ...], guard: frozenset[str]) -> list[Row]:
    """Return the subset construction: a row for each set of places that can be reached, the initial one first."""
    numbers: dict[Places, int] = {frozenset({0}): 0}
    rows: list[Row] = []
    waiting = [frozenset({0})]
    for places in waiting:  # grows as it goes
        row: Row = {}
        for kind in kinds:
            passes, following = _move(follow, places, kind, is_guarded=bool(kind.events & guard))
            if following not in numbers:
                numbers[following] = len(numbers)
                waiting.append(following)
            row[kind] = passes, numbers[following]
        rows.append(row)
        if len(numbers) > MAX_STATES:
            raise PolicyError(f"the protocol needs more than {MAX_STATES} states")
    return rows


def _sending(order: list[Row], kinds: tuple[TopicKind, ...], own: frozenset[str], others: frozenset[str]) -> list[Row]:
    """Return a row for each set of states in which the order can be, as far as the participant's events tell."""

    def closure(states: Iterable[int]) -> Places:
        seen = set(states)
        waiting = list(seen)
        while waiting:
            row = order[waiting.pop()]
            reached = {row[kind][1] for kind in kinds if kind.events & others} - seen
            seen |= reached
            waiting += reached
        return frozenset(seen)

    start = closure({0})
    numbers = {start: 0}
    rows: list[Row] = []
    waiting = [start]
    for states in waiting:  # grows as it goes
        row: Row = {}
        for kind in kinds:
            moves = [order[state][kind] for state in states]
            onward = [following for passes, following in moves if passes]
            after = closure(onward) if onward and kind.events & own else states
            if after not in numbers:
                numbers[after] = len(numbers)
                waiting.append(after)
            row[kind] = bool(onward) or not kind.events & own, numbers[after]
        rows.append(row)
        if len(numbers) > MAX_STATES:
            raise PolicyError(f"the protocol needs more than {MAX_STATES} states on the link from a participant")
    return rows


def _move(follow: _Follow, places: Places, kind: TopicKind, *, is_guarded: bool) -> tuple[bool, Places]:
    goes_on = {place for before in places for place in follow.after[before]}
    may_begin = follow.after[0] if places & follow.last else set()
    onward = {place for place in goes_on if follow.event[place] in kind.events}
    anew = {place for place in may_begin if follow.event[place] in kind.events}
    if onward or is_guarded or not goes_on:
        following = frozenset(onward | anew)
        return (True, following) if following else (not is_guarded, places)
    return True, places


def _smallest(rows: list[Row]) -> list[Row]:
    """Merge states that behave alike (Moore's refinement), numbered in the order in which they are met."""
    block = [0] * len(rows)
    while True:
        ids: dict[object, int] = {}
        refined = [
            ids.setdefault((block[at], tuple((passes, block[to]) for passes, to in row.values())), len(ids))
            for at, row in enumerate(rows)
        ]
        if len(ids) == len(set(block)):
            break
        block = refined
    rows_of: Mapping[int, Row] = {block[at]: row for at, row in reversed(list(enumerate(rows)))}
    return [{kind: (passes, block[to]) for kind, (passes, to) in rows_of[at].items()} for at in range(len(rows_of))]
