"""Keys of nodes, the files they are in, and the list of what is revoked."""

import copy
import json
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock.model.errors import PolicyError
from penstock.policy.tokens.encoding import from_base64url
from penstock.policy.tokens.errors import TokenError, TokenFault
from penstock.policy.tokens.keys import KeySet, PublicKey, SigningKey, as_jwk
from penstock.policy.tokens.revocation import Revoked, revoke
from tests.support.memory.tokens import KEY_SET, KEYS, NOW, key_of

# RFC 8037, appendices A.1 to A.4.
D = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
X = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
THUMBPRINT = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
SIGNED = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
SIGNATURE = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"


def rfc_key() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(from_base64url(D, "d")))


def test_the_key_of_rfc_8037() -> None:
    key = rfc_key()
    assert as_jwk(PublicKey("b1", key.public))["x"] == X
    assert key.key_id == PublicKey("b1", key.public).key_id == THUMBPRINT
    assert key.sign(SIGNED) == from_base64url(SIGNATURE, "signature")
    assert PublicKey("b1", key.public).verifies(from_base64url(SIGNATURE, "signature"), SIGNED)


def test_a_private_key_is_written_for_its_owner_only_and_read_again(tmp_path: Path) -> None:
    key, file = SigningKey.generate(), tmp_path / "b1.pem"
    key.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SigningKey.read(file).key_id == key.key_id


def test_a_private_key_is_never_written_over_another(tmp_path: Path) -> None:
    file = tmp_path / "b1.pem"
    KEYS["b1"].write(file)
    with pytest.raises(PolicyError, match="cannot write"):
        KEYS["b2"].write(file)
    assert SigningKey.read(file).key_id == KEYS["b1"].key_id


def test_a_private_key_does_not_show_itself() -> None:
    key = rfc_key()
    assert D not in repr(key)
    assert THUMBPRINT in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.copy(key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_private_key_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "b1.pem"
    KEYS["b1"].write(file)
    file.chmod(mode)
    with pytest.raises(PolicyError, match="chmod 600"):
        SigningKey.read(file)


def other_key() -> bytes:
    return generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def locked_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )


FILES = {
    "nothing": (b"", "not a private key"),
    "something else": (b"hello", "not a private key"),
    "a key of another kind": (other_key(), "not an Ed25519 key"),
    "a key with a pass phrase": (locked_key(), "not a private key"),
}


@pytest.mark.parametrize("title", FILES)
def test_files_that_are_no_private_key(title: str, tmp_path: Path) -> None:
    data, said = FILES[title]
    file = tmp_path / "b1.pem"
    file.write_bytes(data)
    file.chmod(0o600)
    with pytest.raises(PolicyError, match=said):
        SigningKey.read(file)


def test_no_file(tmp_path: Path) -> None:
    for read in (SigningKey.read, KeySet.read, Revoked.read):
        with pytest.raises(PolicyError, match="cannot read"):
            read(tmp_path / "none")


def test_a_key_set_is_written_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = KEY_SET.with_key(PublicKey("b1", key_of("new").public, not_before=NOW)).retire(KEYS["b1"].key_id, NOW + 9)
    keys.write(file)
    assert KeySet.read(file) == keys
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [key.node for key in keys.keys.values()].count("b1") == 2
    assert all(isinstance(one, dict) for one in json.loads(file.read_text())["keys"])


def test_an_empty_key_set(tmp_path: Path) -> None:
    KeySet().write(tmp_path / "keys.json")
    assert KeySet.read(tmp_path / "keys.json") == KeySet()


def test_a_key_is_found_for_its_node_only() -> None:
    assert KEY_SET.find("b1", KEYS["b1"].key_id) is not None
    assert KEY_SET.find("b2", KEYS["b1"].key_id) is None
    assert KEY_SET.find("b1", "other") is None


@pytest.mark.parametrize(
    ("now", "in_use"), [(NOW - 1, False), (NOW, True), (NOW + 8.9, True), (NOW + 9, False), (NOW + 99, False)]
)
def test_when_a_key_is_in_use(now: float, in_use: bool) -> None:
    assert PublicKey("b1", KEYS["b1"].public, NOW, NOW + 9).is_in_use(now) is in_use


def test_a_key_that_is_not_there_cannot_be_retired() -> None:
    with pytest.raises(TokenError) as caught:
        KEY_SET.retire("other", NOW)
    assert caught.value.reason is TokenFault.UNKNOWN_KEY


def jwk(**changes: Any) -> dict[str, Any]:
    return {**as_jwk(PublicKey("b1", rfc_key().public)), **changes}


SETS: dict[str, tuple[Any, str]] = {
    "a list": ([], "the key set"),
    "no keys": ({}, "the key set"),
    "one member too many": ({"keys": [], "more": 1}, "the key set"),
    "a private key": ({"keys": [jwk(d=D)]}, "there is a private key in the key set"),
    "a key id that is not the thumbprint": ({"keys": [jwk(kid="b1")]}, "is not the thumbprint"),
    "a key of another kind": ({"keys": [jwk(kty="EC")]}, "not for Ed25519"),
    "another curve": ({"keys": [jwk(crv="X25519")]}, "not for Ed25519"),
    "another algorithm": ({"keys": [jwk(alg="HS256")]}, "not for Ed25519"),
    "a key for encryption": ({"keys": [jwk(use="enc")]}, "not for Ed25519"),
    "no node": ({"keys": [{name: value for name, value in jwk().items() if name != "node"}]}, "`node`"),
    "a node that is none": ({"keys": [jwk(node="b/1")]}, "node name"),
    "a short key": ({"keys": [jwk(x="AAAA")]}, "3` bytes"),
    "a key that is not base64url": ({"keys": [jwk(x=X + "=")]}, "base64url"),
    "a time before 1970": ({"keys": [jwk(nbf=-1)]}, "times of a key"),
    "one member of a key too many": ({"keys": [jwk(key_ops=["verify"])]}, "a key"),
    "one key twice": ({"keys": [jwk(), jwk()]}, "is there twice"),
    "one key for two nodes": ({"keys": [jwk(), jwk(node="b2")]}, "is there twice"),
}


@pytest.mark.parametrize("title", SETS)
def test_key_sets_that_are_refused(title: str, tmp_path: Path) -> None:
    said, expected = SETS[title]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(said))
    with pytest.raises(PolicyError, match=expected) as caught:
        KeySet.read(file)
    assert str(caught.value).startswith(str(file))
    assert D not in str(caught.value)


def test_a_key_set_with_a_member_twice_is_refused() -> None:
    with pytest.raises(TokenError) as caught:
        KeySet.parse(b'{"keys":[],"keys":[]}')
    assert caught.value.reason is TokenFault.DUPLICATE_MEMBERS


def test_what_is_revoked(tmp_path: Path) -> None:
    file = tmp_path / "revoked"
    assert revoke(file, "token", "t-1")
    assert revoke(file, "key", THUMBPRINT)
    assert not revoke(file, "token", "t-1")
    assert Revoked.read(file) == Revoked(frozenset({"t-1"}), frozenset({THUMBPRINT}))
    assert file.read_text() == f"token t-1\nkey {THUMBPRINT}\n"


def test_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "revoked"
    file.write_text("# stolen in March\n\ntoken  t-1 \n")
    assert revoke(file, "token", "t-2")
    assert file.read_text() == "# stolen in March\n\ntoken  t-1 \ntoken t-2\n"


@pytest.mark.parametrize(
    "line", ["t-1", "tokens t-1", "token", "token a b", "token t-1 # why", " token t-1", "token a/b"]
)
def test_a_line_that_is_not_understood_makes_the_list_unreadable(line: str, tmp_path: Path) -> None:
    file = tmp_path / "revoked"
    file.write_text(f"token t-0\n{line}\n")
    with pytest.raises(PolicyError, match=r"revoked:2: expected `token ID` or `key ID`"):
        Revoked.read(file)
    with pytest.raises(PolicyError):
        revoke(file, "token", "t-2")
    assert file.read_text() == f"token t-0\n{line}\n"


@pytest.mark.parametrize(("kind", "id"), [("token", ""), ("token", "a b"), ("token", "a\ntoken b"), ("user", "a")])
def test_what_cannot_be_revoked(kind: str, id: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        revoke(tmp_path / "revoked", kind, id)
    assert not (tmp_path / "revoked").exists()
