"""Proofs of membership: the exchange byte by byte, who is a member and for how long, and what is never accepted."""

import hashlib
import hmac
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.engine.trust import group_proofs, groups
from penstock.engine.trust.groups import is_member
from penstock.engine.trust.state import Accepting, GroupSecrets
from penstock.model.group_proof import (
    MAX_GROUPS,
    METHOD,
    AcceptedGroups,
    Claimant,
    GroupAnswer,
    GroupChallenge,
    GroupClaim,
    ProofError,
    ProofExchange,
)
from penstock.wire.packet import Auth, Connack
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.support.memory.node import Client, MemoryNode
from tests.support.scenes.domains import nodes

INNER, OUTER = b"inner secret of 32 random bytes!", b"outer secret of 32 random bytes!"
EXPIRY = 100.0
MINE = b"m" * 32


def domain(**more: Any) -> Ensemble:
    plain = {
        "nodes": nodes("test", "other"),
        "links": [{"between": ["other", "test"]}],
        "clients": {"ann": {"node": "test"}, "bob": {"node": "test"}, "eve": {"node": "test", "user": "eve"}},
        "trust_groups": {
            "inner": {"secret": {"env": "A"}, "nodes": ["test", "other"], "clients": ["bob"], "expiry": EXPIRY},
            "outer": {"secret": {"env": "B"}, "nodes": ["test", "other"], "expiry": EXPIRY / 2},
            "elsewhere": {"secret": {"env": "C"}, "nodes": ["other"], "clients": ["eve"]},
        },
    }
    return ensemble(Domain.model_validate({**plain, **more}))


def nonces() -> Iterator[bytes]:
    return (number.to_bytes(32, "big") for number in count(1))


def holding(secrets: dict[str, bytes] | None = None, whole: Ensemble | None = None) -> MemoryNode:
    """The node `test`, which holds these secrets."""
    joined = MemoryNode(whole=whole or domain())
    made = nonces()
    joined.node.runtime.make_nonce = lambda: next(made)
    group_proofs.hold(
        joined.node, GroupSecrets({"inner": INNER, "outer": OUTER} if secrets is None else secrets), joined.now
    )
    return joined


def claim(joined: MemoryNode, claimant: Claimant, client_id: str = "ann", **fields: Any) -> Client:
    return joined.connect(client_id, auth_method=METHOD, auth_data=claimant.claim, **fields)


def asked(client: Client) -> bytes:
    """The data of the challenge that the client has got."""
    (auth,) = client.take()
    assert isinstance(auth, Auth), auth
    assert (auth.reason, auth.properties.auth_method) == (Reason.CONTINUE_AUTHENTICATION, METHOD)
    assert auth.properties.auth_data is not None
    return auth.properties.auth_data


def say(client: Client, data: bytes | None, reason: Reason = Reason.CONTINUE_AUTHENTICATION) -> None:
    client.sends(Auth(reason, Properties(auth_method=METHOD, auth_data=data)))


def proves(
    joined: MemoryNode, secrets: dict[str, bytes], client_id: str = "ann", **fields: Any
) -> tuple[Client, Claimant]:
    """A client that goes through the whole exchange."""
    claimant = Claimant(client_id, secrets, MINE)
    client = claim(joined, claimant, client_id, **fields)
    say(client, claimant.answer(asked(client)))
    return client, claimant


def told(client: Client, claimant: Claimant) -> dict[str, int]:
    """What the CONNACK says of groups."""
    (connack,) = client.take()
    assert isinstance(connack, Connack)
    assert (connack.reason, connack.properties.auth_method) == (0, METHOD)
    assert connack.properties.auth_data is not None
    return claimant.accepted(connack.properties.auth_data)


def proven(client: Client) -> dict[str, float]:
    assert client.session is not None
    return client.session.trust.proven


# --- the messages


def test_the_messages_byte_by_byte() -> None:
    proof = bytes(range(32))
    for message, data in (
        (GroupClaim(MINE, ("a", "bc")), b"\1" + MINE + b"\2\1a\2bc"),
        (GroupChallenge(MINE, "press", {"a": proof}), b"\1" + MINE + b"\5press\1\1a" + proof),
        (GroupAnswer({"a": proof}), b"\1\1\1a" + proof),
        (GroupAnswer({}), b"\1\0"),
        (AcceptedGroups({"a": 600}), b"\1\1\1a\0\0\2\x58"),
    ):
        assert message.encode() == data
        assert type(message).decode(data) == message


def test_a_proof_byte_by_byte() -> None:
    exchange = ProofExchange(b"c" * 32, b"n" * 32, "ann", "press")
    said = (b"PENSTOCK-GROUPS", b"1", b"client", b"inner", b"c" * 32, b"n" * 32, b"ann", b"press")
    data = b"".join(len(field).to_bytes(4, "big") + field for field in said)
    assert exchange.proof("client", "inner", INNER) == hmac.new(INNER, data, hashlib.sha256).digest()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\2" + MINE + b"\0", id="another version"),
        pytest.param(b"\1" + MINE[:-1], id="a short nonce"),
        pytest.param(b"\1" + MINE, id="no number of groups"),
        pytest.param(b"\1" + MINE + b"\2\1a", id="fewer groups than it says"),
        pytest.param(b"\1" + MINE + b"\1\5abc", id="a short name"),
        pytest.param(b"\1" + MINE + b"\1\0", id="an empty name"),
        pytest.param(b"\1" + MINE + b"\1\1\xff", id="a name that is not UTF-8"),
        pytest.param(b"\1" + MINE + b"\2\1a\1a", id="a group twice"),
        pytest.param(b"\1" + MINE + b"\1\1a!", id="more behind the end"),
        pytest.param(b"\1" + MINE + bytes((MAX_GROUPS + 1,)) + b"\1a" * (MAX_GROUPS + 1), id="too many groups"),
    ],
)
def test_claims_that_cannot_be_read_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(ProofError):
        GroupClaim.decode(data)
    client = holding().connect("ann", auth_method=METHOD, auth_data=data)
    assert client.refused is not None
    assert client.refused.reason is Reason.PROTOCOL_ERROR


@given(st.binary(max_size=300))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    for kind in (GroupClaim, GroupChallenge, GroupAnswer, AcceptedGroups):
        try:
            message = kind.decode(data)
        except ProofError:
            continue
        assert message.encode() == data


# --- who connects


def test_a_client_proves_its_groups_and_is_told_for_how_long() -> None:
    """[MQTT-4.12.0-2] [MQTT-4.12.0-5] [MQTT-3.15.2-1]"""
    joined = holding()
    client, claimant = proves(joined, {"inner": INNER, "outer": OUTER})
    assert told(client, claimant) == {"inner": 100, "outer": 50}
    assert proven(client) == {"inner": joined.now + EXPIRY, "outer": joined.now + EXPIRY / 2}
    assert claimant.node_proven == ("inner", "outer")


def test_a_client_that_claims_nothing_is_served() -> None:
    client, claimant = proves(holding(), {})
    assert told(client, claimant) == {}


def test_a_wrong_secret_leaves_its_group_unproven_and_the_connection_up() -> None:
    joined = holding()
    client, claimant = proves(joined, {"inner": b"x" * 32, "outer": OUTER})
    assert told(client, claimant) == {"outer": 50}
    assert claimant.node_proven == ("outer",), "it has not seen that the node is in `inner`"
    assert client.closed is None


def test_a_wrong_proof_is_noticed() -> None:
    joined = holding()
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    client = claim(joined, claimant)
    asked(client)
    say(client, GroupAnswer({"inner": bytes(32), "unknown": bytes(32)}).encode())
    assert proven(client) == {}
    assert client.closed is None
    notices = [(notice.kind, notice.client_id, notice.reason) for notice in joined.node.notices]
    assert notices == [("group not proven", "ann", "trust group `inner`: the proof of membership is wrong")]


def test_a_node_does_not_say_whether_it_knows_a_group_that_it_is_not_in() -> None:
    joined = holding()
    client = claim(joined, Claimant("ann", {"elsewhere": INNER, "nowhere": INNER}, MINE))
    assert GroupChallenge.decode(asked(client)).proofs == {}


def test_a_client_proves_nothing_to_a_node_that_does_not_prove_it() -> None:
    claimant = Claimant("ann", {"inner": INNER, "outer": OUTER}, MINE)
    exchange = ProofExchange(MINE, b"n" * 32, "ann", "test")
    right = exchange.proof("node", "outer", OUTER)
    answer = GroupAnswer.decode(
        claimant.answer(GroupChallenge(b"n" * 32, "test", {"inner": bytes(32), "outer": right}).encode())
    )
    assert answer.proofs.keys() == {"outer"}


def test_a_proof_cannot_be_reflected() -> None:
    joined = holding()
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    client = claim(joined, claimant)
    say(client, GroupAnswer(GroupChallenge.decode(asked(client)).proofs).encode())
    assert proven(client) == {}


def test_a_challenge_with_our_own_nonce_is_refused() -> None:
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    exchange = ProofExchange(MINE, MINE, "ann", "test")
    with pytest.raises(ProofError, match="our own nonce"):
        claimant.answer(GroupChallenge(MINE, "test", exchange.proofs("node", ["inner"], {"inner": INNER})).encode())


def test_an_answer_cannot_be_replayed() -> None:
    joined = holding()
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    client = claim(joined, claimant)
    answer = claimant.answer(asked(client))
    say(client, answer)
    assert proven(client)
    again = claim(joined, Claimant("ann", {"inner": INNER}, MINE))
    asked(again)
    say(again, answer)
    assert proven(again) == {}


def test_the_nonces_of_a_node_are_fresh() -> None:
    joined = holding()
    seen = {GroupChallenge.decode(asked(claim(joined, Claimant("ann", {}, MINE)))).nonce for _ in range(20)}
    assert len(seen) == 20


def test_a_password_is_still_asked_for() -> None:
    joined = holding(whole=domain())
    client = claim(joined, Claimant("zoe", {"inner": INNER}, MINE), "zoe")  # whom the domain does not list
    assert client.refused is not None
    assert client.refused.reason is Reason.NOT_AUTHORIZED
    assert len(client.raw) == 1, "no proof was given away"


def test_who_was_removed_by_a_reload_during_the_exchange_is_refused() -> None:
    joined = holding()
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    client = claim(joined, claimant)
    answer = claimant.answer(asked(client))
    joined.govern(None, domain(clients={"bob": {"node": "test"}, "eve": {"node": "test"}}))
    say(client, answer)
    assert client.refused is not None


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        pytest.param(Auth(Reason.CONTINUE_AUTHENTICATION, Properties(auth_method=METHOD)), 0x82, id="no data"),
        pytest.param(
            Auth(Reason.CONTINUE_AUTHENTICATION, Properties(auth_method=METHOD, auth_data=b"\1")), 0x82, id="bad data"
        ),
        pytest.param(
            Auth(Reason.CONTINUE_AUTHENTICATION, Properties(auth_method="X", auth_data=b"\1\0")), 0x8C, id="a method"
        ),
        pytest.param(
            Auth(Reason.REAUTHENTICATE, Properties(auth_method=METHOD, auth_data=b"\1\0")), 0x82, id="too early"
        ),
        pytest.param(Auth(Reason.SUCCESS), 0x8C, id="nothing at all"),
    ],
)
def test_answers_that_do_not_follow_the_exchange_are_refused(packet: Auth, reason: int) -> None:
    """[MQTT-4.12.0-4]"""
    client = claim(holding(), Claimant("ann", {"inner": INNER}, MINE))
    asked(client)
    client.sends(packet)
    assert client.refused is not None
    assert client.refused.reason == reason


def test_proofs_that_are_larger_than_the_client_takes_are_not_sent() -> None:
    """[MQTT-3.1.2-24]"""
    client = claim(holding(), Claimant("ann", {"inner": INNER}, MINE), maximum_packet_size=60)
    assert client.refused is not None
    assert client.refused.reason is Reason.PACKET_TOO_LARGE


# --- again


def renews(client: Client, secrets: dict[str, bytes], client_id: str = "ann") -> dict[str, int]:
    claimant = Claimant(client_id, secrets, b"2" * 32)
    say(client, claimant.claim, Reason.REAUTHENTICATE)
    say(client, claimant.answer(asked(client)))
    (auth,) = client.take()
    assert isinstance(auth, Auth)
    assert (auth.reason, auth.properties.auth_method) == (Reason.SUCCESS, METHOD)
    assert auth.properties.auth_data is not None
    return claimant.accepted(auth.properties.auth_data)


def test_a_proof_expires_unless_it_is_renewed() -> None:
    joined = holding()
    client, _ = proves(joined, {"inner": INNER})
    client.take()
    session = client.session
    assert session is not None
    joined.wait(EXPIRY - 1)
    assert is_member(joined.node, session, "inner", joined.now)
    assert renews(client, {"inner": INNER}) == {"inner": 100}
    joined.wait(EXPIRY - 1)
    assert is_member(joined.node, session, "inner", joined.now)
    joined.wait(1)
    assert not is_member(joined.node, session, "inner", joined.now)
    assert renews(client, {"inner": INNER}) == {"inner": 100}
    assert is_member(joined.node, session, "inner", joined.now)


def test_what_is_proven_anew_replaces_what_was_proven() -> None:
    joined = holding()
    client, _ = proves(joined, {"inner": INNER, "outer": OUTER})
    client.take()
    assert renews(client, {"outer": OUTER}) == {"outer": 50}
    assert proven(client).keys() == {"outer"}


def test_a_client_whose_id_the_node_chose_proves_with_the_empty_one() -> None:
    whole = ensemble(
        Domain.model_validate(
            {"nodes": nodes("test"), "trust_groups": {"inner": {"secret": {"env": "A"}, "nodes": "test"}}}
        )
    )
    joined = holding({"inner": INNER}, whole)
    client, claimant = proves(joined, {"inner": INNER}, "")
    assert told(client, claimant) == {"inner": 600}
    assert renews(client, {"inner": INNER}, "") == {"inner": 600}


@pytest.mark.parametrize(
    ("method", "packet", "reason"),
    [
        pytest.param(None, Auth(Reason.REAUTHENTICATE, Properties(auth_method=METHOD)), 0x82, id="without a method"),
        pytest.param(METHOD, Auth(Reason.REAUTHENTICATE, Properties(auth_method="X")), 0x8C, id="another method"),
        pytest.param(METHOD, Auth(Reason.REAUTHENTICATE, Properties(auth_method=METHOD)), 0x82, id="no data"),
        pytest.param(
            METHOD,
            Auth(Reason.CONTINUE_AUTHENTICATION, Properties(auth_method=METHOD, auth_data=b"\1\0")),
            0x82,
            id="an answer to no question",
        ),
    ],
)
def test_a_wrong_auth_on_an_open_connection_ends_it(method: str | None, packet: Auth, reason: int) -> None:
    """[MQTT-4.12.1-1] [MQTT-4.12.1-2] [MQTT-4.12.0-7]"""
    joined = holding()
    client = joined.connect("ann") if method is None else proves(joined, {})[0]
    client.take()
    client.sends(packet)
    assert client.closed == reason


# --- who is a member


def member_of(joined: MemoryNode, client: Client) -> set[str]:
    assert client.session is not None
    every = ("inner", "outer", "elsewhere", "nowhere")
    return {group for group in every if is_member(joined.node, client.session, group, joined.now)}


def test_the_domain_vouches_for_listed_clients() -> None:
    joined = holding()
    assert member_of(joined, joined.connect("bob")) == {"inner"}
    assert member_of(joined, joined.connect("ann")) == set()
    assert member_of(joined, joined.connect("any id", user="eve")) == {"elsewhere"}, "though the node is not in it"


def test_a_session_proves_for_each_of_its_connections() -> None:
    joined = holding()
    client, _ = proves(joined, {"inner": INNER}, clean_start=False, session_expiry=1000)
    session = client.session
    assert session is not None
    client.lose()
    assert is_member(joined.node, session, "inner", joined.now), "so that messages can be queued"
    again = joined.connect("ann", clean_start=False, session_expiry=1000)
    assert again.session is session
    assert member_of(joined, again) == set()


@pytest.mark.parametrize(
    ("secrets", "left"),
    [
        pytest.param({"inner": INNER, "outer": OUTER}, {"inner", "outer"}, id="the same"),
        pytest.param({"inner": b"x" * 32, "outer": OUTER}, {"outer"}, id="another secret"),
        pytest.param({"outer": OUTER}, {"outer"}, id="a group that was removed"),
    ],
)
def test_a_reload_keeps_proofs_by_the_same_secrets(secrets: dict[str, bytes], left: set[str]) -> None:
    joined = holding()
    client, _ = proves(joined, {"inner": INNER, "outer": OUTER})
    group_proofs.hold(joined.node, GroupSecrets(secrets), joined.now)
    assert member_of(joined, client) == left


def test_a_group_that_the_domain_no_longer_has_counts_for_nobody() -> None:
    joined = holding()
    client, _ = proves(joined, {"inner": INNER})
    joined.govern(None, domain(trust_groups={}))
    assert member_of(joined, client) == set()
    assert member_of(joined, joined.connect("bob")) == set()


def test_a_shorter_expiry_holds_for_proofs_of_before() -> None:
    joined = holding()
    client, _ = proves(joined, {"inner": INNER})
    joined.govern(None, domain(trust_groups={"inner": {"secret": {"env": "A"}, "nodes": ["test"], "expiry": 10}}))
    group_proofs.hold(joined.node, GroupSecrets({"inner": INNER}), joined.now)
    assert proven(client) == {"inner": joined.now + 10}


def test_secrets_are_not_shown() -> None:
    joined = holding()
    assert repr(joined.node.trust.groups) == "GroupSecrets(inner, outer)"
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    assert INNER.decode() not in repr(claimant) + str(vars(groups))


# --- with a policy that asks for it (statements §5.2)

SCOPE = """
PolicyStatement {
  On(Forward, Publication) { If {AuthenticateReceiver(inner)} Then {} Elseif {} Then {BlockMessage()} }
}
"""
SCOPED = {"policies": {"scope": SCOPE}, "apply": [{"policy": "scope", "to": "publication", "of": "*"}]}


def test_a_message_for_members_comes_to_those_who_have_proven_it_while_it_counts() -> None:
    joined = holding(whole=domain(statements=SCOPED))
    member, _ = proves(joined, {"inner": INNER})
    stranger, vouched = joined.connect("any id", user="eve"), joined.connect("bob")
    for one in (member, stranger, vouched):
        one.subscribe("t", qos=1).take()
    vouched.publish("t", b"1")
    assert [one.payloads() for one in (member, stranger, vouched)] == [["1"], [], ["1"]]
    joined.wait(EXPIRY)
    vouched.publish("t", b"2")
    assert [one.payloads() for one in (member, stranger, vouched)] == [[], [], ["2"]]


LASTING: dict[str, Any] = {"clean_start": False, "session_expiry": 1000}


def away(joined: MemoryNode) -> Client:
    """A member that has subscribed, and whose connection is lost."""
    member, _ = proves(joined, {"inner": INNER}, **LASTING)
    member.subscribe("t", qos=1)
    member.lose()
    assert member.session is not None
    return member


@pytest.mark.parametrize(
    ("seconds", "secrets", "gets"),
    [
        pytest.param(0, {"inner": INNER}, ["1"], id="who proves it again"),
        pytest.param(0, {"inner": INNER, "outer": OUTER}, ["1"], id="who proves more"),
        pytest.param(EXPIRY + 1, {"inner": INNER}, ["1"], id="who proves it after the expiry"),
        pytest.param(0, {"outer": OUTER}, [], id="not who proves another"),
        pytest.param(0, {}, [], id="not who proves nothing"),
        pytest.param(EXPIRY + 1, {}, [], id="not who proves nothing after the expiry"),
        pytest.param(0, None, [], id="not who does not know of groups"),
    ],
)
def test_what_waits_for_a_member_is_for(seconds: float, secrets: dict[str, bytes] | None, gets: list[str]) -> None:
    joined = holding(whole=domain(statements=SCOPED))
    member = away(joined)
    joined.connect("bob").publish("t", b"1", qos=1)
    assert member.session is not None
    assert member.session.outbox.waiting() == 1
    joined.wait(seconds)
    again = joined.connect("ann", **LASTING) if secrets is None else proves(joined, secrets, **LASTING)[0]
    (connack,) = (packet for packet in again.inbox if isinstance(packet, Connack))
    assert connack.session_present == (gets != [])
    assert again.payloads() == gets


def test_a_session_in_which_nothing_waits_is_resumed_by_who_proves_less() -> None:
    joined = holding()
    member = away(joined)
    again = joined.connect("ann", **LASTING)
    assert joined.session_present(again)
    assert again.session is member.session
    again.lose()
    joined.connect("bob").publish("t", b"1", qos=1)  # which no policy keeps from it
    assert joined.connect("ann", **LASTING).payloads() == ["1"]


def test_after_a_reload_with_another_secret_what_waits_is_for_no_one_with_the_old_one() -> None:
    joined = holding(whole=domain(statements=SCOPED))
    away(joined)
    joined.connect("bob").publish("t", b"1", qos=1)
    group_proofs.hold(joined.node, GroupSecrets({"inner": OUTER}), joined.now)
    assert proves(joined, {"inner": INNER}, **LASTING)[0].payloads() == []


# --- nothing but the right proof is accepted


_FIELDS = st.tuples(
    st.sampled_from([b"c" * 32, b"d" * 32]),
    st.sampled_from([b"n" * 32, b"c" * 32]),
    st.sampled_from(["", "a", "ann", "ann\0"]),
    st.sampled_from(["test", "t", "ann"]),
)


@given(_FIELDS, _FIELDS, *(st.sampled_from(pair) for pair in (("client", "node"),) * 2), *(st.sampled_from("ab"),) * 2)
def test_a_proof_is_right_only_where_it_was_made(
    first: tuple[bytes, bytes, str, str], second: tuple[bytes, bytes, str, str], made_by: Any, for_: Any, a: str, b: str
) -> None:
    """Replayed, reflected, of another group, client or node: none of it is accepted."""
    proof = ProofExchange(*first).proof(made_by, a, INNER)
    is_right = (first, made_by, a) == (second, for_, b)
    assert ProofExchange(*second).proven(for_, {b: proof}, {"a": INNER, "b": INNER}) == ((b,) if is_right else ())


@given(st.binary(min_size=1, max_size=40), st.binary(min_size=1, max_size=40))
def test_another_secret_is_another_proof(one: bytes, other: bytes) -> None:
    exchange = ProofExchange(MINE, b"n" * 32, "ann", "test")
    is_right = exchange.proven("client", {"a": exchange.proof("client", "a", one)}, {"a": other}) == ("a",)
    # HMAC fills short keys up with zeros.
    assert is_right == (one.rstrip(b"\0") == other.rstrip(b"\0"))


@given(st.integers(0, 32 * 8 - 1), st.sampled_from(["inner", "outer"]))
def test_a_proof_with_one_bit_changed_is_not_accepted(bit: int, group: str) -> None:
    exchange = ProofExchange(MINE, b"n" * 32, "ann", "test")
    secrets = {"inner": INNER, "outer": OUTER}
    proof = exchange.proof("client", group, secrets[group])
    changed = (int.from_bytes(proof, "big") ^ 1 << bit).to_bytes(32, "big")
    assert exchange.proven("client", {group: changed}, secrets) == ()


@given(st.data())
def test_a_node_accepts_just_the_groups_that_both_are_in(data: st.DataObject) -> None:
    keys = {"inner": (INNER, b"i" * 32), "outer": (OUTER, b"o" * 32), "elsewhere": (b"e" * 32, b"f" * 32)}
    some = st.dictionaries(st.sampled_from(sorted(keys)), st.integers(0, 1), max_size=3)
    held, shown = ({name: keys[name][at] for name, at in data.draw(some).items()} for _ in range(2))
    joined = holding(held)
    client, claimant = proves(joined, shown)
    both = {group for group in held if shown.get(group) == held[group]}
    assert told(client, claimant).keys() == both == set(proven(client)) == set(claimant.node_proven)


@given(st.data())
def test_answers_of_an_attacker_are_not_accepted(data: st.DataObject) -> None:
    """Who does not have the secret answers with proofs that it has seen, of other roles, exchanges and groups."""
    joined = holding()
    seen = list[bytes]()
    for group, secret in (("inner", INNER), ("outer", OUTER)):
        victim = Claimant("ann", {group: secret}, bytes(32))
        client = claim(joined, victim)
        question = asked(client)
        answer = victim.answer(question)
        say(client, answer)
        assert proven(client).keys() == {group}
        seen += [*GroupChallenge.decode(question).proofs.values(), *GroupAnswer.decode(answer).proofs.values()]
    client = claim(joined, Claimant("ann", {"inner": b"?" * 32, "outer": b"?" * 32}, bytes(32)))
    seen += GroupChallenge.decode(asked(client)).proofs.values()
    guess = st.one_of(st.sampled_from(seen), st.binary(min_size=32, max_size=32))
    say(client, GroupAnswer({group: data.draw(guess) for group in ("inner", "outer")}).encode())
    assert proven(client) == {}


def test_a_node_s_own_proof_is_no_client_s() -> None:
    """All four combinations of who proves to whom, with the same nonces."""
    exchange = ProofExchange(MINE, b"n" * 32, "ann", "test")
    for made_by, for_ in product(("client", "node"), repeat=2):
        proof = exchange.proof(made_by, "inner", INNER)  # type: ignore[arg-type]
        assert bool(exchange.proven(for_, {"inner": proof}, {"inner": INNER})) == (made_by == for_)  # type: ignore[arg-type]


def test_an_exchange_is_judged_once() -> None:
    joined = holding()
    accepting = Accepting("ann")
    claimant = Claimant("ann", {"inner": INNER}, MINE)
    question = group_proofs.challenge(joined.node, accepting, claimant.claim)
    answer = group_proofs.answer(claimant, question)
    assert group_proofs.judge(joined.node, accepting, answer, joined.now).proven
    with pytest.raises(Exception, match="not expected"):
        group_proofs.judge(joined.node, accepting, answer, joined.now)


_DEEDS = ("connect", "claim", "answer", "wrong", "replay", "noise", "lose", "reload", "wait")


@given(st.lists(st.sampled_from(_DEEDS), max_size=25), st.data())
def test_whatever_happens_only_a_right_answer_to_the_last_question_proves(
    deeds: list[str], data: st.DataObject
) -> None:
    """A model: which question is open, by which secret it was asked, and until when the last right answer counts."""
    joined, made = holding({"inner": INNER}), nonces()
    client, claimant = joined.connect("ann"), Claimant("ann", {}, MINE)
    client.lose()
    question, asked_by, old, until = None, INNER, GroupAnswer({}).encode(), 0.0
    for deed in deeds:
        secret = joined.node.trust.groups.secrets["inner"]
        if deed == "reload":
            changed = data.draw(st.sampled_from([INNER, OUTER]))
            until = until if changed == secret else 0.0
            group_proofs.hold(joined.node, GroupSecrets({"inner": changed}), joined.now)
        elif deed == "wait":
            joined.wait(data.draw(st.sampled_from([1.0, EXPIRY - 1, EXPIRY])))
        elif deed in ("connect", "lose") or client.closed is not None or client.refused is not None:
            if client.closed is None:
                client.lose()
            claimant = Claimant("ann", {"inner": INNER}, b"c" * 16 + next(made)[16:])
            client, until, asked_by = claim(joined, claimant), 0.0, secret
            question = asked(client)
        elif deed == "claim":
            claimant = Claimant("ann", {"inner": INNER}, b"d" * 16 + next(made)[16:])
            say(client, claimant.claim, Reason.REAUTHENTICATE)  # too early for a session that has not begun
            question = asked(client) if client.session is not None else None
            asked_by = secret
        else:
            answer = old
            if deed == "answer" and question is not None:
                answer = old = claimant.answer(question)
            elif deed == "wrong":
                answer = GroupAnswer({"inner": data.draw(st.binary(min_size=32, max_size=32))}).encode()
            elif deed == "noise":
                answer = data.draw(st.binary(max_size=60))
            is_right = deed == "answer" and question is not None and asked_by == secret == INNER
            question = None
            say(client, answer)
            client.take()
            until = joined.now + EXPIRY if is_right else 0.0
        if client.session is not None and client.session.outlet is client.node_end:
            assert is_member(joined.node, client.session, "inner", joined.now) == (joined.now < until), deed
