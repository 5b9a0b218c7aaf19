"""docs/domain.md says what the code does."""

import re
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.domain import load
from penstock.domain.schema.domain import DomainFile
from scripts.settings_table import DOMAIN_PAGE, DOMAIN_TABLES, with_tables

PAGE = DOMAIN_PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = [block for block in BLOCKS if "nodes:" in block]
EXPANSIONS = re.findall(r"^```yaml\n([^`]*?)^```\n\nstands for\n\n```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", FILES, ids=lambda text: text.splitlines()[0])
def test_examples_check(text: str) -> None:
    Path("domain.yaml").write_text(text)
    assert main(["check", "domain.yaml"]) == 0


@pytest.mark.parametrize(("short", "spelt"), EXPANSIONS, ids=lambda text: text.splitlines()[0])
def test_patterns_stand_for_what_the_page_says(short: str, spelt: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("domain.yaml").write_text(short)
    assert main(["check", "--expand", "domain.yaml"]) == 0
    assert capsys.readouterr().out == spelt
    Path("again.yaml").write_text(spelt)
    assert load(Path("again.yaml"), {}) == load(Path("domain.yaml"), {})


def test_every_pattern_has_an_example() -> None:
    assert {kind for short, _ in EXPANSIONS for kind in re.findall(r"pattern: (\w+)", short)} == {
        "hierarchy",
        "levels",
        "interface",
        "roles",
    }


def test_every_key_has_its_place() -> None:
    sections = set(re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\|$", PAGE.partition("## Links")[0], re.MULTILINE))
    assert sections == set(DomainFile.model_fields)
    assert [path for path, _ in DOMAIN_TABLES if f"<!-- settings of {path} -->" not in PAGE] == []


def test_the_tables_are_as_the_models_are() -> None:
    assert with_tables(PAGE) == PAGE, "run `.venv/bin/python -m scripts.settings_table`"
