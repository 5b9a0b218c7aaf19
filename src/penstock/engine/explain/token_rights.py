"""The rights of a client by the token that it has shown or would be granted."""

from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.session import Session
from penstock.policy.access.acl import Rights
from penstock.policy.tokens.rights import TokenRights


def rights_of(node: Node, session: Session) -> Rights | TokenRights | None:
    """Return the rights of a client: by the token it has shown or, if it is not here, by those it would be granted."""
    granted = _granted(node, session)
    if granted is None:
        return session.rights if session.rights is not None else session_rights.rights_for(node, session)
    return TokenRights(*granted, session_rights.rights_of(node, session.client_id, session.subject.user))


def _granted(node: Node, session: Session) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the rights that an absent client without a token would be granted; None if tokens do not decide."""
    is_here = session.outlet is not None or session.trust.token is not None or session.neighbour is not None
    return None if node.trust.tokens is None or is_here else node.trust.tokens.settings.granted(_holder(session))


def _holder(session: Session) -> str:
    entry = session.place.entry
    return entry.name if entry is not None and entry.listed else session.subject.user or session.client_id
