"""Tokens, and the keys of the trust paper's nodes b1 to b6, for tests."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock.policy.tokens.keys import KeySet, PublicKey, SigningKey
from penstock.policy.tokens.token import Claims, Party, Token, issue, sign

NOW = 1_800_000_000
NODES = tuple(f"b{number}" for number in range(1, 7))
PLANT = Party("domain", "plant")
PUMP = Party("client", "pump")


def key_of(node: str) -> SigningKey:
    """The same each time for one node."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(node.encode()).digest()))


KEYS = {node: key_of(node) for node in NODES}
KEY_SET = KeySet.of(PublicKey(node, key.public) for node, key in KEYS.items())

CLAIMS = Claims(
    issuer="b1",
    subject=PUMP,
    audience=frozenset({PLANT}),
    publish=frozenset({"home/groundfloor/kitchen"}),
    subscribe=frozenset({"home/firstfloor/#"}),
    issued=NOW - 10,
    not_before=NOW - 10,
    expiry=NOW + 3_600,
    id="t-1",
)


def token(*signers: str, **changes: Any) -> Token:
    """A token of b1, signed by it and then by these nodes."""
    made = issue(replace(CLAIMS, **changes), KEYS["b1"])
    for node in signers:
        made = sign(made, node, KEYS[node])
    return made


def outer(token: Token) -> dict[str, Any]:
    """The token as plain JSON, to tamper with."""
    found: dict[str, Any] = json.loads(token.text)
    return found


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


def encoded(value: bytes | Mapping[str, Any]) -> str:
    """Base64url of bytes, or of a JSON object as a careless signer writes it."""
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_by(node: str, payload: str, header: bytes | Mapping[str, Any]) -> dict[str, str]:
    """A signature by the node's key over any payload with any header."""
    protected = encoded(header)
    return {
        "protected": protected,
        "signature": encoded(KEYS[node].sign(f"{protected}.{payload}".encode())),
    }


def header_of(node: str, /, **changes: Any) -> dict[str, Any]:
    return {"alg": "EdDSA", "kid": KEYS[node].key_id, "node": node, **changes}


def raw_token(payload: bytes, node: str = "b1") -> bytes:
    """Any payload with a good signature of a node."""
    return written({"payload": encoded(payload), "signatures": [signed_by(node, encoded(payload), header_of(node))]})
