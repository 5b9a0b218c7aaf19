"""`penstock access`: what a subject may, why, and which policies are at odds; births from wherever they are."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.broker.store.store import Store
from penstock.cli.main import main
from penstock.domain import ensemble, load
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.sparkplug.plain import write_plain
from tests.support.clients.paho import Paho
from tests.support.processes.federation import together

DOMAIN = """
nodes: {plant: {listen: "127.0.0.1:1883", store: memory}}
clients:
  e1: {node: plant, edge: G1/E1}
  a1: {node: plant, groups: [analytics]}
  scada: {node: plant}
access:
  - {id: edges, subject: G1/E1, topics: "spBv1.0/G1/+/E1/#", may: write}
  - {id: host, subject: scada, topics: "spBv1.0/#", may: [read, write]}
  - {id: births, subject: "group:analytics", topics: spBv1.0/+/NBIRTH/+, may: read, except: mt_c, when: mt_c.value > 5}
  - {id: data, subject: a1, topics: "spBv1.0/+/NDATA/+", may: read, except: "x/*"}
  - {id: hide, subject: a1, topics: "spBv1.0/+/NDATA/+", may: read, except: mt_a, when: mt_c.value > 5}
"""
NBIRTH, NDATA = "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1"
METRICS: dict[str, Any] = {"bdSeq": 0, "mt_a": 1, "mt_c": {"value": 9, "type": "Int32", "alias": 7}, "x/1": True}
SAID = {"always": ["bdSeq", "mt_c"], "sometimes": ["mt_a"], "never": ["x/1"]}
"""The metrics of NDATA that a1 may read."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    file = tmp_path / "plant.yaml"
    file.write_text(DOMAIN, "utf-8")
    return str(file)


def ask(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main(["access", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def told(file: str, *births: str, capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """Return the metrics of NDATA that a1 may read, by births from somewhere."""
    answer = ask("grants", "--domain", file, "--subject", "a1", *births, capsys=capsys)
    (right,) = (right_ for right_ in answer["rights"] if right_["topic"] == NDATA)
    assert (right["may"], right["how"], right["policies"]) == ("read", "always", ["data", "hide"])
    return {how: [name for name, access in right["metrics"].items() if access["how"] == how] for how in SAID}


def test_births_of_a_sample(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "births.jsonl"
    lines.write_text(json.dumps({"topic": NBIRTH, "metrics": METRICS}) + "\n")
    assert told(file, "--births", str(lines), capsys=capsys) == SAID
    payload = tmp_path / "sample" / NBIRTH
    payload.parent.mkdir(parents=True)
    payload.write_bytes(write_plain(METRICS))
    assert told(file, "--births", str(tmp_path / "sample"), capsys=capsys) == SAID


def test_births_of_a_store(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    domain = load(Path(file), {})
    store = Store(tmp_path / "plant.db", "normal")
    play = Rehearsal(domain, ensemble(domain), stores={"plant": store})
    play.connect("e1")
    play.publish("e1", NBIRTH, write_plain(METRICS, 0))
    play.run()
    assert main(["access", "grants", "--domain", file, "--subject", "a1", "--store", str(store.path)]) == 1
    assert "ask a running node with --connect" in capsys.readouterr().err
    store.close()
    assert told(file, "--store", str(store.path), capsys=capsys) == SAID


def test_births_of_a_live_node_and_its_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    domain = yaml.safe_load(DOMAIN)
    del domain["nodes"]["plant"]["listen"]
    domain["journal"] = {"folder": str(tmp_path / "journal"), "flush": 0}
    with together(domain, links=0) as nodes:
        port, file = nodes.ports["plant"], str(nodes.folder / "domain.yaml")
        with Paho("e1").connects(port) as edge:
            assert edge.publish(NBIRTH, write_plain(METRICS, 0), qos=1) in (0, 0x10)
        live = told(file, "--connect", f"127.0.0.1:{port}", "--id", "scada", capsys=capsys)
        nodes.stop()
        recorded = told(file, "--journal", str(tmp_path / "journal"), capsys=capsys)
    assert (live, recorded) == (SAID, SAID)


def test_without_births_the_policies_are_shown(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask("grants", "--domain", file, "--subject", "a1", capsys=capsys)
    assert [policy["id"] for policy in answer["policies"]] == ["births", "data", "hide"]
    assert main(["access", "grants", "--domain", file, "--subject", "a1"]) == 0
    assert "a1 is `client:a1`, `group:analytics` in policies" in capsys.readouterr().out
    assert main(["access", "grants", "--domain", file, "--subject", "nobody"]) == 0
    assert "it may read and write nothing" in capsys.readouterr().out


def test_who_is_not_the_edge_node_writes_nothing_of_it(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "births.jsonl"
    lines.write_text(json.dumps({"topic": NBIRTH, "metrics": METRICS}))
    for subject, expected in (("scada", ["NCMD"]), ("G1/E1", ["NBIRTH", "NCMD", "NDATA", "NDEATH"])):
        answer = ask("grants", "--domain", file, "--subject", subject, "--births", str(lines), capsys=capsys)
        assert [right["topic"].split("/")[2] for right in answer["rights"] if right["may"] == "write"] == expected


@pytest.mark.parametrize(
    ("subject", "topic", "metric", "more", "answer", "reason"),
    [
        ("a1", NDATA, "mt_c", [], "yes", "by `data`"),
        ("a1", NDATA, "mt_a", [], "sometimes", "it depends"),
        ("a1", NDATA, "mt_a", ["--value", "1", "--metrics", '{"mt_c": 9}'], "no", "excepted by `hide`"),
        ("a1", NDATA, "mt_a", ["--value", "1", "--metrics", '{"mt_c": 1}'], "yes", "by `data`"),
        ("a1", NDATA, "mt_a", ["--value", "1"], "no", "excepted by `hide`"),  # its condition fails
        ("a1", NDATA, "x/9", [], "no", "excepted by `data`"),
        ("a1", NBIRTH, "mt_c", [], "no", "excepted by `births`"),
        ("a1", NBIRTH, "mt_a", ["--metrics", '{"mt_c": 1}'], "no", "no policy that is about it applies"),
        ("group:analytics", NBIRTH, "mt_a", ["--metrics", '{"mt_c": 6}'], "yes", "by `births`"),
        ("a1", "spBv1.0/G1/NDEATH/E1", "bdSeq", [], "no", "no policy is about it"),
    ],
)
def test_why(
    file: str,
    subject: str,
    topic: str,
    metric: str,
    more: list[str],
    answer: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = (
        "why",
        "--domain",
        file,
        "--subject",
        subject,
        "--topic",
        topic,
        "--metric",
        metric,
        "--may",
        "read",
        *more,
    )
    (access,) = ask(*arguments, capsys=capsys)["access"]
    assert access["answer"] == answer
    assert reason in access["reason"]


def test_why_each_policy_says_what_it_says(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["why", "--domain", file, "--subject", "a1", "--topic", NDATA, "--metric", "mt_a", "--value", "3"]
    assert main(["access", *arguments]) == 0
    out = capsys.readouterr().out
    assert f"a1 may not read `mt_a` of `{NDATA}`: excepted by `hide`" in out
    assert "takes it out  `mt_c.value > 5` fails: there is no `mt_c`" in out
    assert f"a1 may not write `mt_a` of `{NDATA}`: edge node `G1/E1` is client `e1`" in out


def test_conflicts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask("conflicts", "--domain", file, capsys=capsys)
    assert [(finding["kind"], finding["policy"], finding["other"]) for finding in answer["findings"]] == [
        ("conflict", "hide", "data")
    ]
    assert main(["access", "conflicts", "--domain", file]) == 0
    out = capsys.readouterr().out
    assert "takes `mt_a` out of what `data` grants, when `mt_c.value > 5`" in out
    assert "6 policies: 1 conflict (takes out what another grants, in part)" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["grants", "--subject", "user:"], 2, "is no subject"),
        (["why", "--subject", "a1", "--topic", "plant/1", "--metric", "x"], 2, "is not a Sparkplug topic"),
        (["why", "--subject", "a1", "--topic", NDATA, "--metric", "x", "--metrics", "1"], 2, "expected a JSON object"),
        (["grants", "--subject", "a1", "--births", "/no/such/file"], 1, "cannot read `/no/such/file`"),
        (["grants", "--subject", "a1", "--store", "/no/such/file"], 1, "there is no store"),
        (["grants", "--subject", "a1", "--connect", "nowhere"], 1, "expected HOST:PORT"),
        (["unknown"], 2, "invalid choice"),
    ],
)
def test_bad_arguments(
    file: str, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = main(["access", arguments[0], "--domain", file, *arguments[1:]])
    except SystemExit as end:
        ended = int(str(end.code))
    assert ended == code
    assert message in capsys.readouterr().err


def test_a_domain_that_does_not_check_or_has_no_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "domain.yaml"
    file.write_text("nodes: {n: {listen: nowhere}}")
    assert main(["access", "conflicts", "--domain", str(file)]) == 3
    file.write_text('nodes: {n: {listen: "127.0.0.1:1"}}')
    with pytest.raises(SystemExit, match="2"):
        main(["access", "conflicts", "--domain", str(file)])
    assert "has no `access`" in capsys.readouterr().err
