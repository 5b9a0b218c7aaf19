"""Authorisation tokens at a node: its keys, the tokens that it issues and knows, and what it has told of them by links.

A client shows its token when it connects (`client_tokens.py`). What it publishes goes to neighbours with that token;
what a node says itself, or lets in without a token, with one of the node's own (`token_exchange.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from penstock.domain.schema.tokens import TokenSettings
from penstock.model.verdict import Effect, Verdict
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.keys import KeySet, SigningKey
from penstock.policy.tokens.revocation import NOTHING, Revoked, carried_id, why_unused
from penstock.policy.tokens.rights import Filters
from penstock.policy.tokens.token import Claims, Party, Token, issue, sign
from penstock.policy.tokens.verification import Verified, Verifier

OWN = "$node/"
"""Before the name of a node, as the holder of the token that it issues for what it says itself."""
MAX_TOKENS = 20_000
"""Tokens that may go on with events; the oldest are forgotten first."""
SKEW = 60
"""Seconds by which the clock of a node that verifies a token may be behind that of the one that issues it."""
BETWEEN_NODES = frozenset({"$penstock/#", "$sparkplug/#"})
"""Topics on which nodes tell each other things, whatever they let each other have."""
EVERYTHING = BETWEEN_NODES | {"#"}


class Keys(NamedTuple):
    """The key that a node signs with, and the keys that it verifies others' signatures with."""

    signing: SigningKey
    public: KeySet
    revoked: Revoked = NOTHING

    def why_unused(self, node: str, now: float) -> str:
        """Return why the node's signature counts nowhere; empty if it counts."""
        return why_unused(node, self.signing.key_id, self.public, self.revoked, now)


class TokenHandling(NamedTuple):
    """The handling of events with one token that come by one link."""

    came: str
    """The digest of the token that they come with."""
    goes: str = ""
    """And of the one that they go on with: signed by this node too, if it introduces who sent it."""
    publish: frozenset[str] = frozenset()
    refusal: Verdict | None = None
    reason: str = ""
    """The reason why it is accepted."""
    until: float = inf

    def judge(self, topic: str) -> Verdict | None:
        """Return the refusal of admission for an event on a topic, if there is one."""
        if self.refusal is not None:
            return self.refusal
        if not Filters(self.publish).match(topic):
            reason = f"the token that came with it has no filter to publish that matches `{topic}`"
            return Verdict("admit", Effect.SUPPRESS, "token", reason)
        return None


class Tokens:
    """The tokens of one node."""

    def __init__(self, node: str, domain: str, settings: TokenSettings, keys: Keys, nonce: Callable[[], bytes]) -> None:
        self.node = node
        self.settings = settings
        self.keys = keys
        self.domain = Party("domain", domain)
        self.verifier = Verifier(keys.public, (Party("node", node), self.domain), keys.revoked, MAX_TOKENS)
        self.known: dict[str, Token] = {}
        """Tokens that may go on with events, by digest."""
        self.own = ""
        """The digest of the node's own, and in `own_due` when it is renewed."""
        self.own_due = 0.0
        self._signed: dict[str, str] = {}
        """By digest, the same token with this node's signature too."""
        self._carried: dict[str, Token] = {}
        """By what a token says that a client has shown, the one that goes with its events."""
        self._nonce = nonce
        self._due: list[tuple[float, int, str]] = []
        """A heap of the ends of sessions' tokens, with the session's number and the token's digest."""
        self._ends: list[tuple[float, str]] = []
        """A heap of the ends of known tokens; ended ones are in `_ended`, and `_evicted` made room."""
        self._ended: set[str] = set()
        self._evicted: list[str] = []

    def issue(
        self,
        holder: Party,
        publish: frozenset[str],
        subscribe: frozenset[str],
        now: float,
        seconds: float | None = None,
        is_carried: bool = False,
    ) -> Token:
        """Issue a token for a client or a neighbour; raise `TokenError`. `is_carried`: it only goes with events."""
        begins, id = int(now), self._nonce().hex()[:32]
        claims = Claims(
            issuer=self.node,
            subject=holder,
            audience=frozenset({self.domain}),
            publish=publish,
            subscribe=subscribe,
            issued=begins,
            not_before=max(0, begins - SKEW),
            expiry=begins + max(1, int(seconds or self.settings.lifetime)),
            id=carried_id(id) if is_carried else id,
        )
        return issue(claims, self.keys.signing)

    def carried(self, shown: Token) -> Token:
        """Return the token that goes with a client's events: with the shown one, neighbours could connect as it."""
        known = self._carried.get(shown.claims.digest)
        if known is None:
            while len(self._carried) >= MAX_TOKENS:
                del self._carried[next(iter(self._carried))]
            id = carried_id(shown.claims.id)
            claims = replace(shown.claims, issuer=self.node, subscribe=frozenset(), id=id)
            known = self._carried[shown.claims.digest] = issue(claims, self.keys.signing)
        return known

    def renew_own(self, now: float) -> Token:
        """Make the token for what the node says itself."""
        token = self.issue(Party("client", OWN + self.node), EVERYTHING, frozenset(), now, is_carried=True)
        self.keep(token)
        self.own, self.own_due = token.digest, now + self.settings.lifetime / 2
        return token

    def keep(self, token: Token) -> bool:
        """Have a token at hand for neighbours; whether it is new."""
        if token.digest in self.known:
            return False
        while len(self.known) >= MAX_TOKENS:
            gone = next(digest for digest in self.known if digest != self.own)
            self._forget(gone)
            self._evicted.append(gone)
        self.known[token.digest] = token
        heappush(self._ends, (token.claims.expiry, token.digest))
        return True

    def named(self, digest: str) -> str:
        """Return the token with which an event goes on that came with this one: the same while it is valid."""
        # For events that are kept longer the node vouches itself, unless the token was revoked.
        return self.own if not digest or (digest in self._ended and not self.is_revoked(digest)) else digest

    def time_passed(self, now: float) -> None:
        """See which tokens have ended."""
        while self._ends and self._ends[0][0] <= now:
            _, digest = heappop(self._ends)
            if digest in self.known:
                self._ended.add(digest)

    def drop_ended(self, used: set[str]) -> list[str]:
        """Forget tokens that have ended and that nothing has which is kept; the digests of all that are forgotten."""
        gone = [digest for digest in self._ended if digest not in used]
        for digest in gone:
            self._forget(digest)
        gone, self._evicted = [*self._evicted, *gone], []
        return gone

    def _forget(self, digest: str) -> None:
        del self.known[digest]
        self._signed.pop(digest, None)
        self._ended.discard(digest)

    def is_revoked(self, digest: str) -> bool:
        """Return True if an event's token, or its issuer's key, is revoked."""
        token = self.known.get(digest)
        if token is None:
            return False
        keys = {signature.key_id for signature in token.signatures if signature.node == token.claims.issuer}
        return self.keys.revoked.has(token.claims.id) or not keys.isdisjoint(self.keys.revoked.keys)

    def signed(self, token: Token) -> Token:
        """Return the token with this node's signature, made once."""
        if self.node in token.nodes:
            return token
        known = self.known.get(self._signed.get(token.digest, ""))
        if known is None:
            try:
                known = sign(token, self.node, self.keys.signing)
            except TokenError:  # it would be too long
                return token
            self._signed[token.digest] = known.digest
        return known

    def ends(self, session: int, token: Verified) -> None:
        """See to it when the token of the session with this number ends."""
        heappush(self._due, (token.end, session, token.token.digest))

    def over(self, now: float) -> dict[int, str]:
        """Yield the numbers of sessions whose tokens have ended, with the token."""
        ended: dict[int, str] = {}
        while self._due and self._due[0][0] <= now:
            _, number, digest = heappop(self._due)
            ended[number] = digest
        return ended
