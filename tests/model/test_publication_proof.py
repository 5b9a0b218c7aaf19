"""Proofs of single publications: right for just this message, once, on this connection, in this direction."""

from typing import Any

import pytest

from penstock.model.group_proof import ProofExchange
from penstock.model.publication_proof import (
    NO_PROOF,
    NOT_THIS_GROUP,
    PROOF,
    PublicationChecker,
    PublicationProver,
    SentPublication,
)

SECRETS = {"inner": b"inner secret of 32 random bytes!", "outer": b"outer secret of 32 random bytes!"}
EXCHANGE = ProofExchange(b"c" * 32, b"n" * 32, "ann", "node")
PLAIN = SentPublication("t", b"payload", 1, False, 60, 1, "text/plain", "answer", b"id", (("a", "b"), ("c", "d")))
CHANGED = "its proof is wrong: another secret, or it was changed on its way"
USED = "its proof has been used before on this connection"


def with_proof(publication: SentPublication, proof: str) -> SentPublication:
    return publication._replace(user_properties=(*publication.user_properties, (PROOF, proof)))


def proven(publication: SentPublication = PLAIN, exchange: ProofExchange = EXCHANGE) -> SentPublication:
    return with_proof(publication, PublicationProver(exchange, "client").prove(publication, SECRETS))


def check(publication: SentPublication, secrets: dict[str, bytes] = SECRETS) -> dict[str, str]:
    return PublicationChecker(EXCHANGE, "client").check(publication, secrets)


def test_a_publication_proves_the_groups_whose_secrets_its_sender_has() -> None:
    assert check(proven()) == {"inner": "", "outer": ""}
    assert check(proven(), {"inner": SECRETS["inner"], "outer": b"another secret"}) == {"inner": "", "outer": CHANGED}
    assert check(proven(), {"third": b"third"}) == {"third": NOT_THIS_GROUP}
    assert check(PLAIN) == {"inner": NO_PROOF, "outer": NO_PROOF}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", "u"),
        ("payload", b"Payload"),
        ("qos", 0),
        ("retain", True),
        ("expiry", 61),
        ("expiry", None),
        ("payload_format", None),
        ("content_type", "text/html"),
        ("content_type", None),
        ("response_topic", "other"),
        ("correlation_data", b""),
    ],
)
def test_nothing_of_it_can_be_changed(field: str, value: Any) -> None:
    assert set(check(proven()._replace(**{field: value})).values()) == {CHANGED}


def test_its_user_properties_are_part_of_it_in_their_order() -> None:
    *pairs, proof = proven().user_properties
    for others in ((), pairs[:1], pairs[::-1], [("ab", ""), pairs[1]], [*pairs, ("e", "f")]):
        assert set(check(PLAIN._replace(user_properties=(*others, proof))).values()) == {CHANGED}


def test_it_counts_once_and_not_after_a_later_one() -> None:
    prover, checker = PublicationProver(EXCHANGE, "client"), PublicationChecker(EXCHANGE, "client")
    first, second, third = (with_proof(PLAIN, prover.prove(PLAIN, SECRETS)) for _ in range(3))
    right = {"inner": "", "outer": ""}
    assert checker.check(second, SECRETS) == right
    for again in (second, first):
        assert set(checker.check(again, SECRETS).values()) == {USED}
    assert checker.check(third, SECRETS) == right


def test_one_that_is_wrong_does_not_use_up_the_numbers_of_right_ones() -> None:
    checker, last = PublicationChecker(EXCHANGE, "client"), "9" * 19
    _, _, rest = proven().user_properties[-1][1].partition(" ")
    assert set(checker.check(with_proof(PLAIN, f"{last} {rest}"), SECRETS).values()) == {CHANGED}
    assert set(checker.check(proven(), SECRETS).values()) == {""}


@pytest.mark.parametrize("field", ["client_nonce", "node_nonce", "client_id", "node"])
def test_it_counts_on_no_other_connection(field: str) -> None:
    value: Any = b"x" * 32 if field.endswith("nonce") else "x"
    other = EXCHANGE._replace(**{field: value})
    assert set(check(proven(exchange=other)).values()) == {CHANGED}


def test_it_counts_in_one_direction() -> None:
    checker = PublicationChecker(EXCHANGE, "node")
    assert set(checker.check(proven(), SECRETS).values()) == {CHANGED}


@pytest.mark.parametrize("proof", ["", "x inner:AA", "-1 inner:AA", "٣ inner:AA", "9" * 20, "1 inner:é", "1 :::"])
def test_what_is_no_proof_proves_nothing(proof: str) -> None:
    assert all(check(with_proof(PLAIN, proof)).values())


def test_two_proofs_are_none() -> None:
    assert set(check(with_proof(proven(), "1 inner:AA")).values()) == {"it carries several proofs"}
