"""The place where a client that roams has connected last: nodes tell each other, and its other sessions go there.

A client that connects while a link is down has a new session, and so there may be several, at any of its nodes. Each
CONNECT has a time, which is later than that of all CONNECTs that its node knows of. It is told from node to node, and
again whenever a link is up. A session that is older goes one node on in the direction of the newest, where the two are
joined. A node that has not heard of the newest keeps the session, or sends it to a node from where it goes on.
"""

from typing import TypeVar
from zlib import crc32

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.mobility import messages
from penstock.engine.mobility.state import MAX_REMEMBERED, Newest
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session

V = TypeVar("V")
LATER = 0.001
"""Seconds by which a CONNECT is later than one that another node has told of, whatever the clocks say."""


def stamp(node: Node, client: str, now: float) -> float:
    """Return the time of a CONNECT that is made now: later than all that are known, and no other node's."""
    moves, session = node.federation.moves, node.sessions.get(client)
    known = [moves.cleaned.get(client, 0.0)]
    if session is not None:
        known.append(session.connection.began)
    if client in moves.newest:
        known.append(moves.newest[client][1].at)
    place = list(node.ensemble.nodes).index(node.name) % 400
    return round(max(now, max(known) + LATER), 3) + place * LATER / 1000


def served(node: Node, session: Session, entry: ClientEntry, proven: tuple[str, ...]) -> None:
    """Tell the client's other nodes that it has connected here."""
    moves, client = node.federation.moves, session.client_id
    cleaned = moves.cleaned.get(client, 0.0)
    news = Newest(client, entry.name, session.subject.user, session.connection.began, node.name, proven, cleaned)
    remember(moves.newest, client, ("", news))
    for neighbour in linked(node, entry).values():
        messages.say(node, neighbour, news)


def first_id(node: Node, client: str, began: float) -> int:
    """Return where the packet identifiers of a new session begin. If there are several sessions for a while, the client
    must not take a message of one for the repetition of another's.
    """
    return crc32(f"{node.name} {client} {began}".encode()) % 0xFFFF


def known(node: Node, client: str) -> tuple[str, Newest] | None:
    """Return where a client has connected last, as far as this node knows, and the neighbour on the way there."""
    heard, session = node.federation.moves.newest.get(client), node.sessions.get(client)
    entry = None if session is None else session.place.entry
    if session is None or entry is None or not entry.homes:
        return heard
    at = session.connection.began
    if heard is not None and heard[1].at >= at:
        return heard
    cleaned = node.federation.moves.cleaned.get(client, 0.0)
    who = (client, entry.name, session.subject.user, at, node.name)
    return "", Newest(*who, tuple(sorted(session.trust.bound)), cleaned)


def tell_all(node: Node, neighbour: Session) -> None:
    """Tell a neighbour that is linked again what it may not know."""
    name = neighbour.neighbour or ""
    roaming = [each.client_id for each in node.sessions.values() if each.place.entry and each.place.entry.homes]
    for client in dict.fromkeys((*node.federation.moves.newest, *roaming)):
        what = known(node, client)
        if what is not None and what[0] != name and name in homes(node, what[1].entity):
            messages.say(node, neighbour, what[1])


def hear(node: Node, name: str, news: Newest) -> None:
    """Take what a neighbour says of where a client has connected last; tell others, or tell it what is newer."""
    moves, client = node.federation.moves, news.client
    entry = node.ensemble.entry(node.name, news.entity)
    if entry is None or name not in entry.homes:
        return
    if news.cleaned > moves.cleaned.get(client, 0.0):
        remember(moves.cleaned, client, news.cleaned)
    moves.here.append(client)
    before = known(node, client)
    if before is not None and (before[1].at, before[1].node) > (news.at, news.node):
        neighbour = node.federation.neighbours[name]
        if before[0] != name and neighbour.outlet is not None:
            messages.say(node, neighbour, before[1])
        return
    if before is None or (before[1].at, before[1].node) != (news.at, news.node):
        remember(moves.newest, client, (name, news))
        for neighbour in linked(node, entry, but=name).values():
            messages.say(node, neighbour, news)


def homes(node: Node, entity: str) -> tuple[str, ...]:
    """Return the nodes among which the session of an entity follows it."""
    entry = node.ensemble.entry(node.name, entity)
    return () if entry is None else entry.homes


def linked(node: Node, entry: ClientEntry, but: str = "") -> dict[str, Session]:
    """Return the neighbours that a client is listed for too and that are connected now."""
    return {
        name: session
        for name, session in node.federation.neighbours.items()
        if name in entry.homes and name != but and session.outlet is not None
    }


def is_leaving(session: Session) -> bool:
    """Return True if a session is being handed over to another node."""
    moving = session.connection.moving
    return moving is not None and not moving.is_arriving


def remember(known: dict[str, V], client: str, value: V) -> None:
    """Remember something about a client, the newest of a bounded number."""
    known.pop(client, None)
    known[client] = value
    while len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
