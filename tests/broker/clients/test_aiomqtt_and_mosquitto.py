"""aiomqtt and Mosquitto's command line clients against the node."""

import socket
import subprocess
from typing import Any

import aiomqtt
import pytest

from tests.support.clients.paho import Paho
from tests.support.processes.commands import finish, run, start, until
from tests.support.processes.mosquitto import HOST, mosquitto, program
from tests.support.processes.node import LiveNode

VERSIONS = pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_aiomqtt(node: LiveNode, name: str, version: aiomqtt.ProtocolVersion, qos: int) -> None:
    async with aiomqtt.Client(HOST, node.port, protocol=version) as client:
        await client.subscribe(f"{name}/+", qos=qos)
        for number in range(10):
            await client.publish(f"{name}/{number}", b"%d" % number, qos=qos)
        got = []
        async for message in client.messages:
            got.append((str(message.topic), message.payload, message.qos))
            if len(got) == 10:
                break
    assert got == [(f"{name}/{number}", b"%d" % number, qos) for number in range(10)]


async def test_aiomqtt_will(node: LiveNode, name: str) -> None:
    will = aiomqtt.Will(f"{name}/will", b"gone", qos=1)
    async with aiomqtt.Client(HOST, node.port) as watcher:
        await watcher.subscribe(f"{name}/will", qos=1)
        async with aiomqtt.Client(HOST, node.port, will=will) as client:
            sock: Any = client._client.socket()
            sock.shutdown(socket.SHUT_RDWR)
            message = await anext(aiter(watcher.messages))
            assert message.payload == b"gone"


def _sub(node: LiveNode, *arguments: str) -> "subprocess.Popen[bytes]":
    """mosquitto_sub that has its SUBACK."""
    unbuffered = ["stdbuf", "-oL"]
    process = start([*unbuffered, program("mosquitto_sub"), "-h", HOST, "-p", str(node.port), "-d", *arguments])
    assert process.stdout is not None
    while b"Subscribed" not in (line := process.stdout.readline()):
        assert line, "mosquitto_sub ended"
    return process


def _pub(node: LiveNode, *arguments: str, stdin: bytes = b"") -> None:
    code, _, errors = run([program("mosquitto_pub"), "-h", HOST, "-p", str(node.port), *arguments], stdin)
    assert (code, errors) == (0, "")


def _messages(process: "subprocess.Popen[bytes]") -> list[str]:
    """Return the output of mosquitto_sub without the lines about packets."""
    code, output, _ = finish(process)
    assert code == 0
    return [line for line in output.splitlines() if not line.startswith(("Client ", "Subscribed"))]


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquitto_clients(node: LiveNode, name: str, version: str, qos: str) -> None:
    options = ["-V", version, "-q", qos]
    subscriber = _sub(node, *options, "-t", f"{name}/#", "-C", "3", "-F", "%t %q %p")
    for number in range(3):
        _pub(node, *options, "-t", f"{name}/{number}", "-m", f"message {number}")
    assert _messages(subscriber) == [f"{name}/{number} {qos} message {number}" for number in range(3)]


def test_mosquitto_pub_lines_in_one_connection(node: LiveNode, name: str) -> None:
    lines = [f"line {number}" for number in range(500)]
    subscriber = _sub(node, "-V", "mqttv311", "-q", "2", "-t", name, "-C", str(len(lines)))
    _pub(node, "-V", "mqttv311", "-q", "2", "-t", name, "-l", stdin="\n".join(lines).encode() + b"\n")
    assert _messages(subscriber) == lines


def test_mosquitto_clients_with_a_session(node: LiveNode, name: str) -> None:
    options = ["-V", "mqttv5", "-q", "1", "-c", "-i", name, "-x", "600", "-t", name]
    _pub_after = ["-V", "mqttv5", "-q", "1", "-t", name, "-m"]
    run([program("mosquitto_sub"), "-h", HOST, "-p", str(node.port), *options, "-E"])
    _pub(node, *_pub_after, "waits")
    code, output, _ = run([program("mosquitto_sub"), "-h", HOST, "-p", str(node.port), *options, "-C", "1"])
    assert (code, output) == (0, "waits\n")


def test_mosquitto_clients_retained_and_removed(node: LiveNode, name: str) -> None:
    listen = [
        program("mosquitto_sub"),
        "-h",
        HOST,
        "-p",
        str(node.port),
        "-t",
        name,
        "-F",
        "%r %p",
        "-W",
        "1",
        "-C",
        "1",
    ]
    _pub(node, "-t", name, "-m", "kept", "-r", "-q", "1")
    assert run(listen)[:2] == (0, "1 kept\n")
    _pub(node, "-t", name, "-n", "-r", "-q", "1")
    assert run(listen)[:2] == (27, "")  # nothing in a second


def test_mosquitto_clients_properties(node: LiveNode, name: str) -> None:
    subscriber = _sub(node, "-V", "mqttv5", "-q", "1", "-t", name, "-C", "1", "-F", "%C|%R|%D|%P|%p")
    properties = {
        "content-type": "text/plain",
        "response-topic": "answers",
        "correlation-data": "q1",
    }
    words = [word for key, value in properties.items() for word in ("-D", "publish", key, value)]
    _pub(node, "-V", "mqttv5", "-q", "1", "-t", name, "-m", "x", *words, "-D", "publish", "user-property", "a", "1")
    assert _messages(subscriber) == ["text/plain|answers|q1|a:1|x"]


def test_a_bridge_of_mosquitto_gets_nothing_back_and_keeps_the_retain_flag(node: LiveNode, name: str) -> None:
    """Mosquitto's bridge as it is by default: 3.1.1 with the bridge bit, level 0x84 (issue 17, item 24)."""
    config = f"allow_anonymous true\nconnection {name}\naddress {HOST}:{node.port}\ntopic {name}/# both 1\n"
    with mosquitto(config) as broker, Paho(version=4).connects(broker.port) as local:
        until(lambda: "Received SUBACK" in broker.text, "the bridge is up")
        local.subscribe(f"{name}/#", 1)
        with Paho().connects(node.port) as remote:
            remote.subscribe(f"{name}/#", 1)
            for number in range(10):
                local.publish(f"{name}/out", b"%d" % number, 1)
                remote.publish(f"{name}/in", b"%d" % number, 1)
            remote.publish(f"{name}/kept", b"retained", 1, retain=True)
            local.publish(f"{name}/end", b"", 1)
            sides = []
            for side, last in ((local, f"{name}/kept"), (remote, f"{name}/end")):
                got: list[tuple[str, bytes]] = []
                while not got or got[-1][0] != last:
                    message = side.receive()
                    got.append((message.topic, bytes(message.payload)))
                sides.append(got)
        expected = {(f"{name}/{way}", b"%d" % number) for way in ("in", "out") for number in range(10)}
        for got in sides:
            messages = [message for message in got if message[1].isdigit()]
            assert len(messages) == len(set(messages))
        assert {message for message in sides[0] if message[1].isdigit()} == expected
        with Paho(version=4).connects(broker.port) as later:  # Mosquitto has kept it, so it came with the flag
            later.subscribe(f"{name}/kept", 1)
            message = later.receive()
            assert (message.payload, message.retain) == (b"retained", True)
        assert "Connection Refused" not in broker.text
        assert "UNSUPPORTED_PROTOCOL_VERSION" not in node.log
