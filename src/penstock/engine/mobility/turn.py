"""A node's turn for sessions that change their node: what neighbours have said about them, one after the other."""

from penstock.engine.mobility import arrival, departure, messages, receive, search
from penstock.engine.mobility.state import Absent, Ask, Handed, Leaving
from penstock.engine.node import Node
from penstock.engine.sessions import lifecycle
from penstock.engine.sessions.session import Session
from penstock.wire.reason import Reason


def take_turn(node: Node, now: float) -> None:
    """Handle what has come, and go on with what is under way."""
    moves = node.federation.moves
    links, moves.links = moves.links, []
    for name, is_up in links:
        if is_up:
            _begin_link(node, name)
        else:
            _end_link(node, name)
    inbox, moves.inbox = moves.inbox, []
    for name, message in inbox:
        neighbour = node.federation.neighbours.get(name)
        if neighbour is None:
            continue
        if isinstance(message, Ask):
            _answer(node, name, message, now)
        elif isinstance(message, Absent):
            if message.is_elsewhere:
                search.is_elsewhere(node, message.client)
            else:
                search.answered(node, message.client, name)
        elif isinstance(message, Handed):
            if _comes_from_another(node, message.client, name):
                moves.inbox.append((name, message))
            else:
                arrival.take(node, neighbour, message, now)
        elif isinstance(message, Leaving):
            moves.ready.setdefault(name, {})[message.client] = None
    here, moves.here = moves.here, []
    for client in here:
        if client in moves.askers:
            _go_further(node, client, *moves.askers[client], now)
    joined, moves.joined = moves.joined, []
    for client in joined:
        for name in node.federation.neighbours:
            _ask_late(node, name, client)
    for client in list(moves.leaving):
        _let_go(node, client, now)
    search.expire(node, now)
    if not node.federation.news:
        for name in list(moves.ready):
            if name in node.federation.neighbours:
                messages.tell_ready(node, node.federation.neighbours[name])


def _comes_from_another(node: Node, client: str, name: str) -> bool:
    """Return True if a session is on its way here from one node while another hands its part over: one at a time."""
    session = node.sessions.get(client)
    moving = None if session is None else session.connection.moving
    return moving is not None and moving.is_arriving and moving.neighbour != name


def _begin_link(node: Node, name: str) -> None:
    """Ask for what clients that are here may have left at a node that was not linked; tell it what waits for it."""
    neighbour = node.federation.neighbours.get(name)
    if neighbour is None or neighbour.outlet is None:
        return
    for session in node.sessions.values():
        entry, moving = session.place.entry, session.connection.moving
        if session.neighbour is not None or entry is None or name not in entry.homes:
            continue
        if moving is None:
            _ask_late(node, name, session.client_id)
        elif not moving.is_arriving and moving.neighbour == name:
            messages.say(node, neighbour, Leaving(session.client_id))


def _ask_late(node: Node, name: str, client: str) -> None:
    """Ask a neighbour for what a client that is served here has left there or beyond."""
    session, neighbour = node.sessions.get(client), node.federation.neighbours.get(name)
    entry = None if session is None else session.place.entry
    if session is None or neighbour is None or neighbour.outlet is None or entry is None or name not in entry.homes:
        return
    if session.connection.moving is None:
        who = (client, entry.name, session.subject.user, session.connection.began)
        proven = tuple(sorted(session.trust.bound))
        messages.say(node, neighbour, Ask(*who, proven, is_late=True, is_clean=session.connection.is_clean))


def _end_link(node: Node, name: str) -> None:
    """Let clients whose sessions are on their way here have what reaches them directly."""
    search.end_link(node, name)
    for session in node.sessions.values():
        moving = session.connection.moving
        if moving is not None and moving.is_arriving and moving.neighbour == name:
            receive.let_go(node, session)


def _answer(node: Node, name: str, ask: Ask, now: float) -> None:
    """Hand the session of a client that has connected elsewhere over, or look for it further on."""
    session = node.sessions.get(ask.client)
    entry = node.ensemble.entry(node.name, ask.entity)
    if entry is None or name not in entry.homes:
        search.answer_absent(node, name, ask.client)  # the domain does not let it move between the two
    elif ask.is_clean:
        for neighbour in search.linked(node, entry, but=name).values():
            messages.say(node, neighbour, ask)
        if session is not None and _may_have(node, name, session, ask) and not search.is_leaving(session):
            session = _disconnected(node, session, now)
            if session is not None:
                session.connection.will = None
                lifecycle.end(node, session, now)
    elif session is None and ask.is_late and ask.client in node.federation.moves.searches:
        search.answer_absent(node, name, ask.client)
        search.ask_too(node, ask.client, name)
    elif session is None and ask.is_late and ask.client in node.federation.moves.askers:
        search.answer_absent(node, name, ask.client)  # whoever asks for it now is newer
    elif session is None:
        search.pass_on(node, name, ask, entry, now)
    elif not _may_have(node, name, session, ask):
        search.answer_absent(node, name, ask.client)
        if ask.is_late:  # the session here is the newer one
            search.expect_more(node, ask.client)
    elif session.connection.moving is not None:
        moving = session.connection.moving
        if moving.is_arriving:
            search.remember_asker(node, name, ask)
        elif moving.neighbour != name:  # else it is on its way
            search.follow(node, moving.neighbour, name, ask, now)
    else:
        session = _disconnected(node, session, now)
        if session is None:
            search.pass_on(node, name, ask, entry, now)
        else:
            departure.depart(node, session, node.federation.neighbours[name], ask, now)


def _may_have(node: Node, name: str, session: Session, ask: Ask) -> bool:
    """Return True if a session is of the client that a neighbour asks for, and not newer than its connection there."""
    if session.place.entity != ask.entity or session.subject.user != ask.user:
        return False
    if not session.trust.bound.issubset(ask.proven):
        return False
    return not ask.is_late or (session.connection.began, node.name) < (ask.at, name)


def _disconnected(node: Node, session: Session, now: float) -> Session | None:
    """Return the session without its connection, which its client has left; None if it ends with that."""
    if session.outlet is not None:
        outlet = session.outlet
        outlet.disconnect(Reason.SESSION_TAKEN_OVER, "the client has connected to another node")  # [MQTT-3.1.4-3]
        lifecycle.lost(node, session, outlet, now)
    if node.sessions.get(session.client_id) is not session:
        return None
    if not lifecycle.lives(session, now):
        lifecycle.end(node, session, now)
        return None
    return session


def _go_further(node: Node, client: str, name: str, ask: Ask, now: float) -> None:
    """Hand a session that has come here on to the neighbour that has asked for it before."""
    moves, session = node.federation.moves, node.sessions.get(client)
    neighbour = node.federation.neighbours.get(name)
    if session is None or session.connection.moving is not None or neighbour is None:
        return
    del moves.askers[client]
    left = _disconnected(node, session, now) if _may_have(node, name, session, ask) else None
    if left is not None:
        departure.depart(node, left, neighbour, ask, now)
    else:
        search.answer_absent(node, name, client)


def _let_go(node: Node, client: str, now: float) -> None:
    """Go on with a session that leaves; one whose node is no longer a neighbour stays."""
    session = node.sessions.get(client)
    moving = None if session is None else session.connection.moving
    if session is None or moving is None:
        node.federation.moves.leaving.discard(client)
        return
    neighbour = node.federation.neighbours.get(moving.neighbour)
    if neighbour is None:
        session.connection.moving = None
        node.ledger.moving(session)
        lifecycle.schedule(node, session)
    else:
        departure.move_out(node, session, neighbour, now)
