"""The keys that nodes sign tokens with: private ones in files of their own, public ones in one file for all nodes.

A key is known by its id, the thumbprint of RFC 7638. A node may have several: a new one is given out before it is used,
an old one is retired when the last token that it has signed has expired. Whether a key is in use is asked of the time
at which a token is verified, never of a time that the token states, since whoever has stolen a key can state any.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import replace_file
from penstock.policy.tokens.encoding import as_type, canonical, from_base64url, read_json, to_base64url
from penstock.policy.tokens.errors import TokenError, TokenFault, malformed, show

SIGNATURE_BYTES = 64
MAX_TIME = 253_402_300_799
"""The last second of the year 9999: what is later cannot be shown as a date."""

_KEY_BYTES = 32
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_FOR_ALL, _FOR_OWNER = 0o644, 0o600
_OTHERS = 0o077


def check_node(name: str, kind: str = "node") -> str:
    """Return the name of a node or domain, or raise `TokenError`."""
    if not _NAME.fullmatch(name):
        raise malformed(f"{kind} name `{show(name)}`: expected at most 64 letters, digits, `-` and `_`")
    return name


def check_key_id(text: str) -> str:
    """Return the id of a key, or raise `TokenError`."""
    if not _KEY_ID.fullmatch(text):
        raise malformed(f"key id `{show(text)}`: expected 43 letters, digits, `-` and `_`")
    return text


@dataclass(frozen=True)
class PublicKey:
    """A key that a node's signatures are verified with, and when. Times are seconds since 1970."""

    node: str
    raw: bytes = field(repr=False)
    not_before: int = 0
    retired: int | None = None
    """From then on it verifies nothing."""

    def __post_init__(self) -> None:
        check_node(self.node)
        if len(self.raw) != _KEY_BYTES:
            raise malformed(f"a key of `{len(self.raw)}` bytes: expected {_KEY_BYTES}")
        if not 0 <= self.not_before <= MAX_TIME or not (self.retired is None or 0 <= self.retired <= MAX_TIME):
            raise malformed(f"times of a key: expected seconds from 0 to {MAX_TIME}")

    @cached_property
    def key_id(self) -> str:
        return key_id_of(self.raw)

    def is_in_use(self, now: float) -> bool:
        return self.not_before <= now and (self.retired is None or now < self.retired)

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Return whether this is a signature over the data by the private half."""
        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.raw)


class SigningKey:
    """A private key. Nothing prints it: it leaves this object as a file only."""

    __slots__ = ("_key", "key_id", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public)

    @classmethod
    def generate(cls) -> "SigningKey":
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "SigningKey":
        """Read a PEM file that nobody but its owner can read; raises `PolicyError`."""
        shown = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                if os.fstat(file.fileno()).st_mode & _OTHERS:
                    raise PolicyError(f"`{shown}` is open to others than its owner: run `chmod 600` on it")
                data = file.read()
        except OSError as error:
            raise PolicyError(f"cannot read `{shown}`: {error.strerror}") from error
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # Without the cause: it may quote the file.
            raise PolicyError(f"`{shown}` is not a private key in PEM without a pass phrase") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise PolicyError(f"`{shown}` is not an Ed25519 key")
        return cls(key)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a new PEM file, for its owner only; raises `PolicyError` if there is one already."""
        data = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FOR_OWNER)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError as error:
            raise PolicyError(f"cannot write `{os.fspath(path)}`: {error.strerror}") from error

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"SigningKey(key_id={self.key_id!r})"

    def __reduce__(self) -> str:
        raise TypeError("a private key is not copied or pickled")


@dataclass(frozen=True)
class KeySet:
    """The public keys of nodes, by key id."""

    keys: Mapping[str, PublicKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", MappingProxyType(dict(self.keys)))

    @classmethod
    def of(cls, keys: Iterable[PublicKey]) -> "KeySet":
        """Make a set of keys of any nodes; raises `TokenError` if a key is there twice, even for two nodes."""
        by_id: dict[str, PublicKey] = {}
        for key in keys:
            if by_id.setdefault(key.key_id, key) is not key:
                raise malformed(f"key `{key.key_id}` is there twice")
        return cls(by_id)

    def find(self, node: str, key_id: str) -> PublicKey | None:
        """Return the key of that id, if it is that node's."""
        key = self.keys.get(key_id)
        return key if key is not None and key.node == node else None

    def with_key(self, key: PublicKey) -> "KeySet":
        return KeySet.of([*self.keys.values(), key])

    def retire(self, key_id: str, at: int) -> "KeySet":
        """Return the set with one key that verifies nothing from `at` on; raises `TokenError` for an unknown key."""
        if key_id not in self.keys:
            raise TokenError(TokenFault.UNKNOWN_KEY, f"`{key_id}`")
        return KeySet({**self.keys, key_id: replace(self.keys[key_id], retired=at)})

    @classmethod
    def parse(cls, data: bytes) -> "KeySet":
        """Read a JSON Web Key Set (RFC 7517) whose keys also have a `node`; raises `TokenError`."""
        key_set = as_type(read_json(data, "the key set"), _Keys, "the key set")
        return cls.of(map(_read_key, key_set.keys))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "KeySet":
        """Read the file; raises `PolicyError` naming it."""
        try:
            return cls.parse(Path(path).read_bytes())
        except OSError as error:
            raise PolicyError(f"cannot read `{os.fspath(path)}`: {error.strerror}") from error
        except TokenError as error:
            raise PolicyError(f"{os.fspath(path)}: {error.detail}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all, for everybody to read."""
        lines = [canonical(as_jwk(key)).decode() for key in self.keys.values()]
        replace_file(path, '{"keys":[\n' + ",\n".join(lines) + "\n]}\n", _FOR_ALL)


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    kty: str
    crv: str
    x: str
    node: str
    kid: str
    use: str = "sig"
    alg: str = "EdDSA"
    nbf: int = 0
    retired: int | None = None


class _Keys(msgspec.Struct, forbid_unknown_fields=True):
    keys: list[dict[str, object]]


def key_id_of(public: bytes) -> str:
    """Return the thumbprint of an Ed25519 key: RFC 7638 §3, RFC 8037 appendix A.3."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": to_base64url(public)}
    return to_base64url(hashlib.sha256(canonical(members)).digest())


def as_jwk(key: PublicKey) -> dict[str, object]:
    """Return the key as a JSON Web Key, with its node and when it is in use."""
    jwk: dict[str, object] = {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": to_base64url(key.raw),
        "kid": key.key_id,
        "use": "sig",
        "alg": "EdDSA",
        "node": key.node,
        "nbf": key.not_before,
    }
    return jwk if key.retired is None else {**jwk, "retired": key.retired}


def _read_key(members: dict[str, object]) -> PublicKey:
    if "d" in members:
        raise malformed("there is a private key in the key set: take it out, and make a new one")
    key = as_type(members, _Key, "a key")
    if (key.kty, key.crv, key.use, key.alg) != ("OKP", "Ed25519", "sig", "EdDSA"):
        raise TokenError(TokenFault.ALGORITHM, f"key `{show(key.kid)}` is not for Ed25519 signatures")
    public = PublicKey(key.node, from_base64url(key.x, "a key"), key.nbf, key.retired)
    if public.key_id != key.kid:
        raise malformed(f"key id `{show(key.kid)}` is not the thumbprint `{public.key_id}`")
    return public
