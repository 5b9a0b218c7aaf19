"""Tables for whoever reads them: a person at a terminal, or the next command."""

import sys
from collections.abc import Sequence

_MOST_LETTERS = 60
_MAX_PAYLOAD = 200


def fit(cell: str) -> str:
    """A cell with what is in the middle of a long one left out: a topic may have 65,535 bytes."""
    if len(cell) <= _MOST_LETTERS:
        return cell
    half = (_MOST_LETTERS - 1) // 2
    return f"{cell[:half]}…{cell[-half:]}"


def print_table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table that fits a terminal; elsewhere lines with columns, each row on one."""
    if sys.stdout.isatty():
        # Imported here: it takes longer than most commands.
        from rich.console import Console
        from rich.table import Table

        table = Table(*titles, show_lines=True)
        for row in rows:
            table.add_row(*(cell.replace("[", r"\[") for cell in row))
        Console().print(table)
        return
    for line in aligned(titles, rows):
        print(line)


def aligned(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines with columns, each row on one."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (titles, *rows)
    ]


def printable(text: str) -> str:
    """A text in which what a terminal would take for orders is escaped."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def payload_text(payload: bytes) -> str:
    """The beginning of a payload, on one line: as text if it is text, else as hexadecimal digits."""
    try:
        text = printable(payload.decode())
    except UnicodeDecodeError:
        return f"{len(payload)} bytes: {payload[:32].hex(' ')}{' ...' if len(payload) > 32 else ''}"
    return text if len(text) <= _MAX_PAYLOAD else f"{text[:_MAX_PAYLOAD]} ... ({len(payload)} bytes)"
