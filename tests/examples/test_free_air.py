"""Section 3 of the contracts paper, as the example has it: its file, its page, its demo, and its map."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes.commands import penstock, run

FOLDER = Path(__file__).parent.parent.parent / "examples" / "free-air"
FILE = FOLDER / "domain.yaml"
PAPER = yaml.safe_load((Path(__file__).parent.parent / "cases" / "contracts" / "paris.yaml").read_text("utf-8"))
OURS = yaml.safe_load(FILE.read_text("utf-8"))


def test_the_example_is_in_canonical_form() -> None:
    assert run(penstock("fmt", "--check", str(FILE)))[0] == 0


@pytest.mark.parametrize(
    ("kind", "name", "added"),
    [
        ("producers", "pollution", {}),
        ("producers", "bob-location", {"scope"}),
        ("producers", "bob-vitals", {"scope", "rules.own-capsule"}),
        ("consumers", "free-air", set()),
        ("consumers", "emergency", {"retention", "wants.vitals", "wants.health"}),
        ("consumers", "advertiser", set()),
        ("situations", "life-hazard", set()),
    ],
)
def test_its_contracts_are_those_of_the_paper(kind: str, name: str, added: set[str]) -> None:
    ours, papers = flat(OURS["contracts"][kind][name]), flat(PAPER[kind][name])
    assert {key: ours[key] for key in papers} == papers
    assert {".".join(key.split(".")[:2]) for key in ours.keys() - papers.keys()} == set(added)


def flat(said: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested mappings as one, by the path of each value."""
    found = {}
    for key, value in said.items():
        found.update(flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value})
    return found


def test_the_demo_goes_as_told(tmp_path: Path) -> None:
    """And draws, where there is something to draw with: `make bench` installs it."""
    drawn = tmp_path / "of" / "it.svg"
    picture = ["--picture", str(drawn)] if find_spec("matplotlib") is not None else []
    command = [sys.executable, str(FOLDER / "walk.py"), *picture]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    first = next(place for place, line in enumerate(lines) if line.strip().startswith("FreeAir   "))
    panels = ["".join(line[3 + 37 * at : 40 + 37 * at] for line in lines[first + 1 : first + 8]) for at in range(3)]
    assert [set(panel) for panel in panels] == [set(" ·░"), set(" ·x"), set(" ·")]
    if picture:
        titles = ("FreeAir: 18 of 24 locations", "emergency services: 5 of 24", "advertiser: 0 of 24 locations")
        assert all(title in drawn.read_text("utf-8") for title in titles)


@pytest.mark.recorded
def test_the_demo_goes_as_told_with_the_capsule_on_spark() -> None:
    command = [sys.executable, str(FOLDER / "walk.py"), "--spark"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
