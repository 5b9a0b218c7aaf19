"""Sealed content: payloads and attributes encrypted under the secret of a trust group (statements §5.2).

AES-256-GCM with a key derived from the group's secret. The id of the key and the nonce travel with it. Group, topic and
attribute are associated data: what was sealed for one topic or attribute cannot be opened as another.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from penstock.model.errors import PenstockError

MAGIC = b"\xf0PSK1"
"""The beginning of sealed content. It is not UTF-8, so that no JSON, XML or text begins with it."""
_ID_BYTES, _NONCE_BYTES, _TAG_BYTES = 8, 12, 16


class SealError(PenstockError):
    """Content cannot be sealed or opened. The message never contains a secret or the content."""


class Sealer:
    """The keys of a node: what is sealed is sealed with the present secret of a group, and opened with any of them."""

    def __init__(
        self,
        secrets: Mapping[str, bytes] | None = None,
        earlier: Mapping[str, tuple[bytes, ...]] | None = None,
        make_nonce: Callable[[], bytes] | None = None,
    ) -> None:
        self._secrets = secrets or {}
        self._earlier = earlier or {}
        self._make_nonce = make_nonce

    def seal(self, group: str, topic: str, path: str, plain: bytes) -> bytes:
        """Return content sealed for a topic, and for an attribute there unless the path is empty; raise `SealError`."""
        if self._make_nonce is None:
            raise SealError("nothing can be sealed here")
        key, id = _key(group, self._secret(group))
        nonce = self._make_nonce()[:_NONCE_BYTES]
        return MAGIC + id + nonce + AESGCM(key).encrypt(nonce, plain, _about(group, topic, path))

    def open(self, group: str, topic: str, path: str, sealed: bytes) -> bytes:
        """Return what was sealed for this topic and attribute; raise `SealError`."""
        head = len(MAGIC) + _ID_BYTES
        if not is_sealed(sealed) or len(sealed) < head + _NONCE_BYTES + _TAG_BYTES:
            raise SealError("it is not sealed")
        id, nonce, rest = sealed[len(MAGIC) : head], sealed[head : head + _NONCE_BYTES], sealed[head + _NONCE_BYTES :]
        keys = dict(_key(group, secret)[::-1] for secret in (*self._earlier.get(group, ()), self._secret(group)))
        if id not in keys:
            raise SealError(f"it is sealed with a key of `{group}` that is not known here: {id.hex()}")
        try:
            return AESGCM(keys[id]).decrypt(nonce, rest, _about(group, topic, path))
        except InvalidTag:
            raise SealError(f"it was not sealed for this by a member of `{group}`, or was changed") from None

    def _secret(self, group: str) -> bytes:
        secret = self._secrets.get(group)
        if secret is None:
            raise SealError(f"the secret of trust group `{group}` is not known here")
        return secret


NO_KEYS = Sealer()


def is_sealed(content: bytes) -> bool:
    return content.startswith(MAGIC)


@lru_cache(maxsize=256)
def _key(group: str, secret: bytes) -> tuple[bytes, bytes]:
    """Return the key that a secret gives, and its id."""
    key = HKDF(SHA256(), 32, None, b"penstock sealed content\0" + group.encode()).derive(secret)
    return key, sha256(b"penstock key id\0" + key).digest()[:_ID_BYTES]


def _about(group: str, topic: str, path: str) -> bytes:
    return b"\0".join(part.encode() for part in ("penstock sealed 1", group, topic, path))
