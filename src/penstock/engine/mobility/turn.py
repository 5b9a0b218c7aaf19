"""A node's turn for sessions that change their node: what neighbours have said about them, one after the other."""

from penstock.engine.mobility import arrival, departure, messages, newest, receive, search
from penstock.engine.mobility.state import Absent, Ask, Handed, Leaving, Newest
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
    for client in list(moves.leaving):
        _let_go(node, client, now)
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
            arrival.take(node, neighbour, message, now)
        elif isinstance(message, Newest):
            newest.hear(node, name, message)
        elif isinstance(message, Leaving):
            moves.ready.setdefault(name, {})[message.client] = None
    here, moves.here = moves.here, []
    for client in dict.fromkeys(here):
        _go_further(node, client, now)
    search.expire(node, now)
    if not node.federation.news:
        for name in list(moves.ready):
            if name in node.federation.neighbours:
                messages.tell_ready(node, node.federation.neighbours[name])


def _begin_link(node: Node, name: str) -> None:
    """Tell a node that is linked again where clients are, and which sessions wait to go there."""
    neighbour = node.federation.neighbours.get(name)
    if neighbour is None or neighbour.outlet is None:
        return
    newest.tell_all(node, neighbour)
    for client in node.federation.moves.leaving:
        session = node.sessions.get(client)
        moving = None if session is None else session.connection.moving
        if moving is not None and moving.neighbour == name:
            messages.say(node, neighbour, Leaving(client))


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
    elif session is None:
        search.pass_on(node, name, ask, entry, now)
    elif not _may_have(session, ask):
        search.answer_absent(node, name, ask.client)
    elif ask.at < session.connection.began:
        search.answer_absent(node, name, ask.client, is_elsewhere=True)  # its client has come here since
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


def _may_have(session: Session, ask: Ask | Newest) -> bool:
    """Return True if a session is of the client that has connected to another node, and it may have it there."""
    if session.place.entity != ask.entity or session.subject.user != ask.user:
        return False
    return session.trust.bound.issubset(ask.proven)


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


def _go_further(node: Node, client: str, now: float) -> None:
    """Hand a whole session on: to the neighbour that has asked for it before, or to where its client is by now."""
    moves, session = node.federation.moves, node.sessions.get(client)
    if session is None or session.connection.moving is not None:
        return
    if session.connection.began < moves.cleaned.get(client, 0.0):
        left = _disconnected(node, session, now)
        if left is not None:
            left.connection.will = None
            lifecycle.end(node, left, now)
        return
    name, ask = moves.askers.pop(client, None) or moves.newest.get(client) or ("", None)
    neighbour = node.federation.neighbours.get(name)
    if ask is None or neighbour is None:
        return
    is_asked = isinstance(ask, Ask)
    is_due = neighbour.outlet is not None if is_asked else session.connection.began < ask.at
    left = None
    if is_due and neighbour.outlet is not None and _may_have(session, ask):
        left = _disconnected(node, session, now)
    if left is not None:
        departure.depart(node, left, neighbour, ask, now)
    elif is_asked:
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
        receive.end_move(node, session, moving)
        lifecycle.schedule(node, session)
    else:
        departure.move_out(node, session, neighbour, now)
