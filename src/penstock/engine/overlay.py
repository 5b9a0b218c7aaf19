"""Between nodes: who the neighbours are, and what each side wants to get from the other.

A neighbour is a session like a client's, with its window, its queue and its place in the store. What it subscribes to
is what somebody beyond it wants; the two sides tell each other on a control topic that only they may use.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from penstock.domain.federation import LinkSettings
from penstock.engine import emit, place, subscribe
from penstock.engine.session import NEVER, Replay, Session, Subscribed
from penstock.model.errors import TopicError
from penstock.model.subject import Subject
from penstock.model.topic import covers, is_wild, parse_filter
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import Publish
from penstock.wire.reason import Reason

if TYPE_CHECKING:
    from penstock.engine.node import Node

NODE_PREFIX = "$node/"
"""Client ids that only nodes use."""
INTEREST = "$penstock/interest"
"""The control topic on which a node tells a neighbour what it wants."""
WINDOW = 1000
"""Messages that two nodes may have under way to each other."""
REFRESH_SECONDS = 0.05
"""How often interest is worked out at most: many subscriptions at once are one change."""
MOST_COMPARED = 64
"""Wildcard filters up to this many are compared with all others, to leave out what they cover."""


class Interest(msgspec.Struct, frozen=True):
    """A change of what one side wants; `reset` says that `add` is all."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    reset: bool = False


def neighbour_in(client_id: str) -> str | None:
    """The node that a client id stands for, or None if it is a client's."""
    return client_id.removeprefix(NODE_PREFIX) if client_id.startswith(NODE_PREFIX) else None


def connections(node: "Node") -> Iterator[tuple[str, LinkSettings]]:
    """Each neighbour of the node, and what the domain says of the connection."""
    for connection in node.ensemble.connections:
        if node.name in connection.between:
            first, second = connection.between
            yield (second if first == node.name else first), connection


def prepare(node: "Node") -> list[Session]:
    """Make a session for each neighbour; returns those of neighbours that are no longer there."""
    node.neighbours = {name: _session(node, name, connection) for name, connection in connections(node)}
    place.look_on(node)
    return [s for s in node.sessions.values() if s.neighbour is not None and s.neighbour not in node.neighbours]


def _session(node: "Node", name: str, connection: LinkSettings) -> Session:
    client_id = NODE_PREFIX + name
    session = node.sessions.get(client_id)
    if session is None:
        node.last_session += 1
        session = node.sessions[client_id] = Session(node.last_session, Subject(client_id), 5)
        session.expiry = NEVER
        session.durable = node.ledger.durable
        node.ledger.session(session)
    session.neighbour = name
    session.queue_limit = connection.queue
    place.settle_in(node, session)
    return session


def subscribe_foreign(node: "Node", session: Session, filters: tuple[str, ...], qos: int) -> None:
    """A foreign broker cannot say what it wants: the domain says it."""
    for text in set(session.subscriptions) - set(filters):
        subscribe.remove(node, session, text)
    for text in filters:
        if text not in session.subscriptions:
            subscribe.add(node, Subscribed(session, text, qos, retain_as_published=True), parse_filter(text))


# --- what we want of a neighbour


def refresh(node: "Node", now: float) -> None:
    """Tell every connected neighbour what has changed in what we want of it."""
    if now < node.interest_due:
        return
    node.interest_due = now + REFRESH_SECONDS
    node.interest_changed = False
    for session in node.neighbours.values():
        if session.outlet is not None and session.announced is not None:
            wanted = _wanted(node, session)
            change = Interest(tuple(sorted(wanted - session.announced)), tuple(sorted(session.announced - wanted)))
            if change.add or change.remove:
                _tell(node, session, change)
                session.announced = wanted


def announce(node: "Node", session: Session) -> None:
    """The link is up: say all that we want."""
    session.announced = _wanted(node, session)
    _tell(node, session, Interest(tuple(sorted(session.announced)), reset=True))


def _tell(node: "Node", session: Session, change: Interest) -> None:
    emit.push(node, session, encode(Publish(INTEREST, msgspec.json.encode(change)), 5))


def _wanted(node: "Node", neighbour: Session) -> frozenset[str]:
    """Filters of what anybody here or beyond may get from this neighbour, and of what its link's monitors must see."""
    connection = dict(connections(node)).get(neighbour.neighbour or "")
    if connection is not None and ("#", "all") in connection.forward:
        return frozenset({"#"})
    wanted: set[str] = set()
    for session in node.sessions.values():
        if session is not neighbour and node.table.allows(neighbour.publish_type, session.notify_type):
            wanted.update(parse_filter(text).filter for text in session.subscriptions)
    if neighbour.watch_in is not None:
        wanted.update(neighbour.watch_in.alphabet())
    for ends, filters in node.onlookers.items():
        if node.table.allows(neighbour.publish_type, node.watches[ends].link.type):
            wanted.update(filters)
    return _without_covered(wanted)


def _without_covered(filters: set[str]) -> frozenset[str]:
    wild = [one for one in filters if is_wild(one)]
    if len(wild) > MOST_COMPARED:
        wild = ["#"] if "#" in filters else []
    return frozenset(one for one in filters if not any(other != one and covers(other, one) for other in wild))


# --- what a neighbour wants of us


def take_interest(node: "Node", session: Session, payload: bytes, now: float) -> None:
    """The neighbour says what it wants."""
    try:
        change = msgspec.json.decode(payload, type=Interest)
        added = [parse_filter(text) for text in change.add]
    except (msgspec.MsgspecError, TopicError) as error:
        raise WireError(Reason.PROTOCOL_ERROR, f"interest of node `{session.neighbour}`: {error}") from None
    gone = set(session.subscriptions) - set(change.add) if change.reset else set(change.remove)
    for text in gone:
        subscribe.remove(node, session, text)
    for filter in added:
        if filter.text in session.subscriptions:
            continue
        subscribed = Subscribed(session, filter.text, 2, retain_as_published=True)
        subscribe.add(node, subscribed, filter)
        node.ledger.subscription(session, filter.text, subscribed)
        retained = node.retained.match(filter.filter)
        session.replays = [*session.replays, Replay(subscribed, deque(retained))]
    subscribe.advance(node, session, now)
