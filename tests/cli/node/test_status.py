"""`penstock status`, of nodes that run."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import main as run_command
from penstock.cli.node.overview import Snapshot, overview
from penstock.cli.node.status import main
from tests.support.clients.paho import Paho
from tests.support.processes.commands import finish, penstock, start
from tests.support.processes.federation import Nodes
from tests.support.processes.mosquitto import free_port

ACL = "topic readwrite open/#\n"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes with a link, each with an admin address, and a third without; none runs yet."""
    (tmp_path / "acl").write_text(ACL)
    settings = {
        name: {"store": "memory", "acl": "acl", "admin": f"127.0.0.1:{free_port()}"} for name in ("hub", "line")
    }
    links = [{"between": ["line", "hub"]}]
    nodes = Nodes(tmp_path, {"nodes": settings, "links": links, "journal": {"folder": "journal"}})
    yield nodes
    nodes.stop()


def _file(nodes: Nodes) -> str:
    return str(nodes.folder / "domain.yaml")


def test_all_is_well(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    nodes.start_together()
    nodes.until_logged("together", " linked ")
    with Paho("visitor") as visitor:
        visitor.connects(nodes.ports["hub"])
        visitor.publish("closed/a", b"", 1)
        assert main([_file(nodes), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert main([_file(nodes)]) == 0
    hub, line = answer["nodes"]
    assert (hub["node"], hub["state"], hub["clients"], hub["connected"], hub["denied"]) == ("hub", "up", 1, 1, 1)
    assert (line["node"], line["state"], line["clients"], line["denied"]) == ("line", "up", 0, 0)
    assert [(link["node"], link["neighbour"], link["is_up"]) for link in answer["links"]] == [("hub", "line", True)]
    assert "rows" in hub["journal"]
    shown = capsys.readouterr().out
    assert [line.split()[:2] for line in shown.splitlines()[1:3]] == [["hub", "up"], ["line", "up"]]
    assert shown.endswith("\nall is well\n")


def test_what_is_wrong_is_said_and_the_exit_code_says_so(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    nodes.start("hub")
    assert main([_file(nodes)]) == 1
    problems = [line for line in capsys.readouterr().out.splitlines() if line.startswith("trouble: ")]
    assert len(problems) == 2
    assert "node `line`: " in problems[0]
    assert "refused" in problems[0]
    assert problems[1] == "trouble: link `hub - line` is down"
    # A watchdog would not make it better by starting the hub again.
    assert main([_file(nodes), "--alive"]) == 1
    assert main([_file(nodes), "--alive", "--node", "hub"]) == 0
    assert main([_file(nodes), "--node", "hub"]) == 1


def test_another_node_at_the_address_of_one_is_not_it(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    nodes.start("hub")
    text = Path(_file(nodes)).read_text().replace("hub", "centre")
    (nodes.folder / "other.yaml").write_text(text)
    assert main([str(nodes.folder / "other.yaml"), "--node", "centre", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert [(node["node"], node["state"]) for node in shown["nodes"]] == [("centre", "no answer")]
    assert "where it should be, is that of hub" in shown["trouble"][0]


def test_a_token_is_needed(nodes: Nodes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.start_together()
    monkeypatch.setenv("PENSTOCK_ADMIN_TOKEN", "wrong")
    assert main([_file(nodes)]) == 1
    assert "no valid token: set PENSTOCK_ADMIN_TOKEN" in capsys.readouterr().out


def test_it_is_watched(nodes: Nodes) -> None:
    nodes.start_together()
    process = start(penstock("status", _file(nodes), "--watch", "1", "--json"))
    assert process.stdout is not None
    looks = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.send_signal(signal.SIGINT)
    code, _, errors = finish(process)
    assert (code, errors) == (0, "")
    assert looks[0]["nodes"][0]["seconds"] < looks[1]["nodes"][0]["seconds"]


def test_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    assert main([address]) == 1
    assert f"trouble: node at `{address}` cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text", "why"),
    [
        ([], None, "there is no `domain.yaml` here"),
        (["nowhere.yaml"], None, "there is no file `nowhere.yaml`"),
        (["here.yaml"], "nodes: {a: {listen: 127.0.0.1:1}}", "no node of `here.yaml` has an admin address"),
        (["127.0.0.1:1", "--watch", "0"], None, "`0` is not a number of seconds"),
        (["127.0.0.1:1", "--node", "a"], None, "--node goes with a domain file"),
        (["here.yaml", "--node", "b"], "nodes: {a: {listen: '127.0.0.1:1', admin: '127.0.0.1:2'}}", "no node `b` in"),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    text: str | None,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(arguments[0]).write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_a_domain_that_does_not_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "domain.yaml").write_text("nodes: {a: {listen: x}}")
    assert run_command(["status", str(tmp_path / "domain.yaml")]) == 3
    assert "nodes.a.listen" in capsys.readouterr().err


def test_nodes_with_other_policies_are_trouble() -> None:
    seen = Snapshot(revisions={"a": "1" * 64, "b": "2" * 64})
    (problem,) = overview(seen, Snapshot()).trouble
    assert problem.startswith("nodes have different policies in force: `a` 111111111111, `b` 222222222222")
