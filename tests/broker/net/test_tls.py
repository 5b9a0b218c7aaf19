"""TLS: the node's certificate, client certificates as identity, and what is refused."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clients.paho import Paho
from tests.support.clients.peer import Peer
from tests.support.processes.certificates import Authority
from tests.support.processes.commands import run, until
from tests.support.processes.mosquitto import HOST, program
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

ACL = """
user ann
topic readwrite ann/#
topic deny ann/secret
user organizationName=tests,commonName=bob
topic readwrite bob/#
topic read $SYS/#
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the node does not know."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


def _listener(authority: Authority, **options: object) -> dict[str, object]:
    cert, key = authority.sign("server")
    tls = {"cert": str(cert), "key": str(key), **options}
    return {"address": ANY_PORT, "tls": tls}


@pytest.fixture(scope="module")
def node(authority: Authority) -> Iterator[LiveNode]:
    """Listeners: server certificate only; common name as user; whole subject as user; WebSocket."""
    ca = str(authority.file)
    listeners = [
        ANY_PORT,
        {**_listener(authority), "anonymous": True},
        _listener(authority, ca=ca, require_certificate=True, identity="cn"),
        _listener(authority, ca=ca, require_certificate=True, identity="subject"),
        {**_listener(authority), "websocket": True, "anonymous": True},
    ]
    with running(
        {"listen": listeners, "acl": "acl", "passwords": "passwords", "limits": {"connect_timeout": 2}},
        {"acl": ACL, "passwords": passwords(ann="secret")},
    ) as live:
        yield live
        assert "Traceback" not in live.log


OPEN, BY_NAME, BY_SUBJECT = 0, 1, 2


@pytest.mark.parametrize("version", [4, 5])
def test_a_client_that_trusts_the_authority(node: LiveNode, authority: Authority, version: int) -> None:
    with Paho(version=version).trusts(authority.trusting()).is_user("ann", "secret") as ann:
        ann.connects(node.ports("mqtts")[OPEN])
        ann.subscribe("ann/a", 1)
        ann.publish("ann/a", b"x" * 100_000, 1)
        assert len(ann.receive().payload) == 100_000


def test_a_client_that_does_not_trust_it_goes_away(node: LiveNode, stranger: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Paho().trusts(stranger.trusting()).tries(node.ports("mqtts")[OPEN])


def test_websocket_over_tls(node: LiveNode, authority: Authority) -> None:
    with Paho(transport="websockets").trusts(authority.trusting()).is_user("ann", "secret") as ann:
        ann.client.ws_set_options("/mqtt")
        ann.connects(node.ports("wss")[0])
        ann.subscribe("ann/a", 2)
        ann.publish("ann/a", b"x" * 100_000, 2)
        assert len(ann.receive().payload) == 100_000


def test_the_common_name_is_the_user(node: LiveNode, authority: Authority) -> None:
    with Paho("c1").trusts(authority.trusting(authority.sign("ann"))).is_user("somebody", "else") as ann:
        ann.connects(node.ports("mqtts")[BY_NAME])
        assert ann.subscribe("ann/#", 1) == 1
        assert ann.publish("ann/a", b"mine", 1) == 0
        assert ann.publish("bob/a", b"not mine", 1) == 0x87
        assert ann.publish("ann/secret", b"denied", 1) == 0x87
        assert ann.receive().payload == b"mine"
    node.until_logged("publish denied", "client=c1", "user=ann", "topic=bob/a", "reason=")


def test_the_whole_subject_is_the_user(node: LiveNode, authority: Authority) -> None:
    with Paho().trusts(authority.trusting(authority.sign("bob"))) as bob:
        bob.connects(node.ports("mqtts")[BY_SUBJECT])
        assert bob.subscribe("bob/a", 1) == 1
        assert bob.publish("bob/a", b"x", 1) == 0
        assert bob.publish("ann/a", b"x", 1) == 0x87


def test_mosquitto_pub_with_a_certificate(node: LiveNode, authority: Authority) -> None:
    cert, key = authority.sign("ann")
    port = node.ports("mqtts")[BY_NAME]
    command = [program("mosquitto_pub"), "-h", "localhost", "-p", str(port), "--cafile", str(authority.file)]
    done = run([*command, "--cert", str(cert), "--key", str(key), "-t", "ann/a", "-m", "x", "-q", "1"])
    assert done == (0, "", "")


@contextmanager
def _refused_in_handshake() -> Iterator[None]:
    """With TLS 1.3 a client learns that its certificate was refused when it reads, or its peer is gone by then."""
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        yield


@pytest.mark.parametrize("presented", ["nothing", "a stranger's", "an expired one"])
async def test_a_certificate_is_refused(
    node: LiveNode, authority: Authority, stranger: Authority, presented: str
) -> None:
    certificates = {
        "nothing": None,
        "a stranger's": stranger.sign("ann"),
        "an expired one": authority.sign("late", expired=True),
    }
    context = authority.trusting(certificates[presented])
    with _refused_in_handshake():
        reader, writer = await asyncio.open_connection(HOST, node.ports("mqtts")[BY_NAME], ssl=context)
        await Peer(reader, writer, 5).connect("intruder")
    assert "intruder" not in node.log


async def test_plain_bytes_to_a_tls_port(node: LiveNode) -> None:
    peer = await Peer.open(HOST, node.ports("mqtts")[OPEN])
    await peer.send_raw(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00")
    assert await peer._reader.read() in (b"", b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00\x02\x02\x46")
    await peer.close()


async def test_a_handshake_that_does_not_go_on_is_cut_off(node: LiveNode) -> None:
    peer = await Peer.open(HOST, node.ports("mqtts")[OPEN])
    await peer.expect_close()


def test_tls_without_connect_is_cut_off_and_logged_once(node: LiveNode, authority: Authority) -> None:
    before = node.log.count("no CONNECT in time")
    port = node.ports("mqtts")[OPEN]
    with socket.create_connection((HOST, port)) as plain:
        with authority.trusting().wrap_socket(plain, server_hostname="localhost"):
            node.until_logged("no CONNECT in time")
            time.sleep(1.5)  # it takes no notice of what the node says, and is not told again
        assert node.log.count("no CONNECT in time") == before + 1


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_versions_are_refused(node: LiveNode, authority: Authority) -> None:
    context = authority.trusting()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Paho().trusts(context).tries(node.ports("mqtts")[OPEN])


def test_sighup_takes_a_new_certificate(tmp_path: Path) -> None:
    old, new = (Authority(_made(tmp_path / word), word) for word in ("old", "new"))
    with running({"listen": {**_listener(old), "anonymous": True}}) as live:
        port = live.ports("mqtts")[0]
        with Paho().trusts(old.trusting()) as stays:
            stays.connects(port)
            for mine, theirs in zip(old.sign("server"), new.sign("server"), strict=True):
                mine.write_bytes(theirs.read_bytes())
            live.reload()
            with Paho().trusts(new.trusting()) as late:
                late.connects(port)
            stays.subscribe("a", 1)
            stays.publish("a", b"still here", 1)
            assert stays.receive().payload == b"still here"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_key_that_does_not_fit_is_told_in_one_line(tmp_path: Path, authority: Authority) -> None:
    cert, _ = authority.sign("one")
    _, key = authority.sign("two")
    live = LiveNode(tmp_path)
    live.configure({"listen": {"address": ANY_PORT, "tls": {"cert": str(cert), "key": str(key)}}})
    with pytest.raises(AssertionError):
        live.start()
    until(lambda: not live.is_alive, "the node ends")
    assert live.log.count("\n") == 1
    assert f"`{cert}`" in live.log
