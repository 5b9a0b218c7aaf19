"""The exchange in which two sides prove that they share the secrets of trust groups, without showing them.

Four messages travel as the authentication data of MQTT 5 (docs/decisions/0028). The one who connects *claims* groups
and sends a nonce. The node answers with its own nonce, its name, and its *proofs* for those of the groups that it is
in. The one who connects checks them, and proves membership only of groups that the node has proven. The node says which
it *accepted*, and for how many seconds.

A proof is an HMAC over all that makes this exchange this one: which side speaks, the group, both nonces, who they are.
"""

import hmac
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from penstock.model.errors import PenstockError

METHOD: Final = "PENSTOCK-GROUPS"
"""The authentication method of MQTT 5."""
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
MAX_GROUPS: Final = 64
"""Groups in one exchange."""

RETRY_SECONDS: Final = 30.0
"""Seconds after which to prove again what was not accepted: the other side may not have the new secret yet."""

MIN_SECONDS: Final = 4.0
"""Seconds for which an exchange counts at least."""

Role = Literal["client", "node"]
"""The side that proves: the client connects, the node is connected to."""

_VERSION: Final = 1
_MAX_NAME: Final = 255
_MAX_SECONDS: Final = 2**32 - 1


class ProofError(PenstockError):
    """A message of the other side that cannot be read, or does not follow the exchange."""


class GroupClaim(NamedTuple):
    """The first message, from the client: its groups, and its nonce."""

    nonce: bytes
    groups: tuple[str, ...]

    def encode(self) -> bytes:
        return bytes((_VERSION,)) + self.nonce + _put_count(self.groups) + b"".join(map(_put_name, self.groups))

    @classmethod
    def decode(cls, data: bytes) -> "GroupClaim":
        """Decode the message; raises `ProofError`."""
        reader = _FieldReader(data)
        nonce = reader.take(NONCE_BYTES)
        groups = tuple(reader.name() for _ in range(reader.count()))
        reader.end(groups)
        return cls(nonce, groups)


class GroupChallenge(NamedTuple):
    """The second message, from the node: its nonce, its name, and its proofs by group."""

    nonce: bytes
    node: str
    proofs: dict[str, bytes]

    def encode(self) -> bytes:
        return bytes((_VERSION,)) + self.nonce + _put_name(self.node) + _put_proofs(self.proofs)

    @classmethod
    def decode(cls, data: bytes) -> "GroupChallenge":
        """Decode the message; raises `ProofError`."""
        reader = _FieldReader(data)
        return cls(reader.take(NONCE_BYTES), reader.name(), reader.proofs())


class GroupAnswer(NamedTuple):
    """The third message, from the client: its proofs by group."""

    proofs: dict[str, bytes]

    def encode(self) -> bytes:
        return bytes((_VERSION,)) + _put_proofs(self.proofs)

    @classmethod
    def decode(cls, data: bytes) -> "GroupAnswer":
        """Decode the message; raises `ProofError`."""
        return cls(_FieldReader(data).proofs())


class AcceptedGroups(NamedTuple):
    """The last message, from the node: the groups that count as proven, and for how many seconds."""

    groups: dict[str, int]

    def encode(self) -> bytes:
        entries = (_put_name(group) + seconds.to_bytes(4, "big") for group, seconds in self.groups.items())
        return bytes((_VERSION,)) + _put_count(self.groups) + b"".join(entries)

    @classmethod
    def decode(cls, data: bytes) -> "AcceptedGroups":
        """Decode the message; raises `ProofError`."""
        reader = _FieldReader(data)
        pairs = [(reader.name(), int.from_bytes(reader.take(4), "big")) for _ in range(reader.count())]
        reader.end([group for group, _ in pairs])
        return cls(dict(pairs))

    @classmethod
    def of(cls, groups: Mapping[str, float]) -> "AcceptedGroups":
        return cls({group: min(int(seconds), _MAX_SECONDS) for group, seconds in groups.items()})


class ProofExchange(NamedTuple):
    """The facts that both sides know once they have each other's nonces."""

    client_nonce: bytes
    node_nonce: bytes
    client_id: str
    """The client id of the CONNECT packet; empty if the node is to choose one."""
    node: str

    def proof(self, role: Role, group: str, secret: bytes) -> bytes:
        """Return the proof, in this exchange, that a side knows the secret of a group."""
        parts = (METHOD, str(_VERSION), role, group, self.client_nonce, self.node_nonce, self.client_id, self.node)
        return hmac.digest(secret, framed(parts), "sha256")

    def proofs(self, role: Role, groups: Iterable[str], secrets: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the proofs of a side for the groups whose secret it has."""
        return {group: self.proof(role, group, secrets[group]) for group in groups if group in secrets}

    def proven(self, role: Role, proofs: Mapping[str, bytes], secrets: Mapping[str, bytes]) -> tuple[str, ...]:
        """Return the groups whose secret we have too, and whose proof by the other side is right."""
        return tuple(
            group
            for group, shown in proofs.items()
            if group in secrets and hmac.compare_digest(shown, self.proof(role, group, secrets[group]))
        )


def framed(parts: Iterable[str | bytes]) -> bytes:
    """Return fields as bytes, each with its length before it: no two lists of fields give the same bytes."""
    fields = (field if isinstance(field, bytes) else field.encode() for field in parts)
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


class Claimant:
    """The client's side of one exchange: `claim`, `answer`, `accepted`."""

    def __init__(self, client_id: str, secrets: Mapping[str, bytes], nonce: bytes, node: str | None = None) -> None:
        """Begin an exchange with secrets by group and a fresh nonce; `node` is the node's expected name, if known."""
        self._client_id = client_id
        self._secrets = dict(secrets)
        self._nonce = nonce
        self._node = node
        self.exchange: ProofExchange | None = None
        """The exchange, once the node's nonce is known."""
        self.node_proven: tuple[str, ...] = ()
        """The groups that the node has proven to be in."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that the client claims."""
        return tuple(self._secrets)

    @property
    def claim(self) -> bytes:
        """The first message."""
        return GroupClaim(self._nonce, tuple(self._secrets)).encode()

    def answer(self, data: bytes) -> bytes:
        """Return the answer to the node's challenge; raises `ProofError`."""
        if self.exchange is not None:
            raise ProofError("a second challenge in one exchange")
        challenge = GroupChallenge.decode(data)
        if self._node is not None and challenge.node != self._node:
            raise ProofError(f"node `{challenge.node}` answers, expected node `{self._node}`")
        if challenge.nonce == self._nonce:
            raise ProofError("the challenge is our own nonce")
        exchange = self.exchange = ProofExchange(self._nonce, challenge.nonce, self._client_id, challenge.node)
        self.node_proven = exchange.proven("node", challenge.proofs, self._secrets)
        return GroupAnswer(exchange.proofs("client", self.node_proven, self._secrets)).encode()

    def accepted(self, data: bytes) -> dict[str, int]:
        """Return the groups that the node accepted, each with the seconds for which it counts; raises `ProofError`."""
        if self.exchange is None:
            raise ProofError("groups are accepted that were not proven")
        groups = AcceptedGroups.decode(data).groups
        # A node cannot accept what it was not shown.
        return {group: seconds for group, seconds in groups.items() if group in self.node_proven}


def renew_after(claimed: Collection[str], accepted: Mapping[str, float]) -> float:
    """Return the seconds after which to prove again: half of the shortest time for which a group counts.

    One that each publication has to prove counts for no time, and for `MIN_SECONDS` for everything else.
    """
    if not claimed:
        return math.inf
    half = min((seconds or MIN_SECONDS for seconds in accepted.values()), default=2 * RETRY_SECONDS) / 2
    return half if set(claimed) <= accepted.keys() else min(half, RETRY_SECONDS)


class _FieldReader:
    """A reader that takes fields off the front of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        version = self.take(1)[0]
        if version != _VERSION:
            raise ProofError(f"version {version} of the exchange is not known")

    def take(self, length: int) -> bytes:
        field = self._data[self._at : self._at + length]
        if len(field) < length:
            raise ProofError("the authentication data ends too soon")
        self._at += length
        return field

    def count(self) -> int:
        count = self.take(1)[0]
        if count > MAX_GROUPS:
            raise ProofError(f"{count} groups in the authentication data, at most {MAX_GROUPS} can be")
        return count

    def name(self) -> str:
        try:
            name = self.take(self.take(1)[0]).decode()
        except UnicodeDecodeError:
            raise ProofError("a name in the authentication data is not UTF-8") from None
        if not name:
            raise ProofError("a name in the authentication data is empty")
        return name

    def proofs(self) -> dict[str, bytes]:
        """Read the remaining bytes as proofs."""
        pairs = [(self.name(), self.take(PROOF_BYTES)) for _ in range(self.count())]
        self.end([group for group, _ in pairs])
        return dict(pairs)

    def end(self, groups: Collection[str]) -> None:
        if len(set(groups)) != len(groups):
            raise ProofError("a group is in the authentication data twice")
        if self._at < len(self._data):
            raise ProofError("the authentication data goes on after its end")


def _put_count(groups: Collection[str]) -> bytes:
    if len(groups) > MAX_GROUPS:
        raise ValueError(f"an exchange is about at most {MAX_GROUPS} groups")
    return bytes((len(groups),))


def _put_name(name: str) -> bytes:
    data = name.encode()
    if not 1 <= len(data) <= _MAX_NAME:
        raise ValueError(f"a name has 1 to {_MAX_NAME} bytes, `{name}` has {len(data)}")
    return bytes((len(data),)) + data


def _put_proofs(proofs: Mapping[str, bytes]) -> bytes:
    return _put_count(proofs) + b"".join(_put_name(group) + proof for group, proof in proofs.items())
