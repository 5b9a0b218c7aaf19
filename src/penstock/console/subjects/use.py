"""A subject's recent use of its rights, counted by event: an event for five receivers was published once."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.broker.http.answers.decisions import DecisionRow
from penstock.broker.http.answers.subjects import AccessClause
from penstock.console.tables import Prose, TableCell
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
    """Return what it published and was sent, as rows of a table, the most frequent first; then refusals `elsewhere`."""
    counts, last = Counter[_Use](), dict[_Use, float]()
    for event in _events(rows):
        key = _use(name, event)
        counts[key] += 1
        last[key] = max(event[0].at, last.get(key, 0.0))
    table_rows = [_row(key, count, last[key]) for key, count in counts.most_common()]
    further, late = Counter[_Use](), dict[_Use, float]()
    for row in elsewhere:
        key = _Use(f"at another node, {row.node}", row.topic, row.effect, f"{row.stage} {row.rule}".strip(), row.reason)
        further[key] += 1
        late[key] = max(row.at, late.get(key, 0.0))
    return table_rows + [_row(key, count, late[key]) for key, count in further.most_common()]


def refused_elsewhere(
    name: str, rows: Sequence[DecisionRow], refusals: Sequence[DecisionRow], nodes: Collection[str]
) -> list[DecisionRow]:
    """Return refusals of topics that it published and that passed, at nodes that had them from another node.

    A node does not know for sure who published what another sends it, so these may be events of others.
    """
    own = [row for row in rows if row.source == name and row.effect != "suppress"]
    topics, at = {row.topic for row in own}, {row.node for row in own}
    return [row for row in refusals if row.topic in topics and row.source in nodes and row.node not in at]


def uses(clause: AccessClause, may: str, name: str, rows: Sequence[DecisionRow]) -> int:
    """Return the number of recent events that a clause allowed or denied."""
    own = [row for row in rows if (row.source == name) is (may == "write") and name in (row.source, row.target)]
    return sum(any(_concerns(clause, row) for row in event) for event in _events(own))


def _events(rows: Sequence[DecisionRow]) -> list[list[DecisionRow]]:
    """Group decisions by event: they differ only in the receiver. One without a receiver is an event by itself."""
    by_event: dict[tuple[object, ...], list[DecisionRow]] = {}
    for row in rows:
        event = (row.node, row.source, row.topic, row.at) if row.target else (row.node, row.id)
        by_event.setdefault(event, []).append(row)
    return list(by_event.values())


def _use(name: str, event: Sequence[DecisionRow]) -> _Use:
    refused = [row for row in event if row.effect == "suppress"]
    way = "published" if event[0].source == name else "sent to it"
    effects = sorted({row.effect for row in event} - {"suppress"})
    telling = next(iter(refused or [row for row in event if row.effect != "pass"]), None)
    if telling is None:
        return _Use(way, event[0].topic, "pass")
    rule = f"{telling.stage} {telling.rule}".strip()
    comes_to = IN_PART if refused and effects else "suppress" if refused else "/".join(effects)
    return _Use(way, telling.topic, comes_to, rule, telling.reason)


def _row(use: _Use, count: int, last: float) -> tuple[object, ...]:
    look = "pk-effect " + ("pk-limit" if use.comes_to == IN_PART else f"pk-{use.comes_to.partition('/')[0]}")
    time = datetime.fromtimestamp(last, UTC).strftime("%H:%M:%S")
    topic, comes_to = TableCell(use.topic, "pk-mono"), TableCell(use.comes_to, look)
    return use.way, topic, comes_to, use.rule, Prose(use.why), count, time


def _concerns(clause: AccessClause, row: DecisionRow) -> bool:
    if clause.node and clause.node != row.node:
        return False
    if clause.effect == "denies":
        is_named = row.reason in clause.why or clause.why in row.reason
        return row.effect == "suppress" and bool(row.reason) and is_named
    try:
        return row.effect != "suppress" and matches(clause.topics, row.topic)
    except TopicError:
        return False
