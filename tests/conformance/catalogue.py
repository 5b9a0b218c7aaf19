"""The catalogue of normative statements in docs/conformance.md, and where the code and the tests cite them.

`python -m tests.conformance.catalogue` writes the columns `cited in` and `tested by` anew.
"""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "conformance.md"
SOURCE = ROOT / "src" / "penstock"
TESTS = ROOT / "tests"

STATEMENT = re.compile(r"\[MQTT(?:311)?-\d+(?:\.\d+)+-\d+\]")
_SHOWN = 2


@dataclass(frozen=True)
class Row:
    """One statement: what it asks, where it is cited and tested, and what else there is to say."""

    statement: str
    text: str
    cited: str
    tested: str
    remark: str

    @property
    def same_as(self) -> str | None:
        """The MQTT 5 statement that says the same, for one of 3.1.1."""
        found = re.fullmatch(r"as (\[MQTT-.*\])", self.text)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"| {self.statement} | {self.text} | {self.cited} | {self.tested} | {self.remark} |".replace("  ", " ")


def row_of(line: str) -> Row | None:
    """The row that a line of the page is, if it is one."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return Row(*cells) if len(cells) == 5 and STATEMENT.fullmatch(cells[0]) else None


def rows(page: str) -> list[Row]:
    """Every statement of the page."""
    return [row for line in page.splitlines() if (row := row_of(line)) is not None]


def cited_in_source() -> dict[str, list[str]]:
    """Statement -> the modules that cite it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for statement in sorted(set(STATEMENT.findall(path.read_text(encoding="utf-8")))):
            found[statement].append(path.relative_to(SOURCE).as_posix())
    return found


def cited_in_tests() -> dict[str, list[str]]:
    """Statement -> the tests that cite it, in their docstring or in the titles of the cases they take."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        titles = {
            target.id: STATEMENT.findall(ast.unparse(node))
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in tree.body:
            if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name.startswith("test_"):
                cited = set(STATEMENT.findall(ast.unparse(node)))
                for word in re.findall(r"\w+", " ".join(map(ast.unparse, node.decorator_list))):
                    cited.update(titles.get(word, ()))
                for statement in cited:
                    found[statement].append(node.name)
    return found


def _modules(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _tests(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def refreshed(page: str) -> str:
    """The page with its two columns as the code and the tests are now."""
    source, tests = cited_in_source(), cited_in_tests()
    lines = []
    for line in page.splitlines():
        row = row_of(line)
        if row is not None:
            cited, tested = source.get(row.statement, []), tests.get(row.statement, [])
            line = str(Row(row.statement, row.text, _modules(cited), _tests(tested), row.remark))
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
