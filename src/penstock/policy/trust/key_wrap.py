"""The secret of a trust group, encrypted for the public key of each member: how K_g is given out (statements §5.2).

X25519 with a key of its own for each secret and member, HKDF and AES-256-GCM. A file has one line for each member: the
public key, and what only its private key opens. Who is taken out gets no line in the next file.
"""

import base64
import binascii
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from penstock.model.errors import PenstockError

HEADER = b"penstock group secret 1"
_KEY_BYTES = 32
_NONCE = bytes(12)
"""Each key encrypts one secret only."""


class KeyWrapError(PenstockError):
    """A key or a file with secrets cannot be read. The message contains neither."""


def make_private_key() -> bytes:
    """Return a new private key, as it stands in a file."""
    return base64.b64encode(X25519PrivateKey.generate().private_bytes_raw())


def read_private_key(content: bytes) -> X25519PrivateKey:
    """Return the private key in a file; raise `KeyWrapError`."""
    return X25519PrivateKey.from_private_bytes(_decoded(content.strip(), "private key"))


def public_key(private: X25519PrivateKey) -> str:
    """Return the public key as a text."""
    return base64.b64encode(private.public_key().public_bytes_raw()).decode()


def seal_secret(secret: bytes, members: Iterable[str]) -> bytes:
    """Return a file with a secret for members, by their public keys; raise `KeyWrapError`."""
    lines = [HEADER]
    for member in dict.fromkeys(members):
        public = X25519PublicKey.from_public_bytes(_decoded(member.encode(), "public key"))
        once = X25519PrivateKey.generate()
        point, mine = once.public_key().public_bytes_raw(), public.public_bytes_raw()
        sealed = AESGCM(_shared(once.exchange(public), point, mine)).encrypt(_NONCE, secret, HEADER)
        lines.append(base64.b64encode(mine) + b" " + base64.b64encode(point + sealed))
    return b"\n".join(lines) + b"\n"


def open_secret(content: bytes, private: X25519PrivateKey) -> bytes:
    """Return the secret that a file has for a private key; raise `KeyWrapError`."""
    header, *lines = content.strip().split(b"\n")
    if header.strip() != HEADER:
        raise KeyWrapError("it is no file with a secret for public keys")
    mine = private.public_key().public_bytes_raw()
    for line in lines:
        member, _, rest = line.strip().partition(b" ")
        if member != base64.b64encode(mine):
            continue
        sealed = _decoded(rest, "", None)
        point = sealed[:_KEY_BYTES]
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(point))
            return AESGCM(_shared(shared, point, mine)).decrypt(_NONCE, sealed[_KEY_BYTES:], HEADER)
        except (InvalidTag, ValueError):
            raise KeyWrapError("what it has for this private key cannot be opened") from None
    raise KeyWrapError("it has nothing for this private key: its owner is no member, or no longer")


def _shared(secret: bytes, point: bytes, member: bytes) -> bytes:
    return HKDF(SHA256(), 32, None, HEADER + b"\0" + point + member).derive(secret)


def _decoded(text: bytes, what: str, length: int | None = _KEY_BYTES) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        decoded = b""
    if length is not None and len(decoded) != length:
        raise KeyWrapError(f"not a {what}: expected {length} bytes in base64")
    return decoded
