"""Conditions of monitors in the domain file: every mistake is shown where it stands, and the canonical form is one."""

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from penstock.domain import Domain, diff, load
from penstock.domain.yaml.format import formatted
from penstock.domain.yaml.write import domain_text
from penstock.model.errors import DomainError
from tests.support.memory.rehearsed import domain

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/domain/guards.yaml").read_text("utf-8"))
FILE = Path("domain.yaml")
HEAD = """
nodes: {a: {listen: 127.0.0.1:0, store: memory}}
clients: {c: {node: a}}
content:
  - {topics: room/#, format: json, schema: {celsius: double, tags: [string]}}
monitors:
  m:
    link: c -> a
    states: {q0: XX}
""".lstrip()


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that messages show the plain names of files."""
    monkeypatch.chdir(tmp_path)


def file(edges: str) -> Path:
    text = HEAD.replace(" {q0: XX}\n", "\n      q0:\n")
    FILE.write_text(text + indent(edges, "        "), "utf-8")
    return FILE


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in CASES])
def test_a_mistake_is_shown_where_it_stands(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DomainError) as caught:
        load(file(case["edges"]), {})
    assert f"{caught.value}\n" == case["expect"]
    assert main(["check", str(FILE)]) == 3
    assert capsys.readouterr().err == case["expect"]


GOOD = """
room/+:
  - {pass: true, when: "celsius<30.0  &&  (tags.size() > 0)"}
  - suppress
other: {next: q0, emit: [x, y], when: "a  in ['b']"}
"*": pass
""".lstrip()


def test_the_canonical_form_is_that_of_the_conditions_too() -> None:
    _, canonical = formatted(file(GOOD))
    assert "room/+: [{when: celsius < 30.0 && tags.size() > 0, pass: true}, suppress]" in canonical
    assert """other: {when: "a in ['b']", emit: [x, y], next: q0}""" in canonical
    FILE.write_text(canonical, "utf-8")
    assert formatted(FILE) == (canonical, canonical)


def test_it_is_written_down_and_read_again() -> None:
    once = load(file(GOOD), {})
    Path("again.yaml").write_text(domain_text(once, Path.cwd()), "utf-8")
    again = load(Path("again.yaml"), {})
    assert again == once
    assert not diff(once, again)


def one(when: str) -> Domain:
    return domain(HEAD.replace("XX", f'{{t: {{when: "{when}", pass: true}}}}'))


def test_another_condition_is_another_monitor_and_other_blanks_are_not() -> None:
    assert not diff(one("x > 1"), one("(x)>1"))
    assert [str(change) for change in diff(one("x > 1"), one("x > 2")).changes] == ["monitor `m` changed: `states`"]
