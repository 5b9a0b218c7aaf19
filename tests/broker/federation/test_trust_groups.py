"""Trust groups on live nodes: links and clients prove membership, again before it expires, and no secret is shown."""

import asyncio
import contextlib
import logging
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.federation import Federation
from penstock.client import Disconnected, Refused
from penstock.domain import Domain
from penstock.domain.schema.trust import SecretError
from penstock.engine.federation import overlay
from penstock.engine.sessions.session import Session
from penstock.engine.trust.group_proofs import make_claimant
from penstock.model.group_proof import METHOD, Claimant, GroupAnswer
from penstock.wire.codec import encode
from penstock.wire.packet import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.support.clients.library import client, payloads
from tests.support.clients.peer import Peer
from tests.support.processes.commands import PATIENCE, penstock
from tests.support.processes.mosquitto import HOST, free_port
from tests.support.processes.node import refused
from tests.support.scenes.domains import nodes, write_domain

SCOPE = """
PolicyStatement {
  On(Forward, Publication) { If {AuthenticateReceiver(inner)} Then {} Elseif {} Then {BlockMessage()} }
}
"""
INNER, OUTER, OTHER = (f"the-secret-of-{name}-4711" for name in ("inner", "outer", "others"))


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").write_text(f"{INNER}\n")
    (tmp_path / "other").write_text(OTHER)
    monkeypatch.setenv("OUTER_SECRET", OUTER)


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All that is logged; no test may have a secret in it."""
    caplog.set_level(logging.DEBUG)
    yield caplog
    whole = "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.get_records("call"))
    assert not any(secret in whole for secret in (INNER, OUTER, OTHER))


def domain(folder: Path, *, file: str = "inner", expiry: float = 600, **more: Any) -> Domain:
    plain = {
        "nodes": nodes("a", "b"),
        "links": [{"between": ["a", "b"]}],
        "trust_groups": {
            "inner": {"secret": {"file": str(folder / file)}, "nodes": ["a", "b"], "expiry": expiry},
            "outer": {"secret": {"env": "OUTER_SECRET"}, "nodes": ["b"], "expiry": expiry},
        },
    }
    return Domain.model_validate({**plain, **more})


@contextlib.asynccontextmanager
async def running(*federations: Federation) -> AsyncIterator[None]:
    for federation in federations:
        await federation.start()
    try:
        yield
    finally:
        for federation in federations:
            await federation.stop()


async def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.02)


def between(first: Federation, second: Federation) -> tuple[Session, Session]:
    """Return the sessions of `a` with `b`, and of `b` with `a`."""
    return first.servers["a"].node.federation.neighbours["b"], second.servers["b"].node.federation.neighbours["a"]


def port(federation: Federation, name: str) -> int:
    return federation.servers[name].listeners.bound[0].port


# --- nodes


async def test_nodes_prove_to_each_other_what_both_are_in(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    federation = Federation(domain(tmp_path), ("a", "b"), None)
    async with running(federation):
        to_b, to_a = between(federation, federation)
        await until(lambda: to_b.outlet is not None, "the link is up")
        assert to_b.trust.proven.keys() == to_a.trust.proven.keys() == {"inner"}
    assert [vars(record)["groups"] for record in said.records if record.msg == "linked"] == ["inner"]


async def test_a_node_with_another_secret_is_linked_and_proves_nothing(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    place = {**nodes("a", "b"), "b": {"listen": f"{HOST}:{free_port()}", "store": "memory"}}
    links = [{"between": ["a", "b"], "secret": "link"}]
    a, b = (
        Federation(domain(tmp_path, file=file, nodes=place, links=links), (name,), None)
        for name, file in (("a", "inner"), ("b", "other"))
    )
    async with running(b, a):
        to_b, to_a = between(a, b)
        await until(lambda: to_b.outlet is not None, "the link is up")
        assert to_b.trust.proven == to_a.trust.proven == {}
        await until(lambda: "group not proven" in said.messages, "a warning")
        # The other gets the right secret: both reload, and prove it without a new connection.
        outlet = to_b.outlet
        await b.reload(domain(tmp_path, nodes=place, links=links))
        await a.reload(domain(tmp_path, nodes=place, links=links))
        await until(lambda: to_b.trust.proven and to_a.trust.proven, "the new secret is proven")
        assert to_b.outlet is outlet


async def test_a_group_that_comes_with_a_reload_is_proven_and_one_that_goes_is_forgotten(tmp_path: Path) -> None:
    without = domain(tmp_path, trust_groups={})
    federation = Federation(without, ("a", "b"), None)
    async with running(federation):
        to_b, to_a = between(federation, federation)
        await until(lambda: to_b.outlet is not None, "the link is up")
        assert to_b.trust.proven == to_a.trust.proven == {}
        await federation.reload(domain(tmp_path))
        await until(lambda: to_b.trust.proven.keys() == to_a.trust.proven.keys() == {"inner"}, "the group is proven")
        await federation.reload(without)
        assert to_b.trust.proven == to_a.trust.proven == {}


async def test_a_reload_with_a_secret_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    federation = Federation(domain(tmp_path), ("a", "b"), None)
    async with running(federation):
        to_b, _ = between(federation, federation)
        await until(lambda: to_b.trust.proven, "the group is proven")
        (tmp_path / "inner").unlink()
        with pytest.raises(SecretError, match=r"trust group `inner`: file `.*inner` cannot be read: No such file"):
            await federation.reload(domain(tmp_path))
        assert to_b.trust.proven


def test_a_node_does_not_start_without_its_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTER_SECRET")
    with pytest.raises(SecretError, match=r"^trust group `outer`: environment variable `OUTER_SECRET` has no secret"):
        Federation(domain(tmp_path), ("b",), None)
    Federation(domain(tmp_path), ("a",), None)  # which is not in that group
    (tmp_path / "inner").write_text("too-short")
    with pytest.raises(SecretError, match="shorter than 16 bytes") as caught:
        Federation(domain(tmp_path), ("a",), None)
    assert "too-short" not in str(caught.value)


def test_penstock_run_says_which_secret_is_missing(tmp_path: Path) -> None:
    (tmp_path / "inner").write_text("too-short")
    plain = {"nodes": nodes("a"), "trust_groups": {"inner": {"secret": {"file": "inner"}, "nodes": "a"}}}
    write_domain(tmp_path, plain)
    code, error = refused(tmp_path)
    assert code == 1
    assert error.startswith("penstock: trust group `inner`: file `")
    assert error.endswith("` has a secret that is shorter than 16 bytes\n")


def test_a_foreign_broker_is_not_asked(tmp_path: Path) -> None:
    plain = domain(tmp_path, foreign={"c": {"address": f"{HOST}:1"}}, links=[{"between": ["b", "c"]}])
    node = Federation(plain, ("b",), None).servers["b"].node
    overlay.prepare(node)
    assert make_claimant(node, node.federation.neighbours["c"]) is None


# --- clients


async def test_a_client_proves_its_groups_to_a_node_that_is_in_them(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    federation = Federation(domain(tmp_path), ("a", "b"), None)
    groups = {"inner": f" {INNER}\n".encode(), "outer": OUTER.encode(), "nowhere": OTHER.encode()}
    async with running(federation):
        async with client(port(federation, "b"), "ann", groups=groups) as ann:
            assert ann.groups == {"inner", "outer"}
            assert federation.servers["b"].node.sessions["ann"].trust.proven.keys() == {"inner", "outer"}
            await ann.publish("t", 1)
        async with client(port(federation, "a"), "bob", groups=groups) as bob:
            assert bob.groups == {"inner"}
        async with client(port(federation, "b"), "eve", groups={"inner": OTHER.encode()}) as eve:
            assert eve.groups == frozenset()
            assert federation.servers["b"].node.sessions["eve"].trust.proven == {}
            await eve.publish("t", 1)
        async with client(port(federation, "b")) as somebody:
            assert somebody.groups == frozenset()
    assert "group not proven" not in said.messages, "a client that has seen no proof gives none"
    assert "trust group `nowhere` is not proven: the node is not in it, or has another secret" in said.messages


async def test_a_message_for_members_comes_to_members_on_any_node(tmp_path: Path) -> None:
    """Authenticated event scope (statements §5.2), from a client of one node to clients of the other."""
    statements = {"policies": {"scope": SCOPE}, "apply": [{"policy": "scope", "to": "publication", "of": "*"}]}
    federation = Federation(domain(tmp_path, statements=statements), ("a", "b"), None)
    async with running(federation):
        at_b, groups = port(federation, "b"), {"inner": INNER.encode()}
        async with (
            client(at_b, "member", groups=groups) as member,
            client(at_b, "stranger", groups={"inner": OTHER.encode()}) as stranger,
            client(port(federation, "a"), "writer") as writer,
        ):
            subscriptions = [await client.subscribe("t") for client in (member, stranger)]
            await until(
                lambda: "t" in federation.servers["a"].node.federation.neighbours["b"].subscriptions, "`a` is told"
            )
            await writer.publish("t", "for members")
            assert await payloads(subscriptions[0]) == [b"for members"]
            # What the policy lets through to nobody but members has passed the other by: it gets its next own one.
            await federation.reload(domain(tmp_path))
            await writer.publish("t", "for all")
            assert await payloads(subscriptions[1]) == [b"for all"]


async def test_proofs_are_renewed_before_they_expire(tmp_path: Path) -> None:
    federation = Federation(domain(tmp_path, expiry=4), ("a", "b"), None)
    async with (
        running(federation),
        client(port(federation, "b"), "ann", groups={"inner": INNER.encode()}) as ann,
    ):
        to_b, to_a = between(federation, federation)
        await until(lambda: to_b.trust.proven, "the nodes have proven it")
        session = federation.servers["b"].node.sessions["ann"]
        sessions = (to_b, to_a, session)
        first = [proving.trust.proven["inner"] for proving in sessions]
        await until(
            lambda: all(proving.trust.proven["inner"] > due for proving, due in zip(sessions, first, strict=True)),
            "renewed",
        )
        assert all(due > time.time() for due in first), "in time"
        assert ann.groups == {"inner"}


@pytest.mark.parametrize("is_member", [True, False], ids=["who proves it", "not who does not"])
async def test_what_waits_for_a_member_outlasts_the_node_and_is_for(tmp_path: Path, is_member: bool) -> None:
    statements = {"policies": {"scope": SCOPE}, "apply": [{"policy": "scope", "to": "publication", "of": "*"}]}
    settings = {**nodes("a"), "b": {"listen": f"{HOST}:0", "store": str(tmp_path / "b.db")}}
    plain = domain(tmp_path, statements=statements, nodes=settings)
    for groups in ({"inner": INNER.encode()}, {"inner": INNER.encode()} if is_member else {}):
        federation = Federation(plain, ("b",), None)
        async with running(federation):
            peer = await Peer.open(HOST, port(federation, "b"))
            ours = Claimant("ann", groups, bytes(32))
            await peer.send(claimed(ours, session_expiry=1000))
            await peer.send(answered(ours, await peer.expect(Auth)))
            connack = await peer.expect(Connack, reason=0)
            if connack.session_present:
                await peer.expect(Publish, payload=b"for members")
                assert is_member
                break
            await peer.send(Subscribe(1, (SubscriptionRequest("t", 1),)))
            await peer.expect(Suback)
            await peer.abort()
            async with client(port(federation, "b"), "writer") as writer:
                await writer.publish("t", "for members")
    assert connack.session_present == is_member


async def test_a_client_proves_on_each_of_its_connections(tmp_path: Path) -> None:
    federation = Federation(domain(tmp_path), ("b",), None)
    async with running(federation), client(port(federation, "b"), "ann", groups={"inner": INNER.encode()}) as ann:
        session = federation.servers["b"].node.sessions["ann"]
        before = session.trust.proven["inner"]
        session.outlet.transport.abort()  # type: ignore[union-attr]
        await until(lambda: session.trust.proven["inner"] > before, "it has proven it again")
        await until(lambda: ann.groups == {"inner"}, "it knows")


async def test_another_secret_ends_what_clients_have_proven(tmp_path: Path) -> None:
    federation = Federation(domain(tmp_path), ("b",), None)
    async with (
        running(federation),
        client(port(federation, "b"), "ann", groups={"inner": INNER.encode(), "outer": OUTER.encode()}),
    ):
        await federation.reload(domain(tmp_path, file="other"))
        assert federation.servers["b"].node.sessions["ann"].trust.proven.keys() == {"outer"}


async def test_a_server_that_answers_nonsense_is_given_no_proof() -> None:
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(encode(Auth(0x18, Properties(auth_method=METHOD, auth_data=b"nonsense")), 5))
        got.extend(await reader.read())
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        place = server.sockets[0].getsockname()[1]
        with pytest.raises(Disconnected, match="cannot prove trust groups: version 110 of the exchange is not known"):
            async with client(place, groups={"inner": INNER.encode()}, timeout=0.5):
                pass
    assert got == b""


async def test_a_password_is_asked_for_beside_the_proof(tmp_path: Path) -> None:
    plain = domain(tmp_path, nodes={"a": {"listen": f"{HOST}:0"}, "b": {"listen": f"{HOST}:0", "anonymous": False}})
    federation = Federation(plain, ("b",), None)
    async with running(federation):
        with pytest.raises(Refused, match="anonymous access"):
            async with client(port(federation, "b"), groups={"inner": INNER.encode()}):
                pass


@pytest.mark.parametrize("websocket", [False, True], ids=["plain", "by WebSocket"])
async def test_the_command_line_proves_groups_too(
    tmp_path: Path, said: pytest.LogCaptureFixture, websocket: bool
) -> None:
    place = {"listen": {"address": f"{HOST}:{free_port()}", "websocket": websocket}}
    plain = domain(tmp_path, nodes={**nodes("a"), "b": place})
    federation = Federation(plain, ("b",), None)
    async with running(federation):
        at = str(plain.nodes["b"].listeners[0].address.port)
        where = [
            "-h",
            HOST,
            "-p",
            at,
            *(["--ws"] if websocket else []),
            "-i",
            "cli",
            "-t",
            "t",
            "-m",
            "x",
            "-q",
            "1",
            "-d",
        ]
        groups = ["--group", f"inner=file:{tmp_path / 'inner'}", "--group", "outer=env:OUTER_SECRET"]
        done = await asyncio.create_subprocess_exec(*penstock("pub", *where, *groups), stdout=PIPE, stderr=PIPE)
        out, errors = await asyncio.wait_for(done.communicate(), PATIENCE)
        assert (done.returncode, errors) == (0, b""), (out, errors)
        assert not any(secret.encode() in out for secret in (INNER, OUTER))
    records = [vars(record) for record in said.records if record.msg == "connected"]
    assert [(record["client"], record["groups"]) for record in records] == [("cli", "inner outer")]


# --- packet by packet


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Federation]:
    federation = Federation(domain(tmp_path), ("b",), None)
    async with running(federation):
        yield federation


def claimed(claimant: Claimant, session_expiry: int | None = None) -> Connect:
    properties = Properties(auth_method=METHOD, auth_data=claimant.claim, session_expiry=session_expiry)
    return Connect("ann", clean_start=session_expiry is None, properties=properties)


def answered(claimant: Claimant, packet: Auth) -> Auth:
    assert packet.properties.auth_data is not None
    proof = claimant.answer(packet.properties.auth_data)
    return Auth(Reason.CONTINUE_AUTHENTICATION, Properties(auth_method=METHOD, auth_data=proof))


def claimant(client_id: str = "ann") -> Claimant:
    return Claimant(client_id, {"inner": INNER.encode()}, bytes(32))


async def test_the_exchange_in_single_bytes(live: Federation) -> None:
    """[MQTT-4.12.0-2] [MQTT-4.12.0-5] [MQTT-3.15.2-1]"""
    peer, ours = await Peer.open(HOST, port(live, "b")), claimant()
    for byte in encode(claimed(ours), 5):
        await peer.send_raw(bytes((byte,)))
    question = await peer.expect(Auth, reason=Reason.CONTINUE_AUTHENTICATION)
    assert question.properties.auth_method == METHOD
    for byte in encode(answered(ours, question), 5):
        await peer.send_raw(bytes((byte,)))
    connack = await peer.expect(Connack, reason=0)
    assert connack.properties.auth_method == METHOD
    assert connack.properties.auth_data == b"\1\1\5inner\0\0\2\x58"
    await peer.expect_nothing()
    await peer.abort()


async def test_what_comes_in_one_piece_with_the_answer_is_taken(live: Federation) -> None:
    peer, ours = await Peer.open(HOST, port(live, "b")), claimant()
    await peer.send(claimed(ours))
    question = await peer.expect(Auth)
    await peer.send(answered(ours, question), Pingreq())
    await peer.expect(Connack, reason=0)
    await peer.expect(Pingresp)
    await peer.abort()


async def test_nothing_but_auth_or_disconnect_comes_before_connack(live: Federation) -> None:
    """[MQTT-3.1.2-30] [MQTT-4.12.0-4]"""
    for packet, reason in ((Pingreq(), 0x82), (claimed(claimant()), 0x82), (Publish("t"), 0x82)):
        peer = await Peer.open(HOST, port(live, "b"))
        await peer.send(claimed(claimant()))
        await peer.expect(Auth)
        await peer.send(packet)
        await peer.expect(Connack, reason=reason)
        await peer.expect_close()
    peer = await Peer.open(HOST, port(live, "b"))
    await peer.send(claimed(claimant()))
    await peer.expect(Auth)
    await peer.send(Disconnect())
    await peer.expect_close()
    assert live.servers["b"].node.sessions.keys() <= {"$node/a"}, "no session was made"


async def test_who_does_not_answer_is_cut_off(tmp_path: Path) -> None:
    impatient = {"listen": f"{HOST}:0", "limits": {"connect_timeout": "1s"}}
    federation = Federation(domain(tmp_path, nodes={"a": {"listen": f"{HOST}:0"}, "b": impatient}), ("b",), None)
    async with running(federation):
        peer = await Peer.open(HOST, port(federation, "b"))
        await peer.send(claimed(claimant()))
        await peer.expect(Auth)
        await peer.expect_close()


async def test_an_unknown_method_is_refused_as_before(live: Federation) -> None:
    """[MQTT-4.12.0-1]"""
    peer = await Peer.open(HOST, port(live, "b"))
    await peer.send(Connect("ann", properties=Properties(auth_method="SCRAM-SHA-1", auth_data=b"x")))
    await peer.expect(Connack, reason=Reason.BAD_AUTHENTICATION_METHOD)
    await peer.expect_close()


async def test_a_wrong_proof_is_a_warning_and_nothing_more(live: Federation, said: pytest.LogCaptureFixture) -> None:
    peer = await Peer.open(HOST, port(live, "b"))
    await peer.send(claimed(claimant()))
    await peer.expect(Auth)
    wrong = GroupAnswer({"inner": bytes(32)}).encode()
    await peer.send(Auth(Reason.CONTINUE_AUTHENTICATION, Properties(auth_method=METHOD, auth_data=wrong)))
    connack = await peer.expect(Connack, reason=0)
    assert connack.properties.auth_data == b"\1\0"
    await peer.expect_nothing()
    await peer.abort()
    (notice,) = (record for record in said.records if record.msg == "group not proven")
    assert (notice.levelname, vars(notice)["client"]) == ("WARNING", "ann")
