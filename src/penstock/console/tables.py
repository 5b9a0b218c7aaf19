"""Tables of some hundred rows, as one element of the page. Cells are text, never HTML."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from nicegui import ui

from penstock.console import widgets
from penstock.console.prose import prose

MAX_ROWS = 200
FEW = 3
"""Columns that fit a telephone."""


class TableCell(NamedTuple):
    """A cell with a class of the style sheet, or a link to another part of the page."""

    text: str
    look: str = ""
    to: str = ""


class Prose(NamedTuple):
    """A cell with a sentence: text in backticks is code."""

    text: str
    look: str = ""


class Below(NamedTuple):
    """The last item of a row: a sentence on a line of its own, as wide as the table. It has no column."""

    text: str
    head: str


class HtmlTable:
    """A heading and a table that can be refilled and keeps its scroll position."""

    def __init__(self, title: str, heads: Sequence[str], limit: int = MAX_ROWS, nothing: str = "None.") -> None:
        self._heads, self._most, self._nothing = heads, limit, nothing
        with ui.element("div").classes("pk-table-box") as self.box:
            widgets.subheading(title)
            scroll = ui.element("div").classes("pk-scroll").props("role=region tabindex=0")
            scroll.props["aria-label"] = title
            with scroll:
                self._html = ui.html("", sanitize=False)
            self._more = widgets.note()
            self._more.set_visibility(False)

    def fill(self, rows: Iterable[Sequence[object]]) -> "HtmlTable":
        """Show these rows, up to the limit; nothing is sent if they are the same as before."""
        all_rows = list(rows)
        text = self._table(all_rows) if all_rows else f'<p class="pk-none">{prose(self._nothing)}</p>'
        if text != self._html.content:
            self._html.set_content(text)
        self._more.set_text(f"and {len(all_rows) - self._most:,} more")
        self._more.set_visibility(len(all_rows) > self._most)
        return self

    def _table(self, rows: Sequence[Sequence[object]]) -> str:
        """Return the table. Narrow windows stack wide tables, so cells name their column, and roles are explicit."""
        head = "".join(_head(head_text, value) for head_text, value in zip(self._heads, _columns(rows[0]), strict=True))
        body = "".join(self._row(row) for row in rows[: self._most])
        look = "pk-table" if len(self._heads) <= FEW else "pk-table pk-stacks"
        return (
            f'<table class="{look}" role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
            f'<tbody role="rowgroup">{body}</tbody></table>'
        )

    def _row(self, row: Sequence[object]) -> str:
        """Return a row; a row with a full-width line below has no border between."""
        below = row[-1] if isinstance(row[-1], Below) else None
        cells = "".join(map(_cell, _columns(row), self._heads))
        if below is None:
            return f'<tr role="row">{cells}</tr>'
        wide = f'colspan="{len(self._heads)}" role="cell" data-head="{escape(below.head, quote=True)}"'
        last = f'<tr role="row" class="pk-below"><td {wide}><span>{prose(below.text)}</span></td></tr>'
        return f'<tr role="row" class="pk-above">{cells}</tr>{last}'


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], limit: int = MAX_ROWS) -> HtmlTable:
    """Show a table with these rows."""
    return HtmlTable(title, heads, limit).fill(rows)


def _columns(row: Sequence[object]) -> Sequence[object]:
    return row[:-1] if isinstance(row[-1], Below) else row


def _head(text: str, value: object) -> str:
    """Return a column head, aligned as its column: numbers are on the right."""
    is_right = "pk-number" in value.look if isinstance(value, TableCell) else _is_number(value)
    look = ' class="pk-number"' if is_right else ""
    return f'<th scope="col" role="columnheader"{look}>{escape(text)}</th>'


def _cell(value: object, head: str) -> str:
    plain = TableCell(_text(value), "pk-number" if _is_number(value) else "")
    cell = value if isinstance(value, TableCell | Prose) else plain
    text = escape(cell.text)
    if isinstance(cell, Prose) and text:
        text = f"<span>{prose(cell.text)}</span>"  # a stacked cell would have each part on a line of its own
    if isinstance(cell, TableCell) and cell.to:
        text = f'<a href="{escape(cell.to, quote=True)}">{text}</a>'
    look = f' class="{escape(cell.look, quote=True)}"' if cell.look else ""
    return f'<td role="cell" data-head="{escape(head, quote=True)}"{look}>{text}</td>'


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
