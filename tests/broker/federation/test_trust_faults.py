"""Domains with tokens and trust go on: over cut links, restarts and reloads, with all that MQTT has."""

import asyncio
import json
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from penstock.cli.node.trust import ask
from penstock.engine.trust import announcements
from penstock.engine.trust.token_exchange import REGISTER_SECONDS
from penstock.policy.tokens.keys import PublicKey, SigningKey
from penstock.policy.tokens.revocation import carried_id, revoke
from penstock.policy.tokens.token import parse_token, sign
from penstock.wire.packet import Auth, Connack, Connect, Disconnect, Publish, WillMessage
from penstock.wire.properties import Properties
from tests.broker.federation.test_trust import least, rating, trust
from tests.support.clients.peer import Peer
from tests.support.memory.sparkplug import encode
from tests.support.memory.tokens import KEY_SET, KEYS
from tests.support.processes.federation import Nodes
from tests.support.processes.mosquitto import HOST, free_port
from tests.support.processes.trust_nodes import KEYS_FILE, REVOKED_FILE, Neighbour, live, secured, token_of, until

LINE = [("b1", "b2"), ("b2", "b3")]
NOT_AUTHORIZED = 0x87
TRUSTED = trust(*((of, by, 0.8) for pair in LINE for of, by in (pair, pair[::-1])), rule="path", accept=0.6)


def _has_certificate(retained: Iterable[str]) -> bool:
    return any(topic.startswith("$sparkplug/") for topic in retained)


async def test_everything_that_mqtt_has_goes_over_links_with_tokens(tmp_path: Path) -> None:
    async with live(secured(tmp_path, LINE, trust=TRUSTED)) as at:
        bob, old = await at.client("b3", "bob"), await at.client("b3", "old", version=4)
        first, second = await at.client("b3", "one"), await at.client("b3", "two")
        for peer in (bob, old):
            await peer.subscribe("home/#", qos=2)
        for peer in (first, second):
            await peer.subscribe("$share/both/home/turns", qos=1)
        for name, version in (("ann", 5), ("eve", 4)):
            will = WillMessage(f"home/will/{name}", b"gone", 1, retain=True)
            ann = await at.client("b1", name, version=version, will=will)
            await at.settled(bob, ann, f"home/settle/{name}")
            await ann.publish(f"home/settled/{name}", b"", 1)
            for peer in (bob, old):
                while (await peer.receive()).topic != f"home/settled/{name}":
                    pass
            for qos, retain in ((0, False), (1, False), (2, False), (0, False), (1, True)):
                await ann.publish(f"home/{name}/{retain}", b"x", qos, retain)
                for peer in (bob, old):
                    await peer.receive(f"home/{name}/{retain}", qos=qos)
            for number in range(4):
                await ann.publish("home/turns", str(number).encode(), 1)
            for peer in (bob, old):
                assert [(await peer.receive()).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
            shared = [(await peer.receive()).payload for peer in (first, second) for _ in range(2)]
            assert sorted(shared) == [b"0", b"1", b"2", b"3"]
            await ann.abort()
            for peer in (bob, old):
                await peer.receive(f"home/will/{name}", payload=b"gone")
        late = await at.client("b2", "late")
        await late.subscribe("home/+/True", "home/will/+", qos=1)
        topics = {(await late.receive()).topic for _ in range(4)}
        assert topics == {f"home/{name}/True" for name in ("ann", "eve")} | {f"home/will/{n}" for n in ("ann", "eve")}
        tokens = at.node("b3").trust.tokens
        assert tokens is not None
        assert {"ann", "eve"} <= {token.claims.subject.name for token in tokens.known.values()}


async def test_a_link_is_cut_and_comes_back(tmp_path: Path) -> None:
    async with live(secured(tmp_path, LINE, trust=TRUSTED)) as at:
        ann, bob = await at.client("b1", "ann"), await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)
        await until(lambda: least(at, "b3") == {"b1": 0.8, "b2": 0.8}, "vectors have come")
        outlet: Any = at.node("b1").federation.neighbours["b2"].outlet
        outlet.transport.abort()
        await until(lambda: at.node("b1").federation.neighbours["b2"].outlet is None, "the link is cut")
        assert await ann.publish("home/a", b"waits", 1) == 0
        await at.linked(*LINE)
        assert (await bob.receive("home/a")).payload == b"waits"
        for qos in (0, 0, 1):
            await ann.publish("home/a", b"x", qos)
            assert (await bob.receive("home/a")).payload == b"x"
        await until(lambda: least(at, "b3") == {"b1": 0.8, "b2": 0.8}, "vectors have come again")


async def test_a_new_key_of_a_node_and_a_revocation_reach_all_nodes_by_reload(tmp_path: Path) -> None:
    plain = secured(tmp_path, LINE, trust=TRUSTED)
    async with live(plain) as at:
        ann, bob = await at.client("b1", "ann"), await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)
        new = SigningKey.generate()
        KEY_SET.with_key(PublicKey("b1", new.public)).write(tmp_path / KEYS_FILE)
        await at.reload(plain)
        (tmp_path / "b1.pem").unlink()
        new.write(tmp_path / "b1.pem")
        await at.reload(plain)
        eve = await at.client("b1", "eve", token_of("eve", key=new))
        for peer, payload in ((ann, b"by the old key"), (eve, b"by the new key")):
            for qos in (0, 1):
                await peer.publish("home/a", payload, qos)
                assert (await bob.receive("home/a")).payload == payload
        assert at.logged("token refused") == []
        revoke(tmp_path / REVOKED_FILE, "key", token_of("ann").signatures[0].key_id)
        await at.reload(plain)
        await ann.expect(Disconnect, reason=NOT_AUTHORIZED)
        await eve.publish("home/a", b"goes on", 1)
        assert (await bob.receive("home/a")).payload == b"goes on"


async def test_evidence_changes_what_goes_on_at_once_and_outlives_a_reload(tmp_path: Path) -> None:
    rated = {**TRUSTED, "operators": ["op"]}
    plain = secured(tmp_path, LINE, trust=rated)
    async with live(plain) as at:
        ann, bob, op = await at.client("b1", "ann"), await at.client("b3", "bob"), await at.client("b2", "op")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)
        for _ in range(2):
            await ann.publish("home/a", b"good", 0)
            await bob.receive("home/a")
        payload = b'{"neighbour": "b1", "good": 0, "bad": 30, "at": 0}'
        assert await op.publish("$penstock/evidence", payload, 1) == 0
        await ann.publish("home/a", b"bad", 0)
        await ann.publish("home/a", b"bad", 1)
        await at.until_logged("publish denied", "node=b2", "the least trustworthy path from `b1` is rated")
        await at.reload(plain)
        assert rating(at, "b2", "b1") == round(1 / 32, 6)
        await ann.publish("home/a", b"bad", 1)
        assert await op.publish("$penstock/evidence", payload.replace(b'"good": 0', b'"good": 9000'), 1) == 0
        await at.reload(switched(plain, False, False))
        assert at.node("b2").trust.ratings is None
        await at.reload(plain)
        assert rating(at, "b2", "b1") > 0.9, "it has not been forgotten"
        await ann.expect(Disconnect, reason=NOT_AUTHORIZED)  # without tokens, what it had shown was forgotten
        await bob.expect(Disconnect, reason=NOT_AUTHORIZED)
        ann, bob = await at.client("b1", "ann"), await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)


def switched(plain: dict[str, Any], tokens: bool, trust: bool, required: bool = True) -> dict[str, Any]:
    """The domain with or without them."""
    without_trust = {name: value for name, value in plain.items() if name not in ("tokens", "trust")}
    if tokens:
        without_trust["tokens"] = {**plain["tokens"], "required": required}
    if trust:
        without_trust["trust"] = plain["trust"]
    return without_trust


async def test_tokens_and_trust_are_switched_on_and_off_by_reload(tmp_path: Path) -> None:
    plain = secured(tmp_path, LINE, trust=TRUSTED)
    without = switched(plain, False, False)
    async with live(without) as at:
        everything: dict[str, Any] = {"subscribe": frozenset({"#"}), "publish": frozenset({"#"})}
        ann = await at.client("b1", "ann", token_of("ann", **everything))
        bob = await at.client("b3", "bob", token_of("bob", "b3", **everything))
        await bob.subscribe("#", qos=1)
        await at.settled(bob, ann)
        steps = [
            switched(plain, True, False, required=False),
            switched(plain, True, True, required=False),
            switched(plain, True, False, required=False),
            without,
            switched(plain, True, True, required=False),
        ]
        for number, step in enumerate(steps):
            await at.reload(step)
            for qos in (0, 1, 0, 2):
                payload = f"{number} at QoS {qos}".encode()
                await ann.publish("garden", payload, qos)
                assert (await bob.receive("garden")).payload == payload
        await until(lambda: least(at, "b3") == {"b1": 0.8, "b2": 0.8}, "vectors have come")
        await at.reload(plain)
        for peer in (ann, bob):
            packet = await peer.expect(Disconnect, reason=NOT_AUTHORIZED)
            assert packet.properties.reason_string == "this node asks for an authorisation token now"
        ann, bob = await at.client("b1", "ann"), await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)
        await at.reload(without)
        assert await ann.publish("garden", qos=1) < 0x80
        await ann.publish("home/a", b"still", 1)
        assert (await bob.receive("home/a")).payload == b"still"


async def test_sparkplug_with_tokens_births_and_their_certificates_go_over_links(tmp_path: Path) -> None:
    plant: dict[str, Any] = {
        "clients": {"E1": {"node": "b1", "edge": "G1/E1"}, "scada": {"node": "b3"}},
        "access": [
            {"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": ["read", "write"]},
            {"subject": "scada", "topics": "spBv1.0/#", "may": "read", "except": "secret"},
        ],
    }
    narrow = frozenset({"spBv1.0/G1/+/E1"})
    async with live(secured(tmp_path, LINE, trust=TRUSTED, **plant)) as at:
        both = frozenset({"spBv1.0/#", "$sparkplug/#"})
        scada = await at.client("b3", "scada", token_of("scada", "b3", publish=frozenset(), subscribe=both))
        await scada.subscribe("spBv1.0/#", qos=1)
        wants = at.node("b1").federation.neighbours["b2"].subscriptions
        await until(lambda: "spBv1.0/#" in {want.filter for want in wants.values()}, "what scada wants is known")
        e1 = await at.client("b1", "E1", token_of("E1", publish=narrow, subscribe=narrow))
        for seq, kind in enumerate(("NBIRTH", "NDATA", "NDATA")):
            names = ["bdSeq", "a", "secret"] if kind == "NBIRTH" else ["a"]
            metrics = [{"name": name, "timestamp": 1, "datatype": 4, "long_value": seq} for name in names]
            payload = encode({"timestamp": 1, "seq": seq, "metrics": metrics})
            assert await e1.publish(f"spBv1.0/G1/{kind}/E1", payload, 1) < 0x80
            message = await scada.receive(f"spBv1.0/G1/{kind}/E1")
            assert b"secret" not in message.payload
        assert at.logged("denied") == at.logged("refused") == at.logged("suppressed") == []
        for name in ("b2", "b3"):
            retained = at.node(name).retained
            await until(partial(_has_certificate, retained), f"{name} keeps it")
        await scada.subscribe("$sparkplug/certificates/#")
        assert (await scada.receive()).topic == "$sparkplug/certificates/spBv1.0/G1/NBIRTH/E1"


async def test_policies_and_meta_events_go_over_links_with_tokens(tmp_path: Path) -> None:
    granted = {"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*"}
    attached = """PolicyStatement { On(Forward, Publication) { If {} Then {
        RemoveAttributes(b), Publish("[class,Alarm],[at,$Broker]") } } }"""
    async with live(secured(tmp_path, LINE, trust=TRUSTED, statements={"grants": [granted]})) as at:
        both = frozenset({"home/#", "$penstock/meta/#"})
        bob = await at.client("b3", "bob", token_of("bob", "b3", subscribe=both))
        ann = await at.client("b1", "ann")
        large = Properties(user_properties=(("where", "a > 1"),))
        await bob.subscribe("home/a", qos=1, properties=large)
        await bob.subscribe("$penstock/meta/#", "home/settle", qos=1)
        await at.settled(bob, ann)
        await ann.publish("home/a", b'{"a": 1, "b": 1}', 1)
        policy = Properties(user_properties=(("penstock-policy", attached),))
        assert await ann.publish("home/a", b'{"a": 2, "b": 1}', 1, properties=policy) == 0
        got, topics = set[bytes](), set[str]()
        while not got or topics != {"b1", "b2", "b3"}:
            message = await bob.receive()
            if message.topic == "home/a":
                got.add(message.payload)
            else:
                topics.add(json.loads(message.payload)["at"])
        assert got == {b'{"a":2}'}
        assert at.logged("denied") == []


async def test_clocks_that_differ_a_little_do_no_harm(tmp_path: Path) -> None:
    async with live(secured(tmp_path, LINE, trust=TRUSTED), clocks={"b2": -30.0, "b3": 20.0}) as at:
        ann = await at.client("b1", "ann", token_of("ann", not_before=int(time.time()) - 60))
        bob = await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        await at.settled(bob, ann)
        at.later(REGISTER_SECONDS + 1)
        assert at.logged("token refused") == at.logged("not registered") == []


async def test_a_token_that_counts_only_later_or_by_keys_to_come_counts_then(tmp_path: Path) -> None:
    plain = secured(tmp_path, [("b1", "b2")])
    new = SigningKey.generate()
    async with live(plain, "b2") as at:
        bob = await at.client("b2", "bob")
        await bob.subscribe("home/#", qos=1)
        other = await Neighbour.join(at, "b2")
        early, ahead = token_of("ann", not_before=int(time.time()) + 100), token_of("eve", key=new)
        for token, topic, reason in ((early, "home/a", "not yet valid"), (ahead, "home/e", "unknown key")):
            await other.says(token=token.text.decode())
            await other.says(bind=[topic, token.digest])
            await other.publish(topic, b"too early")
            assert reason in (await other.passes_on(topic, b"too early"))[1]
        at.later(101)
        await other.publish("home/a", b"in time")
        assert (await bob.receive("home/a")).payload == b"in time"
        assert "unknown key" in (await other.passes_on("home/e"))[1]
        KEY_SET.with_key(PublicKey("b1", new.public)).write(tmp_path / KEYS_FILE)
        await at.reload(plain)
        await other.publish("home/e", b"by new keys")
        assert (await bob.receive("home/e")).payload == b"by new keys"


async def test_what_comes_after_a_new_token_goes_on_with_it(tmp_path: Path) -> None:
    async with live(secured(tmp_path, [("b2", "b1")]), "b1") as at:
        other = await Neighbour.join(at, "b1", "b2")
        await other.wants("home/#")
        first, second = token_of("ann"), token_of("ann", id="t-2")
        shown = Properties(auth_method="penstock-token", auth_data=first.text)
        ann = await Peer.open(HOST, at.port("b1"))
        await ann.send(Connect("ann", username="ann", properties=shown))
        await ann.expect(Connack, reason=0)
        for qos in (0, 0, 1):
            await ann.publish("home/a", b"", qos)
            assert other.token_of(await other.receive("home/a")).claims.id == carried_id(first.claims.id)
        await ann.send(Auth(0x19, Properties(auth_method="penstock-token", auth_data=second.text)))
        await ann.expect(Auth, reason=0)
        for qos in (0, 0, 1):
            await ann.publish("home/a", b"", qos)
            assert other.token_of(await other.receive("home/a")).claims.id == carried_id(second.claims.id)


# --- stopped or killed, with a store


async def test_the_will_of_one_that_is_away_ends_with_its_token_also_after_a_restart(tmp_path: Path) -> None:
    plain = secured(tmp_path, [("b1", "b2")], nodes={"b1": {"store": str(tmp_path / "b1.db")}})
    will = WillMessage("home/will", b"late", 1, properties=Properties(will_delay=100))
    async with live(plain, "b1") as at:
        for name, seconds in (("ann", 60), ("eve", 3600)):
            away = await at.client(
                "b1", name, token_of(name, seconds=seconds), will=will, properties=Properties(session_expiry=3600)
            )
            await away.abort()
    async with live(plain, "b1") as at:
        bob = await at.client("b1", "bob")
        await bob.subscribe("home/#", qos=1)
        at.later(61)
        at.later(60)
        await bob.receive("home/will")
        await bob.expect_nothing()


async def test_a_node_is_killed_and_what_it_kept_has_its_tokens_and_rights(tmp_path: Path) -> None:
    admin = f"{HOST}:{free_port()}"
    rated = trust(("b2", "b1", 0.8))
    plain = secured(tmp_path, [("b2", "b1")], nodes={"b1": {"store": "b1.db", "admin": admin}}, trust=rated)
    for node in plain["nodes"].values():
        node.pop("listen")
    nodes = Nodes(tmp_path, plain)
    try:
        nodes.start("b1")
        port = nodes.ports["b1"]
        token = token_of("ann")
        lasting = Properties(session_expiry=3600)
        ann, bob = await Peer.open(HOST, port), await Peer.open(HOST, port)
        await bob.connect("bob", username="bob", password=token_of("bob").text, properties=lasting)
        await bob.subscribe("home/#", qos=1)
        await bob.disconnect()
        other = await Neighbour.dial(port, "b2")
        await other.wants("home/#")
        await other.says(token="{}")  # evidence against it
        await other.abort()
        await ann.connect("ann", username="ann", password=token.text)
        await ann.publish("home/a", b"queued", 1)
        await ann.publish("home/b", b"retained", 1, retain=True)
        seen = await asyncio.to_thread(ask, admin)
        assert seen.trust is not None
        assert seen.trust.neighbours["b2"].bad == 3 + 3
        nodes.kill("b1")
        nodes.start("b1")
        again = await asyncio.to_thread(ask, admin)
        assert again.trust is not None
        assert again.trust.neighbours["b2"].bad == 3 + 3, "it has not forgotten"
        other = await Neighbour.dial(port, "b2", registers=False)
        received = parse_token(await other.hears("gives"))
        shows = json.dumps({"shows": sign(received, "b2", KEYS["b2"]).text.decode()})
        await other.send(Publish(announcements.TOPIC, shows.encode()))
        for topic in ("home/a", "home/b"):
            message = await other.receive(topic)
            assert other.token_of(message).claims.id == carried_id(token.claims.id), "as it was queued"
        await other.says(vector=[1, True, []])
        await other.wants("home/new/#", "home/b")
        message = await other.receive("home/b", payload=b"retained")
        assert other.token_of(message).claims.id == carried_id(token.claims.id), "as it is retained"
        eve = await Peer.open(HOST, port)
        await eve.connect("eve", username="eve", password=token_of("eve").text)
        assert await eve.publish("home/c", b"after", 1) == 0
        bob = await Peer.open(HOST, port)
        shown = token_of("bob", subscribe=frozenset({"home/a", "home/c"})).text
        await bob.send(Connect("bob", clean_start=False, username="bob", password=shown, properties=lasting))
        await bob.expect(Connack, reason=0, session_present=True)
        assert [(await bob.receive()).topic for _ in range(2)] == ["home/a", "home/c"], "by its new token"
        await bob.expect_nothing()
    finally:
        nodes.stop()
    assert "Traceback" not in nodes.log("b1")
