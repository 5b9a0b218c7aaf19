"""Whether a token counts here and now, and whose signatures on it do.

The issuer's signature must be good, or the whole token is refused. Another node's signature with a key that is not
known here, is not in use or is revoked just does not count: nodes need not know each other's keys. One that a known key
disproves is evidence of forgery, and the token is refused.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from penstock.policy.tokens.errors import Reason, TokenError
from penstock.policy.tokens.keys import KeySet
from penstock.policy.tokens.revocation import NOTHING, Revoked
from penstock.policy.tokens.token import Party, Signature, Token, parse_token, signing_input


@dataclass(frozen=True, slots=True)
class Checked:
    """One signature: good, or why it does not count."""

    node: str
    key_id: str
    reason: Reason | None

    @property
    def is_good(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Verified:
    """A token that counts, from `start` until before `end`."""

    token: Token
    signatures: tuple[Checked, ...]
    start: float
    end: float

    @property
    def signers(self) -> frozenset[str]:
        """The nodes whose signatures are good: S."""
        return frozenset(one.node for one in self.signatures if one.is_good)

    def counts(self, now: float) -> bool:
        """Whether what was found still holds."""
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
        raise TokenError(Reason.WRONG_AUDIENCE, f"it is for {_listed(claims.audience)}, not {_listed(audience)}")
    check_holder(token, holder)
    if now < claims.not_before:
        raise TokenError(Reason.NOT_YET_VALID, f"it counts in `{claims.not_before - now:.0f}` s")
    if now >= claims.expiry:
        raise TokenError(Reason.EXPIRED, f"`{now - claims.expiry:.0f}` s ago")
    if revoked.has(claims.id):
        raise TokenError(Reason.REVOKED, f"token `{claims.id}`")
    if claims.issuer not in token.nodes:
        raise TokenError(Reason.ISSUER_MISSING, f"`{claims.issuer}` has not signed")
    checked: list[Checked] = []
    for one in _check_each(token, keys, now, revoked):
        if one.reason is not None and (one.node == claims.issuer or one.reason is Reason.BAD_SIGNATURE):
            raise TokenError(one.reason, f"of `{one.node}`, key `{one.key_id}`")
        checked.append(one)
    return Verified(token, tuple(checked), *_window(token, keys, now))


def check_holder(token: Token, holder: Party | None) -> None:
    """Raise `TokenError` if somebody else presents the token than the one it was given to."""
    if holder is not None and holder != token.claims.subject:
        raise TokenError(Reason.WRONG_HOLDER, f"it is `{token.claims.subject}`'s, and `{holder}` presents it")


def check_signatures(token: Token, keys: KeySet, now: float, revoked: Revoked = NOTHING) -> tuple[Checked, ...]:
    """What is to be said of each signature, whatever else may be wrong with the token; the issuer's first."""
    return tuple(_check_each(token, keys, now, revoked))


class Verifier:
    """Verifies tokens once: after that a token costs a look-up, until something of what was found ends.

    It is made anew when keys or revocations change. Only what was accepted is kept, at most `most` tokens; the oldest
    go first.
    """

    def __init__(
        self, keys: KeySet, audience: Collection[Party], revoked: Revoked = NOTHING, most: int = 1_000
    ) -> None:
        self._keys = keys
        self._audience = tuple(audience)
        self._revoked = revoked
        self._most = most
        self._by_text: dict[bytes, Verified] = {}
        self._by_digest: dict[str, Verified] = {}

    def verify(self, text: bytes, now: float, holder: Party | None = None) -> Verified:
        """Accept the token as it was sent, or raise `TokenError`."""
        found = self._by_text.get(text)
        if found is None or not found.counts(now):
            token = parse_token(text)
            # The same with other blanks, or its signatures in another order, costs no cryptography.
            found = self.named(token.digest, now) or verify(token, self._keys, now, self._audience, self._revoked)
            self._keep(text, found)
        check_holder(found.token, holder)
        return found

    def named(self, digest: str, now: float) -> Verified | None:
        """The token of that digest, if it was verified and still counts."""
        found = self._by_digest.get(digest)
        return found if found is not None and found.counts(now) else None

    def _keep(self, text: bytes, verified: Verified) -> None:
        if len(self._by_text) >= self._most:
            self._by_text.pop(next(iter(self._by_text)))
        if len(self._by_digest) >= self._most:
            self._by_digest.pop(next(iter(self._by_digest)))
        self._by_text[text] = verified
        self._by_digest[verified.token.digest] = verified


def _check_each(token: Token, keys: KeySet, now: float, revoked: Revoked) -> Iterator[Checked]:
    # The issuer's first: what it has not signed is not worth the time of looking at others'.
    issuer = token.claims.issuer
    for signature in sorted(token.signatures, key=lambda one: one.node != issuer):
        yield Checked(signature.node, signature.key_id, _why_not(signature, token, keys, now, revoked))


def _why_not(signature: Signature, token: Token, keys: KeySet, now: float, revoked: Revoked) -> Reason | None:
    if signature.key_id in revoked.keys:
        return Reason.REVOKED
    key = keys.find(signature.node, signature.key_id)
    if key is None:
        return Reason.UNKNOWN_KEY
    if not key.verifies(signature.value, signing_input(signature.header, token.claims)):
        return Reason.BAD_SIGNATURE
    return None if key.is_in_use(now) else Reason.KEY_NOT_IN_USE


def _window(token: Token, keys: KeySet, now: float) -> tuple[float, float]:
    """Between which times the same is found: at them the token, or a key of a signature, comes into or out of use."""
    found = [keys.find(one.node, one.key_id) for one in token.signatures]
    turns = [at for key in found if key is not None for at in (key.not_before, key.retired) if at is not None]
    start = max([token.claims.not_before, *(at for at in turns if at <= now)])
    return start, min([token.claims.expiry, *(at for at in turns if at > now)])


def _listed(parties: Collection[Party]) -> str:
    return " or ".join(f"`{one}`" for one in sorted(parties)) or "nobody"
