"""Why an authorisation token, or one signature of it, does not count."""

from enum import StrEnum

from penstock.model.errors import PenstockError

_SHOWN = 80


class Reason(StrEnum):
    """What is wrong, for programs to tell apart and for people to read."""

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
    """A token that is refused: for which reason, and what in it gave the reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def show(text: str) -> str:
    """The text for a message: short, on one line, printable."""
    shown = repr(text[:_SHOWN])[1:-1]
    return shown if len(text) <= _SHOWN else f"{shown}..."
