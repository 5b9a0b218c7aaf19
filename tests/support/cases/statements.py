"""Policy statements for tests: the texts of the paper, and whether two statements are the same."""

from pathlib import Path
from typing import Any

import yaml

from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import Statement

FOLDER = Path(__file__).parents[2] / "cases" / "statements"


def cases(file: str) -> list[dict[str, Any]]:
    """The cases of a file."""
    found: list[dict[str, Any]] = yaml.safe_load((FOLDER / file).read_text("utf-8"))
    return found


def paper() -> dict[str, str]:
    """The texts of the paper by title."""
    return {case["title"]: case["text"] for case in cases("paper.yaml")}


def same(one: Statement, other: Statement) -> bool:
    """Whether two statements are equal, with arguments of the same types: 1, 1.0 and true are one in Python."""
    return one == other and show_compact(one) == show_compact(other)
