"""Proofs that single publications carry, of trust groups whose proofs are not cached (`expiry: 0`, statements §5.2).

The exchange of `group_proof.py` gives both ends of a connection two nonces and two names. From then on each publication
proves by itself that its sender knows the secret of a group: an HMAC under the secret over all that makes the exchange
this one, which side speaks, a counter, and a digest of the publication as it is sent. The receiver takes each counter
once, and only greater ones, so what was sent on this connection cannot be sent again on it, nor on another.
"""

import base64
import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from penstock.model.group_proof import MAX_GROUPS, METHOD, PROOF_BYTES, ProofExchange, Role, framed

PROOF = "penstock-proof"
"""The user property with the counter, and the proof of each group: `7 inner:BASE64 outer:BASE64`."""
NO_PROOF = "it carries no proof"
NOT_THIS_GROUP = "it carries no proof of this group"
_MAX_DIGITS = 19


class SentPublication(NamedTuple):
    """A publication as it is on a connection: all that policies may see of it, with its topic even under an alias."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    expiry: int | None
    payload_format: int | None
    content_type: str | None
    response_topic: str | None
    correlation_data: bytes | None
    user_properties: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> bytes:
        """A digest of all but the proof itself."""
        numbers = (self.qos, int(self.retain), self.expiry, self.payload_format)
        texts = (self.content_type, self.response_topic)
        parts: list[str | bytes] = [self.topic, self.payload, ",".join(map(str, numbers))]
        parts += ["-" if text is None else f"={text}" for text in texts]
        parts.append(b"-" if self.correlation_data is None else b"=" + self.correlation_data)
        for name, value in self.user_properties:
            if name != PROOF:
                parts += (name, value)
        return sha256(framed(parts)).digest()


class PublicationProver:
    """The side that sends publications by an exchange."""

    __slots__ = ("_count", "_role", "exchange")

    def __init__(self, exchange: ProofExchange, role: Role) -> None:
        self.exchange = exchange
        self._role = role
        self._count = 0

    def prove(self, publication: SentPublication, secrets: Mapping[str, bytes]) -> str:
        """Return the value of the property `PROOF` for the next publication."""
        self._count += 1
        digest = publication.digest
        proofs = (
            f"{group}:{_shown(_proof(self.exchange, self._role, group, secret, self._count, digest))}"
            for group, secret in secrets.items()
        )
        return f"{self._count} {' '.join(proofs)}"


class PublicationChecker:
    """The side that receives them."""

    __slots__ = ("_exchange", "_last", "_role")

    def __init__(self, exchange: ProofExchange, role: Role) -> None:
        """Make the receiving side; `role` is that of the other."""
        self._exchange = exchange
        self._role = role
        self._last = 0

    def check(self, publication: SentPublication, secrets: Mapping[str, bytes]) -> dict[str, str]:
        """Return by group, of those with these secrets, why a publication does not prove it; empty if it does."""
        values = [value for name, value in publication.user_properties if name == PROOF]
        if len(values) != 1:
            return dict.fromkeys(secrets, "it carries several proofs" if values else NO_PROOF)
        first, *entries = values[0].split(" ", MAX_GROUPS + 1)
        if not (first.isascii() and first.isdigit() and len(first) <= _MAX_DIGITS):
            return dict.fromkeys(secrets, "its proof cannot be read")
        count, given = int(first), dict(entry.split(":", 1) for entry in entries if ":" in entry)
        if count <= self._last:
            return dict.fromkeys(secrets, "its proof has been used before on this connection")
        digest = publication.digest
        findings: dict[str, str] = {}
        for group, secret in secrets.items():
            proof = _shown(_proof(self._exchange, self._role, group, secret, count, digest))
            shown = given.get(group)
            if shown is None:
                findings[group] = NOT_THIS_GROUP
            elif hmac.compare_digest(shown.encode(), proof.encode()):
                self._last, findings[group] = count, ""
            else:
                findings[group] = "its proof is wrong: another secret, or it was changed on its way"
        return findings


def _proof(exchange: ProofExchange, role: Role, group: str, secret: bytes, count: int, digest: bytes) -> bytes:
    parts = (METHOD, "publication", role, group, *exchange, str(count), digest)
    return hmac.digest(secret, framed(parts), "sha256")


def _shown(proof: bytes) -> str:
    assert len(proof) == PROOF_BYTES
    return base64.urlsafe_b64encode(proof).decode().rstrip("=")
