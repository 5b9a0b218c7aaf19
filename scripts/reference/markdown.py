"""Texts of the code as Markdown."""

import re
from collections.abc import Iterable, Sequence


def heading(title: str, module: str) -> str:
    """The top of a page that nobody writes by hand."""
    note = f"Made by `python -m scripts.reference` of {module}. Do not edit: `make format` writes it."
    return f"# {title}\n\n<!-- {note} -->\n\n"


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def plain(text: str) -> str:
    """A text whose signs stand for themselves, but for backticks: what is between these stays as it is."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([\\<>*_\[\]])", r"\\\1", part) for part in parts)


def code(text: str) -> str:
    return f"`{text}`"
