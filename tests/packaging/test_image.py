"""The Dockerfile without Docker: what it copies is there and is enough, what it runs works."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.main import COMMANDS
from tests.support.processes.commands import PATIENCE

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


def test_what_is_copied_is_enough_to_build(tmp_path: Path) -> None:
    """All that the package's own description names; `make test` has installed it by the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = [
        "pyproject.toml",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *(Path(folder).parts[0] for folder in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]),
    ]
    assert set(named) <= set(_copied())
    extras = project["project"]["optional-dependencies"]
    assert {step.rest.partition("=")[2] for step in _named("ARG") if step.rest.startswith("EXTRAS=")} <= set(extras)


def test_what_is_copied_is_enough_to_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    (command,) = _named("CMD")
    words = [sys.executable, "-m", "penstock", command.words()[0], "--help"]
    asked = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert asked.stdout.startswith("usage: penstock run"), asked.stderr
