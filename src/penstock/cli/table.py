"""Tables for a terminal, or for the next command in a pipe."""

import sys
from collections.abc import Sequence

_MAX_LETTERS = 60
_MAX_PAYLOAD = 200


def shorten(cell: str) -> str:
    """Shorten a long cell in the middle: a topic may have 65,535 bytes."""
    if len(cell) <= _MAX_LETTERS:
        return cell
    half = (_MAX_LETTERS - 1) // 2
    return f"{cell[:half]}…{cell[-half:]}"


def print_table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table that fits a terminal; elsewhere lines with columns, one per row. Cells may have clients' words."""
    rows = [tuple(map(printable, row)) for row in rows]
    if sys.stdout.isatty():
        # Imported here: it takes longer to load than most commands.
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*titles, show_lines=True)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    for line in align_rows(titles, rows):
        print(line)


def align_rows(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return lines with columns, one per row."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (titles, *rows)
    ]


def printable(text: str) -> str:
    """Return a text on one line, with terminal control characters escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def payload_text(payload: bytes) -> str:
    """Return the beginning of a payload on one line: as text if it is text, else as hexadecimal digits."""
    try:
        text = printable(payload.decode())
    except UnicodeDecodeError:
        return f"{len(payload)} bytes: {payload[:32].hex(' ')}{' ...' if len(payload) > 32 else ''}"
    return text if len(text) <= _MAX_PAYLOAD else f"{text[:_MAX_PAYLOAD]} ... ({len(payload)} bytes)"
