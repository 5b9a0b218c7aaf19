"""Tokens are JWS to others too: joserfc verifies what we sign, and we verify what it signs."""

import json
from typing import Any

import pytest
from joserfc import jws
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet, OKPKey
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from penstock.policy.tokens.encoding import from_base64url
from penstock.policy.tokens.keys import as_jwk
from penstock.policy.tokens.token import parse_token
from penstock.policy.tokens.verification import verify
from tests.support.memory.tokens import CLAIMS, KEY_SET, NOW, PLANT, token, written

REGISTRY = JWSRegistry({"node": HeaderParameter("the node that signs", "str")}, algorithms=["EdDSA"])
# EdDSA is what RFC 8037 calls it, and what most libraries know; RFC 9864 would have it Ed25519 (decision 0029).
pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
STANDARD = ("kty", "crv", "x", "kid", "use", "alg")


def public_keys() -> KeySet:
    """The keys of our file without what only we have in it."""
    jwks: list[Any] = [
        {name: value for name, value in as_jwk(key).items() if name in STANDARD} for key in KEY_SET.keys.values()
    ]
    return KeySet([OKPKey.import_key(jwk) for jwk in jwks])


def test_joserfc_has_the_same_key_ids() -> None:
    assert [key.thumbprint() for key in public_keys().keys] == list(KEY_SET.keys)


def test_joserfc_verifies_all_signatures_of_ours() -> None:
    found = jws.deserialize_json(json.loads(token("b2", "b3").text), public_keys(), registry=REGISTRY)
    assert found.payload == from_base64url(CLAIMS.payload, "payload")
    assert [member.headers()["node"] for member in found.members] == ["b1", "b2", "b3"]


def test_joserfc_refuses_ours_when_changed() -> None:
    changed = json.loads(token("b2").text)
    changed["payload"] = json.loads(token(id="t-2").text)["payload"]
    with pytest.raises(BadSignatureError):
        jws.deserialize_json(changed, public_keys(), registry=REGISTRY)


def test_we_verify_what_joserfc_signs() -> None:
    key = OKPKey.generate_key("Ed25519")
    jwk = {**key.as_dict(private=False), "kid": key.thumbprint(), "node": "b1", "use": "sig", "alg": "EdDSA"}
    keys = type(KEY_SET).parse(written({"keys": [jwk]}))
    header = {"alg": "EdDSA", "kid": key.thumbprint(), "node": "b1"}
    made = jws.serialize_json(
        [{"protected": header}], from_base64url(CLAIMS.payload, "payload"), key, registry=REGISTRY
    )
    found = verify(parse_token(written(made)), keys, NOW, [PLANT])
    assert found.token.claims == CLAIMS
    assert found.signers == {"b1"}
