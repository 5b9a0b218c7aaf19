"""Tokens from the endpoint to the node, by commands: `penstock token request`, pub and sub, Mosquitto's and paho-mqtt's
clients; and ratings by `penstock sub --rate`.
"""

import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.cli.policy.token import main as token
from penstock.policy.tokens.token import parse_token
from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE, finish, penstock, run, start, until
from tests.support.processes.federation import Nodes, together
from tests.support.processes.mosquitto import HOST, program
from tests.support.processes.node import LiveNode
from tests.support.processes.token_node import USERS, federation_of_two, issued, token_for, token_node

Request = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def issuer() -> Iterator[LiveNode]:
    domain = {
        "clients": {"display": {"node": "main", "user": "ann"}},
        "brokering": {"types": ["default"], "default": "default"},
    }
    with token_node(None, **domain) as live:
        yield live


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for user, password in USERS.items():
        (tmp_path / f"{user}.password").write_text(f"{password}\n")
    return tmp_path


@pytest.fixture
def request_token(issuer: LiveNode, folder: Path, capsys: pytest.CaptureFixture[str]) -> Request:
    """`penstock token request`: exit code, output and errors."""

    def run_here(user: str, *arguments: str) -> tuple[int, str, str]:
        url = f"http://{HOST}:{issuer.ports('http')[0]}"
        words = ["--url", url, "--user", user, "--password-file", f"{user}.password", *arguments]
        return token(["request", *words]), *capsys.readouterr()

    return run_here


def place(node: LiveNode) -> list[str]:
    return ["-h", HOST, "-p", str(node.port)]


def test_request_writes_a_token_for_its_owner_only(request_token: Request, folder: Path) -> None:
    scope = ["--scope", "publish:home/kitchen/lamp", "--scope", "subscribe:home/#"]
    assert request_token("pump", *scope, "--out", "pump.token") == (0, "", "")
    claims = parse_token((folder / "pump.token").read_bytes().rstrip()).claims
    assert (sorted(claims.publish), sorted(claims.subscribe)) == (["home/kitchen/lamp"], ["home/#"])
    assert stat.S_IMODE((folder / "pump.token").stat().st_mode) == 0o600


def test_request_prints_a_token(request_token: Request) -> None:
    code, out, err = request_token("pump")
    assert (code, err) == (0, "")
    assert parse_token(out.rstrip().encode()).claims.subject.name == "pump"


@pytest.mark.parametrize(
    ("user", "arguments", "code", "error"),
    [
        pytest.param("pump", ["--scope", "publish:#"], 3, "invalid_scope: `publish:#` is more than what is granted"),
        pytest.param("idle", [], 3, "unauthorized_client: nothing is granted to client `idle`"),
        pytest.param("nobody", [], 1, "cannot read `nobody.password`"),
        pytest.param("pump", ["--password-file", "ann.password"], 3, "invalid_client: unknown user or wrong password"),
        pytest.param(
            "pump", ["--url", "http://127.0.0.1:1"], 1, "cannot reach `http://127.0.0.1:1`: Connection refused"
        ),
        pytest.param("pump", ["--url", "ftp://x"], 1, "is not such as http://127.0.0.1:8080"),
        pytest.param("pump", ["--url", "http://u:p@127.0.0.1"], 1, "is not such as http://127.0.0.1:8080"),
        pytest.param("pump", ["--url", "http://["], 1, "is not such as http://127.0.0.1:8080"),
        pytest.param("pump", ["--cafile", "none.pem"], 1, "cannot read `none.pem`"),
    ],
)
def test_request_is_refused(request_token: Request, user: str, arguments: list[str], code: int, error: str) -> None:
    result = request_token(user, *arguments)
    assert result[:2] == (code, "")
    assert error in result[2]
    assert not [secret for secret in USERS.values() if secret in result[2]]


def test_request_to_what_is_no_endpoint(issuer: LiveNode, request_token: Request) -> None:
    result = request_token("pump", "--url", f"http://{HOST}:{issuer.ports('http')[0]}/health")
    assert result[:2] == (1, "")
    assert "answers with status 405" in result[2]


@pytest.mark.parametrize("how", [["-V", "311"], ["-V", "5"], ["--token-method"]], ids=lambda words: " ".join(words))
def test_pub_and_sub_with_a_token(issuer: LiveNode, folder: Path, how: list[str]) -> None:
    (folder / "t").write_text(token_for(issuer, "pump") + "\n")
    words = [*place(issuer), "--token", "t", *how]
    published = run(penstock("pub", *words, "-t", "home/kitchen/lamp", "-m", "on", "-q", "1", "-r"))
    assert published == (0, "", "")
    assert run(penstock("sub", *words, "-t", "home/#", "-C", "1", "-W", "20")) == (0, "on\n", "")


def test_the_token_of_a_client_that_the_domain_lists_by_its_user_is_enough(issuer: LiveNode, folder: Path) -> None:
    (folder / "t").write_text(token_for(issuer, "ann"))
    assert run(penstock("sub", *place(issuer), "--token", "t", "-t", "home/#", "-E")) == (0, "", "")
    code, _, err = run(penstock("sub", *place(issuer), "--token", "t", "-u", "pump", "-t", "home/#", "-E"))
    assert (code, err.splitlines()[0][:6]) == (5, "Error:")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--token", "none"], "`none` has no token that can be read: No such file or directory"),
        (["--token", "pump.password"], "`pump.password` has no token that can be read: expected what"),
        (["--token", "t", "-u", "pump", "-P", "x"], "--token and a password cannot be used together"),
        (["--token-method"], "--token-method needs --token"),
        (["--rate", "temperature >"], "--rate: "),
    ],
)
def test_wrong_arguments(folder: Path, arguments: list[str], error: str) -> None:
    (folder / "t").write_text("{}")
    code, _, err = run(penstock("sub", "-t", "a", *arguments))
    assert code == 2
    assert error in err


@pytest.mark.parametrize(
    ("how", "connections"), [(["--token-method"], 1), (["-V", "311"], 2)], ids=["method", "password"]
)
def test_a_file_that_another_program_renews_is_read_again(
    issuer: LiveNode, folder: Path, how: list[str], connections: int
) -> None:
    name = f"renewed-{connections}"
    (folder / "t").write_text(issued("main", name, 3))
    ends = time.time() + 3
    words = ["--token", "t", *how, "-i", name, "-t", f"home/{name}", "-C", "1", "-W", "30"]
    process = start(penstock("sub", *place(issuer), *words))
    issuer.until_logged(f"client={name}", "connected")
    (folder / "t").write_text(issued("main", name))
    until(lambda: time.time() > ends, "the first token has ended")
    if connections > 1:
        issuer.until_logged("token ended", f"client={name}", "the token has expired")
    with Paho("publisher").is_user("publisher", issued("main", "publisher")).connects(issuer.port) as publisher:
        publisher.publish(f"home/{name}", b"still", qos=1, retain=True)
    assert finish(process) == (0, "still\n", "")
    assert sum(f"client={name} " in line and " connected " in line for line in issuer.log.splitlines()) == connections


def test_why_a_token_is_refused(issuer: LiveNode, folder: Path) -> None:
    (folder / "t").write_text(issued("main", "pump", issued=1, not_before=1, expiry=2))
    code, _, err = run(penstock("sub", *place(issuer), "--token", "t", "-V", "5", "-t", "home/#", "-E"))
    assert code == 0x87
    assert "refused: Not authorized: token: expired" in err


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquittos_clients_with_a_token_as_password(issuer: LiveNode, version: str) -> None:
    user = [*place(issuer), "-V", version, "-u", "pump", "-P", token_for(issuer, "pump")]
    payload = f"by {version}"
    publish = [program("mosquitto_pub"), *user, "-q", "1", "-r", "-t", "home/kitchen/mosquitto", "-m", payload]
    assert run(publish)[0] == 0
    subscribe = [program("mosquitto_sub"), *user, "-t", "home/kitchen/mosquitto", "-C", "1", "-W", "20"]
    assert run(subscribe)[:2] == (0, f"{payload}\n")
    bad = [*place(issuer), "-V", version, "-u", "pump", "-P", issued("main", "pump", issued=1, not_before=1, expiry=2)]
    assert run([program("mosquitto_pub"), *bad, "-t", "home/kitchen/mosquitto", "-m", "x"])[0] != 0


@pytest.mark.parametrize("version", [4, 5])
def test_paho_with_a_token_as_password(issuer: LiveNode, version: int) -> None:
    token = token_for(issuer, "pump", scope="publish:home/kitchen/# subscribe:home/kitchen/#")
    with Paho(f"paho-{version}", version).is_user("pump", token).connects(issuer.port) as client:
        assert client.subscribe("home/kitchen/paho") == 0
        assert client.subscribe("home/#") in (0x80, 0x87)
        client.publish("home/kitchen/paho", b"x", qos=1)
        assert client.payloads(1) == [b"x"]


# --- ratings


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with together(
        federation_of_two(tmp_path_factory.mktemp("keys"), sign=0), links=1
    ) as live:  # bad ratings end nothing
        yield live


def rated(nodes: Nodes, folder: Path, name: str, rating: str, payload: str, *more: str) -> tuple[int, str, str]:
    """Return what `sub --rate` at b2 prints about a message that is published at b1."""
    (folder / name).write_text(issued("b2", name))
    words = ["-h", HOST, "-p", str(nodes.ports["b2"]), "--token", name, "-i", name]
    topic = f"home/{name}"
    process = start(penstock("sub", *words, "-t", topic, "--rate", rating, "-C", "1", "-W", str(PATIENCE), *more))
    with Paho("ann").is_user("ann", issued("b1", "ann")).connects(nodes.ports["b1"]) as ann:
        while process.poll() is None:  # interest takes a moment to travel
            ann.publish(topic, payload.encode(), qos=1)
            time.sleep(0.05)
    return finish(process)


@pytest.mark.parametrize(
    ("name", "rating", "payload"),
    [
        ("always", "good", "x"),
        ("hot", "temperature < 90", '{"temperature": 200}'),
    ],
)
def test_sub_rates_what_it_prints(nodes: Nodes, folder: Path, name: str, rating: str, payload: str) -> None:
    assert rated(nodes, folder, name, rating, payload) == (0, f"{payload}\n", "")


def test_a_condition_that_cannot_be_evaluated_gives_no_rating(nodes: Nodes, folder: Path) -> None:
    code, out, err = rated(nodes, folder, "blind", "temperature < 90", '{"humidity": 20}')
    assert (code, out) == (0, '{"humidity": 20}\n')
    assert err.startswith("Warning: no rating of a message on `home/blind`: ")


def test_why_a_rating_is_refused(nodes: Nodes, folder: Path) -> None:
    (folder / "own").write_text(issued("b2", "own"))
    words = ["-h", HOST, "-p", str(nodes.ports["b2"]), "--token", "own"]
    assert run(penstock("pub", *words, "-t", "home/own", "-m", "x", "-q", "1", "-r")) == (0, "", "")
    code, out, err = run(penstock("sub", *words, "-t", "home/own", "--rate", "good", "-C", "1", "-W", "20"))
    assert (code, out) == (0, "x\n")
    assert err == (
        "Warning: rating of a message on `home/own` was refused: "
        "no such message on `home/own` has come from a neighbour lately\n"
    )
