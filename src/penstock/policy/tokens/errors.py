"""The reasons why an authorisation token, or one of its signatures, does not count."""

from enum import StrEnum

from penstock.model.errors import PenstockError

_SHOWN = 80


class TokenFault(StrEnum):
    """The fault of a token, as a code for programs and a text for people."""

    MALFORMED = "malformed"
    OVERSIZED = "oversized"
    DUPLICATE_MEMBERS = "duplicate members"
    NOT_CANONICAL = "not canonical"
    ALGORITHM = "algorithm not EdDSA"
    CRITICAL_HEADER = "unknown critical header"
    SIGNED_TWICE = "two signatures of one node"
    ISSUER_MISSING = "issuer's signature missing"
    UNKNOWN_KEY = "unknown key"
    KEY_NOT_IN_USE = "key not in use"
    BAD_SIGNATURE = "bad signature"
    REVOKED = "revoked"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    WRONG_AUDIENCE = "wrong audience"
    WRONG_HOLDER = "wrong holder"


class TokenError(PenstockError):
    """A token that is refused, with the fault and its details."""

    def __init__(self, reason: TokenFault, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def show(text: str) -> str:
    """Return the text for a message: short, on one line, printable."""
    shown = repr(text[:_SHOWN])[1:-1]
    return shown if len(text) <= _SHOWN else f"{shown}..."


def malformed(detail: str) -> TokenError:
    """Return the error of a token or a key that is not written as it should be."""
    return TokenError(TokenFault.MALFORMED, detail)
