"""What a subject used of late, counted by event: one that goes to five receivers was published once."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.broker.http.answers.decisions import DecisionRow
from penstock.broker.http.answers.subjects import Clause
from penstock.console.tables import Cell, Prose
from penstock.model.errors import TopicError
from penstock.model.topic import matches

IN_PART = "in part"


class _Use(NamedTuple):
    way: str
    topic: str
    comes_to: str
    rule: str = ""
    why: str = ""


def used(name: str, rows: Sequence[DecisionRow], elsewhere: Sequence[DecisionRow] = ()) -> list[tuple[object, ...]]:
    """What it published and was sent, as rows of a table, the most frequent first; then what is `elsewhere` refused."""
    counts, last = Counter[_Use](), dict[_Use, float]()
    for event in _events(rows):
        key = _use(name, event)
        counts[key] += 1
        last[key] = max(event[0].at, last.get(key, 0.0))
    told = [_row(key, count, last[key]) for key, count in counts.most_common()]
    further, late = Counter[_Use](), dict[_Use, float]()
    for one in elsewhere:
        key = _Use(f"further on, at {one.node}", one.topic, one.effect, f"{one.stage} {one.rule}".strip(), one.reason)
        further[key] += 1
        late[key] = max(one.at, late.get(key, 0.0))
    return told + [_row(key, count, late[key]) for key, count in further.most_common()]


def refused_elsewhere(
    name: str, rows: Sequence[DecisionRow], refusals: Sequence[DecisionRow], nodes: Collection[str]
) -> list[DecisionRow]:
    """Refusals of topics that it published and that were passed on, at nodes that had them from another node.

    A node does not know for sure who published what another sends it, so these may be events of others.
    """
    own = [one for one in rows if one.source == name and one.effect != "suppress"]
    topics, at = {one.topic for one in own}, {one.node for one in own}
    return [one for one in refusals if one.topic in topics and one.source in nodes and one.node not in at]


def uses(clause: Clause, may: str, name: str, rows: Sequence[DecisionRow]) -> int:
    """Events of late that this was used for, or that it stood against."""
    own = [row for row in rows if (row.source == name) is (may == "write") and name in (row.source, row.target)]
    return sum(any(_concerns(clause, row) for row in event) for event in _events(own))


def _events(rows: Sequence[DecisionRow]) -> list[list[DecisionRow]]:
    """Decisions of one event have all but the receiver in common. One without a receiver is an event by itself."""
    found: dict[tuple[object, ...], list[DecisionRow]] = {}
    for one in rows:
        found.setdefault((one.node, one.source, one.topic, one.at) if one.target else (one.node, one.id), []).append(
            one
        )
    return list(found.values())


def _use(name: str, event: Sequence[DecisionRow]) -> _Use:
    refused = [one for one in event if one.effect == "suppress"]
    way = "published" if event[0].source == name else "sent to it"
    effects = sorted({one.effect for one in event} - {"suppress"})
    telling = next(iter(refused or [one for one in event if one.effect != "pass"]), None)
    if telling is None:
        return _Use(way, event[0].topic, "pass")
    rule = f"{telling.stage} {telling.rule}".strip()
    comes_to = IN_PART if refused and effects else "suppress" if refused else "/".join(effects)
    return _Use(way, telling.topic, comes_to, rule, telling.reason)


def _row(use: _Use, count: int, last: float) -> tuple[object, ...]:
    look = "pk-effect " + ("pk-limit" if use.comes_to == IN_PART else f"pk-{use.comes_to.partition('/')[0]}")
    time = datetime.fromtimestamp(last, UTC).strftime("%H:%M:%S")
    return use.way, Cell(use.topic, "pk-mono"), Cell(use.comes_to, look), use.rule, Prose(use.why), count, time


def _concerns(clause: Clause, row: DecisionRow) -> bool:
    if clause.node and clause.node != row.node:
        return False
    if clause.effect == "denies":
        is_named = row.reason in clause.why or clause.why in row.reason
        return row.effect == "suppress" and bool(row.reason) and is_named
    try:
        return row.effect != "suppress" and matches(clause.topics, row.topic)
    except TopicError:
        return False
