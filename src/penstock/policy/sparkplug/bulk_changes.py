"""Changes of single policies in a bulk file: the text with one more record, another one, or one less."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import located, read_lines
from penstock.policy.sparkplug import bulk_csv
from penstock.policy.sparkplug.bulk_files import JSON_LINES, make_policies, parse_policies, rows_of

MAX_LINE = 100_000
"""Characters of one policy."""


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """A policy in a file, with what it says."""

    file: Path
    number: int
    """Its line, from 1 on, of several the last; 0 if it is not in the file yet."""
    id: str
    row: dict[str, Any]

    @property
    def revision(self) -> str:
        """A digest of what it says."""
        return sha256(msgspec.json.encode(self.row, order="sorted")).hexdigest()[:16]


def is_json_lines(file: Path) -> bool:
    """Return whether a file has a policy in JSON in each line; else it is CSV."""
    return file.suffix.lower() in JSON_LINES


def lines_of(file: Path, lines: Sequence[str] | None = None) -> list[PolicyLine]:
    """Return the policies of a file, each with its line; raises `PolicyError`."""
    name = os.fspath(file)
    rows = rows_of(file, read_lines(file) if lines is None else lines)
    return [PolicyLine(file, number, str(row.get("id") or f"{name}:{number}"), row) for number, row in rows]


def with_line(file: Path, id: str, row: dict[str, Any] | None, number: int = 0) -> str:
    """Return the text of a file with a policy in place of the one that ends at line `number`, at its end if that is 0,
    or without it if there is none; raises `PolicyError` if the file would not be read. Its line ends stay as they are.
    """
    lines = read_lines(file)
    first = number if is_json_lines(file) or not number else bulk_csv.first_line(lines, number)
    if row is None:
        del lines[first - 1 : number]
    else:
        make_policies(row, id)
        written = _record(file, lines, row, "\n".join(lines[first - 1 : number]) if number else "")
        if len(written) > MAX_LINE:
            raise PolicyError(f"a policy of more than {MAX_LINE} characters")
        at = first - 1 if number else len(lines)
        lines[at : number or at] = [written]
    parse_policies(file, lines)
    end = "\r\n" if b"\r\n" in file.read_bytes() else "\n"
    return "".join(f"{line}{end}" for line in lines)


def _record(file: Path, lines: Sequence[str], row: dict[str, Any], before: str) -> str:
    """Return a policy as the file writes it; raise `PolicyError` if it cannot."""
    if is_json_lines(file):
        return msgspec.json.encode(row).decode()
    with located(file, 1):
        header = bulk_csv.header_of(lines)
        record = bulk_csv.record_of(header, row, before)
    read = [each for _, each in rows_of(file, [lines[0], record])] if "\n" not in record else []
    if [_said(each) for each in read] != [_said(row)]:
        raise PolicyError(f"a row of CSV cannot say this: {msgspec.json.encode(row).decode():.200}")
    return record


def _said(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a policy says, however many texts a member may have."""
    valid = {f"valid.{name}": value for name, value in (row.get("valid") or {}).items()}
    members = {**{name: value for name, value in row.items() if name != "valid"}, **valid}
    lists = {name: value if isinstance(value, list) else [value] for name, value in members.items()}
    return {name: value for name, value in lists.items() if value not in ([], [""], [None])}
