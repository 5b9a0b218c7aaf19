"""Tokens that must not count, shown by clients and passed on by a neighbour: refused, and somebody is told why."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.events.user_properties import digest_of
from penstock.engine.trust import announcements, token_exchange
from penstock.engine.trust.token_exchange import REGISTER_SECONDS
from penstock.policy.tokens.keys import PublicKey, SigningKey
from penstock.policy.tokens.revocation import revoke
from penstock.policy.tokens.token import MAX_BYTES, Party, Token, issue, sign
from penstock.wire.packet import Auth, Connack, Connect, Disconnect, Publish, WillMessage
from penstock.wire.properties import Properties
from tests.support.clients.peer import Peer
from tests.support.memory.tokens import KEY_SET, KEYS, header_of, outer, signed_by, written
from tests.support.processes.mosquitto import HOST
from tests.support.processes.trust_nodes import (
    ASKS_WHY,
    REVOKED_FILE,
    Neighbour,
    live,
    refused_connect,
    secured,
    token_of,
    until,
)

PAIR = [("b1", "b2")]
NOT_AUTHORIZED = 0x87


def without(node: str, token: Token) -> bytes:
    """The token without a node's signature."""
    plain = outer(token)
    remaining = [signature for signature, by in zip(plain["signatures"], token.nodes, strict=True) if by != node]
    return written({**plain, "signatures": remaining})


def with_signature_of_another(token: Token, other: Token) -> bytes:
    return written({**outer(token), "signatures": outer(other)["signatures"]})


def oversized(client: str) -> bytes:
    plain = outer(token_of(client))
    return written({**plain, "more": "x" * MAX_BYTES})


def in_the_name_of(node: str, token: Token) -> bytes:
    """The claims of a node, signed by somebody else's key under its name."""
    plain = outer(token)
    header = header_of(node, kid=KEYS[node].key_id)
    return written({**plain, "signatures": [signed_by("b3", plain["payload"], header)]})


BAD: dict[str, tuple[Callable[[str], bytes], str]] = {
    "forged, with a key of its own": (lambda c: token_of(c, key=SigningKey.generate()).text, "unknown key"),
    "forged, in the issuer's name": (lambda c: in_the_name_of("b1", token_of(c)), "bad signature"),
    "with the signature of another token": (
        lambda c: with_signature_of_another(token_of(c, publish=frozenset({"#"})), token_of(c)),
        "bad signature",
    ),
    "expired": (lambda c: token_of(c, seconds=-1, issued=1, not_before=1).text, "expired"),
    "not yet valid": (lambda c: token_of(c, not_before=int(time.time()) + 3000).text, "not yet valid"),
    "without the issuer's signature": (
        lambda c: without("b1", sign(token_of(c), "b3", KEYS["b3"])),
        "issuer's signature missing",
    ),
    "without any signature": (lambda c: without("b1", token_of(c)), "issuer's signature missing"),
    "for another domain": (lambda c: token_of(c, audience=frozenset({Party("domain", "mill")})).text, "wrong audience"),
    "for another node": (lambda c: token_of(c, audience=frozenset({Party("node", "b9")})).text, "wrong audience"),
    "oversized": (oversized, "oversized"),
    "too many filters": (
        lambda c: written({"payload": "A" * MAX_BYTES, "signatures": outer(token_of(c))["signatures"]}),
        "oversized",
    ),
    "no JSON": (lambda c: b'{"payload":', "malformed"),
    "no text": (lambda c: b"{\xff\xfe", "malformed"),
    "not signed, says its header": (
        lambda c: written(
            {
                "payload": outer(token_of(c))["payload"],
                "signatures": [signed_by("b1", outer(token_of(c))["payload"], header_of("b1", alg="none"))],
            }
        ),
        "algorithm not EdDSA",
    ),
}
"""Makers of tokens that are valid but for one thing; and the reason of the refusal."""

AT_CONNECT = {
    **BAD,
    "replayed: another client's": (lambda c: token_of("bob").text, "wrong holder"),
    "a neighbour's, to subscribe": (
        lambda c: token_of(c, subject=Party("node", "b2"), publish=frozenset()).text,
        "this is a client",
    ),
    "of another node": (lambda c: token_of(c, "b2").text, "issued by `b2`"),
    "revoked": (lambda c: token_of(c, id="gone").text, "revoked"),
    "of a key that is revoked": (lambda c: token_of(c, "b5").text, "revoked"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    revoke(tmp_path / REVOKED_FILE, "token", "gone")
    revoke(tmp_path / REVOKED_FILE, "key", KEYS["b5"].key_id)
    return tmp_path


# --- shown by clients


async def test_tokens_that_do_not_count_are_refused_at_connect_each_with_its_reason(folder: Path) -> None:
    async with live(secured(folder, PAIR, {"issuers": ["b5"]}), "b1") as at:
        for title, (make, reason) in AT_CONNECT.items():
            text = make("ann")
            shown: dict[str, Connect] = {
                "password": Connect("ann", username="ann", password=text, properties=ASKS_WHY),
                "method": Connect(
                    "ann",
                    username="ann",
                    properties=Properties(auth_method="penstock-token", auth_data=text, request_problem_info=True),
                ),
            }
            for way, packet in shown.items():
                answer = await refused_connect(at, "b1", packet)
                assert answer.reason == NOT_AUTHORIZED, (title, way)
                assert reason in (answer.properties.reason_string or ""), (title, way, answer)
                assert at.logged("refused", reason), (title, way)
            old = Connect("ann", 4, username="ann", password=text)
            assert (await refused_connect(at, "b1", old, 4)).reason == 5, title
        answer = await refused_connect(at, "b1", Connect("ann", username="ann", properties=ASKS_WHY))
        assert "asks for an authorisation token" in (answer.properties.reason_string or "")
        answer = await refused_connect(at, "b1", Connect("ann", username="ann", password=b"x", properties=ASKS_WHY))
        assert answer.reason == NOT_AUTHORIZED
        assert "asks for an authorisation token" in (answer.properties.reason_string or "")
        assert at.node("b1").sessions.keys() == {"$node/b2"}, "no session was made"
        peer = await at.client("b1", "ann")
        await peer.disconnect()


async def test_a_token_lets_its_client_do_what_it_says_and_nothing_else(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b1") as at:
        token = token_of("ann", publish=frozenset({"home/a"}), subscribe=frozenset({"home/+"}))
        for version in (4, 5):
            ann = await at.client("b1", "ann", token, version)
            (granted,) = await ann.subscribe("home/a", qos=1)
            (refused,) = await ann.subscribe("home/#", qos=1)
            (shared,) = await ann.subscribe("$share/g/home/b", qos=1) if version == 5 else (1,)
            assert (granted, refused, shared) == (1, 0x80 if version == 4 else NOT_AUTHORIZED, 1)
            await ann.send(Publish("home/b", b"not", 1, packet_id=77), Publish("home/a", b"yes", 0))
            packets = [await ann.next() for _ in range(2)]
            assert any(isinstance(packet, Publish) and packet.payload == b"yes" for packet in packets)
            if version == 5:
                assert [packet.reason for packet in packets if not isinstance(packet, Publish)] == [NOT_AUTHORIZED]  # type: ignore[union-attr]
            await ann.disconnect()


async def test_a_client_that_shows_a_better_token_goes_on_and_a_worse_one_ends_it(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b1") as at:
        shown = Properties(
            auth_method="penstock-token", auth_data=token_of("ann", seconds=60).text, request_problem_info=True
        )
        ann = await Peer.open(HOST, at.port("b1"))
        await ann.send(Connect("ann", username="ann", properties=shown))
        assert (await ann.expect(Connack, reason=0)).properties.auth_method == "penstock-token"
        assert await ann.publish("garden", qos=1) == NOT_AUTHORIZED
        better = token_of("ann", publish=frozenset({"garden"}), id="t-2").text
        await ann.send(Auth(0x19, Properties(auth_method="penstock-token", auth_data=better)))
        await ann.expect(Auth, reason=0)
        assert await ann.publish("garden", qos=1) == 0x10
        assert await ann.publish("home/a", qos=1) == NOT_AUTHORIZED
        at.later(120)  # the first token would have ended
        assert await ann.publish("garden", qos=1) == 0x10
        stolen = token_of("bob").text
        await ann.send(Auth(0x19, Properties(auth_method="penstock-token", auth_data=stolen)))
        packet = await ann.expect(Disconnect, reason=NOT_AUTHORIZED)
        assert "wrong holder" in (packet.properties.reason_string or "")


async def test_a_connection_ends_with_its_token_and_leaves_no_will(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b1") as at:
        bob = await at.client("b1", "bob", token_of("bob", seconds=7200))
        await bob.subscribe("home/#", qos=1)
        will = WillMessage("home/will", b"gone", 1)
        ann = await at.client("b1", "ann", token_of("ann", seconds=60), will=will)
        away = WillMessage("home/will", b"late", 1, properties=Properties(will_delay=100))
        for name, client in (("cam", away), ("dan", will)):
            peer = await at.client(
                "b1", name, token_of(name, seconds=60), will=client, properties=Properties(session_expiry=3600)
            )
            if name == "cam":
                await peer.abort()
        at.later(61)
        packet = await ann.expect(Disconnect, reason=NOT_AUTHORIZED)
        assert packet.properties.reason_string == "the token has expired"
        await at.until_logged("token ended", "client=ann", "the token has expired")
        at.later(100)
        await bob.expect_nothing()


async def test_a_revocation_ends_connections_at_once_and_a_new_key_needs_none(folder: Path) -> None:
    plain = secured(folder, PAIR)
    async with live(plain, "b1") as at:
        ann, bob = await at.client("b1", "ann"), await at.client("b1", "bob")
        cam = await at.client(
            "b1",
            "cam",
            will=WillMessage("home/will", b"late", 1, properties=Properties(will_delay=100)),
            properties=Properties(session_expiry=3600),
        )
        await cam.abort()
        await bob.subscribe("home/#", qos=1)
        new = SigningKey.generate()
        (folder / "b1.pem").unlink()
        new.write(folder / "b1.pem")
        KEY_SET.with_key(PublicKey("b1", new.public)).write(folder / "keys.json")
        await at.reload(plain)
        assert await ann.publish("home/a", b"old key", 1) == 0
        eve = await at.client("b1", "eve", token_of("eve", key=new))
        assert await eve.publish("home/a", b"new key", 1) == 0
        assert [(await bob.receive()).payload for _ in range(2)] == [b"old key", b"new key"]
        for client in ("ann", "cam"):
            revoke(folder / REVOKED_FILE, "token", f"t-{client}")
        await at.reload(plain)
        packet = await ann.expect(Disconnect, reason=NOT_AUTHORIZED)
        assert "revoked" in (packet.properties.reason_string or "")
        answer = await refused_connect(
            at, "b1", Connect("ann", username="ann", password=token_of("ann").text, properties=ASKS_WHY)
        )
        assert "revoked" in (answer.properties.reason_string or "")
        at.later(200)
        await bob.expect_nothing()
        revoke(folder / REVOKED_FILE, "key", KEYS["b1"].key_id)
        await at.reload(plain)
        await bob.expect(Disconnect, reason=NOT_AUTHORIZED)
        assert await eve.publish("home/a", b"", 1) == 0x10


OWN = [
    ("penstock-token", "0" * 64),
    ("penstock-path", "b2"),
    ("penstock-id", "b1/1"),
    ("penstock-replay", "1"),
    ("penstock-made", "1000"),
    ("penstock-quality", "[]"),
    ("penstock-contract", "x"),
    ("penstock-ace", "{}"),
]


@pytest.mark.parametrize("way", ["publish", "retained", "will"])
async def test_a_client_that_sets_the_nodes_own_user_properties_is_refused(folder: Path, way: str) -> None:
    async with live(secured(folder, [*PAIR, ("b2", "b3"), ("b1", "b3")])) as at:
        bob, eve = await at.client("b2", "bob"), await at.client("b1", "eve")
        await bob.subscribe("home/#", qos=1, retain_as_published=True)
        await at.settled(bob, eve)
        for pair in OWN:
            forged = Properties(user_properties=(pair, ("mine", "kept")))
            if way == "will":
                will = WillMessage("home/x", b"w", 1, properties=forged)
                token = token_of("ann", "b1").text
                answer = await refused_connect(at, "b1", Connect("ann", username="ann", password=token, will=will))
                assert answer.reason == NOT_AUTHORIZED
            else:
                ann = await at.client("b1", "ann")
                answer_code = await ann.publish("home/x", b"w", 1, retain=way == "retained", properties=forged)
                assert answer_code == NOT_AUTHORIZED, pair
        await bob.expect_nothing()


async def test_other_reserved_user_properties_of_clients_are_removed(folder: Path) -> None:
    async with live(secured(folder, PAIR)) as at:
        bob, ann = await at.client("b2", "bob"), await at.client("b1", "ann")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)
        user_properties = (
            ("penstock-trace-host", "b9"),
            ("penstock-retain-until", "2026-01-01T00:00:00Z"),
            ("mine", "kept"),
        )
        await ann.publish("home/x", b"w", 1, properties=Properties(user_properties=user_properties))
        message = await bob.receive("home/x", payload=b"w")
        assert message.properties.user_properties == (("mine", "kept"),)


async def test_a_client_has_no_say_on_the_topics_of_nodes(folder: Path) -> None:
    everything: dict[str, Any] = {
        "publish": frozenset({"#", "$penstock/#"}),
        "subscribe": frozenset({"#", "$penstock/#"}),
    }
    async with live(secured(folder, PAIR), "b1") as at:
        ann = await at.client("b1", "ann", token_of("ann", **everything))
        for topic in (announcements.TOPIC, "$penstock/interest"):
            assert await ann.publish(topic, b'{"bind":["home/a","x"]}', 1) == NOT_AUTHORIZED, topic
        answer = await refused_connect(at, "b1", Connect("$node/b2", username="b2", password=token_of("b2").text))
        assert answer.reason == NOT_AUTHORIZED


# --- passed on by a neighbour


BETWEEN = {
    **BAD,
    "of a key that is revoked": (lambda c: token_of(c, "b5").text, "revoked"),
    "revoked": (lambda c: token_of(c, id="gone").text, "revoked"),
}


async def test_tokens_that_do_not_count_are_refused_of_a_neighbour_each_with_its_reason(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b2") as at:
        bob = await at.client("b2", "bob")
        await bob.subscribe("#")
        await bob.subscribe("home/#", qos=1)
        bad = await Neighbour.join(at, "b2")
        for title, (make, reason) in BETWEEN.items():
            try:
                text = make("ann").decode()
            except UnicodeDecodeError:
                continue  # the control topic is JSON
            await bad.says(token=text)
            assert at.logged("token refused", "client=$node/b1", reason), (title, reason)
            code, why = await bad.passes_on("home/a", title.encode(), digest_of(text.encode()))
            assert (code, reason in why) == (NOT_AUTHORIZED, True), (title, why)
        await bob.expect_nothing()
        good = token_of("ann")
        await bad.says(token=good.text.decode())
        assert await bad.passes_on("home/a", b"good", good.digest) == (0, "")
        assert (await bob.receive()).payload == b"good"


async def test_what_a_neighbour_passes_on_without_a_token_that_lets_it_is_refused(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b2") as at:
        bob = await at.client("b2", "bob")
        await bob.subscribe("home/#", qos=1)
        bad = await Neighbour.join(at, "b2")
        token = token_of("ann", publish=frozenset({"home/a"}))
        code, why = await bad.passes_on("home/a", b"none")
        assert (code, why) == (NOT_AUTHORIZED, "no token came with it from `b1`")
        code, why = await bad.passes_on("home/a", b"not told", token.digest)
        assert (code, why) == (NOT_AUTHORIZED, "`b1` names a token that it has not told")
        await bad.says(bind=["home/a", token.digest])
        assert (await bad.passes_on("home/a", b"bound, not told"))[0] == NOT_AUTHORIZED
        for _ in range(2):
            await bad.publish("home/a", b"bound, not told, QoS 0")
        await bob.expect_nothing()
        await bad.says(token=token.text.decode())
        await bad.publish("home/a", b"told")
        assert (await bob.receive()).payload == b"told"
        code, why = await bad.passes_on("home/b", b"another topic", token.digest)
        assert (code, "no filter to publish that matches `home/b`" in why) == (NOT_AUTHORIZED, True)
        await bad.says(bind=["home/b", token.digest])
        await bad.publish("home/b", b"another topic")
        await bob.expect_nothing()
        await bad.abort()
        again = await Neighbour.join(at, "b2")
        code, why = await again.passes_on("home/a", b"a digest of the connection before", token.digest)
        assert (code, "has not told" in why) == (NOT_AUTHORIZED, True)
        await again.publish("home/a", b"bound on the connection before")
        await bob.expect_nothing()


async def test_a_token_is_refused_of_a_neighbour_from_its_revocation_and_its_end_on(folder: Path) -> None:
    plain = secured(folder, PAIR)
    async with live(plain, "b2") as at:
        bob = await at.client("b2", "bob", token_of("bob", "b2", seconds=36000))
        await bob.subscribe("home/#", qos=1)
        bad = await Neighbour.join(at, "b2")
        first, second = token_of("ann"), token_of("cam", seconds=60)
        for token, topic in ((first, "home/a"), (second, "home/c")):
            await bad.says(token=token.text.decode())
            await bad.says(bind=[topic, token.digest])
            for _ in range(2):  # the second is passed on without a look
                await bad.publish(topic, b"")
                await bob.receive(topic)
        revoke(folder / REVOKED_FILE, "token", "t-ann")
        await at.reload(plain)
        await bad.publish("home/a", b"")
        code, why = await bad.passes_on("home/a")
        assert (code, "revoked" in why) == (NOT_AUTHORIZED, True)
        await bad.publish("home/c", b"")
        await bob.receive("home/c")
        at.later(61)
        await bad.publish("home/c", b"")
        code, why = await bad.passes_on("home/c")
        assert (code, "expired" in why) == (NOT_AUTHORIZED, True)
        await bob.expect_nothing()


async def test_a_neighbour_that_does_not_show_what_it_was_given_is_cut_off(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b2") as at:
        silent = await Neighbour.join(at, "b2", registers=False)
        at.later(REGISTER_SECONDS + 1)
        assert await silent.hears_the_end(NOT_AUTHORIZED) == "the token that was given has not been shown"
        assert at.logged("not registered", "client=$node/b1")
        await until(lambda: at.node("b2").federation.neighbours["b1"].outlet is None, "it is gone")
        token = token_of("b1", "b2", subject=Party("node", "b1"), publish=frozenset(), subscribe=frozenset({"#"}))
        wrong: dict[str, str] = {
            "it is `b1`'s for `node:b2`": replaced(token, issuer="b1", subject=Party("node", "b2")),
            "it is `b2`'s for `node:b3`": replaced(token, subject=Party("node", "b3")),
            "expired": replaced(token, expiry=int(time.time()) - 1),
            "malformed": "{}",
        }
        liar = await Neighbour.join(at, "b2", registers=False)
        for reason, text in wrong.items():
            await liar.says(shows=text)
            assert at.logged("token refused", "shows to subscribe with", reason), reason
        await liar.says(gives=replaced(token, issuer="b3", subject=Party("node", "b2")))
        assert at.logged("token refused", "what `b1` gives is `b3`'s for `node:b2`")
        at.later(REGISTER_SECONDS + 1)
        await liar.hears_the_end(NOT_AUTHORIZED)
        honest = await Neighbour.join(at, "b2")
        at.later(REGISTER_SECONDS + 1)
        await honest.expect_nothing()


def replaced(token: Token, **changes: Any) -> str:
    claims = replace(token.claims, **changes)
    return issue(claims, KEYS[claims.issuer]).text.decode()


GARBAGE: dict[str, bytes] = {
    "no JSON": b"\xff\x00",
    "not an object": b"[]",
    "a number for a token": b'{"token":1}',
    "half a binding": b'{"bind":["home/a"]}',
    "half a surrogate": b'{"bind":["\\ud800","x"]}',
    "a binding of a filter": json.dumps({"bind": ["home/#", "0" * 64]}).encode(),
    "a binding of no topic": json.dumps({"bind": ["", "0" * 64]}).encode(),
    "a binding to what is no digest": json.dumps({"bind": ["home/a", "x" * 1000]}).encode(),
    "deep": b'{"token":' + b"[" * 100_000,
}


@pytest.mark.parametrize("title", GARBAGE)
async def test_garbage_on_the_control_topic_ends_the_connection(folder: Path, title: str) -> None:
    async with live(secured(folder, PAIR), "b2") as at:
        bad = await Neighbour.join(at, "b2")
        reason = await bad.is_cut_off(GARBAGE[title], 0x82)
        assert "tokens of node `b1`" in reason
        await (await Neighbour.join(at, "b2")).expect_nothing()


async def test_a_neighbour_cannot_tell_or_bind_without_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_exchange, "MAX_BOUND_TOPICS", 3)
    monkeypatch.setattr(token_exchange, "MAX_ANNOUNCED", 3)
    async with live(secured(folder, PAIR), "b2") as at:
        bad = await Neighbour.join(at, "b2")
        for number in range(3):
            await bad.says(bind=[f"home/{number}", "0" * 64])
        reason = await bad.is_cut_off(json.dumps({"bind": ["home/x", "0" * 64]}).encode(), 0x97)
        assert "binds more than 3 topics" in reason
        bad = await Neighbour.join(at, "b2")
        for number in range(3):
            await bad.says(token=token_of(f"c{number}").text.decode())
        reason = await bad.is_cut_off(json.dumps({"token": token_of("c9").text.decode()}).encode(), 0x97)
        assert "tells more than 3 tokens" in reason


async def test_refused_tokens_do_not_flood_the_log(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b2") as at:
        bad = await Neighbour.join(at, "b2")
        for number in range(200):
            await bad.says(token=f'{{"{number}":1}}')
            await bad.passes_on("home/a", b"", digest_of(f'{{"{number}":1}}'.encode()))
        for kind in ("token refused", "publish denied"):
            assert 1 <= len(at.logged(kind)) <= 50
        assert at.node("b2").stats.denied >= 400, "all are counted"


async def test_made_up_digests_do_not_fill_the_memory(folder: Path) -> None:
    async with live(secured(folder, PAIR), "b2") as at:
        bad = await Neighbour.join(at, "b2")
        link = at.node("b2").federation.neighbours["b1"].trust.tokens
        assert link is not None
        for number in range(300):
            await bad.passes_on("home/a", b"", f"{number:064x}")
        assert (
            max(len(link.passings), len(link.plans), len(at.node("b2").plans.by_class), len(at.node("b2").plans.routes))
            < 20
        )


async def test_for_what_is_kept_longer_than_its_token_the_node_vouches_unless_it_is_revoked(folder: Path) -> None:
    """Retained at the first node, and wanted elsewhere only when the token has ended; what is revoked it withholds."""
    plain = secured(folder, [("b1", "b2"), ("b2", "b3")])
    async with live(plain) as at:
        for name in ("ann", "eve"):
            client = await at.client("b1", name, token_of(name, seconds=60))
            await client.publish(f"home/{name}", b"on", 1, retain=True)
            await client.disconnect()
        revoke(folder / REVOKED_FILE, "token", "t-eve")
        await at.reload(plain)
        at.later(61)
        bob = await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        assert (await bob.receive()).topic == "home/ann"
        await bob.expect_nothing()
        at.later(1800)  # tokens that nothing has any more are forgotten, those of what is retained are not
        tokens = at.node("b1").trust.tokens
        assert tokens is not None
        assert {token.claims.subject.name for token in tokens.known.values()} == {"ann", "eve", "$node/b1"}
