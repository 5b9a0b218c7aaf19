"""The page of the architecture says what the code is, and pages name files that exist."""

import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from penstock.domain.schema.tests import Stage
from penstock.engine.stages import runner
from scripts.architecture import DOCS, PICTURES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FOLDERS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
ROOMS = sorted(path.name for path in (SOURCE / "engine").iterdir() if (path / "__init__.py").exists())
_NAMED = re.compile(rf"`((?:src/penstock/|tests/|scripts/|(?:{'|'.join(FOLDERS)})/)[\w/.*-]*(?:\.py|/))`")
MADE_UP = {f"{folder}fit.py" for folder in ("src/penstock/engine/stages/", "src/penstock/pipeline/stages/")} | {
    "tests/engine/stages/test_fit.py"
}
"""Files of the guide's example."""


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_the_code_is(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PICTURES[name](), "run `make format`"
    assert f"]({name})" in PAGE


def test_the_table_of_stages_is_the_tuple() -> None:
    rows = re.findall(r"(?m)^\| \d+ \| (\w+) \|.*\| `engine/stages/(\w+)\.py` \|$", PAGE)
    assert rows == [(name, name) for name in runner.names()]
    assert get_args(Stage) == runner.names(), "policy tests can name every stage"
    numbered = [f"Stage {number}, {name}:" for number, name in enumerate(runner.names(), start=1)]
    said = [str(sys.modules[stage.__name__].__doc__) for stage in runner.STAGES]
    assert [doc.partition(":")[0] + ":" for doc in said] == numbered


def test_the_table_of_entrances_is_that_of_the_runner() -> None:
    rows = re.findall(r"(?m)^\| ([a-z, ]+) \| ([a-z]+) \| .*`engine/", PAGE)
    told = {name: first for names, first in rows for name in names.split(", ")}
    assert told == {name: entrance.stage for name, entrance in runner.ENTRANCES.items()}


@pytest.mark.parametrize("names", [FOLDERS, ROOMS], ids=["folders", "rooms of the engine"])
def test_every_folder_has_its_sentence(names: list[str]) -> None:
    told = re.findall(r"(?m)^\| `(\w+)/` \| ", PAGE)
    assert [name for name in names if told.count(name) != 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_files_that_exist(page: Path) -> None:
    named = {*_NAMED.findall(page.read_text(encoding="utf-8"))} - MADE_UP
    assert [name for name in sorted(named) if not (SOURCE / name).exists() and not (ROOT / name).exists()] == []


def test_docstrings_name_modules_that_exist() -> None:
    modules = sorted(SOURCE.rglob("*.py"))
    paths = [f"/{module.relative_to(SOURCE)}" for module in modules]
    named = [(module, name) for module in modules for name in re.findall(r"`([\w/]+\.py)`", module.read_text("utf-8"))]
    assert [pair for pair in named if not any(path.endswith(f"/{pair[1]}") for path in paths)] == []


def test_the_functions_that_it_names_are_in_their_files() -> None:
    named = re.findall(rf"`(\w+)` in `((?:{'|'.join(FOLDERS)})/[\w/]+\.py)`", PAGE)
    assert len(named) > 8
    assert [(name, file) for name, file in named if not _defines(SOURCE / file, name)] == []


def _defines(file: Path, name: str) -> bool:
    return re.search(rf"(?m)^ *(?:(?:async )?def {name}\(|{name}\b.* = )", file.read_text(encoding="utf-8")) is not None
