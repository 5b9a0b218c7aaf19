"""Tokens of any kind: what is written is read, and what is changed is refused."""

import base64
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.topic import covers, matches
from penstock.policy.tokens.encoding import from_base64url, to_base64url
from penstock.policy.tokens.errors import TokenError, TokenFault
from penstock.policy.tokens.rights import TokenRights
from penstock.policy.tokens.token import Claims, Party, Token, issue, may_publish, parse_token, sign
from penstock.policy.tokens.verification import verify
from tests.support.memory.tokens import CLAIMS, KEY_SET, KEYS, NODES, NOW, PLANT, encoded, outer, token, written

names = st.from_regex(r"\A[A-Za-z0-9_-]{1,12}\Z")
levels = st.one_of(
    st.sampled_from(["a", "b", "", "$SYS", "ä\t"]), st.text(st.characters(codec="utf-8"), max_size=4)
).map(lambda level: "".join(one for one in level if one not in "+#/\0"))
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(lambda topic: topic and topic[:7] != "$share/")
wild = st.lists(st.one_of(levels, st.just("+")), min_size=1, max_size=4)
filters = (
    st.tuples(wild, st.booleans())
    .map(lambda parts: "/".join([*parts[0], "#"] if parts[1] else parts[0]))
    .filter(lambda filter: filter and filter[:7] != "$share/")
)
times = st.integers(0, NOW)
subjects = st.one_of(
    names.map(partial(Party, "node")),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
    .filter(str.isprintable)
    .map(partial(Party, "client")),
)


@st.composite
def claims(draw: st.DrawFn) -> Claims:
    subject = draw(subjects)
    issued, not_before = draw(times), draw(times)
    return Claims(
        issuer=draw(st.sampled_from(NODES)),
        subject=subject,
        audience=draw(
            st.frozensets(st.builds(Party, st.sampled_from(["domain", "node"]), names), min_size=1, max_size=4)
        ),
        publish=frozenset() if subject.kind == "node" else draw(st.frozensets(filters, max_size=5)),
        subscribe=draw(st.frozensets(filters, max_size=5)),
        issued=issued,
        not_before=not_before,
        expiry=max(issued, not_before) + draw(st.integers(1, 10**6)),
        id=draw(st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z")),
    )


@st.composite
def tokens(draw: st.DrawFn) -> Token:
    made = draw(claims())
    found = issue(made, KEYS[made.issuer])
    for node in draw(st.permutations([one for one in NODES if one != made.issuer]))[: draw(st.integers(0, 5))]:
        found = sign(found, node, KEYS[node])
    return found


@given(tokens())
def test_what_is_written_is_read_and_verified(made: Token) -> None:
    read = parse_token(made.text)
    assert read == made
    assert read.digest == made.digest
    found = verify(read, KEY_SET, made.claims.not_before, made.claims.audience)
    assert found.signers == set(made.nodes)


@given(tokens(), st.randoms(use_true_random=False))
def test_the_order_of_signatures_means_nothing(made: Token, random: object) -> None:
    turned = outer(made)
    getattr(random, "shuffle")(turned["signatures"])  # noqa: B009
    assert parse_token(written(turned)).text == made.text


@given(tokens(), claims())
def test_no_other_claims_go_under_a_signature(made: Token, other: Claims) -> None:
    other = replace(other, issuer=made.claims.issuer, audience=made.claims.audience, id=f"x{made.claims.id[1:]}y"[:64])
    if other == made.claims:
        return
    with pytest.raises(TokenError) as caught:
        verify(Token(other, made.signatures), KEY_SET, other.not_before, other.audience)
    assert caught.value.reason is TokenFault.BAD_SIGNATURE


def flipped(data: bytes, at: int, by: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def is_refused(text: bytes) -> bool:
    try:
        verify(parse_token(text), KEY_SET, NOW, [PLANT])
    except TokenError:
        return True
    return False


SIGNED = token("b2", "b3")
places = st.integers(0, 10**6)
flips = st.integers(1, 255)


def test_the_token_that_is_changed_is_good() -> None:
    assert not is_refused(SIGNED.text)


@given(places, flips)
def test_any_change_of_a_byte_of_the_payload_is_refused(at: int, by: int) -> None:
    data = from_base64url(CLAIMS.payload, "payload")
    assert is_refused(written({**outer(SIGNED), "payload": encoded(flipped(data, at, by))}))


@given(st.integers(0, 2), places, flips)
def test_any_change_of_a_byte_of_a_signature_is_refused(which: int, at: int, by: int) -> None:
    changed = outer(SIGNED)
    one = changed["signatures"][which]
    one["signature"] = encoded(flipped(from_base64url(one["signature"], "signature"), at, by))
    assert is_refused(written(changed))


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/= \n"


@given(st.integers(-1, 2), places, st.sampled_from(LETTERS))
def test_any_other_letter_in_the_base64_of_payload_and_signatures_is_refused(which: int, at: int, letter: str) -> None:
    changed = outer(SIGNED)
    place, name = (changed, "payload") if which < 0 else (changed["signatures"][which], "signature")
    text = place[name]
    at %= len(text)
    if text[at] != letter:
        place[name] = text[:at] + letter + text[at + 1 :]
        assert is_refused(written(changed))


@given(st.integers(0, 2), places, flips)
def test_a_signature_with_a_changed_header_never_counts(which: int, at: int, by: int) -> None:
    changed = outer(SIGNED)
    one = changed["signatures"][which]
    one["protected"] = encoded(flipped(from_base64url(one["protected"], "header"), at, by))
    try:
        found = verify(parse_token(written(changed)), KEY_SET, NOW, [PLANT])
    except TokenError:
        return
    assert which > 0
    assert found.signers == {"b1", "b2", "b3"} - {SIGNED.nodes[which]}


@given(places, flips)
def test_a_byte_changed_anywhere_never_makes_another_token(at: int, by: int) -> None:
    text = flipped(SIGNED.text, at, by)
    try:
        found = verify(parse_token(text), KEY_SET, NOW, [PLANT])
    except TokenError:
        return
    assert found.token.claims == CLAIMS
    assert found.signers <= {"b1", "b2", "b3"}


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(TokenError):
        parse_token(data)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5), st.data())
def test_any_json_in_any_place_is_refused_with_a_reason(value: object, data: st.DataObject) -> None:
    changed = outer(SIGNED)
    place = data.draw(st.sampled_from([changed, changed["signatures"][0]]))
    name = data.draw(st.sampled_from(sorted(place)))
    if place[name] != value:
        place[name] = value
        assert is_refused(written(changed))


@given(st.binary(max_size=50))
def test_base64url_is_read_as_it_is_written(data: bytes) -> None:
    assert from_base64url(to_base64url(data), "data") == data
    assert to_base64url(data) == base64.urlsafe_b64encode(data).decode().rstrip("=")


@given(st.frozensets(filters, max_size=4), filters, topics)
def test_a_subscription_that_is_granted_brings_only_what_is_permitted(
    permitted: frozenset[str], wanted: str, topic: str
) -> None:
    made, rights = token(publish=permitted), TokenRights(permitted, permitted)
    assert rights.may_subscribe(wanted) == any(covers(one, wanted) for one in permitted)
    assert may_publish(made, topic) == any(matches(one, topic) for one in permitted)
    if rights.may_subscribe(wanted) and matches(wanted, topic):
        assert may_publish(made, topic)
