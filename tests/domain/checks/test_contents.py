"""Domain files that are wrong about content: one error for each mistake, and it says where and what."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from penstock.domain import load, read
from penstock.model.errors import DomainError
from tests.support.cases.conditions import FOLDER, SCHEMA, declared
from tests.support.scenes.domains import nodes, write_domain

CASES = yaml.safe_load((FOLDER.parent / "domain" / "content-mistakes.yaml").read_text("utf-8"))
PARAMETERS = [pytest.param(case, id=case["title"]) for case in CASES]
FILE = Path("domain.yaml")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that messages show the plain names of files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", PARAMETERS)
def test_check_says_it_and_fails(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    FILE.write_text(case["text"], "utf-8")
    assert main(["check", str(FILE)]) == 3
    assert capsys.readouterr() == ("", f"{case['error']}\n")


def test_every_kind_has_its_own_title() -> None:
    titles = [case["title"] for case in CASES]
    assert len(set(titles)) == len(titles) >= 30


# --- texts that are not conditions, at each place where the file takes a condition

MISTAKES = yaml.safe_load((FOLDER / "mistakes.yaml").read_text("utf-8"))


def with_condition(text: str) -> dict[str, dict[str, Any]]:
    """By the path at which the condition stands, the client that has it."""
    return {
        "where.plant/#": {"where": {"plant/#": text}},
        "advertises[0].where": {"advertises": [{"name": "n", "filter": "plant/+", "where": text}]},
    }


def domain_of(client: dict[str, Any], is_declared: bool) -> dict[str, Any]:
    rule = {"topics": "plant/#", "format": "sparkplug", "schema": SCHEMA}
    content = [rule] if is_declared else []
    return {"nodes": nodes("a"), "content": content, "clients": {"x": {"node": "a", **client}}}


def test_the_schema_declares_what_the_cases_are_about() -> None:
    domain = read(write_domain(Path(), domain_of({}, is_declared=True)), {}).domain
    assert domain.declared("plant/+") == declared()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["title"])
def test_a_text_that_is_no_condition_gives_one_error_at_load(mistake: dict[str, Any]) -> None:
    for path, client in with_condition(mistake["text"]).items():
        file = write_domain(Path(), domain_of(client, bool(mistake.get("declared"))))
        with pytest.raises(DomainError) as caught:
            load(file, {})
        (problem,) = caught.value.problems
        assert (problem.file, problem.path) == ("domain.yaml", f"clients.x.{path}")
        assert problem.line > 1
        assert problem.what == mistake["error"].removesuffix("\n")


def test_mistakes_of_several_conditions_are_all_told() -> None:
    client = {
        "where": {"a": "x >", "b": "x > 1", "c": "1 + 'a'"},
        "advertises": [{"name": "n", "filter": "d", "where": ""}],
    }
    with pytest.raises(DomainError) as caught:
        load(write_domain(Path(), domain_of(client, is_declared=False)), {})
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["clients.x.where.a", "clients.x.where.c", "clients.x.advertises[0].where"]
