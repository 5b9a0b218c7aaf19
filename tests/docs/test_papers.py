"""The table of the papers: every item has a line, and what a line names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", PAGE))
ROWS = [
    (paper, *cells)
    for paper, text in SECTIONS.items()
    for cells in re.findall(r"(?m)^\| (.+?) \| (.*?) \| ?(.*?) ?\|$", text)
    if cells[0] not in ("---", "in the paper")
]
NUMBERED = {
    "brokering": {"Fig.": 6, "Policy": 4},
    "trust": {"Fig.": 4},
    "statements": {"Fig.": 26, "Table": 1, "Algorithm": 1},
    "sparkplug": {"Fig.": 2, "Definition": 5, "Listing": 3, "Example": 6},
    "contracts": {"Fig.": 9, "Table": 1, "Listing": 3, "Algorithm": 1},
}
"""The numbered items of each paper, counted in its print. (Two tables of the sparkplug paper have Roman numbers.)"""


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_numbered_item_has_a_line(paper: str) -> None:
    items = " ".join(item for of, item, *_ in ROWS if of == paper)
    wanted = [f"{kind} {number}" for kind, count in NUMBERED[paper].items() for number in range(1, count + 1)]
    assert [name for name in wanted if not re.search(rf"{re.escape(name)}\b", items)] == []


def test_every_line_says_what_shows_it() -> None:
    assert len(ROWS) > 150
    assert [row for row in ROWS if any("|" in cell for cell in row)] == [], "three columns"
    assert [row for row in ROWS if not re.search(r"`tests/[\w/]+\.py::test_|\]\(", row[2])] == []


def test_files_and_tests_that_it_names_exist() -> None:
    file, named = "", list[tuple[str, str]]()
    for path, test in re.findall(r"`((?:tests|src|benchmarks)/[\w/.-]+)?(?:::(\w+))?`", PAGE):
        file = path or file
        if file:
            named.append((file, test))
    texts = {file: _text(ROOT / file) for file, _ in named}
    assert [file for file, text in texts.items() if text is None] == []
    assert [pair for pair in named if pair[1] and f"def {pair[1]}(" not in (texts[pair[0]] or "")] == []


def _text(path: Path) -> str | None:
    if path.is_dir():
        return ""
    return path.read_text(encoding="utf-8") if path.exists() else None
