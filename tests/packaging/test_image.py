"""The Dockerfile without Docker: what it copies is there and is enough, what it runs works."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.cli.main import COMMANDS
from tests.support.commands import PATIENCE

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Step:
    """An instruction of a Dockerfile."""

    name: str
    rest: str

    def words(self) -> list[str]:
        """Of the form with brackets, the words; else what stands between spaces, without options."""
        if self.rest.startswith("["):
            return list(json.loads(self.rest))
        return [word for word in self.rest.split() if not word.startswith("--")]


def _steps() -> list[Step]:
    text = (ROOT / "packaging" / "Dockerfile").read_text()
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [Step(*line.split(maxsplit=1)) for line in lines if line.strip()]


def _named(name: str) -> list[Step]:
    return [step for step in _steps() if step.name == name]


def _copied() -> list[str]:
    """What is copied out of this folder."""
    own = [step.words() for step in _named("COPY") if "--from=" not in step.rest]
    return [source for words in own for source in words[:-1]]


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert _copied() == ["pyproject.toml", "README.md", "LICENSE", "src"]
    for name in _copied():
        assert (ROOT / name).exists(), name
        said = [rule for rule in rules if fnmatch.fnmatch(name, rule.removeprefix("!"))]
        assert said[-1] == f"!{name}", said


def test_secrets_and_stores_of_this_folder_stay_out() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert next(rule for rule in rules if not rule.startswith("#")) == "*"
    assert sorted(rule for rule in rules if rule.startswith("!")) == sorted(f"!{name}" for name in _copied())


def test_it_does_not_run_as_root() -> None:
    steps = _steps()
    last = max(at for at, step in enumerate(steps) if step.name == "FROM")
    user = next(at for at, step in enumerate(steps) if at > last and step.name == "USER")
    assert steps[user].rest not in ("root", "0")
    assert {step.name for step in steps[user:]} & {"RUN", "COPY", "ADD"} == set()


def test_its_commands_are_ours() -> None:
    (entry,) = _named("ENTRYPOINT")
    (health,) = _named("HEALTHCHECK")
    (command,) = _named("CMD")
    assert entry.words() == ["penstock"]
    asked = json.loads(health.rest[health.rest.index("[") :])
    assert asked[0] == "penstock"
    assert {command.words()[0], asked[1]} <= set(COMMANDS)


def test_what_is_copied_is_enough_to_build_and_run(tmp_path: Path) -> None:
    """The steps of the first stage, but for the packages that others make: they are here already."""
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for name in _copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, source / name)
    (install,) = (step for step in _named("RUN") if "pip install" in step.rest)
    assert install.rest.split()[-1] == '".[${EXTRAS}]"'
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site), "."]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, timeout=PATIENCE * 4)
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    (command,) = _named("CMD")
    asked = subprocess.run(
        [sys.executable, site / "bin" / "penstock", command.words()[0], "--help"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert asked.stdout.startswith("usage: penstock run"), asked.stderr
