"""The package as a whole: what it depends on, what it is called, and how its folders are layered."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# What only the extras may bring: each is large, and a node that forwards messages has no use for it.
NOT_FOR_A_NODE = {"pyspark", "pyarrow", "pandas", "numpy", "nicegui", "fastapi"}


def dependencies_without_extras(name: str) -> set[str]:
    """The names of everything that installing `name` brings along, itself included."""
    found: set[str] = set()
    pending = [name]
    while pending:
        current = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if current in found:
            continue
        found.add(current)
        try:
            required = metadata.requires(current) or []
        except metadata.PackageNotFoundError:
            continue  # needed on another system only, such as colorama on Windows
        pending += [requirement_name(line) for line in required if "extra ==" not in line]
    return found


def requirement_name(line: str) -> str:
    """The distribution's name at the start of a requirement such as `uvloop>=0.21; python_version > '3'`."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line)
    assert match, f"`{line}` does not start with a name"
    return match.group()


def test_a_node_installs_without_spark_arrow_or_the_console() -> None:
    assert dependencies_without_extras("penstock") & NOT_FOR_A_NODE == set()


def test_the_walk_over_dependencies_sees_indirect_ones() -> None:
    assert {"penstock", "pydantic", "pydantic-core", "starlette", "anyio"} <= dependencies_without_extras("penstock")


@pytest.mark.parametrize(
    ("extra", "brings"),
    [("journal", "pyarrow"), ("pipeline", "pyspark"), ("console", "nicegui"), ("dev", "pytest"), ("bench", "amqtt")],
)
def test_an_extra_brings(extra: str, brings: str) -> None:
    lines = [line for line in metadata.requires("penstock") or [] if f"extra == '{extra}'" in line.replace('"', "'")]
    assert brings in {requirement_name(line) for line in lines}


def test_the_version_is_written_the_same_everywhere() -> None:
    assert penstock.__version__ == PYPROJECT["project"]["version"] == metadata.version("penstock")


def test_the_changelog_has_an_entry_for_the_version() -> None:
    assert f"## {penstock.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_folder_has_its_layer() -> None:
    folders = {path.parent.name for path in (ROOT / "src" / "penstock").glob("*/__init__.py")}
    contract, *_ = PYPROJECT["tool"]["importlinter"]["contracts"]
    assert {folder for layer in contract["layers"] for folder in layer.split(" | ")} == folders
