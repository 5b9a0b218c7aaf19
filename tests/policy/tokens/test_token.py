"""Authorisation tokens: what they say, how they are written, and what is not one."""

import json
from typing import Any

import pytest

from penstock.policy.tokens.errors import TokenError, TokenFault
from penstock.policy.tokens.rights import TokenRights
from penstock.policy.tokens.token import (
    MAX_BYTES,
    MAX_FILTER_BYTES,
    MAX_FILTERS,
    MAX_SIGNATURES,
    Party,
    Token,
    issue,
    may_publish,
    new_token_id,
    parse_token,
    sign,
)
from tests.support.memory.tokens import (
    CLAIMS,
    KEYS,
    NOW,
    PLANT,
    encoded,
    header_of,
    key_of,
    outer,
    raw_token,
    signed_by,
    token,
    written,
)


def reason_of(data: bytes) -> TokenFault:
    with pytest.raises(TokenError) as caught:
        parse_token(data)
    return caught.value.reason


# The trust paper, §II-A.

SUBSCRIBING = {
    "f ⊆ f' of §II-A": ({"home/#"}, "home/+/bedroom/#", True),
    "and not the other way": ({"home/+/bedroom/#"}, "home/#", False),
    "all under the first floor": ({"home/firstfloor/#"}, "home/firstfloor/#", True),
    "a room of the first floor": ({"home/firstfloor/#"}, "home/firstfloor/bath", True),
    "`#` takes in its parent level": ({"home/firstfloor/#"}, "home/firstfloor", True),
    "the first floor is not the ground floor": ({"home/firstfloor/#"}, "home/groundfloor/#", False),
    "nor all floors": ({"home/firstfloor/#"}, "home/+/bath", False),
    "a filter with one name is not open": ({"home/firstfloor"}, "home/firstfloor/#", False),
    "nothing permitted": (set(), "a", False),
    "`#` without the topics of the node": ({"#"}, "$SYS/#", False),
    "two that cover it only together do not": ({"a", "a/+/#"}, "a/#", False),
    "of several, one covers": ({"a", "b/#"}, "b/+", True),
    "a shared subscription, by what is behind its group": ({"a/#"}, "$share/group/a/b", True),
    "and not by its group": ({"a/#"}, "$share/a/b", False),
}


@pytest.mark.parametrize("title", SUBSCRIBING)
def test_may_subscribe(title: str) -> None:
    permitted, filter, granted = SUBSCRIBING[title]
    assert TokenRights(frozenset(), frozenset(permitted)).may_subscribe(filter) is granted


PUBLISHING = {
    "the topic of §II-A": ({"home/groundfloor/kitchen"}, "home/groundfloor/kitchen", True),
    "another topic": ({"home/groundfloor/kitchen"}, "home/groundfloor/kitchen/lamp", False),
    "a topic of a bedroom": ({"home/+/bedroom/#"}, "home/secondfloor/bedroom/temperature", True),
    "a topic of a bath": ({"home/+/bedroom/#"}, "home/secondfloor/bath/temperature", False),
    "a filter is no topic": ({"home/#"}, "home/+", False),
    "`#` without the topics of the node": ({"#"}, "$SYS/a", False),
    "nothing": ({"#"}, "", False),
    "what may only be subscribed to": (set(), "home/firstfloor/bath", False),
}


@pytest.mark.parametrize("title", PUBLISHING)
def test_may_publish(title: str) -> None:
    permitted, topic, granted = PUBLISHING[title]
    assert may_publish(token(publish=frozenset(permitted)), topic) is granted


def test_a_token_that_is_written_is_read_again() -> None:
    made = token("b2", "b3")
    assert parse_token(made.text) == made
    assert parse_token(made.text.decode()) == made
    assert made.nodes == ("b1", "b2", "b3")


def test_it_is_a_jws_in_general_json_serialisation() -> None:
    assert sorted(outer(token("b2"))) == ["payload", "signatures"]
    assert [sorted(one) for one in outer(token("b2"))["signatures"]] == [["protected", "signature"]] * 2


def test_a_signature_more_touches_no_other() -> None:
    before, after = token("b3"), sign(token("b3"), "b2", KEYS["b2"])
    assert outer(after)["payload"] == outer(before)["payload"]
    assert [one for one in outer(after)["signatures"] if one in outer(before)["signatures"]] == outer(before)[
        "signatures"
    ]


def test_the_digest_of_the_claims_is_that_of_all_who_sign_and_the_tokens_own_is_not() -> None:
    assert token().claims.digest == token("b2").claims.digest
    assert token().digest != token("b2").digest
    assert token().claims.digest != token(id="t-2").claims.digest


def test_the_order_of_signatures_means_nothing() -> None:
    turned = outer(token("b2", "b3"))
    turned["signatures"].reverse()
    found = parse_token(written(turned))
    assert found == token("b2", "b3")
    assert found.digest == token("b2", "b3").digest


def test_a_node_signs_once() -> None:
    with pytest.raises(TokenError) as caught:
        sign(token("b2"), "b2", key_of("another key of b2"))
    assert caught.value.reason is TokenFault.SIGNED_TWICE


def test_ids_differ() -> None:
    assert len({new_token_id() for _ in range(100)}) == 100


# What cannot be said.

CLAIMED: dict[str, tuple[dict[str, Any], TokenFault]] = {
    "an issuer without a name": ({"issuer": ""}, TokenFault.MALFORMED),
    "an issuer with a line end": ({"issuer": "b1\n"}, TokenFault.MALFORMED),
    "a domain as subject": ({"subject": PLANT}, TokenFault.MALFORMED),
    "a client without a name": ({"subject": Party("client", "")}, TokenFault.MALFORMED),
    "a client with a line end": ({"subject": Party("client", "a\nb")}, TokenFault.MALFORMED),
    "a client with a surrogate": ({"subject": Party("client", "\ud800")}, TokenFault.MALFORMED),
    "a client with a long name": ({"subject": Party("client", "ä" * 129)}, TokenFault.MALFORMED),
    "for nobody": ({"audience": frozenset()}, TokenFault.MALFORMED),
    "for a client": ({"audience": frozenset({Party("client", "a")})}, TokenFault.MALFORMED),
    "for a node with a slash": ({"audience": frozenset({Party("node", "a/b")})}, TokenFault.MALFORMED),
    "expired before it counts": ({"not_before": NOW + 3_600}, TokenFault.MALFORMED),
    "expired before it was issued": ({"issued": NOW + 3_600}, TokenFault.MALFORMED),
    "a time before 1970": ({"issued": -1}, TokenFault.MALFORMED),
    "a time with a fraction": ({"issued": NOW - 0.5}, TokenFault.MALFORMED),
    "a time that is true": ({"not_before": True}, TokenFault.MALFORMED),
    "a time after 9999": ({"expiry": 10**12}, TokenFault.MALFORMED),
    "no id": ({"id": ""}, TokenFault.MALFORMED),
    "an id with a blank": ({"id": "a b"}, TokenFault.MALFORMED),
    "a long id": ({"id": "a" * 65}, TokenFault.MALFORMED),
    "an empty filter": ({"publish": frozenset({""})}, TokenFault.MALFORMED),
    "what is no filter": ({"subscribe": frozenset({"a/#/b"})}, TokenFault.MALFORMED),
    "a shared subscription": ({"subscribe": frozenset({"$share/g/a"})}, TokenFault.MALFORMED),
    "a node that publishes": ({"subject": Party("node", "b2")}, TokenFault.MALFORMED),
    "a long filter": ({"publish": frozenset({"a" * (MAX_FILTER_BYTES + 1)})}, TokenFault.OVERSIZED),
    "many filters": ({"publish": frozenset(map(str, range(MAX_FILTERS)))}, TokenFault.OVERSIZED),
    "more than 16 KiB": ({"publish": frozenset(f"{one:0500}" for one in range(40))}, TokenFault.OVERSIZED),
}


@pytest.mark.parametrize("title", CLAIMED)
def test_what_no_token_says(title: str) -> None:
    changes, reason = CLAIMED[title]
    with pytest.raises(TokenError) as caught:
        token(**changes)
    assert caught.value.reason is reason


def test_the_bounds_can_be_reached() -> None:
    many = token(publish=frozenset(map(str, range(MAX_FILTERS - 1))))
    assert parse_token(many.text) == many
    long = token(publish=frozenset({"a" * MAX_FILTER_BYTES}))
    assert parse_token(long.text) == long
    often = issue(CLAIMS, KEYS["b1"])
    for number in range(2, MAX_SIGNATURES + 1):
        often = sign(often, f"b{number}", KEYS["b2"])
    assert parse_token(often.text) == often
    with pytest.raises(TokenError) as caught:
        sign(often, "b0", KEYS["b2"])
    assert caught.value.reason is TokenFault.OVERSIZED


def test_a_node_holds_a_token_to_subscribe() -> None:
    made = token(subject=Party("node", "b2"), publish=frozenset())
    assert parse_token(made.text).claims.subject == Party("node", "b2")


# What is sent, and is not a token.

PAYLOAD = json.loads(issue(CLAIMS, KEYS["b1"]).claims._json)


def payload(**changes: Any) -> bytes:
    said = {**PAYLOAD, **changes}
    return json.dumps(said, separators=(",", ":"), sort_keys=True).encode()


PAYLOADS = {
    "not JSON": (b"{", TokenFault.MALFORMED),
    "not UTF-8": (b'{"token":"\xff"}', TokenFault.MALFORMED),
    "a list": (b"[]", TokenFault.MALFORMED),
    "nothing": (b"", TokenFault.MALFORMED),
    "deep": (b"[" * 5_000, TokenFault.MALFORMED),
    "a number that is not JSON": (payload().replace(b'"token":1', b'"token":NaN'), TokenFault.MALFORMED),
    "a version to come": (payload(token=2), TokenFault.MALFORMED),
    "one claim is missing": (payload().replace(b'"token":1', b'"x":1'), TokenFault.MALFORMED),
    "one claim too many": (payload(admin=True), TokenFault.MALFORMED),
    "a time that is true": (payload(nbf=True), TokenFault.MALFORMED),
    "a time with a fraction": (payload(nbf=1.5), TokenFault.MALFORMED),
    "a time as text": (payload(nbf="1"), TokenFault.MALFORMED),
    "a time of 5,000 digits": (payload().replace(b'"token":1', b'"token":' + b"1" * 5_000), TokenFault.MALFORMED),
    "a filter that is a number": (payload(publish=[1]), TokenFault.MALFORMED),
    "filters that are a text": (payload(publish="a"), TokenFault.MALFORMED),
    "a subject without a kind": (payload(sub="pump"), TokenFault.MALFORMED),
    "a subject of no kind": (payload(sub="user:pump"), TokenFault.MALFORMED),
    "many filters, all the same": (payload(publish=["a"] * (MAX_FILTERS + 1)), TokenFault.OVERSIZED),
    "a claim twice": (payload().replace(b'"token":1', b'"token":1,"token":1'), TokenFault.DUPLICATE_MEMBERS),
    "a claim twice, once in disguise": (
        payload().replace(b'"token":1', b'"token":1,"t\\u006fken":1'),
        TokenFault.DUPLICATE_MEMBERS,
    ),
    "blanks": (json.dumps(PAYLOAD, sort_keys=True).encode(), TokenFault.NOT_CANONICAL),
    "another order": (
        json.dumps(dict(reversed(PAYLOAD.items())), separators=(",", ":")).encode(),
        TokenFault.NOT_CANONICAL,
    ),
    "an escape": (payload().replace(b"pump", b"p\\u0075mp"), TokenFault.NOT_CANONICAL),
    "a line end after it": (payload() + b"\n", TokenFault.NOT_CANONICAL),
    "a filter twice": (payload(publish=["a", "a"]), TokenFault.NOT_CANONICAL),
    "filters in another order": (payload(publish=["b", "a"]), TokenFault.NOT_CANONICAL),
    "a number in another form": (payload().replace(b'"token":1', b'"token":1e0'), TokenFault.MALFORMED),
}


@pytest.mark.parametrize("title", PAYLOADS)
def test_payloads_that_are_refused_though_signed(title: str) -> None:
    data, reason = PAYLOADS[title]
    assert reason_of(raw_token(data)) is reason


def test_the_payload_that_the_cases_change_is_good() -> None:
    assert parse_token(raw_token(payload())) == token()


HEADERS: dict[str, tuple[bytes | dict[str, Any], TokenFault]] = {
    "alg none": (header_of("b1", alg="none"), TokenFault.ALGORITHM),
    "alg None": (header_of("b1", alg="None"), TokenFault.ALGORITHM),
    "alg HS256": (header_of("b1", alg="HS256"), TokenFault.ALGORITHM),
    "alg Ed25519, which is another name": (header_of("b1", alg="Ed25519"), TokenFault.ALGORITHM),
    "alg a list": (header_of("b1", alg=["EdDSA"]), TokenFault.ALGORITHM),
    "no alg": ({"kid": KEYS["b1"].key_id, "node": "b1"}, TokenFault.ALGORITHM),
    "not an object": (b'"EdDSA"', TokenFault.ALGORITHM),
    "not JSON": (b"EdDSA", TokenFault.MALFORMED),
    "crit": (header_of("b1", crit=["exp"], exp=0), TokenFault.CRITICAL_HEADER),
    "crit, empty": (header_of("b1", crit=[]), TokenFault.CRITICAL_HEADER),
    "a key of its own": (header_of("b1", jwk={"kty": "OKP"}), TokenFault.MALFORMED),
    "an address of keys": (header_of("b1", jku="http://127.0.0.1/keys"), TokenFault.MALFORMED),
    "no node": ({"alg": "EdDSA", "kid": KEYS["b1"].key_id}, TokenFault.MALFORMED),
    "a node that is none": (header_of("b1", node="b/1"), TokenFault.MALFORMED),
    "a key id that is none": (header_of("b1", kid="../b1.pem"), TokenFault.MALFORMED),
    "blanks": (json.dumps(header_of("b1")).encode(), TokenFault.NOT_CANONICAL),
    "alg twice": (b'{"alg":"none","alg":"EdDSA","kid":"k","node":"b1"}', TokenFault.DUPLICATE_MEMBERS),
}


@pytest.mark.parametrize("title", HEADERS)
def test_headers_that_are_refused_though_signed(title: str) -> None:
    header, reason = HEADERS[title]
    text = CLAIMS.payload
    assert reason_of(written({"payload": text, "signatures": [signed_by("b1", text, header)]})) is reason


def changed(**changes: Any) -> bytes:
    return written({**outer(token()), **changes})


ONE = outer(token())["signatures"][0]
OUTERS = {
    "nothing": (b"", TokenFault.MALFORMED),
    "compact serialisation": (
        ".".join((ONE["protected"], CLAIMS.payload, ONE["signature"])).encode(),
        TokenFault.MALFORMED,
    ),
    "flattened serialisation": (written({"payload": CLAIMS.payload, **ONE}), TokenFault.MALFORMED),
    "UTF-16": (token().text.decode().encode("utf-16"), TokenFault.MALFORMED),
    "one member too many": (changed(other=1), TokenFault.MALFORMED),
    "no signatures": (written({"payload": CLAIMS.payload}), TokenFault.MALFORMED),
    "an unprotected header": (changed(signatures=[{**ONE, "header": {"alg": "none"}}]), TokenFault.MALFORMED),
    "only an unprotected header": (
        changed(signatures=[{"header": header_of("b1"), "signature": ONE["signature"]}]),
        TokenFault.MALFORMED,
    ),
    "padding": (changed(payload=CLAIMS.payload + "="), TokenFault.MALFORMED),
    "a line end within": (changed(payload=CLAIMS.payload[:8] + "\n" + CLAIMS.payload[8:]), TokenFault.MALFORMED),
    "letters that are not base64url": (changed(payload="ä"), TokenFault.MALFORMED),
    "a short signature": (changed(signatures=[{**ONE, "signature": encoded(b"a" * 63)}]), TokenFault.MALFORMED),
    "an empty signature": (changed(signatures=[{**ONE, "signature": ""}]), TokenFault.MALFORMED),
    "two payloads": (token().text.replace(b'{"payload"', b'{"payload":"","payload"'), TokenFault.DUPLICATE_MEMBERS),
    "two signatures in one": (
        token().text.replace(b'"signature":', b'"signature":"","signature":'),
        TokenFault.DUPLICATE_MEMBERS,
    ),
    "two signatures of one node": (changed(signatures=[ONE, ONE]), TokenFault.SIGNED_TWICE),
    "65 signatures": (changed(signatures=[{"protected": "", "signature": ""}] * 65), TokenFault.OVERSIZED),
    "more than 16 KiB": (token().text + b" " * MAX_BYTES, TokenFault.OVERSIZED),
}


@pytest.mark.parametrize("title", OUTERS)
def test_what_is_sent_and_is_no_token(title: str) -> None:
    data, reason = OUTERS[title]
    assert reason_of(data) is reason


LONG = "\n" * 1_000
MESSAGES = {
    "an algorithm": (CLAIMS.payload, header_of("b1", alg=LONG)),
    "a member of a header": (CLAIMS.payload, header_of("b1", **{LONG: 1})),
    "a node": (CLAIMS.payload, header_of("b1", node=LONG)),
    "a member of the payload": (encoded(payload(**{LONG: 1})), header_of("b1")),
    "a filter": (encoded(payload(publish=["#" + LONG])), header_of("b1")),
    "a subject": (encoded(payload(sub=LONG)), header_of("b1")),
}


@pytest.mark.parametrize("title", MESSAGES)
def test_a_message_is_one_short_line(title: str) -> None:
    text, header = MESSAGES[title]
    with pytest.raises(TokenError) as caught:
        parse_token(written({"payload": text, "signatures": [signed_by("b1", text, header)]}))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_token_without_signatures_can_be_read_and_says_so() -> None:
    assert parse_token(changed(signatures=[])) == Token(CLAIMS, ())
