"""The pages that people read: links lead somewhere, tables say what the code says."""

import re
from pathlib import Path

import pytest

from scripts.settings_table import PAGE, TABLES, with_tables

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_no_page_has_marks_of_a_merge() -> None:
    assert [page for page in PAGES if re.search(r"(?m)^(<<<<<<<|>>>>>>>) ", page.read_text(encoding="utf-8"))] == []


def test_the_settings_are_documented_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [path for path, _ in TABLES if f"<!-- settings of {path} -->" not in page] == []
    assert page == with_tables(page), "run `.venv/bin/python -m scripts.settings_table`"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(page.name for page in folder.glob("[0-9]*.md"))


def test_every_target_is_a_command_that_the_pages_may_name() -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z]+)", page.read_text(encoding="utf-8"))}
    assert named - targets == set()
