"""Which tokens are accepted, whose signatures count, and for which reason others are refused."""

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Any

import pytest

from penstock.policy.tokens.errors import TokenError, TokenFault
from penstock.policy.tokens.keys import KeySet, PublicKey
from penstock.policy.tokens.revocation import NOTHING, Revoked
from penstock.policy.tokens.token import MAX_SIGNATURES, Party, Token, issue, parse_token, sign
from penstock.policy.tokens.verification import Verified, Verifier, check_signatures, verify
from tests.support.memory.tokens import (
    CLAIMS,
    KEY_SET,
    KEYS,
    NOW,
    PLANT,
    PUMP,
    encoded,
    header_of,
    key_of,
    outer,
    signed_by,
    token,
    written,
)

HERE = (PLANT, Party("node", "b6"))


def retired(node: str, at: int) -> KeySet:
    return KEY_SET.retire(KEYS[node].key_id, at)


@dataclass(frozen=True)
class Case:
    """A token as it is presented, at which time and where, and what is known there."""

    text: bytes
    now: float = NOW
    keys: KeySet = KEY_SET
    audience: tuple[Party, ...] = HERE
    revoked: Revoked = NOTHING
    holder: Party | None = None

    def verify(self) -> Verified:
        return verify(parse_token(self.text), self.keys, self.now, self.audience, self.revoked, self.holder)


ACCEPTED: dict[str, tuple[Case, set[str]]] = {
    "the issuer's signature alone": (Case(token().text), {"b1"}),
    "S of §II-D": (Case(token("b2", "b3").text), {"b1", "b2", "b3"}),
    "in the first second": (Case(token().text, now=CLAIMS.not_before), {"b1"}),
    "just before it expires": (Case(token().text, now=CLAIMS.expiry - 0.001), {"b1"}),
    "for a node": (Case(token(audience=frozenset({HERE[1]})).text), {"b1"}),
    "for several": (Case(token(audience=frozenset({HERE[1], Party("node", "b5")})).text), {"b1"}),
    "its holder presents it": (Case(token().text, holder=PUMP), {"b1"}),
    "signatures in another order": (
        Case(written({**outer(token("b2")), "signatures": outer(token("b2"))["signatures"][::-1]})),
        {"b1", "b2"},
    ),
    "a signer whose keys are not known does not count": (
        Case(token("b2", "b3").text, keys=KeySet.of(key for key in KEY_SET.keys.values() if key.node != "b2")),
        {"b1", "b3"},
    ),
    "a signer with a retired key does not count": (Case(token("b2").text, keys=retired("b2", NOW)), {"b1"}),
    "a signer with a revoked key does not count": (
        Case(token("b2").text, revoked=Revoked(keys=frozenset({KEYS["b2"].key_id}))),
        {"b1"},
    ),
    "a key that is retired later": (Case(token().text, keys=retired("b1", NOW + 1)), {"b1"}),
    "another token is revoked": (Case(token().text, revoked=Revoked(tokens=frozenset({"t-2"}))), {"b1"}),
    "a signer that another has stripped is just not there": (Case(token().text), {"b1"}),
}


@pytest.mark.parametrize("title", ACCEPTED)
def test_accepted(title: str) -> None:
    case, signers = ACCEPTED[title]
    assert case.verify().signers == signers


def with_signatures(token: Token, *signatures: dict[str, Any]) -> bytes:
    return written({**outer(token), "signatures": list(signatures)})


def signature_of(token: Token, node: str) -> dict[str, Any]:
    at = token.nodes.index(node)
    found: dict[str, Any] = outer(token)["signatures"][at]
    return found


def forged(**claims: Any) -> bytes:
    """Other claims, under the signature of the old ones."""
    return written({**outer(token()), "payload": replace(CLAIMS, **claims).payload})


def keyed_with_public_key() -> bytes:
    """HS256 whose secret is the public key that everybody knows."""
    protected = encoded(header_of("b1", alg="HS256"))
    mac = hmac.digest(KEYS["b1"].public, f"{protected}.{CLAIMS.payload}".encode(), hashlib.sha256)
    return with_signatures(token(), {"protected": protected, "signature": encoded(mac)})


def unsigned() -> bytes:
    return with_signatures(token(), {"protected": encoded(header_of("b1", alg="none")), "signature": ""})


MALLORY = key_of("mallory")
REFUSED: dict[str, tuple[Case, TokenFault]] = {
    "forged: more to publish": (Case(forged(publish=frozenset({"#"}))), TokenFault.BAD_SIGNATURE),
    "forged: a later expiry": (Case(forged(expiry=NOW * 2)), TokenFault.BAD_SIGNATURE),
    "forged: another holder": (Case(forged(subject=Party("client", "mallory"))), TokenFault.BAD_SIGNATURE),
    "signed with a key that nobody knows": (Case(issue(CLAIMS, MALLORY).text), TokenFault.UNKNOWN_KEY),
    "signed as b1 with the key of b2": (Case(issue(CLAIMS, KEYS["b2"]).text), TokenFault.UNKNOWN_KEY),
    "signed by b2 under the key id of b1": (
        Case(with_signatures(token(), signed_by("b2", CLAIMS.payload, header_of("b1")))),
        TokenFault.BAD_SIGNATURE,
    ),
    "a signature moved from another token": (
        Case(with_signatures(token(), signature_of(token(id="t-2"), "b1"))),
        TokenFault.BAD_SIGNATURE,
    ),
    "a signer's signature moved from another token": (
        Case(with_signatures(token(), signature_of(token(), "b1"), signature_of(token("b2", id="t-2"), "b2"))),
        TokenFault.BAD_SIGNATURE,
    ),
    "signatures of two nodes exchanged": (
        Case(
            with_signatures(
                token("b2"),
                {**signature_of(token("b2"), "b1"), "signature": signature_of(token("b2"), "b2")["signature"]},
                {**signature_of(token("b2"), "b2"), "signature": signature_of(token("b2"), "b1")["signature"]},
            )
        ),
        TokenFault.BAD_SIGNATURE,
    ),
    "the issuer's signature stripped": (
        Case(with_signatures(token("b2"), signature_of(token("b2"), "b2"))),
        TokenFault.ISSUER_MISSING,
    ),
    "all signatures stripped": (Case(with_signatures(token())), TokenFault.ISSUER_MISSING),
    "alg none": (Case(unsigned()), TokenFault.ALGORITHM),
    "HS256 with the public key as secret": (Case(keyed_with_public_key()), TokenFault.ALGORITHM),
    "expired": (Case(token().text, now=CLAIMS.expiry), TokenFault.EXPIRED),
    "not yet valid": (Case(token().text, now=CLAIMS.not_before - 0.001), TokenFault.NOT_YET_VALID),
    "replayed in another domain": (Case(token().text, audience=(Party("domain", "city"),)), TokenFault.WRONG_AUDIENCE),
    "replayed at another node": (
        Case(token(audience=frozenset({Party("node", "b5")})).text),
        TokenFault.WRONG_AUDIENCE,
    ),
    "a node that is called as the domain": (
        Case(token().text, audience=(Party("node", "plant"),)),
        TokenFault.WRONG_AUDIENCE,
    ),
    "nowhere": (Case(token().text, audience=()), TokenFault.WRONG_AUDIENCE),
    "replayed by another client": (Case(token().text, holder=Party("client", "fan")), TokenFault.WRONG_HOLDER),
    "a client that is called as a node": (
        Case(token(subject=Party("node", "b2"), publish=frozenset()).text, holder=Party("client", "b2")),
        TokenFault.WRONG_HOLDER,
    ),
    "replayed after its id was revoked": (Case(token().text, revoked=Revoked(frozenset({"t-1"}))), TokenFault.REVOKED),
    "the issuer's key is revoked": (
        Case(token("b2").text, revoked=Revoked(keys=frozenset({KEYS["b1"].key_id}))),
        TokenFault.REVOKED,
    ),
    "the issuer's key is retired": (Case(token().text, keys=retired("b1", NOW)), TokenFault.KEY_NOT_IN_USE),
    "the issuer's key is to be used later": (
        Case(token().text, keys=KeySet.of([PublicKey("b1", KEYS["b1"].public, not_before=NOW + 1)])),
        TokenFault.KEY_NOT_IN_USE,
    ),
    "no keys": (Case(token().text, keys=KeySet()), TokenFault.UNKNOWN_KEY),
}


@pytest.mark.parametrize("title", REFUSED)
def test_refused(title: str) -> None:
    case, reason = REFUSED[title]
    with pytest.raises(TokenError) as caught:
        case.verify()
    assert caught.value.reason is reason
    assert str(caught.value).startswith(f"{reason}: ")


def test_every_reason_is_shown_by_some_test() -> None:
    from tests.policy.tokens.test_token import CLAIMED, HEADERS, OUTERS, PAYLOADS

    at_parsing = [reason for cases in (CLAIMED, HEADERS, OUTERS, PAYLOADS) for _, reason in cases.values()]
    assert {*at_parsing, *(reason for _, reason in REFUSED.values())} == set(TokenFault)


def test_each_signature_has_its_reason() -> None:
    made = token("b2", "b3", "b4", "b5")
    moved = signature_of(token("b5", id="t-2"), "b5")
    bad = parse_token(with_signatures(made, *outer(made)["signatures"][:4], moved))
    keys = retired("b2", NOW)
    keys = KeySet.of(key for key in keys.keys.values() if key.node != "b3")
    found = tuple(check_signatures(bad, keys, NOW, Revoked(keys=frozenset({KEYS["b4"].key_id}))))
    assert {one.node: one.reason for one in found} == {
        "b1": None,
        "b2": TokenFault.KEY_NOT_IN_USE,
        "b3": TokenFault.UNKNOWN_KEY,
        "b4": TokenFault.REVOKED,
        "b5": TokenFault.BAD_SIGNATURE,
    }


def test_a_signature_has_one_form() -> None:
    """The second half of a signature is a number modulo the order of the group: with that added, it must be refused."""
    order = 2**252 + 27742317777372353535851937790883648493
    signature = token().signatures[0]
    number = int.from_bytes(signature.value[32:], "little") + order
    other = replace(signature, value=signature.value[:32] + number.to_bytes(32, "little"))
    (found,) = check_signatures(Token(CLAIMS, (other,)), KEY_SET, NOW)
    assert found.reason is TokenFault.BAD_SIGNATURE


def test_rotation_old_and_new_keys_of_a_node_count_side_by_side() -> None:
    new = key_of("the second key of b1")
    keys = KEY_SET.with_key(PublicKey("b1", new.public, not_before=NOW)).retire(KEYS["b1"].key_id, NOW + 100)
    old_token, new_token = token(), issue(CLAIMS, new)

    def signers(token: Token, now: float) -> frozenset[str]:
        return verify(token, keys, now, HERE).signers

    assert signers(old_token, NOW) == signers(new_token, NOW) == {"b1"}
    assert signers(new_token, NOW + 100) == {"b1"}
    with pytest.raises(TokenError) as caught:
        signers(old_token, NOW + 100)
    assert caught.value.reason is TokenFault.KEY_NOT_IN_USE
    with pytest.raises(TokenError):
        signers(new_token, NOW - 1)


class CountingKeys(KeySet):
    """A key set that counts how often a key is looked for."""

    looked: list[str]

    def find(self, node: str, key_id: str) -> PublicKey | None:
        self.looked.append(node)
        return super().find(node, key_id)


def counting(keys: KeySet = KEY_SET) -> CountingKeys:
    made = CountingKeys(keys.keys)
    object.__setattr__(made, "looked", [])
    return made


def test_a_token_is_verified_once() -> None:
    keys = counting()
    verifier = Verifier(keys, HERE)
    first = verifier.verify(token("b2").text, NOW)
    keys.looked.clear()
    assert verifier.verify(token("b2").text, NOW + 1) is first
    assert verifier.named(token("b2").digest, NOW + 1) is first
    assert keys.looked == []


def test_another_form_of_a_known_token_is_not_verified_again() -> None:
    keys = counting()
    verifier = Verifier(keys, HERE)
    first = verifier.verify(token("b2").text, NOW)
    keys.looked.clear()
    assert verifier.verify(token("b2").text + b"\n", NOW) is first
    assert keys.looked == []


def test_what_is_kept_ends_with_the_token() -> None:
    verifier = Verifier(KEY_SET, HERE)
    verifier.verify(token().text, NOW)
    with pytest.raises(TokenError) as caught:
        verifier.verify(token().text, CLAIMS.expiry)
    assert caught.value.reason is TokenFault.EXPIRED
    assert verifier.named(token().digest, CLAIMS.expiry) is None
    assert verifier.named(token().digest, CLAIMS.not_before - 1) is None


def test_what_is_kept_ends_with_a_key() -> None:
    verifier = Verifier(retired("b2", NOW + 5), HERE)
    assert verifier.verify(token("b2").text, NOW).signers == {"b1", "b2"}
    assert verifier.named(token("b2").digest, NOW + 5) is None
    assert verifier.verify(token("b2").text, NOW + 5).signers == {"b1"}
    assert verifier.verify(token("b2").text, NOW + 4).signers == {"b1", "b2"}  # a clock that was set back


def test_a_signer_counts_once_its_key_is_in_use() -> None:
    later = [replace(key, not_before=NOW + 5) if key.node == "b2" else key for key in KEY_SET.keys.values()]
    verifier = Verifier(KeySet.of(later), HERE)
    assert verifier.verify(token("b2").text, NOW).signers == {"b1"}
    assert verifier.verify(token("b2").text, NOW + 5).signers == {"b1", "b2"}


def test_a_kept_token_is_not_anybody_elses() -> None:
    verifier = Verifier(KEY_SET, HERE)
    verifier.verify(token().text, NOW, holder=PUMP)
    with pytest.raises(TokenError) as caught:
        verifier.verify(token().text, NOW, holder=Party("client", "fan"))
    assert caught.value.reason is TokenFault.WRONG_HOLDER


def test_what_is_refused_is_not_kept() -> None:
    verifier = Verifier(KEY_SET, HERE)
    for _ in range(2):
        with pytest.raises(TokenError):
            verifier.verify(forged(publish=frozenset({"#"})), NOW)
    assert verifier.named(parse_token(forged(publish=frozenset({"#"}))).digest, NOW) is None


def test_at_most_so_many_are_kept() -> None:
    verifier = Verifier(KEY_SET, HERE, max_tokens=2)
    made = [token(id=f"t-{number}") for number in range(3)]
    for one in made:
        verifier.verify(one.text, NOW)
    assert [verifier.named(one.digest, NOW) is not None for one in made] == [False, True, True]
    assert verifier.verify(made[0].text, NOW).signers == {"b1"}


def test_a_token_whose_issuer_did_not_sign_it_costs_one_signature() -> None:
    bad = parse_token(with_signatures(token(), signature_of(token(id="t-2"), "b1")))
    for number in range(2, MAX_SIGNATURES + 1):
        bad = sign(bad, f"a{number}", KEYS["b2"])
    keys = counting()
    with pytest.raises(TokenError):
        verify(bad, keys, NOW, HERE)
    assert keys.looked == ["b1"]
