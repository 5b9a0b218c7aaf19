"""Starting, reloading and stopping a node."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.wire.packet import Disconnect
from tests.support.clients.paho import Paho
from tests.support.clients.peer import Peer
from tests.support.processes.commands import penstock, run
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, refused, running

# --- SIGTERM


@pytest.mark.parametrize(
    ("which", "settings"),
    [
        (signal.SIGINT, {}),
        (signal.SIGTERM, {"admin": ANY_PORT}),
        (signal.SIGTERM, {"store": "main.db"}),
    ],
)
async def test_a_stop_says_goodbye_and_ends_with_0(which: signal.Signals, settings: dict[str, str]) -> None:
    with running(settings) as live:
        new, old, silent = [await Peer.open(HOST, live.port, version) for version in (5, 4, 5)]
        await new.connect("new")
        await old.connect("old")
        assert live.stop(which) == 0
        await new.expect(Disconnect, reason=0x8B)
        for peer in (new, old, silent):
            await peer.expect_close()
            await peer.close()
        assert "Traceback" not in live.log


def test_a_stop_does_not_wait_for_a_client_that_does_not_read() -> None:
    with running() as live, Paho().connects(live.port) as bob, socket.create_connection((HOST, live.port)) as deaf:
        deaf.sendall(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\x82\x06\x00\x01\x00\x01a\x00")
        assert len(deaf.recv(9, socket.MSG_WAITALL)) == 9
        for _ in range(100):
            bob.publish("a", bytes(100_000))
        bob.publish("b", b"", 1)
        assert live.stop() == 0


def test_what_was_going_on_at_the_stop_is_there_after_it() -> None:
    with running({"store": "main.db"}) as live:
        away = Paho("away", clean=False).connects(live.port, SessionExpiryInterval=600)
        away.subscribe("a/#", 2)
        away.leaves()
        with Paho().connects(live.port) as bob:
            for qos in (1, 2):
                bob.publish(f"a/{qos}", b"%d" % qos, qos)
            bob.publish("kept", b"x", 0, retain=True)
            assert live.stop() == 0
        live.start()
        back = Paho("away", clean=False)
        with back:
            assert back.tries(live.port, SessionExpiryInterval=600).session_present
            assert back.payloads(2) == [b"1", b"2"]
            back.subscribe("kept")
            assert back.receive().payload == b"x"


# --- SIGHUP

SETTINGS = {"passwords": "passwords", "acl": "acl"}
RIGHTS = "user ann\ntopic readwrite a/#\n"


def _files(**users: str) -> dict[str, str]:
    return {"passwords": passwords(**users), "acl": RIGHTS}


def _ann(client_id: str = "", **options: bool) -> Paho:
    return Paho(client_id, **options).is_user("ann", "apple")


def test_new_passwords_hold_at_once() -> None:
    with running(SETTINGS, _files(ann="apple", bob="banana")) as live:
        with _ann().connects(live.port) as ann, Paho().is_user("bob", "banana").connects(live.port) as bob:
            live.write("passwords", passwords(ann="avocado"))
            live.reload()
            assert bob.ends.get(timeout=20).value == 0x87  # bob is no longer a user
            ann.subscribe("a/b", 1)  # ann is, and stays
        with _ann() as late:
            assert late.tries(live.port).reason.is_failure
        with Paho().is_user("ann", "avocado") as late:
            late.connects(live.port)


def test_new_rights_hold_for_connected_clients() -> None:
    with (
        running(SETTINGS, _files(ann="apple", bob="banana")) as live,
        _ann().connects(live.port) as ann,
        Paho().is_user("bob", "banana").connects(live.port) as bob,
    ):
        ann.subscribe("a/#", 1)
        bob.subscribe("a/#", 1)
        assert ann.publish("a/b", b"1", 1) == 0
        assert bob.publish("a/b", b"2", 1) == 0x87
        assert ann.receive().payload == b"1"
        live.write("acl", "user ann\ntopic write a/#\nuser bob\ntopic readwrite a/#\n")
        live.reload()
        assert ann.publish("a/b", b"3", 1) == 0
        assert bob.publish("a/b", b"4", 1) == 0
        assert bob.payloads(2) == [b"3", b"4"]
        live.write("acl", RIGHTS)
        live.reload()
        ann.publish("a/b", b"5", 1)
        assert ann.receive().payload == b"5"  # neither 3 nor 4


def test_what_waits_is_judged_by_the_rights_of_its_delivery() -> None:
    files = {"passwords": passwords(ann="apple"), "acl": "user ann\ntopic readwrite #\n"}
    with running({**SETTINGS, "store": "main.db"}, files) as live:
        away = _ann("away", clean=False).connects(live.port, SessionExpiryInterval=600)
        away.subscribe("#", 1)
        away.leaves()
        with _ann().connects(live.port) as bob:
            for topic in ("secret", "open"):
                bob.publish(topic, topic.encode(), 1, retain=True)
        live.write("acl", "user ann\ntopic readwrite open\n")
        live.reload()
        with _ann("away", clean=False).connects(live.port) as back:
            assert back.receive().payload == b"open"
            back.subscribe("#", 1)
            message = back.receive()
            assert (message.payload, message.retain) == (b"open", True)


@pytest.fixture(scope="module")
def governed() -> Iterator[LiveNode]:
    with running(SETTINGS, _files(ann="apple")) as live:
        yield live
        assert "Traceback" not in live.log


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        ("passwords", "ann without a colon\n", "passwords"),
        ("acl", "topic everything #\n", "acl"),
        ("domain.yaml", "domain: [broken\n", "domain.yaml"),
        ("domain.yaml", "domain: test\nnodes: {main: {listen: nonsense}}\n", "nonsense"),
        ("domain.yaml", "domain: test\nnodes: {other: {listen: '127.0.0.1:0'}}\n", "node `main`"),
    ],
    ids=["passwords", "acl", "yaml", "domain", "node gone"],
)
def test_a_broken_file_leaves_everything_as_it_was(governed: LiveNode, file: str, text: str, named: str) -> None:
    path = governed.folder / file
    good = path.read_text()
    with _ann().connects(governed.port) as ann:
        governed.write(file, text)
        governed.reload()
        line = governed.until_logged("not reloaded", named)
        assert " error " in line
        ann.subscribe("a/b", 1)
        assert ann.publish("a/b", b"still", 1) == 0
        assert ann.publish("c", b"still not", 1) == 0x87
    with _ann() as late:
        late.connects(governed.port)
    path.write_text(good)


# --- starting


def test_a_port_in_use(tmp_path: Path) -> None:
    with running() as live:
        other = LiveNode(tmp_path)
        other.configure({"listen": f"{HOST}:{live.port}"})
        code, error = refused(tmp_path)
        assert code == 1
        assert error == f"penstock: `{HOST}:{live.port}` cannot be listened on: address already in use\n"


def test_an_address_that_cannot_be_resolved(tmp_path: Path) -> None:
    LiveNode(tmp_path).configure({"listen": "nowhere.invalid:1883"})
    code, error = refused(tmp_path)
    assert code == 1
    assert error.startswith("penstock: `nowhere.invalid:1883` cannot be listened on: ")
    assert error.count("\n") == 1


def test_a_port_in_use_by_the_first_of_two_nodes(tmp_path: Path) -> None:
    with running() as live:
        nodes = {"one": {"listen": f"{HOST}:{live.port}"}, "two": {"listen": ANY_PORT}}
        (tmp_path / "domain.yaml").write_text(json.dumps({"domain": "test", "nodes": nodes}))
        code, error = refused(tmp_path)
        assert code == 1
        assert error.count("\n") == 1, error


def test_an_admin_port_in_use(tmp_path: Path) -> None:
    with running() as live:
        other = LiveNode(tmp_path)
        other.configure({"admin": f"{HOST}:{live.port}"})
        code, error = refused(tmp_path)
        assert code == 1
        assert str(live.port) in error.splitlines()[-1]
        assert "Traceback" not in error


def test_a_store_in_use(tmp_path: Path) -> None:
    with running({"store": "main.db"}) as live:
        other = LiveNode(tmp_path)
        other.configure({"store": str(live.folder / "main.db")})
        code, error = refused(tmp_path)
        assert code == 1
        assert error.count("\n") == 1
        assert "main.db" in error
        with Paho("lasting", clean=False).connects(live.port, SessionExpiryInterval=60) as ann:
            ann.subscribe("a", 1)  # the first is none the worse


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 100, b"\0" * 4096])
def test_a_file_that_is_not_a_store(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "main.db").write_bytes(content)
    LiveNode(tmp_path).configure({"store": "main.db"})
    code, error = refused(tmp_path)
    assert code == 1
    assert error.count("\n") == 1
    assert "main.db" in error
    assert (tmp_path / "main.db").read_bytes() == content


def test_a_store_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    LiveNode(tmp_path).configure({"store": "nowhere/main.db"})
    code, error = refused(tmp_path)
    assert code in (1, 3)
    assert error.count("\n") == 1
    assert "nowhere" in error


def test_a_domain_that_does_not_check(tmp_path: Path) -> None:
    LiveNode(tmp_path).configure({"listen": "nonsense"})
    code, error = refused(tmp_path)
    assert code == 3
    assert "domain.yaml" in error


def test_the_short_way_to_run() -> None:
    code, output, errors = run(penstock("run", "--port", "70000"))
    assert (code, output) == (2, "")
    assert "70000" in errors
