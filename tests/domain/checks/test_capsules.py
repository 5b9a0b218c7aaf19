"""Mistakes in capsules: each is told where it stands, in words."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.domain import load
from penstock.domain.yaml.write import domain_text
from penstock.model.errors import DomainError
from scripts.settings_table import CAPSULES_PAGE, with_tables
from tests.support.scenes.air_capsules import City

PAGE = CAPSULES_PAGE.read_text("utf-8")
CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/domain/capsule-mistakes.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_mistakes(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("domain.yaml").write_text(case["text"])
    with pytest.raises(DomainError) as caught:
        load(Path("domain.yaml"))
    assert str(caught.value).splitlines() == case["expect"]


def test_capsules_are_written_as_they_are_read(tmp_path: Path) -> None:
    city = City(tmp_path)
    domain = load(city.domain)
    (tmp_path / "again.yaml").write_text(domain_text(domain, tmp_path))
    assert load(tmp_path / "again.yaml").capsules == domain.capsules


def test_the_page_has_the_tables_of_the_models() -> None:
    assert with_tables(PAGE) == PAGE, "run `.venv/bin/python -m scripts.settings_table`"


EXAMPLES = [block.partition("```")[0] for block in PAGE.split("```yaml\n")[1:]]


@pytest.mark.parametrize("example", EXAMPLES, ids=["on Spark", "in a node"])
def test_the_examples_of_the_page_check(example: str, tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text(example)
    assert load(tmp_path / "domain.yaml").capsules
