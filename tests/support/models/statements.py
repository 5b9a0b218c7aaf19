"""What policies of publications do in a line of nodes, said once more: small, slow, with nothing of the engine in it.

Publications are JSON objects on one topic. Each node in turn applies the rules before matching that are for where an
event came from; then asks, for each way on, which filters match what has come, attaches what is to be attached, and
applies rules to a copy. Rules before matching that are for where it goes come before the conditions of subscriptions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from penstock.language.evaluators.reference import decide
from penstock.language.printer import show
from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import (
    Attach,
    ElementUse,
    Matching,
    Message,
    Statement,
    StatementClause,
    StatementRule,
)
from penstock.language.tree import Attribute, Call, Has, Literal, Tree, rebuilt, walk

Attributes = dict[str, Any]


NODES = 3
ALL = frozenset({"x", "y", "z"})
"""The attributes that events here may have."""


class Stop(Exception):
    """The copy goes no further."""


class Wrong(Exception):
    """An element cannot do what it is called for."""


@dataclass(frozen=True)
class Filter:
    """A subscription or an advertisement."""

    where: Tree | None
    policy: Statement | None

    def names(self) -> frozenset[str]:
        """The attributes that it asks for; here none has parts."""
        nodes = [] if self.where is None else [node for node, _ in walk(self.where)]
        return frozenset(node.name for node in nodes if isinstance(node, Attribute | Has))

    def is_late(self) -> bool:
        """Whether its own policy has rules that come before its condition is asked."""
        return self.policy is not None and _is_first(self.policy, self, set())

    def takes(self, attributes: Attributes) -> bool:
        return self.where is None or decide(self.where, attributes) is True


@dataclass(frozen=True)
class Reader:
    name: str
    node: int
    subscriptions: tuple[Filter, ...]


@dataclass
class Copy:
    came: Attributes
    now: Attributes
    node: str
    sender: str
    receiver: str
    groups: dict[str, set[str]]
    removed: set[str]
    asked: frozenset[str] = frozenset()
    flooded: bool = False


def deliveries(
    event: Attributes,
    attached: tuple[Statement, ...],
    publisher: str,
    start: int,
    advertised: tuple[Filter, ...],
    readers: Iterable[Reader],
    groups: dict[str, set[str]],
) -> dict[str, Attributes]:
    """What each reader gets of an event that is published at node `start`."""
    found: dict[str, Attributes] = {}
    readers = tuple(readers)
    last = max((reader.node for reader in readers), default=start)
    first = min((reader.node for reader in readers), default=start)
    _at(start, publisher, 0, event, attached, advertised, readers, groups, found, (first, last))
    return found


def _at(
    node: int,
    sender: str,
    direction: int,
    event: Attributes,
    attached: tuple[Statement, ...],
    advertised: tuple[Filter, ...],
    readers: tuple[Reader, ...],
    groups: dict[str, set[str]],
    found: dict[str, Attributes],
    ends: tuple[int, int],
) -> None:
    came = {"Ingress"} if direction == 0 else set()
    arriving = Copy(event, dict(event), f"n{node}", sender, "", groups, set())
    try:
        for statement in attached:
            _apply(arriving, statement, None, came, Matching.BEFORE)
        for one in advertised:
            _apply(arriving, one.policy, one, came, Matching.BEFORE)
    except Stop:
        return
    event, is_flooded = arriving.now, arriving.flooded
    matched = [one for one in advertised if one.takes(event)]
    before, attached = attached, _attach(attached, matched)
    # Rules before matching for each way: those that were not asked when it came.
    first: list[tuple[Statement, Filter | None, set[str]]] = [
        (statement, None, came if statement in before else set()) for statement in attached
    ]
    first += [(one.policy, one, came) for one in advertised if one.policy is not None]
    first = [each for each in first if _is_first(*each)]
    ways: list[tuple[str, int, list[Filter]]] = [
        (reader.name, 0, list(reader.subscriptions)) for reader in readers if reader.node == node
    ]
    for step in (-1, 1):
        if direction in (0, step) and 0 <= node + step < NODES:
            beyond = [one for reader in readers if (reader.node - node) * step > 0 for one in reader.subscriptions]
            ways.append((f"n{node + step}", step, list(dict.fromkeys(beyond))))
    for receiver, step, subscriptions in ways:
        points = came | ({"Routing"} if step else {"Egress"})

        def publishers(copy: Copy, points: set[str] = points) -> None:
            for statement in attached:
                _apply(copy, statement, None, points)
            for one in matched:
                _apply(copy, one.policy, one, points)

        def begin(wanting: list[Filter], receiver: str = receiver, points: set[str] = points) -> Copy:
            copy = Copy(event, dict(event), f"n{node}", sender, receiver, groups, set())
            copy.asked = _asked_by(wanting)
            for statement, filter, not_for in first:
                _apply(copy, statement, filter, points, Matching.BEFORE, not_for)
            copy.came, copy.removed = copy.now, set()
            return copy

        is_on = False
        if step:
            try:
                probe = begin([])
                publishers(probe)
                is_on = probe.flooded or is_flooded
            except Stop:
                pass
        wanting = [one for one in subscriptions if first or one.is_late() or one.takes(event)]
        if not wanting and not is_on:
            continue
        try:
            copy = begin(wanting)
            if first:
                wanting = [one for one in wanting if one.is_late() or one.takes(copy.now)]
                if not wanting and not is_on:
                    continue
            publishers(copy)
            if copy.removed and wanting and all(one.names() & copy.removed for one in wanting):
                continue  # whether it is satisfied would tell of what is taken out
            wanting = [one for one in wanting if not one.names() & copy.removed]
            if any(one.is_late() for one in subscriptions):
                copy.came = copy.now  # who subscribes sees only what is left
                for one in sorted((one for one in wanting if one.is_late()), key=_order):
                    if one.policy not in attached:
                        _apply(copy, one.policy, one, points, Matching.BEFORE)
                wanting = [one for one in wanting if not one.is_late() or one.takes(copy.now)]
                if not wanting and not is_on:
                    continue
            if first or any(one.is_late() for one in subscriptions):
                copy.asked = _asked_by(wanting)
            policies = sorted((one for one in wanting if one.policy is not None), key=_order)
            copy.came = copy.now
            for one in policies:
                if one.policy not in attached:
                    _apply(copy, one.policy, one, points)
        except Stop:
            continue
        if step:
            on = _attach(attached, [one for one in policies if one.policy not in attached])
            _at(node + step, f"n{node}", step, copy.now, on, advertised, readers, groups, found, ends)
        else:
            found[receiver] = copy.now


def _asked_by(filters: list[Filter]) -> frozenset[str]:
    return frozenset(name for one in filters if one.policy is not None for name in one.names())


def _is_first(statement: Statement, filter: Filter | None, not_for: set[str]) -> bool:
    """Whether a policy has rules before matching that are still to be asked."""
    return any(
        rule.matching is Matching.BEFORE
        and (filter is None or rule.attach is Attach.NEVER)
        and not not_for & {point.value for point in rule.points}
        for rule in statement.rules
    )


def _order(one: Filter) -> tuple[str, str]:
    assert one.policy is not None
    return "" if one.where is None else show(one.where), show_compact(one.policy)


def _attach(attached: tuple[Statement, ...], filters: list[Filter]) -> tuple[Statement, ...]:
    result = list(attached)
    for one in filters:
        for rule in () if one.policy is None else one.policy.rules:
            alone = Statement((_plain(rule),))
            if rule.attach is Attach.NEVER or alone in result:
                continue
            if rule.attach is Attach.ALWAYS or not result:
                result.append(alone)
            elif rule.attach is Attach.IF_YIELD and all(other.yields for each in result for other in each.rules):
                result = [alone]
    return tuple(result)


def _plain(rule: StatementRule) -> StatementRule:
    return replace(rule, attach=Attach.NEVER)


def _apply(
    copy: Copy,
    statement: Statement | None,
    filter: Filter | None,
    points: set[str],
    matching: Matching = Matching.AFTER,
    not_for: set[str] = frozenset(),  # type: ignore[assignment]
) -> None:
    blocked = False
    for rule in () if statement is None else statement.rules:
        where = {point.value for point in rule.points}
        if rule.message is not Message.PUBLICATION or not points & where or not_for & where:
            continue
        if rule.matching is not matching:
            continue
        if filter is not None and rule.attach is not Attach.NEVER:
            continue
        try:
            blocked |= _run(copy, rule.clauses, filter) is True
        except Wrong:
            try:
                compensated = _run(copy, rule.on_exception, filter)
            except Wrong:
                compensated = None
            blocked |= compensated is not False
    if blocked:
        raise Stop


def _run(copy: Copy, clauses: tuple[StatementClause, ...], filter: Filter | None) -> bool | None:
    """Whether the first clause that holds blocks; None if none holds."""
    for clause in clauses:
        if clause.condition is not None:
            outcome = decide(rebuilt(clause.condition, lambda node: _asked(copy, node, filter)), copy.came)
            if not isinstance(outcome, bool):
                raise Wrong
            if not outcome:
                continue
        blocks = [_act(copy, use, filter) for use in clause.actions]
        return any(blocks)
    return None


def _asked(copy: Copy, node: Tree, filter: Filter | None) -> Tree:
    if not isinstance(node, Call) or not node.function[:1].isupper():
        return node
    arguments = [one.name if isinstance(one, Attribute) else str(getattr(one, "value", "")) for one in node.arguments]
    match node.function:
        case "AuthenticateSender":
            return Literal("bool", _is_member(copy, copy.sender, arguments[0]))
        case "AuthenticateReceiver":
            return Literal("bool", _is_member(copy, copy.receiver, arguments[0]))
        case "StrictMatch":
            assert filter is not None
            return Literal("bool", set(copy.came) == filter.names())
        case "Sender":
            return Literal("string", copy.sender)
        case "Broker":
            return Literal("string", copy.node)
    raise AssertionError(node.function)


def _is_member(copy: Copy, party: str, group: str) -> bool:
    """A node can prove that it is in a group only to one that is in it too; for clients the domain vouches."""
    members = copy.groups.get(group, set())
    return party in members and (not party.startswith("n") or copy.node in members)


def _act(copy: Copy, use: ElementUse, filter: Filter | None) -> bool:
    """Whether it blocks."""
    names = set(map(str, use.arguments))
    match use.name:
        case "BlockMessage":
            return True
        case "FloodMessage":
            copy.flooded = True
        case "RemoveAttributes":
            copy.removed |= names
            copy.now = {name: value for name, value in copy.now.items() if name not in names}
        case "KeepOnlyAttributes":
            _keep(copy, names)
        case "TrimAttributes":
            assert filter is not None
            if not filter.names():
                raise Wrong
            _keep(copy, set(filter.names() | copy.asked))
        case "AppendPrevHop":
            copy.now = {name: value for name, value in copy.now.items() if name != "PrevHop"} | {"PrevHop": copy.sender}
        case "AugmentBrokerHostInfo":
            told = {"broker": copy.node, "value": ""}
            known = copy.now.get("penstock_trace_host")
            copy.now["penstock_trace_host"] = [*(known if isinstance(known, list) else []), told]
        case _:
            raise AssertionError(use.name)
    return False


def _keep(copy: Copy, names: set[str]) -> None:
    copy.removed |= ALL - names
    copy.now = {name: value for name, value in copy.now.items() if name in names}
