"""`penstock trust apply`: an operator sets what a node holds; its decisions change at once, and stay so."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.pipeline.trust.live_ratings import ask
from tests.support.clients.paho import Paho
from tests.support.processes.commands import penstock, run
from tests.support.processes.federation import Nodes
from tests.support.processes.mosquitto import free_port
from tests.support.processes.trust_nodes import secured, token_of

GRANTS = {"grants": [{"clients": "*", "publish": "home/#", "subscribe": "home/#"}]}
TRUST = {
    "sign": 0.6,
    "penalty": 2,
    "begin": [{"of": "b1", "by": "b2", "good": 6}, {"of": "b2", "by": "b1", "good": 6}],
    "feedback": {"least": 1, "from": "bob"},
    "operators": "op",
}


@contextmanager
def two_nodes(folder: Path, **more: Any) -> Iterator[tuple[Nodes, int]]:
    """b1 and b2 as processes with stores, and the port at which b2 is administered."""
    admin = free_port()
    tokens = {**GRANTS, **more.pop("tokens_more", {})}
    plain = secured(folder, [("b1", "b2")], tokens, trust=TRUST, **more)
    for name, node in plain["nodes"].items():
        del node["listen"]
        node["store"] = f"{name}.db"
    plain["nodes"]["b2"]["admin"] = f"127.0.0.1:{admin}"
    nodes = Nodes(folder, plain)
    try:
        nodes.start("b1", "b2")
        nodes.until_logged("b1", "linked", "neighbour=b2")
        yield nodes, admin
    finally:
        nodes.stop()


def joined(nodes: Nodes, node: str, name: str, **changes: Any) -> Paho:
    """A client with a token for `home/#`, unless said."""
    token = token_of(name, node, **changes).text.decode()
    return Paho(name).is_user(name, token).connects(nodes.ports[node])


def applied(nodes: Nodes, source: Path, name: str = "op", node: str = "b2") -> tuple[int, str, str]:
    token = token_of(name, "b2").text.decode()
    where = ("-h", "127.0.0.1", "-p", str(nodes.ports["b2"]), "-i", name, "-u", name, "-P", token)
    return run(penstock("trust", "apply", str(source), "--node", node, *where))


def ratings(file: Path, good: float, bad: float, **more: Any) -> Path:
    row = {"node": "b2", "neighbour": "b1", "good": good, "bad": bad, "at": time.time(), **more}
    unseen = {"node": "b1", "neighbour": "b2", "good": 6, "bad": 0, "at": None}
    file.write_text(json.dumps({"ratings": [row, unseen]}))
    return file


def settled(bob: Paho, ann: Paho) -> None:
    """Go on once events of ann come to bob."""
    bob.subscribe("home/#")
    count = 0
    while bob.messages.empty():
        count += 1
        ann.publish("home/settle", b"%d" % count, qos=1)
        time.sleep(0.02)
    ann.publish("home/settled", b"", qos=1)
    while bob.receive().topic != "home/settled":
        pass


def test_decisions_change_at_once_and_survive_a_restart(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (nodes, _), joined(nodes, "b1", "ann") as ann:
        with joined(nodes, "b2", "bob") as bob:
            settled(bob, ann)
            code, out, err = applied(nodes, ratings(tmp_path / "low.json", 6, 9))
            assert (code, err) == (0, "")
            assert [line.split() for line in out.splitlines()] == [
                ["neighbour", "good", "bad", "b2", "says"],
                ["b1", "6.000", "9.000", "Success"],
            ]
            ann.publish("home/door", b"refused", qos=1)
            nodes.until_logged("b2", "publish denied", "`b1` is rated 0.412, below 0.6")
        nodes.kill("b2")
        nodes.start("b2")
        nodes.until_logged("b1", "linked", "neighbour=b2", times=2)
        with joined(nodes, "b2", "bob") as bob:
            bob.subscribe("home/#")
            denied = nodes.log("b2").count("below 0.6")
            while nodes.log("b2").count("below 0.6") == denied:
                ann.publish("home/door", b"refused again", qos=1)
                time.sleep(0.05)
            assert applied(nodes, ratings(tmp_path / "high.json", 9, 0))[0] == 0
            ann.publish("home/door", b"taken", qos=1)
            assert bob.receive().payload == b"taken"


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("who is no operator", {"name": "bob"}, {}, "client `bob` may not set what this node holds"),
    ("a node that is no neighbour", {}, {"neighbour": "b9"}, "`b9` is not a neighbour of this node"),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Nodes, int]]:
    with two_nodes(tmp_path_factory.mktemp("apply")) as both:
        yield both


@pytest.mark.parametrize(("title", "how", "said", "words"), REFUSED, ids=[case[0] for case in REFUSED])
def test_the_node_says_why_not(
    title: str, how: dict[str, Any], said: dict[str, Any], words: str, running: tuple[Nodes, int], tmp_path: Path
) -> None:
    code, out, _ = applied(running[0], ratings(tmp_path / "r.json", 1, 1, **said), **how)
    assert code == 1
    assert words in out


def test_what_a_live_node_holds_is_read_for_comparison(running: tuple[Nodes, int]) -> None:
    node, held = ask(f"http://127.0.0.1:{running[1]}")
    assert (node, list(held)) == ("b2", ["b1"])
    assert (held["b1"].good, held["b1"].bad) == (6.0, 0.0)


WRONG: list[tuple[str, str, str]] = [
    ("another file", "{}", "has no ratings as `penstock pipeline trust` tells them"),
    ("not JSON", "?", "has no ratings as `penstock pipeline trust` tells them"),
    (
        "less than nothing",
        '{"ratings": [{"node": "b2", "neighbour": "b1", "good": -1, "bad": 0, "at": 1}]}',
        "evidence is of numbers from 0 on",
    ),
    ("nothing of the node", '{"ratings": []}', "has nothing that node `b2` recorded of a neighbour"),
]


@pytest.mark.parametrize(("title", "text", "words"), WRONG, ids=[case[0] for case in WRONG])
def test_what_cannot_be_applied(
    title: str, text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.json").write_text(text)
    assert main(["trust", "apply", str(tmp_path / "r.json"), "--node", "b2"]) == 1
    assert words in capsys.readouterr().err


FOLDERS: list[tuple[str, str, bytes, str]] = [
    ("nothing in it", "", b"", "has no table `ratings`: expected the folder that `penstock pipeline trust` wrote"),
    ("other files", "domain.yaml", b"nodes: {}", "has no table `ratings`"),
    ("not Parquet", "ratings/part.parquet", b"?", "is no table: a file in it is damaged, or not Parquet"),
]


@pytest.mark.parametrize(("title", "file", "content", "words"), FOLDERS, ids=[case[0] for case in FOLDERS])
def test_a_folder_that_has_no_ratings(
    title: str, file: str, content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(content)
    assert main(["trust", "apply", str(tmp_path), "--node", "b2"]) == 1
    printed = capsys.readouterr().err
    assert words in printed
    assert "arrow" not in printed.lower()


@pytest.mark.parametrize("arguments", [["tables"], [], ["--node", "b2"]])
def test_source_and_node_must_be_named(arguments: list[str]) -> None:
    assert main(["trust", "apply", *arguments]) == 2
