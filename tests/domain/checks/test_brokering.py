"""Every mistake of a domain of many nodes gives one clear error, and `penstock check` says it with exit code 3."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from penstock.domain import load
from penstock.model.errors import DomainError

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/domain/brokering-mistakes.yaml").read_text("utf-8"))
FILE = Path("domain.yaml")
PARAMETERS = [pytest.param(case, id=case["title"]) for case in CASES]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that messages show the plain names of files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", PARAMETERS)
def test_mistake(case: dict[str, Any]) -> None:
    FILE.write_text(case["text"], "utf-8")
    with pytest.raises(DomainError) as caught:
        load(FILE, {})
    assert str(caught.value).split("\n") == case["expect"]


@pytest.mark.parametrize("case", PARAMETERS)
def test_check_says_it_and_fails(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    FILE.write_text(case["text"], "utf-8")
    assert main(["check", str(FILE)]) == 3
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", case["expect"])


def test_there_are_forty_kinds_and_each_gives_one_error() -> None:
    titles = [case["title"] for case in CASES]
    assert len(set(titles)) == len(titles) >= 40
    assert [case["title"] for case in CASES if len(case["expect"]) != 1] == []
