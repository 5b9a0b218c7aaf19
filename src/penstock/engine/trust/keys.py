"""A node takes its keys: at the start, and when they or the domain may have changed."""

from collections import deque

from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.session import NEVER, Session
from penstock.engine.trust import announcements, client_tokens, token_exchange
from penstock.engine.trust.announcements import Announcement
from penstock.engine.trust.state import Ratings, TokenLink
from penstock.engine.trust.tokens import Keys, Tokens

UNUSED_KEY = "signing key not in use"
"""The notice that nobody accepts what the node signs."""


def hold(node: Node, keys: Keys | None, now: float) -> None:
    """Take these keys, with what the domain says of tokens and trust. Before the store is loaded, and at a reload."""
    node.trust.keys = keys
    settings = node.ensemble.tokens
    # `join` takes over what is known: now, or when a later domain has tokens and trust again.
    node.trust.stored_tokens += node.trust.tokens.known.values() if node.trust.tokens is not None else ()
    node.trust.stored_evidence |= node.trust.ratings.evidence if node.trust.ratings is not None else {}
    if settings is None or keys is None or node.runtime.make_nonce is None:
        node.trust.tokens = node.trust.ratings = None
    else:
        node.trust.tokens = Tokens(node.name, node.ensemble.domain, settings, keys, node.runtime.make_nonce)
        node.trust.ratings = _renewed(node, node.trust.ratings)
        node.ledger.token(node.trust.tokens.renew_own(now))
        unused = keys.why_unused(node.name, now)
        if unused:
            node.notice(UNUSED_KEY, None, "", unused)
    for session in list(node.sessions.values()):
        if session.trust.token is not None:
            client_tokens.check_again(node, session, now)
        session.plans = session.edited_plans = None
    join(node, now)
    node.plans.forget_all()


def _renewed(node: Node, before: Ratings | None) -> Ratings | None:
    """Return the ratings by the domain as it is now, with the evidence that there is."""
    settings = node.ensemble.trust
    if settings is None:
        return None
    ratings = Ratings(node.name, len(node.ensemble.nodes), settings, node.ensemble.thresholds[node.name])
    if before is not None:
        ratings.evidence, ratings.counts = before.evidence, before.counts
        if ratings.table is not None and before.table is not None:
            ratings.table.resume(before.table)
    return ratings


def join(node: Node, now: float) -> None:
    """Give the sessions of neighbours what tokens need, or take it away."""
    for session in node.federation.neighbours.values():
        _prepare(node, session, now)
    for session in node.sessions.values():
        if session.trust.token is not None and session.trust.token.end == NEVER:  # it is of the store
            client_tokens.check_again(node, session, now)
        session.rights = session_rights.rights_for(node, session)
    if node.trust.tokens is not None:
        for token in node.trust.stored_tokens:
            node.trust.tokens.keep(token)
        node.trust.stored_tokens.clear()
        node.trust.tokens.time_passed(now)
    if node.trust.ratings is not None:
        node.trust.ratings.evidence.update(node.trust.stored_evidence)
        node.trust.stored_evidence = {}


def _prepare(node: Node, session: Session, now: float) -> None:
    if node.trust.tokens is None or session.neighbour not in node.ensemble.nodes:
        session.trust.tokens = None
        return
    trust = node.ensemble.trust
    length = trust.feedback.history if trust is not None and trust.feedback is not None else 0
    if session.trust.tokens is None:
        session.trust.tokens = TokenLink()
        if session.outlet is not None:
            token_exchange.begin(node, session, now)
            # It has had events before: the link does not rest while it registers.
            session.trust.tokens.is_registered = True
    link = session.trust.tokens
    link.history = deque(link.history or (), length) if length else None
    for digest, heard in list(link.heard.items()):
        text = link.refused.get(digest) if isinstance(heard, Exception) else heard.token.text
        if text is not None:
            verified = link.heard[digest] = announcements.verify(node, text, now)
            if isinstance(verified, Exception):
                link.refused[digest] = text
    link.forget()
    if node.trust.ratings is not None:
        node.trust.ratings.is_stale = node.trust.ratings.is_changed = True
        if node.trust.ratings.table is not None and session.outlet is not None:
            announcements.tell(node, session, Announcement(again=True))  # what it has told was for the table before
