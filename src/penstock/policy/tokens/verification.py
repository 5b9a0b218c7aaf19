"""The verification of a token: whether it counts here and now, and which of its signatures do.

The issuer's signature must be good, or the whole token is refused. Another node's signature with a key that is not
known here, is not in use or is revoked just does not count: nodes need not know each other's keys. One that a known key
disproves is evidence of forgery, and the token is refused.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from penstock.policy.tokens.errors import TokenError, TokenFault
from penstock.policy.tokens.keys import KeySet
from penstock.policy.tokens.revocation import NOTHING, Revoked
from penstock.policy.tokens.token import Party, Signature, Token, parse_token, signing_input


@dataclass(frozen=True, slots=True)
class CheckedSignature:
    """A signature and its fault, if it does not count."""

    node: str
    key_id: str
    reason: TokenFault | None

    @property
    def is_good(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Verified:
    """A token that counts, from `start` until before `end`."""

    token: Token
    signatures: tuple[CheckedSignature, ...]
    start: float
    end: float

    @property
    def signers(self) -> frozenset[str]:
        """The nodes whose signatures are good: S."""
        return frozenset(signature.node for signature in self.signatures if signature.is_good)

    def counts(self, now: float) -> bool:
        """Return whether the result still holds."""
        return self.start <= now < self.end


def verify(
    token: Token,
    keys: KeySet,
    now: float,
    audience: Collection[Party],
    revoked: Revoked = NOTHING,
    holder: Party | None = None,
) -> Verified:
    """Accept the token, or raise `TokenError` with the reason.

    `audience` is who we are: our node, and its domain. `holder` is who presents the token, if it is the one that should
    hold it: none when a neighbour passes it on with a message.
    """
    claims = token.claims
    if claims.audience.isdisjoint(audience):
        raise TokenError(TokenFault.WRONG_AUDIENCE, f"it is for {_listed(claims.audience)}, not {_listed(audience)}")
    check_holder(token, holder)
    if now < claims.not_before:
        raise TokenError(TokenFault.NOT_YET_VALID, f"it counts in `{claims.not_before - now:.0f}` s")
    if now >= claims.expiry:
        raise TokenError(TokenFault.EXPIRED, f"`{now - claims.expiry:.0f}` s ago")
    if revoked.has(claims.id):
        raise TokenError(TokenFault.REVOKED, f"token `{claims.id}`")
    if claims.issuer not in token.nodes:
        raise TokenError(TokenFault.ISSUER_MISSING, f"`{claims.issuer}` has not signed")
    checked: list[CheckedSignature] = []
    for signature in check_signatures(token, keys, now, revoked):
        is_fatal = signature.node == claims.issuer or signature.reason is TokenFault.BAD_SIGNATURE
        if signature.reason is not None and is_fatal:
            raise TokenError(signature.reason, f"of `{signature.node}`, key `{signature.key_id}`")
        checked.append(signature)
    return Verified(token, tuple(checked), *_window(token, keys, now))


def check_holder(token: Token, holder: Party | None) -> None:
    """Raise `TokenError` if somebody else presents the token than the one it was given to."""
    if holder is not None and holder != token.claims.subject:
        raise TokenError(TokenFault.WRONG_HOLDER, f"it is `{token.claims.subject}`'s, and `{holder}` presents it")


def check_signatures(token: Token, keys: KeySet, now: float, revoked: Revoked = NOTHING) -> Iterator[CheckedSignature]:
    """Check each signature, the issuer's first: what it has not signed is not worth the time of checking others'."""
    issuer = token.claims.issuer
    for signature in sorted(token.signatures, key=lambda signature: signature.node != issuer):
        yield CheckedSignature(signature.node, signature.key_id, _why_not(signature, token, keys, now, revoked))


class Verifier:
    """A cache of verified tokens: verifying one again costs a look-up, until the result expires.

    It is made anew when keys or revocations change. Only what was accepted is kept, at most `max_tokens`; the oldest
    go first.
    """

    def __init__(
        self, keys: KeySet, audience: Collection[Party], revoked: Revoked = NOTHING, max_tokens: int = 1_000
    ) -> None:
        self._keys = keys
        self._audience = tuple(audience)
        self._revoked = revoked
        self._max_tokens = max_tokens
        self._by_text: dict[bytes, Verified] = {}
        self._by_digest: dict[str, Verified] = {}

    def verify(self, text: bytes, now: float, holder: Party | None = None) -> Verified:
        """Accept the token as it was sent, or raise `TokenError`."""
        verified = self._by_text.get(text)
        if verified is None or not verified.counts(now):
            token = parse_token(text)
            # The same with other blanks, or its signatures in another order, costs no cryptography.
            verified = self.named(token.digest, now) or verify(token, self._keys, now, self._audience, self._revoked)
            self._keep(text, verified)
        check_holder(verified.token, holder)
        return verified

    def named(self, digest: str, now: float) -> Verified | None:
        """Return the token of that digest, if it was verified and still counts."""
        verified = self._by_digest.get(digest)
        return verified if verified is not None and verified.counts(now) else None

    def _keep(self, text: bytes, verified: Verified) -> None:
        if len(self._by_text) >= self._max_tokens:
            self._by_text.pop(next(iter(self._by_text)))
        if len(self._by_digest) >= self._max_tokens:
            self._by_digest.pop(next(iter(self._by_digest)))
        self._by_text[text] = verified
        self._by_digest[verified.token.digest] = verified


def _why_not(signature: Signature, token: Token, keys: KeySet, now: float, revoked: Revoked) -> TokenFault | None:
    if signature.key_id in revoked.keys:
        return TokenFault.REVOKED
    key = keys.find(signature.node, signature.key_id)
    if key is None:
        return TokenFault.UNKNOWN_KEY
    if not key.verifies(signature.value, signing_input(signature.header, token.claims)):
        return TokenFault.BAD_SIGNATURE
    return None if key.is_in_use(now) else TokenFault.KEY_NOT_IN_USE


def _window(token: Token, keys: KeySet, now: float) -> tuple[float, float]:
    """Return the times between which the result is the same: then the token, or a key, comes into or out of use."""
    used = [keys.find(signature.node, signature.key_id) for signature in token.signatures]
    turns = [at for key in used if key is not None for at in (key.not_before, key.retired) if at is not None]
    start = max([token.claims.not_before, *(at for at in turns if at <= now)])
    return start, min([token.claims.expiry, *(at for at in turns if at > now)])


def _listed(parties: Collection[Party]) -> str:
    return " or ".join(f"`{party}`" for party in sorted(parties)) or "nobody"
