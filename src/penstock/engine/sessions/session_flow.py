"""Sending in later turns: to a connection that takes bytes again, or more than one turn can send."""

from penstock.engine.events import entrances
from penstock.engine.federation import overlay
from penstock.engine.node import Node
from penstock.engine.sessions import window
from penstock.engine.sessions.session import Session
from penstock.engine.trust import token_exchange


def unblock(node: Node, session: Session, now: float) -> None:
    """Resume sending to a connection that takes bytes again."""
    session.unblock()
    if session.buffer:
        node.dirty.append(session)
    _continue(node, session, now)


def take_turn(node: Node, now: float) -> None:
    """Between two rounds of input: go on with what was too much for one round."""
    federation, sessions = node.federation, node.sessions
    if federation.neighbours and federation.news:
        overlay.refresh(node, now)
    ratings = node.trust.ratings
    if ratings is not None and (ratings.is_stale or ratings.is_changed):
        token_exchange.turn(node, now)
    if node.statements.made:
        entrances.publish_made(node, now)
    if sessions.replaying or sessions.lagging:
        for session in sessions.take_unfinished():
            if session.outlet is None:
                continue
            if session.connection.held:
                sessions.lagging[session.id] = session
            else:
                _continue(node, session, now)


def _continue(node: Node, session: Session, now: float) -> None:
    window.pump(node, session, now)
    entrances.replay(node, session, now)
