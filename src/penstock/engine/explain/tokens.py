"""Tokens and trust, as explanations tell them: which token an event has, who has signed it, and what nodes make of it.

Neighbours are told nothing, and nothing is kept: signatures are made for the sake of the answer.
"""

from dataclasses import replace
from typing import NamedTuple

from penstock.engine.explain.arrival import Arrival, granted_rights, holder_of
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.trust import announcements, token_exchange
from penstock.engine.trust.tokens import OWN, TokenHandling
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.rights import NO_RIGHTS, Filters
from penstock.policy.tokens.token import Party, Token
from penstock.policy.tokens.verification import Verified


def no_token(node: Node, name: str) -> str:
    """Return the reason why a client without a token cannot be here; empty if it can."""
    settings = node.trust.tokens.settings if node.trust.tokens is not None else None
    if settings is None or not settings.required or settings.granted(name) is not None:
        return ""
    return f"`{name}` has no token, and `tokens.grants` gives it none"


class WeighedToken(NamedTuple):
    """A node's finding about the token that an event comes with."""

    passing: TokenHandling | None = None
    """Of a neighbour's."""
    goes: str = ""
    """The digest of the token that it goes on with; empty: the node vouches for it."""
    explanation: str = ""
    refusal: Verdict | None = None

    def admission(self, verdict: Verdict) -> Verdict:
        """Return the verdict of admission."""
        if self.refusal is not None:
            return self.refusal
        if self.passing is not None and verdict.effect is Effect.PASS:
            rule, reason = ("trust", self.passing.reason) if self.passing.reason else ("token", "")
            return Verdict("admit", Effect.PASS, rule, _joined(reason, self.explanation))
        if self.explanation and (verdict.effect is Effect.PASS or verdict.rule == "trust"):
            return verdict._replace(rule=verdict.rule or "token", reason=_joined(verdict.reason, self.explanation))
        return verdict


_NOTHING = WeighedToken()


def _refusal(reason: str) -> WeighedToken:
    return WeighedToken(refusal=Verdict("admit", Effect.SUPPRESS, "token", reason))


class CarriedTokens:
    """The tokens that one event has on its way."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._tokens: dict[str, Token] = {}

    def begin(self, start: Arrival) -> Arrival:
        """Return the event with the token that it has as it comes to its first node."""
        node, session = start.node, start.session or start.stand_in
        token = None
        if node.trust.tokens is not None and session is not None:
            is_neighbour = session.neighbour is not None
            token = _link_token(session, start.event.topic) if is_neighbour else self._shown(node, session)
        return replace(start, event=start.event._replace(token=self._keep(token)))

    def _shown(self, node: Node, session: Session) -> Token | None:
        assert node.trust.tokens is not None
        if session.trust.token is not None:
            return node.trust.tokens.carried(session.trust.token.token)
        granted = granted_rights(node, session)
        try:
            return granted and node.trust.tokens.issue(Party("client", holder_of(session)), *granted, self._now)
        except TokenError:  # more than a token can say
            return None

    def _keep(self, token: Token | None) -> str:
        if token is None:
            return ""
        self._tokens[token.digest] = token
        return token.digest

    def weigh(self, came: Arrival) -> WeighedToken:
        """Return the node's finding about the token; without tokens, nothing."""
        node, session, token = came.node, came.session, self._tokens.get(came.event.token)
        if node.trust.tokens is None:
            return _NOTHING
        if session is None or session.neighbour is None:
            return self._of_client(came, token)
        if session.trust.tokens is None:  # a foreign broker's: the node vouches
            return _NOTHING
        name = session.neighbour
        if token is None:
            return _refusal(f"`{name}` has told no token for `{came.event.topic}`")
        verified = announcements.verify(node, token.text, self._now)
        if isinstance(verified, TokenError):
            return _refusal(f"the token that came with it from `{name}`: {verified}")
        passing, goes = token_exchange.weigh(node, name, verified)
        return WeighedToken(passing, self._keep(goes), _signed(node, name, verified, goes))

    def _of_client(self, came: Arrival, token: Token | None) -> WeighedToken:
        if came.rights is NO_RIGHTS:
            name = came.link.source
            return _refusal(no_token(came.node, name) or f"`{name}` has shown no token")
        if token is None:
            return WeighedToken(explanation="it has shown no token, and the node vouches for it")
        is_shown = came.session is not None and came.session.trust.token is not None
        how = f"it has shown one of `{token.claims.issuer}`" if is_shown else "as `tokens.grants` says"
        return WeighedToken(goes=token.digest, explanation=how)

    def named(self, node: Node, event: Event) -> str:
        """Return the digest of the token with which an event leaves a node for another."""
        if node.trust.tokens is None:
            return event.token
        digest = node.trust.tokens.named(event.token)
        return digest if digest in self._tokens else self._keep(node.trust.tokens.known.get(digest))


def _link_token(session: Session, topic: str) -> Token | None:
    """Return the token that a neighbour's event on a topic would have: the one its events have now, or might have."""
    link = session.trust.tokens
    if link is None:
        return None
    bound = link.heard.get(link.bound_in.get(topic, ""))
    if isinstance(bound, Verified):
        return bound.token
    heard = (entry.token for entry in reversed(link.heard.values()) if isinstance(entry, Verified))
    return next((token for token in heard if Filters(token.claims.publish).match(topic)), None)


def _signed(node: Node, name: str, verified: Verified, goes: Token | None) -> str:
    """Return who has signed a token, the neighbour's rating, and whether the node signs it too."""
    holder = verified.token.claims.subject.name
    whose = f"`{holder.removeprefix(OWN)}`'s own" if holder.startswith(OWN) else f"`{holder}`'s"
    parts = [f"the token is {whose}, signed by {', '.join(f'`{signer}`' for signer in sorted(verified.signers))}"]
    rating = node.trust.ratings.held(name) if node.trust.ratings is not None else None
    if rating is not None:
        parts.append(f"`{name}` is rated {rating:.3g}")
    if goes is not None and rating is not None:
        signs = node.name in goes.nodes
        parts.append(f"`{node.name}` signs it" if signs else f"`{node.name}` does not sign it")
    return "; ".join(parts)


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
