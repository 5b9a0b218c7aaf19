"""`penstock pub` and `penstock sub` with a broker that comes and goes, with TLS and WebSocket, and when stopped."""

import datetime
import ipaddress
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.processes.commands import PATIENCE, finish, penstock, run, start, until
from tests.support.processes.mosquitto import HOST, Mosquitto, free_port, mosquitto, program, until_listening


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with mosquitto() as running:
        yield running


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_sub_ends_quietly_when_stopped(broker: Mosquitto, which: signal.Signals) -> None:
    before = broker.subscribed
    process = start(penstock("sub", *broker.address, "-t", "a", "-i", which.name))
    until(lambda: broker.subscribed > before, "subscription")
    process.send_signal(which)
    assert finish(process) == (0, "", "")
    until(lambda: f"Received DISCONNECT from {which.name}" in broker.text, "DISCONNECT")


def test_pub_ends_quietly_when_stopped(broker: Mosquitto) -> None:
    process = start(
        penstock("pub", *broker.address, "-t", "a", "-m", "x", "-i", "p", "--repeat", "2", "--repeat-delay", "60")
    )
    until(lambda: "Received PUBLISH from p" in broker.text, "the first message")
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "")


def test_sub_prints_each_message_at_once_and_ends_quietly_when_nobody_reads(broker: Mosquitto) -> None:
    before = broker.subscribed
    process = start(penstock("sub", *broker.address, "-t", "pipe"))
    until(lambda: broker.subscribed > before, "subscription")
    publish = penstock("pub", *broker.address, "-t", "pipe", "-m", "x")
    run(publish)
    assert process.stdout is not None
    assert process.stdout.readline() == b"x\n"  # the process is still running
    process.stdout.close()
    run(publish)
    assert process.wait(20) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_sub_connects_again() -> None:
    port = free_port()
    with mosquitto(port=port) as first:
        process = start(penstock("sub", *first.address, "-t", "a", "-C", "1"))
        until(lambda: first.subscribed == 1, "subscription")
    with mosquitto(port=port) as second:
        until(lambda: second.subscribed == 1, "subscription after the restart")
        run([program("mosquitto_pub"), *second.address, "-t", "a", "-m", "again"])
        assert finish(process) == (0, "again\n", "")


def test_debug_names_the_packets(broker: Mosquitto) -> None:
    code, out, err = run(penstock("pub", *broker.address, "-t", "a", "-m", "x", "-q", "1", "-d", "-i", "me"))
    assert (code, err) == (0, "")
    assert [" ".join(line.split()[:4]) for line in out.splitlines()] == [
        "Client me sending CONNECT",
        "Client me received CONNACK",
        "Client me sending PUBLISH",
        "Client me received PUBACK",
        "Client me sending DISCONNECT",
    ]


def test_the_will_is_sent_when_the_client_dies(broker: Mosquitto) -> None:
    before = broker.subscribed
    watcher = start(
        [program("mosquitto_sub"), *broker.address, "-t", "will", "-C", "1", "-W", "15", "-q", "1", "-F", "%q %p"]
    )
    will = ["--will-topic", "will", "--will-payload", "gone", "--will-qos", "1"]
    process = start(penstock("sub", *broker.address, "-t", "a", *will))
    until(lambda: broker.subscribed == before + 2, "subscriptions")
    process.kill()
    finish(process)
    assert finish(watcher)[1] == "1 gone\n"


def make_certificate(folder: Path, name: str, address: str) -> None:
    """A certificate that signs itself, for the broker at `address`: name.pem and name.key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name, address in (("good", HOST), ("other", "192.0.2.1"), ("client", "192.0.2.2")):
        make_certificate(folder, name, address)
    return folder


def listener(folder: Path, name: str) -> str:
    return f"certfile {folder}/{name}.pem\nkeyfile {folder}/{name}.key"


@pytest.mark.parametrize(
    ("title", "server", "arguments", "code", "error"),
    [
        ("trusted", "good", ["--cafile", "good.pem"], 0, ""),
        ("trusted, of one version", "good", ["--cafile", "good.pem", "--tls-version", "tlsv1.3"], 0, ""),
        ("not trusted", "good", ["--cafile", "other.pem"], 1, "certificate verify failed"),
        ("of another host", "other", ["--cafile", "other.pem"], 1, "IP address mismatch"),
        ("of another host, which is not checked", "other", ["--cafile", "other.pem", "--insecure"], 0, ""),
        ("not trusted, and the host not checked", "good", ["--cafile", "other.pem", "--insecure"], 1, "verify failed"),
        ("no such file", "good", ["--cafile", "none.pem"], 1, "none.pem`: No such file or directory"),
    ],
)
def test_tls(certificates: Path, title: str, server: str, arguments: list[str], code: int, error: str) -> None:
    words = [str(certificates / word) if word.endswith(".pem") else word for word in arguments]
    with mosquitto(options=listener(certificates, server)) as broker:
        result = run(penstock("pub", *broker.address, "-t", "a", "-m", "x", "-q", "1", *words))
    assert result[0] == code, title
    assert error in result[2]
    assert result[2].count("\n") <= 1


def test_a_client_certificate(certificates: Path) -> None:
    options = f"{listener(certificates, 'good')}\ncafile {certificates}/client.pem\nrequire_certificate true"
    tls = ["--cafile", str(certificates / "good.pem")]
    mine = ["--cert", str(certificates / "client.pem"), "--key", str(certificates / "client.key")]
    with mosquitto(options=options) as broker:
        words = [*broker.address, "-t", "a", "-m", "x", "-q", "1", *tls]
        assert run(penstock("pub", *words, *mine)) == (0, "", "")
        assert run(penstock("pub", *words))[0] != 0


def test_websocket_and_its_urls() -> None:
    port = free_port()
    # Mosquitto 2.0.11 does not start with WebSocket listeners alone.
    with mosquitto(f"allow_anonymous true\nlistener {port} {HOST}\nprotocol websockets") as broker:
        until_listening(port)
        place, words = ["-h", HOST, "-p", str(port), "--ws"], ["-t", "a", "-m", "x", "-q", "1"]
        assert run(penstock("pub", *place, *words)) == (0, "", "")
        assert run(penstock("pub", "-L", f"ws://{HOST}:{port}/mqtt", *words)) == (0, "", "")
        before = broker.subscribed
        process = start(penstock("sub", *place, "-t", "b", "-C", "1", "-V", "5"))
        until(lambda: broker.subscribed > before, "subscription")
        run(penstock("pub", *broker.address, "-t", "b", "-m", "by WebSocket"))
        assert finish(process) == (0, "by WebSocket\n", "")


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with mosquitto(f"allow_anonymous true\nlistener 0 {path}") as broker:
        until(path.exists, "the socket")
        assert run(penstock("pub", "--unix", str(path), "-t", "a", "-m", "x", "-q", "1", "-i", "u")) == (0, "", "")
        assert "Received PUBLISH from u" in broker.text


@contextmanager
def scripted(*answers: bytes) -> Iterator[list[str]]:
    """A broker that sends the next answer, whatever it receives, and then waits; yields its address."""

    def serve() -> None:
        with listening.accept()[0] as connection:
            for answer in answers:
                connection.recv(4096)
                connection.sendall(answer)
            connection.settimeout(PATIENCE)
            while answers and connection.recv(4096):
                pass

    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield ["-h", HOST, "-p", str(listening.getsockname()[1])]
        thread.join(PATIENCE)


CONNACK_5 = bytes.fromhex("20 03 00 00 00")


def test_sub_resolves_topic_aliases() -> None:
    suback = bytes.fromhex("90 04 0001 00 00")
    first, second = bytes.fromhex("30 08 0001 61 03 23 0001 78"), bytes.fromhex("30 07 0000 03 23 0001 79")
    with scripted(CONNACK_5, suback + first + second) as address:
        words = ["-V", "5", "-t", "a", "-v", "-C", "2", "-D", "connect", "topic-alias-maximum", "5"]
        assert run(penstock("sub", *address, *words)) == (0, "a x\na y\n", "")


def test_sub_ends_with_the_code_of_a_refused_subscription() -> None:
    with scripted(CONNACK_5, bytes.fromhex("90 04 0001 00 87")) as address:
        assert run(penstock("sub", *address, "-V", "5", "-t", "a")) == (
            0x87,
            "",
            "Warning: subscription to `a` was refused: Not authorized\nError: every subscription was refused\n",
        )


@pytest.mark.parametrize(("command", "extra"), [("pub", ["-n"]), ("sub", [])])
def test_a_broker_that_hangs_up_is_exit_code_7(command: str, extra: list[str]) -> None:
    with scripted() as address:
        code, out, err = run(penstock(command, *address, "-t", "a", *extra))
    assert (code, out) == (7, "")
    assert err.startswith(f"Error: connection to `{HOST}:")
    assert " lost: " in err
