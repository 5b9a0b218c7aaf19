"""Protocols as each participant sees them, and the link types and tables that follow from them."""

from itertools import product

import pytest

from penstock.model.errors import PolicyError
from penstock.policy.monitors.protocol import Protocol
from penstock.policy.monitors.protocol_projection import local_view, table_of, turns, unaware
from tests.policy.monitors.test_protocol import HOME, RING, SENDERS, UNLOCK

RECEIVERS = {"AC_request": ("phone",), "AC_grant": ("bell", "lock"), "AC_deny": ("bell",), "DL_unlock": ("lock",)}
WHOLE = Protocol("unlock", UNLOCK, ("lock",), SENDERS, receivers=RECEIVERS)


@pytest.mark.parametrize(
    ("participant", "view"),
    [
        ("bell", "sends AC_request, (gets AC_grant, (sends DL_unlock)? | gets AC_deny)"),
        ("phone", "gets AC_request, (sends AC_grant | sends AC_deny)"),
        ("lock", "(gets AC_grant, (gets DL_unlock)?)?"),
        ("motion", "nothing"),
    ],
)
def test_each_participant_of_the_smart_home_sees_its_part(participant: str, view: str) -> None:
    assert local_view(WHOLE, participant) == view


def test_without_receivers_everybody_gets_what_others_send() -> None:
    protocol = Protocol("p", "(a | b)+ c*", ("lock",), {"a": ("bell",), "c": ("bell", "phone")})
    assert local_view(protocol, "lock") == "(gets a | sends or gets b)+, (gets c)*"
    assert local_view(protocol, "bell") == "(sends a | sends or gets b)+, (sends or gets c)*"


def test_the_table_of_the_smart_home_leads_from_senders_to_receivers_only() -> None:
    table = table_of(WHOLE, HOME)
    assert table.types["bell", "gateway"] == "unlock-from-bell"
    assert table.types["gateway", "bell"] == "unlock-to-bell"
    assert ("motion", "gateway") not in table.types
    assert table.allow == {
        ("unlock-from-bell", "unlock-gateway-cloud"),
        ("unlock-gateway-cloud", "unlock-to-phone"),
        ("unlock-from-phone", "unlock-cloud-gateway"),
        ("unlock-cloud-gateway", "unlock-to-bell"),
        ("unlock-from-bell", "unlock-gateway-locks"),
        ("unlock-cloud-gateway", "unlock-gateway-locks"),
        ("unlock-gateway-locks", "unlock-to-lock"),
    }


def test_what_protects_a_sender_sees_its_own_events() -> None:
    table = table_of(Protocol("unlock", UNLOCK, ("bell",), SENDERS, receivers=RECEIVERS), HOME)
    assert ("unlock-from-bell", "unlock-to-bell") in table.allow
    assert ("unlock-from-phone", "unlock-to-phone") not in table.allow


def test_a_sender_that_does_not_get_what_comes_before_its_turn_is_told() -> None:
    assert unaware(WHOLE) == []
    deaf = Protocol("unlock", UNLOCK, (), SENDERS, receivers={**RECEIVERS, "AC_grant": ("lock",)})
    assert unaware(deaf) == [("bell", "AC_request", "AC_grant"), ("bell", "DL_unlock", "AC_grant")]
    assert unaware(Protocol("p", "(a | b)+ c?", (), {"a": ("x",), "c": ("y",)}, receivers={"b": ("y",)})) == [
        ("x", "a", "b"),
    ]


def test_ways_do_not_turn_back() -> None:
    """In a ring an event may come by both ways; the only turn back is to who sends it and is protected."""
    for around, protects in product((HOME, RING), ((), ("lock",))):
        protocol = Protocol("unlock", UNLOCK, protects, SENDERS, receivers=RECEIVERS)
        back = {first for first, second in turns(protocol, around, protocol.participants) if first[0] == second[1]}
        assert back == (set() if protects else {("bell", "gateway"), ("phone", "cloud")})


@pytest.mark.parametrize(
    ("senders", "receivers", "said"),
    [
        ({"a": ("bell",)}, {"a": ("lock",), "b": ("lock",)}, "it needs the senders of each event, and `b` has none"),
        ({"a": ("bell",), "b": ("bell",)}, {"a": ("lock",)}, "it needs the receivers of each event, and `b` has none"),
    ],
)
def test_a_table_needs_both_ends_of_each_event(
    senders: dict[str, tuple[str, ...]], receivers: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(PolicyError) as raised:
        table_of(Protocol("p", "a b", (), senders, receivers=receivers), HOME)
    assert said in str(raised.value)
