"""How two sides prove to each other that they share the secrets of trust groups, without showing them.

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
MOST_GROUPS: Final = 64
"""That one exchange can be about."""

RETRY_SECONDS: Final = 30.0
"""How soon to prove again what was not accepted: the other side may not have the new secret yet."""

Role = Literal["client", "node"]
"""Who proves: the side that connects, or the one that is connected to."""

_VERSION: Final = 1
_MOST_NAME: Final = 255
_MOST_SECONDS: Final = 2**32 - 1


class ProofError(PenstockError):
    """What the other side sent cannot be read, or does not follow the exchange."""


class Claim(NamedTuple):
    """From the one who connects: which groups it is in, and its nonce."""

    nonce: bytes
    groups: tuple[str, ...]

    def encode(self) -> bytes:
        return bytes((_VERSION,)) + self.nonce + _put_count(self.groups) + b"".join(map(_put_name, self.groups))

    @classmethod
    def decode(cls, data: bytes) -> "Claim":
        """Raises `ProofError`."""
        reader = _Reader(data)
        nonce = reader.take(NONCE_BYTES)
        groups = tuple(reader.name() for _ in range(reader.count()))
        reader.end(groups)
        return cls(nonce, groups)


class Challenge(NamedTuple):
    """From the node: its nonce, its name, and its proofs by group."""

    nonce: bytes
    node: str
    proofs: dict[str, bytes]

    def encode(self) -> bytes:
        return bytes((_VERSION,)) + self.nonce + _put_name(self.node) + _put_proofs(self.proofs)

    @classmethod
    def decode(cls, data: bytes) -> "Challenge":
        """Raises `ProofError`."""
        reader = _Reader(data)
        return cls(reader.take(NONCE_BYTES), reader.name(), reader.proofs())


class Answer(NamedTuple):
    """From the one who connects: its proofs by group."""

    proofs: dict[str, bytes]

    def encode(self) -> bytes:
        return bytes((_VERSION,)) + _put_proofs(self.proofs)

    @classmethod
    def decode(cls, data: bytes) -> "Answer":
        """Raises `ProofError`."""
        return cls(_Reader(data).proofs())


class Accepted(NamedTuple):
    """From the node: which groups count as proven, and for how many seconds."""

    groups: dict[str, int]

    def encode(self) -> bytes:
        each = (_put_name(group) + seconds.to_bytes(4, "big") for group, seconds in self.groups.items())
        return bytes((_VERSION,)) + _put_count(self.groups) + b"".join(each)

    @classmethod
    def decode(cls, data: bytes) -> "Accepted":
        """Raises `ProofError`."""
        reader = _Reader(data)
        pairs = [(reader.name(), int.from_bytes(reader.take(4), "big")) for _ in range(reader.count())]
        reader.end([group for group, _ in pairs])
        return cls(dict(pairs))

    @classmethod
    def of(cls, groups: Mapping[str, float]) -> "Accepted":
        return cls({group: min(int(seconds), _MOST_SECONDS) for group, seconds in groups.items()})


class Exchange(NamedTuple):
    """What both sides know once they have each other's nonces."""

    client_nonce: bytes
    node_nonce: bytes
    client_id: str
    """As the CONNECT has it: empty if the node is to choose one."""
    node: str

    def proof(self, role: Role, group: str, secret: bytes) -> bytes:
        """What shows, in this exchange, that a side knows the group's secret."""
        said = (METHOD, str(_VERSION), role, group, self.client_nonce, self.node_nonce, self.client_id, self.node)
        # Each field with its length before it: no two lists of fields give the same bytes.
        fields = (one if isinstance(one, bytes) else one.encode() for one in said)
        return hmac.digest(secret, b"".join(len(one).to_bytes(4, "big") + one for one in fields), "sha256")

    def proofs(self, role: Role, groups: Iterable[str], secrets: Mapping[str, bytes]) -> dict[str, bytes]:
        """The proofs of a side for those of the groups whose secret it has."""
        return {group: self.proof(role, group, secrets[group]) for group in groups if group in secrets}

    def proven(self, role: Role, proofs: Mapping[str, bytes], secrets: Mapping[str, bytes]) -> tuple[str, ...]:
        """Those of the groups whose secret we have, too, and of which the other side's proof is right."""
        return tuple(
            group
            for group, shown in proofs.items()
            if group in secrets and hmac.compare_digest(shown, self.proof(role, group, secrets[group]))
        )


class Claimant:
    """The side that connects, through one exchange: `claim`, `answer`, `accepted`."""

    def __init__(self, client_id: str, secrets: Mapping[str, bytes], nonce: bytes, node: str | None = None) -> None:
        """`secrets` by group; `nonce` is fresh; `node` the name that the node must have, if it is known."""
        self._client_id = client_id
        self._secrets = dict(secrets)
        self._nonce = nonce
        self._node = node
        self._is_answered = False
        self.node_proven: tuple[str, ...] = ()
        """The groups that the node has proven to be in."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Those that it claims to be in."""
        return tuple(self._secrets)

    @property
    def claim(self) -> bytes:
        """What to begin with."""
        return Claim(self._nonce, tuple(self._secrets)).encode()

    def answer(self, data: bytes) -> bytes:
        """What to say to the node's challenge; raises `ProofError`."""
        if self._is_answered:
            raise ProofError("a second challenge in one exchange")
        challenge = Challenge.decode(data)
        if self._node is not None and challenge.node != self._node:
            raise ProofError(f"node `{challenge.node}` answers, and it was to be `{self._node}`")
        if challenge.nonce == self._nonce:
            raise ProofError("the challenge is our own nonce")
        self._is_answered = True
        exchange = Exchange(self._nonce, challenge.nonce, self._client_id, challenge.node)
        self.node_proven = exchange.proven("node", challenge.proofs, self._secrets)
        return Answer(exchange.proofs("client", self.node_proven, self._secrets)).encode()

    def accepted(self, data: bytes) -> dict[str, int]:
        """The groups that the node accepted, each with the seconds for which it counts; raises `ProofError`."""
        if not self._is_answered:
            raise ProofError("groups are accepted that were not proven")
        groups = Accepted.decode(data).groups
        # A node cannot accept what it was not shown.
        return {group: seconds for group, seconds in groups.items() if group in self.node_proven}


def renew_after(claimed: Collection[str], accepted: Mapping[str, float]) -> float:
    """Seconds after which to prove again, given those for which each group counts: half of the shortest."""
    if not claimed:
        return math.inf
    half = min(accepted.values(), default=2 * RETRY_SECONDS) / 2
    return half if set(claimed) <= accepted.keys() else min(half, RETRY_SECONDS)


class _Reader:
    """Takes fields off the front of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        version = self.take(1)[0]
        if version != _VERSION:
            raise ProofError(f"version {version} of the exchange is not known")

    def take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise ProofError("the authentication data ends too soon")
        self._at += length
        return taken

    def count(self) -> int:
        count = self.take(1)[0]
        if count > MOST_GROUPS:
            raise ProofError(f"{count} groups in the authentication data, at most {MOST_GROUPS} can be")
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
        """What remains."""
        pairs = [(self.name(), self.take(PROOF_BYTES)) for _ in range(self.count())]
        self.end([group for group, _ in pairs])
        return dict(pairs)

    def end(self, groups: Collection[str]) -> None:
        if len(set(groups)) != len(groups):
            raise ProofError("a group is in the authentication data twice")
        if self._at < len(self._data):
            raise ProofError("the authentication data goes on after its end")


def _put_count(groups: Collection[str]) -> bytes:
    if len(groups) > MOST_GROUPS:
        raise ValueError(f"an exchange is about at most {MOST_GROUPS} groups")
    return bytes((len(groups),))


def _put_name(name: str) -> bytes:
    data = name.encode()
    if not 1 <= len(data) <= _MOST_NAME:
        raise ValueError(f"a name has 1 to {_MOST_NAME} bytes, `{name}` has {len(data)}")
    return bytes((len(data),)) + data


def _put_proofs(proofs: Mapping[str, bytes]) -> bytes:
    return _put_count(proofs) + b"".join(_put_name(group) + proof for group, proof in proofs.items())
