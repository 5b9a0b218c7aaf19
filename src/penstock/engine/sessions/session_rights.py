"""The rights of clients to publish and read."""

from penstock.engine.federation import wants
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust.tokens import BETWEEN_NODES, EVERYTHING
from penstock.policy.access.acl import Rights
from penstock.policy.tokens.rights import NO_RIGHTS, TokenRights


def rights_of(node: Node, client_id: str, user: str | None) -> Rights | None:
    """Return what a client may publish and read by the access list; None: everything. A neighbour's events were
    admitted where they began.
    """
    acl = node.admission.acl
    return None if acl is None or wants.neighbour_in(client_id) is not None else acl.rights(client_id, user)


def rights_for(node: Node, session: Session) -> Rights | TokenRights | None:
    """Return what a session may publish and read: by the access list, and by the token that it has shown or been
    given.
    """
    rights, tokens = rights_of(node, session.client_id, session.subject.user), node.trust.tokens
    if tokens is None:
        return rights
    if session.trust.token is not None:
        claims = session.trust.token.token.claims
        return TokenRights(claims.publish, claims.subscribe, rights)
    if session.neighbour is not None and session.neighbour in node.ensemble.nodes:
        return TokenRights(EVERYTHING, tokens.settings.shared(node.name, session.neighbour) | BETWEEN_NODES)
    return NO_RIGHTS if tokens.settings.required and session.neighbour is None else rights
