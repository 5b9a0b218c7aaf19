"""Reason codes against the tables of MQTT 5."""

import pytest

from penstock.wire import kinds
from penstock.wire.reason import REASONS, SUBACK_CODES_311, Reason, connack_code_311

# MQTT 5, tables 3-1, 3-4 to 3-7, 3-8, 3-9, 3-10 (a client's and a server's) and 3-11
TABLES = {
    kinds.CONNACK: "00 80 81 82 83 84 85 86 87 88 89 8a 8c 90 95 97 99 9a 9b 9c 9d 9f",
    kinds.PUBACK: "00 10 80 83 87 90 91 97 99",
    kinds.PUBREC: "00 10 80 83 87 90 91 97 99",
    kinds.PUBREL: "00 92",
    kinds.PUBCOMP: "00 92",
    kinds.SUBACK: "00 01 02 80 83 87 8f 91 97 9e a1 a2",
    kinds.UNSUBACK: "00 11 80 83 87 8f 91",
    kinds.DISCONNECT: "00 04 80 81 82 83 87 89 8b 8c 8d 8e 8f 90 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0 a1 a2",
    kinds.AUTH: "00 18 19",
}


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kinds.KIND_NAMES[kind])
def test_a_packet_carries_the_reason_codes_of_its_table(kind: int) -> None:
    assert sorted(REASONS[kind]) == list(bytes.fromhex(TABLES[kind]))


def test_a_suback_of_mqtt_311_carries_four_codes() -> None:
    assert sorted(SUBACK_CODES_311) == [0x00, 0x01, 0x02, 0x80]


def test_every_reason_code_is_of_some_packet() -> None:
    assert {code for codes in REASONS.values() for code in codes} == set(Reason)


@pytest.mark.parametrize("code", Reason, ids=lambda code: code.name)
def test_only_success_is_success_in_mqtt_311(code: Reason) -> None:
    assert (connack_code_311(code) == 0) == (code is Reason.SUCCESS)
    assert connack_code_311(code) in range(6)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Reason.UNSUPPORTED_PROTOCOL_VERSION, 1),
        (Reason.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (Reason.SERVER_UNAVAILABLE, 3),
        (Reason.BAD_USER_NAME_OR_PASSWORD, 4),
        (Reason.NOT_AUTHORIZED, 5),
    ],
)
def test_a_return_code_of_mqtt_311_is_used_for_the_reason_that_it_means(code: Reason, expected: int) -> None:
    assert connack_code_311(code) == expected
