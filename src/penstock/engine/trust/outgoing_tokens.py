"""Tokens with what goes to a neighbour: told once on a connection, then named by digest."""

from penstock.engine.events import user_properties
from penstock.engine.events.link_class import LinkClass
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust import announcements
from penstock.engine.trust.announcements import Announcement
from penstock.model.event import Event

MAX_BOUND_TOPICS = 10_000
"""Topics of one link whose events are bound to a token; of others each event says its own."""


def outgoing(node: Node, link: LinkClass) -> str:
    """Return the digest of the token with which events of a class of links go on."""
    assert node.trust.tokens is not None
    return link.token.goes if link.token is not None else node.trust.tokens.own


def bind(node: Node, session: Session, topic: str, digest: str) -> bool:
    """Return True if a topic's events may go to a neighbour unchanged, because it knows which token they have."""
    link = session.trust.tokens
    if link is None:
        return True
    bound = link.bound_out.get(topic)
    if bound == digest:
        return True
    assert node.trust.tokens is not None
    if session.outlet is None or not link.is_registered or len(link.bound_out) >= MAX_BOUND_TOPICS:
        return False
    if bound is not None and bound in node.trust.tokens.known:
        return False
    introduce(node, session, digest)
    link.bound_out[topic] = digest
    announcements.tell(node, session, Announcement(bind=(topic, digest)))
    return True


def tell_token(node: Node, session: Session, event: Event) -> bool:
    """Before an event goes to a neighbour: see to it that its token is known there. False: it must name it itself."""
    assert node.trust.tokens is not None
    digest = node.trust.tokens.named(event.token)
    if session.trust.tokens is not None and session.trust.tokens.bound_out.get(event.topic) == digest:
        return True
    introduce(node, session, digest)
    return bind(node, session, event.topic, digest)


def introduce(node: Node, session: Session, digest: str) -> None:
    """See to it that a neighbour has been told a token before it is named."""
    link = session.trust.tokens
    if link is None or not digest or digest in link.sent or node.trust.tokens is None:
        return
    token = node.trust.tokens.known.get(digest)
    if token is not None:
        link.sent.add(digest)
        announcements.tell(node, session, Announcement(token=token.text.decode()))


def with_token(node: Node, event: Event) -> Event:
    """Return the event as it goes to a neighbour, with the digest of its token."""
    assert node.trust.tokens is not None
    return user_properties.with_token(event, node.trust.tokens.named(event.token))
