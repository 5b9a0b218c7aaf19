"""Two neighbours give each other tokens to subscribe with, and show them (trust §II-B)."""

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust.announcements import Announcement, deny, tell, verify
from penstock.engine.trust.state import TokenLink
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.token import Party

REGISTER_SECONDS = 10.0
"""The time that a neighbour may take to show the token that it was given."""


def register(node: Node, session: Session, now: float) -> None:
    """Give the neighbour a token to subscribe with."""
    assert node.trust.tokens is not None
    filters = node.trust.tokens.settings.shared(node.name, session.neighbour or "")
    token = node.trust.tokens.issue(Party("node", session.neighbour or ""), frozenset(), filters, now)
    tell(node, session, Announcement(gives=token.text.decode()))


def given(node: Node, session: Session, text: str, now: float) -> None:
    """Keep and show the token with which a neighbour has registered this node."""
    verified = verify(node, text.encode(), now)
    name = session.neighbour or ""
    if isinstance(verified, TokenError):
        deny(node, session, f"what `{name}` gives to subscribe with: {verified}")
        return
    claims = verified.token.claims
    if claims.issuer != name or claims.subject != Party("node", node.name):
        deny(node, session, f"what `{name}` gives is `{claims.issuer}`'s for `{claims.subject}`")
        return
    assert node.trust.tokens is not None
    # With the node's own signature: knowing the link's secret is not enough to register.
    tell(node, session, Announcement(shows=node.trust.tokens.signed(verified.token).text.decode()))


def shown(node: Node, session: Session, link: TokenLink, text: bytes, now: float) -> None:
    """Check the token that a neighbour shows: from now on events go to it."""
    verified = verify(node, text, now)
    name = session.neighbour or ""
    if isinstance(verified, TokenError):
        why = str(verified)
    elif verified.token.claims.issuer != node.name or verified.token.claims.subject != Party("node", name):
        why = f"it is `{verified.token.claims.issuer}`'s for `{verified.token.claims.subject}`"
    elif name not in verified.signers:
        why = f"`{name}` has not signed it"
    else:
        link.registered = verified.end
        if not link.is_registered:
            link.is_registered = True
            node.plans.forget_all()
            node.sessions.go_on(session)
        return
    deny(node, session, f"what `{name}` shows to subscribe with: {why}")
