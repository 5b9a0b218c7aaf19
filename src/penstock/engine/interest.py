"""What a node wants of a neighbour, and what it can tell a neighbour that will be published: the four modes of a link.

| mode | subscriptions | advertisements | what a node wants of a neighbour |
| --- | --- | --- | --- |
| all | | | everything (brokering §5) |
| subscribed | go everywhere | need not go | what somebody here or beyond subscribes to (contracts §2.1, mode 1) |
| advertised | stay | go everywhere | what is advertised there or beyond (contracts §2.1, mode 2) |
| routed | go to advertisements | go everywhere | what is subscribed to and may be advertised there (statements §3.2) |

Advertisements go over every link if they count for any: modes may be mixed.

A want or an offer that travels in an ensemble with cycles carries the nodes it has been through and does not come to
one of them again. So when its cause is gone, no two nodes keep it up for each other. An advertisement is taken from the
neighbour that it came by on the shortest way: what is advertised travels on a tree.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.domain.federation import Forward
from penstock.engine.session import Session
from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.language.ranges import covers as ranges_cover
from penstock.language.ranges import intersects as ranges_intersect
from penstock.model.topic import covers, intersection, is_wild, overlaps, parse_filter
from penstock.policy.advertisement import Advertisement
from penstock.policy.covering import is_covered

if TYPE_CHECKING:
    from penstock.engine.node import Node

Path = tuple[str, ...]
"""Nodes, the first one first."""

MOST_COMPARED = 64
"""Wants up to this many are compared with all others, to leave out what they cover."""
MOST_CONDITIONS = 256
"""Conditions on one filter; a neighbour of whom more are wanted is asked for the filter as such."""


class Want(msgspec.Struct, frozen=True, order=True):
    """What a node wants to get: topics, and a condition on the content."""

    filter: str
    where: str = ""
    path: Path = ()
    """The nodes that it has come through; empty where there are no cycles."""


class Offer(msgspec.Struct, frozen=True, order=True):
    """An advertisement on its way through the nodes."""

    id: str
    filter: str
    where: str = ""
    path: Path = ()


class Offered(NamedTuple):
    """An offer as a neighbour has told it."""

    offer: Offer
    condition: Condition | None


_Demand = tuple[str, Condition | None, Path]
"""Filter, condition and path of something that somebody wants."""


# --- wants


def wants(node: "Node", neighbour: Session, forward: Forward) -> frozenset[Want]:
    """All that this node wants of a neighbour, by the modes of their connection."""
    found: dict[Want, Condition | None] = {}
    earlier: list[str] = []
    for event_class, mode in forward:
        is_rest = event_class == "#"  # all events, those on topics with a `$` too
        for filter, condition, path in _MODES[mode](node, neighbour):
            for both in (filter,) if is_rest else intersection(filter, event_class):
                if not earlier or not is_covered(both, earlier):  # the first class that an event is of counts
                    told = condition if condition is not None and _is_tellable(condition) else None
                    found[Want(both, told.text if told else "", path)] = told
        if is_rest:
            break
        earlier.append(event_class)
    for filter in _watched(node, neighbour):
        found[Want(filter, "", _here(node))] = None
    return _without_covered(_shortest(found))


def _everything(node: "Node", neighbour: Session) -> Iterator[_Demand]:
    yield "#", None, _here(node)


def _subscribed(node: "Node", neighbour: Session) -> Iterator[_Demand]:
    """What others subscribe to, if it may go from this neighbour to them."""
    for session in node.sessions.values():
        if session is neighbour or not node.table.allows(neighbour.publish_type, session.notify_type):
            continue
        for one in session.subscriptions.values():
            if one.is_local:
                continue
            filter = parse_filter(one.filter).filter
            for way in one.ways or ((),):
                if neighbour.neighbour not in way:
                    yield filter, one.condition, (*way, *_here(node))


def _advertised(node: "Node", neighbour: Session) -> Iterator[_Demand]:
    for offered in _offered_by(node, neighbour):
        yield offered.offer.filter, offered.condition, _here(node)


def _routed(node: "Node", neighbour: Session) -> Iterator[_Demand]:
    offers = list(_offered_by(node, neighbour))
    for demand in _subscribed(node, neighbour):
        filter, condition, _ = demand
        if any(overlaps(filter, one.offer.filter) and may_intersect(condition, one.condition) for one in offers):
            yield demand


_MODES = {"all": _everything, "subscribed": _subscribed, "advertised": _advertised, "routed": _routed}


@lru_cache(maxsize=65_536)
def _is_tellable(condition: Condition) -> bool:
    """Whether another node can read it: what a client asks for and what the domain adds may be too long together."""
    try:
        make_condition(condition.text)
    except ConditionError:
        return False
    return True


def _watched(node: "Node", neighbour: Session) -> Iterator[str]:
    """What monitors must see, whether or not anybody subscribes to it."""
    if neighbour.watch_in is not None:
        yield from neighbour.watch_in.alphabet()
    for ends, filters in node.onlookers.items():
        if node.table.allows(neighbour.publish_type, node.watches[ends].link.type):
            yield from filters


def _here(node: "Node") -> Path:
    return (node.name,) if node.ensemble.is_cyclic else ()


def _shortest(found: dict[Want, Condition | None]) -> dict[Want, Condition | None]:
    """Of the same want of the same node the one that has come by the shortest way."""
    best: dict[tuple[str, str, Path], Want] = {}
    for want in found:
        key = (want.filter, want.where, want.path[:1])
        known = best.get(key)
        if known is None or (len(want.path), want.path) < (len(known.path), known.path):
            best[key] = want
    return {want: found[want] for want in best.values()}


def _without_covered(found: dict[Want, Condition | None]) -> frozenset[Want]:
    """Leave out what others cover. Covering is a matter of traffic: where comparing would take long, it is left."""
    found = _widened(found)
    wide = [want for want in found if is_wild(want.filter) and not want.where]
    if len(found) <= MOST_COMPARED:
        wide = list(found)
    elif len(wide) > MOST_COMPARED:
        wide = [want for want in wide if want.filter == "#"]
    kept = set(found)
    for want in sorted(found):
        if any(other != want and other in kept and _covers(other, found[other], want, found[want]) for other in wide):
            kept.discard(want)
    return frozenset(kept)


def _widened(found: dict[Want, Condition | None]) -> dict[Want, Condition | None]:
    """A filter that is wanted as such, or with very many conditions, is wanted without condition."""
    conditions: dict[tuple[str, Path], int] = {}
    for want in found:
        key = (want.filter, want.path)
        conditions[key] = conditions.get(key, 0) + (1 if want.where else MOST_CONDITIONS + 1)
    made: dict[Want, Condition | None] = {}
    for want, condition in found.items():
        if conditions[want.filter, want.path] > MOST_CONDITIONS:
            made[Want(want.filter, "", want.path)] = None
        else:
            made[want] = condition
    return made


def _covers(wide: Want, wide_condition: Condition | None, narrow: Want, condition: Condition | None) -> bool:
    """Whether who has the first has the second; a way that is part of another goes wherever that one goes."""
    return (
        set(wide.path) <= set(narrow.path)
        and covers(wide.filter, narrow.filter)
        and (wide_condition is None or (condition is not None and _condition_covers(wide_condition, condition)))
    )


@lru_cache(maxsize=65_536)
def _condition_covers(wide: Condition, narrow: Condition) -> bool:
    return ranges_cover(wide.ranges, narrow.ranges) is True


def may_intersect(left: Condition | None, right: Condition | None) -> bool:
    """Whether there may be content that satisfies both."""
    return left is None or right is None or _conditions_intersect(left, right)


@lru_cache(maxsize=65_536)
def _conditions_intersect(left: Condition, right: Condition) -> bool:
    return ranges_intersect(left.ranges, right.ranges) is not False


# --- offers


def offers(node: "Node", neighbour: Session) -> dict[str, Offer]:
    """The advertisements, by id, that a neighbour is told of: those that count for some link of the ensemble."""
    told = {
        filter
        for connection in node.ensemble.connections
        for filter, mode in connection.forward
        if mode in ("advertised", "routed")
    }
    if not told:
        return {}
    best: dict[str, Offer] = {}
    for offer, source in _known_offers(node):
        if not node.table.allows(source, neighbour.notify_type) or neighbour.neighbour in offer.path:
            continue
        if not any(overlaps(filter, offer.filter) for filter in told):
            continue
        known = best.get(offer.id)
        if known is None or (len(offer.path), offer.path) < (len(known.path), known.path):
            best[offer.id] = offer
    return best


def _known_offers(node: "Node") -> Iterator[tuple[Offer, str]]:
    """Each advertisement with the type of the link that its events come by: of clients here, and of neighbours."""
    for entry in node.ensemble.listed(node.name):
        for one in entry.advertises:
            yield from _own_offer(node, f"{entry.name}/domain/{one.name}", one, entry.publish)
    for session in node.sessions.values():
        for one in session.advertisements.values():
            yield from _own_offer(node, f"{session.entity}/client/{one.name}", one, session.publish_type)
        for offered in session.offers.values():
            offer = offered.offer
            if node.name not in offer.path:
                yield Offer(offer.id, offer.filter, offer.where, (*offer.path, node.name)), session.publish_type


def _own_offer(node: "Node", name: str, one: Advertisement, source: str) -> Iterator[tuple[Offer, str]]:
    if one.scope == "global":
        where = one.condition.text if one.condition is not None else ""
        yield Offer(f"{node.name}/{name}", one.filter, where, (node.name,)), source


def _offered_by(node: "Node", neighbour: Session) -> Iterator[Offered]:
    """The advertisements for which this neighbour is the way to go."""
    for id, offered in neighbour.offers.items():
        others = (session for session in node.neighbours.values() if id in session.offers)
        if min(others, key=lambda session: _distance(session, id)) is neighbour:
            yield offered


def _distance(session: Session, id: str) -> tuple[bool, int, str]:
    """Sorts neighbours by the way to an advertisement: links that are up first, then the shortest."""
    return session.outlet is None, len(session.offers[id].offer.path), session.client_id
