"""Tokens that clients show: when they connect, and again before the old one ends (trust §II-A)."""

from typing import NamedTuple

from penstock.domain.compile.entries import ClientEntry
from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.session import Session
from penstock.engine.stages.admit import Door
from penstock.model.subject import Subject
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.revocation import CARRIED
from penstock.policy.tokens.token import Party, Token
from penstock.policy.tokens.verification import Verified
from penstock.wire.packet import Connect
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason

METHOD = "penstock-token"
"""The authentication method of MQTT 5 by which a token is shown; its data is the token."""
TOLD = Properties(auth_method=METHOD)
"""The answer to a client whose token is accepted."""


class TokenHolder(NamedTuple):
    """A token that a client has shown, and who it is by it."""

    subject: Subject
    token: Verified


def text_of(node: Node, packet: Connect) -> bytes | None:
    """Return the token in a CONNECT: by its method, or a password that is a JSON object; None if there is none."""
    if node.trust.tokens is None:
        return None
    if packet.properties.auth_method == METHOD:
        return packet.properties.auth_data or b""
    return packet.password if packet.password is not None and packet.password[:1] == b"{" else None


def look(node: Node, packet: Connect, door: Door, text: bytes, now: float) -> TokenHolder | str:
    """Return the subject that shows a token, or why the token does not count."""
    verified = verify(node, text, now)
    if isinstance(verified, str):
        return verified
    holder = verified.token.claims.subject
    user = node.ensemble.user_of(holder.name)
    # Before MQTT 5 a password needs a user name; an empty one says nothing.
    if packet.username and packet.username not in (user, holder.name):  # it would have the rights of another user
        return f"token: wrong holder: it is `{holder}`'s, and the user name is `{packet.username:.80}`"
    user = door.certificate_user or user
    return TokenHolder(Subject(packet.client_id, user, door.address, door.listener, door.certificate_user), verified)


def verify(node: Node, text: bytes, now: float) -> Verified | str:
    """Return a token that a client may show here, or why it may not."""
    assert node.trust.tokens is not None
    try:
        verified = node.trust.tokens.verifier.verify(text, now)
    except TokenError as error:
        return f"token: {error}"
    if verified.token.claims.id.startswith(CARRIED):
        return "token: it is one that goes with events, and lets nobody in"
    issuer, issuers = verified.token.claims.issuer, node.trust.tokens.settings.issuers
    if issuer != node.name and issuer not in issuers:
        return f"token: issued by `{issuer}`, and clients of this node need one of `{node.name}`"
    if verified.token.claims.subject.kind != "client":
        return f"token: it is `{verified.token.claims.subject}`'s, and this is a client"
    return verified


def is_holder(token: Verified, subject: Subject, entry: ClientEntry) -> bool:
    """Return True if a token is the client's own: that of its entity or, if nobody lists it, of its user."""
    return token.token.claims.subject == Party("client", entry.name if entry.listed else subject.user or "")


def not_holder(token: Verified, entry: ClientEntry) -> str:
    return f"token: wrong holder: it is `{token.token.claims.subject}`'s, and `client:{entry.name}` shows it"


def attach(node: Node, session: Session, token: Verified | None) -> None:
    """Open the session with this token, or without."""
    session.trust.token = token
    if token is not None and node.trust.tokens is not None:
        node.trust.tokens.ends(session.id, token)
        carry(node, session)
    session.rights = session_rights.rights_for(node, session)


def carry(node: Node, session: Session) -> Token | None:
    """Return the token that goes with what a client publishes; None if it has shown none."""
    if session.trust.token is None or node.trust.tokens is None:
        return None
    carried = node.trust.tokens.carried(session.trust.token.token)
    if node.trust.tokens.keep(carried):
        node.ledger.token(carried)
    return carried


def renew(node: Node, session: Session, text: bytes, now: float) -> str:
    """Take another token that a client shows on its connection; return why it is refused, or empty."""
    verified = verify(node, text, now)
    if isinstance(verified, str):
        return verified
    entry = session.place.entry
    if entry is None or not is_holder(verified, session.subject, entry):
        return "token: wrong holder" if entry is None else not_holder(verified, entry)
    attach(node, session, verified)
    node.later.begin_anew(session, now)
    session.plans = session.edited_plans = None
    if session.connection.is_stored:
        node.ledger.session(session)
    node.plans.forget_all()
    return ""


def expire(node: Node, now: float) -> None:
    """End the connections of clients whose tokens have ended."""
    assert node.trust.tokens is not None
    ended = node.trust.tokens.over(now)
    if ended:
        for session in [other for other in node.sessions.values() if other.id in ended]:
            if session.trust.token is not None and session.trust.token.token.digest == ended[session.id]:
                _end(node, session, "the token has expired")


def check_again(node: Node, session: Session, now: float) -> None:
    """Check the session's token again after a change of keys or revocations."""
    assert session.trust.token is not None
    if node.trust.tokens is None:
        session.trust.token = None
        return
    verified = verify(node, session.trust.token.token.text, now)
    if isinstance(verified, Verified):
        session.trust.token = verified
        node.trust.tokens.ends(session.id, verified)
    else:
        _end(node, session, verified)


def _end(node: Node, session: Session, why: str) -> None:
    """End the right to publish, the will included. An absent client is asked for a token when it comes back."""
    if session.connection.will is not None:
        session.connection.will = None
        if session.connection.is_stored:
            node.ledger.session(session)
    if session.outlet is not None:
        node.deny("token ended", session, "", why)
        session.outlet.disconnect(Reason.NOT_AUTHORIZED, why)
