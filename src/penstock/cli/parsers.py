"""The parser of a command's arguments, and what their texts become."""

import argparse
from datetime import UTC, datetime
from typing import Any

from penstock.model.durations import DURATION_FORM, read_seconds


def command_parser(command: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of `penstock COMMAND`; the epilog of its help is printed as it is written."""
    return argparse.ArgumentParser(
        prog=f"penstock {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_command(commands: Any, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    """Add a subcommand; the text begins with a small letter, and has no full stop."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return command


def time_argument(text: str) -> datetime:
    """Return the time that is written; it is in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a time such as 2026-01-31 or 2026-01-31T12:30") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def count_argument(text: str) -> int:
    """Return a number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, found `{text}`")
    return int(text)


def duration_argument(text: str) -> float:
    """Return the seconds of a duration."""
    seconds = read_seconds(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"`{text}`: expected {DURATION_FORM}")
    return seconds
