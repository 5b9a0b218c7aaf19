"""`penstock init`: what it writes checks, passes its own tests, and runs at once."""

import json
import re
import shlex
import ssl
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.domain.certificate import Authority
from penstock.cli.domain.init import main as init
from penstock.cli.main import main
from penstock.client.admin import AdminClient
from penstock.domain import load
from tests.support.generators.examples import some
from tests.support.processes.commands import finish, penstock, run, start
from tests.support.processes.mosquitto import free_port

CASES = {
    "as it is without answers": [],
    "several nodes": ["--nodes", "hub,line-1,line-2", "--devices", "press,drill,saw"],
    "for the network": ["--hosts", "plant.example.org,10.1.2.3,fd00::1"],
    "nobody who watches": ["--viewers", "none"],
    "only who watches": ["--devices", "none", "--operators", "none"],
    "without a journal": ["--journal", "no"],
    "without people": ["--admin", "none", "--console", "no"],
    "with a console": ["--console", "yes"],
    "numbers for names": ["--name", "2026", "--nodes", "1,2", "--devices", "12,007,1e3", "--admin", "0x1F"],
    "words of YAML": ["--name", "null", "--nodes", "true,no", "--devices", "false,Null,on", "--operators", "yes"],
    "words of the file": ["--nodes", "to,by", "--devices", "device,inside", "--viewers", "routes", "--admin", "domain"],
    "the longest names": ["--name", "n" * 64, "--nodes", "m" * 64, "--devices", "9" * 64, "--hosts", "localhost"],
    "the usual admin port for MQTT": ["--port", "8080"],
    "the usual admin port for the network": ["--tls-port", "8079", "--nodes", "a,b", "--hosts", "localhost"],
    "all ports beside each other": ["--port", "18082", "--nodes", "a,b,c", "--console", "yes"],
    "the usual MQTT port for people": ["--admin-port", "1883"],
}
"""Words of the command line. Of the ports it is asked below that all differ."""


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES.keys())
def test_what_it_writes_is_right(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init([str(tmp_path), "--yes", *arguments]) == 0
    file = str(tmp_path / "domain.yaml")
    for command in (["check", "--strict", file], ["fmt", "--check", file]):
        assert main(command) == 0, capsys.readouterr()
    if "tests:" in Path(file).read_text():
        assert main(["test", file]) == 0, capsys.readouterr()
    ports = re.findall(r"[0-9.]+:(\d+)", Path(file).read_text())
    assert len(ports) >= 2
    assert len(set(ports)) == len(ports), "all nodes run in one process"


SHAPES = r"[0-9]{1,3}|0[xo][0-7]{1,2}|[1-9][eE][1-9]|1_0|[nN]ull|NO|y|True|[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"
NAMES = st.lists(st.from_regex(SHAPES, fullmatch=True), min_size=6, max_size=8, unique=True)


@settings(max_examples=some(10))
@given(NAMES.filter(lambda names: "none" not in names))
def test_whatever_names_it_takes_check(names: list[str]) -> None:
    name, node, device, viewer, operator, *rest = names
    words = ["--name", name, "--nodes", ",".join([node, *rest]), "--devices", device, "--viewers", viewer]
    with tempfile.TemporaryDirectory() as folder:
        assert init([folder, "--yes", *words, "--operators", operator, "--admin", "none"]) == 0
        domain = load(Path(folder) / "domain.yaml")
    assert (domain.domain, [*domain.nodes]) == (name, [node, *rest])
    assert {name: (*client.node, client.user) for name, client in domain.clients.items()} == {
        device: (rest[0] if rest else node, device),
        viewer: (node, viewer),
        operator: (node, operator),
    }


def test_a_folder_with_a_blank_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init([str(tmp_path / "bad name"), "--yes"]) == 0
    commands = re.findall(r"^  penstock (?:check|test|run|status) (.*?) +#", capsys.readouterr().out, re.MULTILINE)
    assert [shlex.split(command) for command in commands] == [[str(tmp_path / "bad name" / "domain.yaml")]] * 4


@pytest.mark.parametrize("words", [["--hosts", "evil host"], ["--nodes", "a b"]], ids=["hosts", "nodes"])
def test_a_blank_is_not_between_names(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        init([str(tmp_path), "--yes", *words])
    assert f"`{words[1]}`" in capsys.readouterr().err


def test_it_runs_at_once_and_its_commands_work(tmp_path: Path) -> None:
    port, admin = free_port(), free_port()
    words = ["--nodes", "hub", "--port", str(port), "--admin-port", str(admin), "--console", "no"]
    code, printed, _ = run(penstock("init", str(tmp_path), "--yes", *words))
    assert code == 0
    subscribe, publish = (line.split() for line in re.findall(r"^  penstock ((?:sub|pub) .*)$", printed, re.MULTILINE))
    node = start(penstock("run", str(tmp_path / "domain.yaml")))
    try:
        assert node.stdout is not None
        assert b"ready" in node.stdout.readline()
        assert run(penstock(*publish, "-q", "1", "-r"))[0] == 0
        seen = run(penstock(*[word.strip("'") for word in subscribe], "-C", "1"))
        status = run(penstock("status", str(tmp_path / "domain.yaml")))
        password = re.search(r"^  admin +(\w+)$", printed, re.MULTILINE)
        assert password is not None
        login = json.dumps({"user": "admin", "password": password[1]}).encode()
        entered = json.loads(AdminClient(f"127.0.0.1:{admin}").ask("POST", "/api/login", login))
    finally:
        node.terminate()
        finish(node)
    assert seen == (0, "sensors/sensor/temperature 21.5\n", "")
    assert (status[0], "all is well" in status[1]) == (0, True)
    assert entered["right"] == "change"


def test_answers_are_asked_for(tmp_path: Path) -> None:
    answers = b"\ntwo words; no\nhub, edge\npress\n\nnone\n\n70000\n1999\nada\nno\nmaybe\nno\n"
    code, printed, prompts = run(penstock("init", str(tmp_path / "works")), answers)
    assert (code, "press" in printed, "operator" in printed) == (0, True, False)
    assert "Name of the domain [works]" in prompts
    for mistake in ("`two words; no` is not a name", "`70000` is not a port", "`maybe` is neither yes nor no"):
        assert mistake in prompts
    text = (tmp_path / "works" / "domain.yaml").read_text()
    assert "{between: [edge, hub], type: inside}" in text
    assert "listen: 127.0.0.1:2000" in text
    assert "# journal:" in text
    assert "users: {ada: change}" in text


def test_without_an_answer_nothing_is_written(tmp_path: Path) -> None:
    code, _, prompts = run(penstock("init", str(tmp_path / "new")), b"\n\n")
    assert (code, "nothing was written" in prompts) == (1, True)
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "acl").write_text("mine")
    assert init([str(tmp_path), "--yes"]) == 1
    assert "acl` exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["acl"]
    assert (tmp_path / "acl").read_text() == "mine"
    assert init([str(tmp_path), "--yes", "--force"]) == 0
    assert (tmp_path / "acl").read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--name", "a b"], "argument --name: `a b` is not a name"),
        (["--hosts", "a b!"], "argument --hosts: `a b!` is neither a host name nor an address"),
        (["--port", "0"], "argument --port: `0` is not a port"),
        (["--devices=-x"], "argument --devices: `-x` begins with `-`"),
        (["--hosts", "1:2"], "argument --hosts: `1:2` is neither"),
    ],
)
def test_bad_options(arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        init([str(tmp_path / "new"), "--yes", *arguments])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--nodes", "main", "--devices", "main"], "`main` is used twice"),
        (["--devices", "none", "--viewers", "none", "--operators", "none"], "no clients: name at least"),
        (["--hosts", "localhost", "--nodes", "ca"], "`ca` cannot be a node"),
        (["--port", "8080", "--admin-port", "8080"], "port 8080 is asked for twice, by --port and --admin-port"),
        (["--port", "1", "--nodes", "a,b,c", "--admin-port", "2"], "port 3 is asked for twice"),
        (["--console", "yes", "--port", "9", "--console-port", "9"], "port 9 is asked for twice"),
        (["--nodes", ",".join(f"n{at}" for at in range(600)), "--port", "65000"], "--port: 600 ports from 65000 on"),
    ],
)
def test_answers_that_do_not_go_together(
    arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init([str(tmp_path / "new"), "--yes", *arguments]) == 1
    assert why in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_secrets_are_for_their_owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init([str(tmp_path), "--yes", "--hosts", "localhost"]) == 0
    shown = re.findall(r"^  \w+ +([0-9a-f]{16})$", capsys.readouterr().out, re.MULTILINE)
    assert len(shown) == 4
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files for word in shown if word in path.read_text()] == []
    private = {path.name for path in files if stat.S_IMODE(path.stat().st_mode) == 0o600}
    assert private == {"passwords", "admin-passwords", "ca.key", "main.key"}


def test_certificates_are_good_for_the_hosts_and_no_others() -> None:
    authority = Authority("test")
    pair = authority.sign("main", ["plant.example.org", "10.1.2.3"])
    for host, good in {"plant.example.org": True, "10.1.2.3": True, "localhost": True, "elsewhere.org": False}.items():
        assert _accepts(authority, pair.certificate, pair.key, host) is good, host


def _accepts(authority: Authority, certificate: bytes, key: bytes, host: str) -> bool:
    """Return whether a client that trusts the authority accepts the certificate for `host`: a handshake in memory."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + key)
        file.flush()
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(file.name)
    trusting = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(4):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError:
        return False
    return client.getpeercert() is not None
