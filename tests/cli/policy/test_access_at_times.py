"""Access policies that are valid at times, on the command line: `--at` of `penstock access`, `--time` of `explain`
and the step `at` of policy tests.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main

NBIRTH, NDATA = "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1"
DOMAIN = """
nodes: {plant: {listen: "127.0.0.1:1883", store: memory}}
clients:
  e1: {node: plant, edge: G1/E1}
  shift: {node: plant}
access:
  - {id: edges, subject: G1/E1, topics: "spBv1.0/G1/+/E1/#", may: write}
  - {id: early, subject: shift, topics: "spBv1.0/#", may: read, valid: {from: "06:00", until: "14:00"}}
  - {id: hide, subject: shift, topics: "spBv1.0/#", may: read, except: x, valid: {until: 2026-12-15T12:00:00Z}}
"""
BEFORE, EARLY, LATE = "2026-12-15T09:00:00Z", "2026-12-16T09:00:00Z", "2026-12-16T20:00:00Z"
"""`hide` excepts x; only `early` is valid; no policy is."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "plant.yaml"
    path.write_text(DOMAIN, "utf-8")
    return str(path)


def ask(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("at", "answer", "reason"),
    [
        (BEFORE, "no", "excepted by `hide`"),
        (EARLY, "yes", "by `early`"),
        (LATE, "no", "no policy that is about it applies"),
        ("2026-12-16T13:59:59.999Z", "yes", "by `early`"),
        ("2026-12-16T14:00:00Z", "no", "no policy that is about it applies"),
    ],
)
def test_why_at_a_time(file: str, at: str, answer: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    about = ("--subject", "shift", "--topic", NDATA, "--metric", "x", "--value", "1", "--may", "read")
    (access,) = ask("access", "why", "--domain", file, *about, "--at", at, capsys=capsys)["access"]
    assert access["answer"] == answer
    assert reason in access["reason"]


@pytest.mark.parametrize(("at", "how"), [(BEFORE, ["never"]), (EARLY, ["always"]), (LATE, [])])
def test_grants_at_a_time(
    file: str, tmp_path: Path, at: str, how: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    births = tmp_path / "births.jsonl"
    births.write_text(json.dumps({"topic": NBIRTH, "metrics": {"x": 1}}) + "\n")
    told = ask(
        *("access", "grants", "--domain", file, "--subject", "shift", "--births", str(births), "--at", at),
        capsys=capsys,
    )
    rights = [right for right in told["rights"] if right["topic"] == NDATA and right["how"] != "never"]
    assert [right["metrics"]["x"]["how"] for right in rights] == how


def test_conflicts_at_a_time(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy whose time is over can never apply; before, it takes out what another grants."""
    before, after = (
        {(finding["kind"], finding["policy"]) for finding in told["findings"]}
        for told in (ask("access", "conflicts", "--domain", file, "--at", at, capsys=capsys) for at in (BEFORE, EARLY))
    )
    assert ("never", "hide") not in before
    assert ("never", "hide") in after


@pytest.mark.parametrize(
    ("at", "said"),
    [(BEFORE, "excepted by `hide`"), (EARLY, "early"), (LATE, "it is valid from 06:00 until 14:00")],
)
def test_explain_at_a_time(file: str, at: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    about = ["--from", "e1", "--topic", NBIRTH, "--metrics", '{"x": 1}', "--to", "shift", "--time", at]
    main(["explain", file, *about])
    captured = capsys.readouterr()
    assert said in captured.out, captured
    assert ("`hide` does not apply" in captured.out) == (at != BEFORE)


def test_a_time_that_is_none_is_refused(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["access", "conflicts", "--domain", file, "--at", "noon"], ["explain", file, "--time", "noon"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "noon" in capsys.readouterr().err


STEPS = """
tests:
  shifts:
    - {connect: [e1, shift]}
    - {subscribe: {shift: "spBv1.0/#"}}
    - {at: 2026-12-16T05:00:00Z}
    - {publish: {e1: {topic: spBv1.0/G1/NBIRTH/E1, metrics: {x: 1}}}, expect: {shift: []}}
    - {at: 2026-12-16T06:00:01Z, expect: {shift: [{topic: spBv1.0/G1/NBIRTH/E1, metrics: {x: 1}}]}}
    - {at: "2026-12-16T15:00:00+01:00"}
    - {publish: {e1: {topic: spBv1.0/G1/NDATA/E1, metrics: {x: 2}}}, expect: {shift: SHOWN}}
"""


@pytest.mark.parametrize(("shown", "code"), [("[]", 0), ("[{topic: spBv1.0/G1/NDATA/E1}]", 4)])
def test_a_policy_test_lets_time_pass_until_a_moment(
    file: str, shown: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(DOMAIN + STEPS.replace("SHOWN", shown), "utf-8")
    assert main(["test", file]) == code, capsys.readouterr().out


def test_a_moment_that_is_past_fails_the_policy_test(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(DOMAIN + STEPS.replace("2026-12-16T06:00:01Z", "2026-12-16T04:00:00Z"), "utf-8")
    assert main(["test", file]) != 0
    captured = capsys.readouterr()
    assert "is past: it is 2026-12-16T05:00:00" in captured.out + captured.err
