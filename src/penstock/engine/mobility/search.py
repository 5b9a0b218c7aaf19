"""Looking for the session of a client at the other nodes that it is listed for.

A CONNECT waits for the answers of those neighbours among them that are linked now, but not longer than `PATIENCE`. Each
asks its own other neighbours among them: nodes are joined in a tree where clients may roam. A node that cannot be
reached now is asked when its link is up again; until then the client has a new session.
"""

from collections.abc import Iterable

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.mobility import messages, newest
from penstock.engine.mobility.state import Absent, Ask, MoveState, Search
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.subject import Subject

PATIENCE = 5.0
"""Seconds for which a CONNECT waits for a session of another node."""


def begin(
    node: Node, subject: Subject, entry: ClientEntry, is_clean: bool, proven: Iterable[str], now: float
) -> Search | None:
    """Look for the session of a client that connects; None if there is nothing to wait for."""
    moves, client = node.federation.moves, subject.client_id
    forget_asker(node, client)
    neighbours = newest.linked(node, entry)
    at = newest.stamp(node, client, now)
    ask = Ask(client, entry.name, subject.user, at, tuple(sorted(proven)))
    if is_clean:
        newest.remember(moves.cleaned, client, at)
        return None
    session = node.sessions.get(client)
    if session is not None and not newest.is_leaving(session):
        return None
    before = moves.searches.pop(client, None)
    if before is not None and before.abandon is not None:
        before.abandon()
    if not neighbours:
        return None
    search = moves.searches[client] = Search(ask, None, set(neighbours), now)
    search.subject = subject
    for neighbour in neighbours.values():
        messages.say(node, neighbour, ask)
    return search


def announced(node: Node, session: Session, name: str, now: float) -> None:
    """Note that a client which disconnects goes to another of its nodes, if it says so and that is a neighbour."""
    entry = session.place.entry
    if entry is not None and name in entry.homes and name in node.federation.neighbours:
        at = newest.stamp(node, session.client_id, now)
        ask = Ask(session.client_id, entry.name, session.subject.user, at, tuple(sorted(session.trust.bound)))
        newest.remember(node.federation.moves.askers, session.client_id, (name, ask))
        node.federation.moves.here.append(session.client_id)


def pass_on(node: Node, asker: str, ask: Ask, entry: ClientEntry, now: float) -> None:
    """Look for a session further on, for a neighbour."""
    moves = node.federation.moves
    remember_asker(node, asker, ask)
    others = newest.linked(node, entry, but=asker)
    if not others:
        answer_absent(node, asker, ask.client)
        return
    moves.searches[ask.client] = Search(ask, asker, set(others), now)
    for neighbour in others.values():
        messages.say(node, neighbour, ask)


def follow(node: Node, target: str, asker: str, ask: Ask, now: float) -> None:
    """Ask the node that a session is on its way to, behind the session, for a neighbour."""
    remember_asker(node, asker, ask)
    neighbour = node.federation.neighbours.get(target)
    if neighbour is not None:
        node.federation.moves.searches[ask.client] = Search(ask, asker, {target}, now)
        messages.say_in_turn(node, neighbour, ask, now)


def remember_asker(node: Node, asker: str, ask: Ask) -> None:
    """Remember which neighbour gets a session when it is here. Whoever waited for it before need not wait."""
    moves = node.federation.moves
    search, before = moves.searches.pop(ask.client, None), moves.askers.get(ask.client)
    if search is not None and search.abandon is not None:
        search.abandon()
    if before is not None and before[0] != asker:
        forget_asker(node, ask.client)
    newest.remember(moves.askers, ask.client, (asker, ask))


def forget_asker(node: Node, client: str) -> None:
    """Tell a neighbour that has asked for a session that its client is elsewhere."""
    before = node.federation.moves.askers.pop(client, None)
    if before is not None:
        answer_absent(node, before[0], client, is_elsewhere=True)


def answer_absent(node: Node, asker: str, client: str, is_elsewhere: bool = False) -> None:
    """Tell a neighbour that asks that there is no session."""
    neighbour = node.federation.neighbours.get(asker)
    if neighbour is not None and neighbour.outlet is not None:
        messages.say(node, neighbour, Absent(client, is_elsewhere))


def is_elsewhere(node: Node, client: str) -> None:
    """End a search whose client has connected to another node."""
    search = node.federation.moves.searches.pop(client, None)
    if search is not None and search.abandon is not None:
        search.abandon()
    elif search is not None and search.asker is not None:
        answer_absent(node, search.asker, client, is_elsewhere=True)


def answered(node: Node, client: str, neighbour: str, is_found: bool = False) -> None:
    """Note the answer of a neighbour; go on if it was the last one, or has the session."""
    search = node.federation.moves.searches.get(client)
    if search is None:
        return
    search.waiting.discard(neighbour)
    search.is_found |= is_found
    if not search.waiting or is_found:
        conclude(node, client)


def conclude(node: Node, client: str) -> None:
    """End a search with what is here now."""
    search = node.federation.moves.searches.pop(client)
    if search.conclude is not None:
        search.conclude()
    elif search.asker is not None and not search.is_found:
        answer_absent(node, search.asker, client)


def end_link(node: Node, name: str) -> None:
    """Expect no more answers from a neighbour."""
    moves: MoveState = node.federation.moves
    for client, search in list(moves.searches.items()):
        if search.asker == name:
            del moves.searches[client]
        elif name in search.waiting:
            answered(node, client, name)
    for client in [client for client, (asker, _) in moves.askers.items() if asker == name]:
        del moves.askers[client]  # it asks again


def expire(node: Node, now: float) -> None:
    """End searches that take too long."""
    for client, search in list(node.federation.moves.searches.items()):
        if now - search.since >= PATIENCE:
            conclude(node, client)
