"""Changes of single policies in a file of JSON lines: the text with one more line, another line, or one less."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import read_lines
from penstock.policy.sparkplug.bulk_files import JSON_LINES, make_policies, parse_policies, rows_of

MAX_LINE = 100_000
"""Characters of one policy."""


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """A line of a file, with what it says."""

    file: Path
    number: int
    """From 1 on; 0 if it is not in the file yet."""
    id: str
    row: dict[str, Any]

    @property
    def revision(self) -> str:
        """A digest of what it says."""
        return sha256(msgspec.json.encode(self.row, order="sorted")).hexdigest()[:16]


def is_changeable(file: Path) -> bool:
    """Return whether single policies of a file can be changed."""
    return file.suffix.lower() in JSON_LINES


def lines_of(file: Path, lines: Sequence[str] | None = None) -> list[PolicyLine]:
    """Return the policies of a file, each with its line; raises `PolicyError`."""
    name = os.fspath(file)
    rows = rows_of(file, read_lines(file) if lines is None else lines)
    return [PolicyLine(file, number, str(row.get("id") or f"{name}:{number}"), row) for number, row in rows]


def with_line(file: Path, id: str, row: dict[str, Any] | None, number: int = 0) -> str:
    """Return the text of a file with a policy in place of the line `number`, at its end if that is 0, or without the
    line if there is none; raises `PolicyError` if the file would not be read.
    """
    lines = read_lines(file)
    if row is not None:
        make_policies(row, id)
        written = msgspec.json.encode(row).decode()
        if len(written) > MAX_LINE:
            raise PolicyError(f"a policy of more than {MAX_LINE} characters")
        lines[number - 1 : number] = [written] if number else []
        lines += [] if number else [written]
    else:
        del lines[number - 1]
    parse_policies(file, lines)
    return "".join(f"{line}\n" for line in lines)
