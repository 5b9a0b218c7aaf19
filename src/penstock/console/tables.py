"""Tables for some hundred rows, as one element of the page. Whatever a cell says is text, never HTML."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from nicegui import ui

from penstock.console import widgets

MOST_ROWS = 200


class Cell(NamedTuple):
    """A cell with a class of the style sheet, or one that leads to another part of the page."""

    text: str
    look: str = ""
    to: str = ""


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], most: int = MOST_ROWS) -> ui.element:
    """A heading, the table, and how many rows are left out."""
    every = list(rows)
    with ui.element("div").classes("pk-table-box") as box:
        widgets.subheading(title)
        label = escape(title, quote=True)
        first = every[0] if every else heads
        head = "".join(_head(one, value) for one, value in zip(heads, first, strict=True))
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in every[:most])
        ui.html(
            f'<div class="pk-scroll" role="region" tabindex="0" aria-label="{label}"><table class="pk-table">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>",
            sanitize=False,
        )
        if len(every) > most:
            ui.label(f"and {len(every) - most:,} more").classes("pk-about")
    return box


def _head(text: str, value: object) -> str:
    """As its column is: numbers are on the right."""
    is_right = "pk-number" in value.look if isinstance(value, Cell) else _is_number(value)
    look = ' class="pk-number"' if is_right else ""
    return f'<th scope="col"{look}>{escape(text)}</th>'


def _cell(value: object) -> str:
    cell = value if isinstance(value, Cell) else Cell(_told(value), "pk-number" if _is_number(value) else "")
    text = escape(cell.text)
    if cell.to:
        text = f'<a href="{escape(cell.to, quote=True)}">{text}</a>'
    return f'<td class="{escape(cell.look, quote=True)}">{text}</td>' if cell.look else f"<td>{text}</td>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _told(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
