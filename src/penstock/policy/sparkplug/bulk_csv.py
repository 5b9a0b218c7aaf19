"""Changes of single policies in a CSV file: one record is written, all others stay as they are, to the byte.

The columns are those of the file's header, in its order. Cells that say what they said keep their quotes and blanks; a
cell that changes is quoted if it was, or has to be. What no cell can hold is refused.
"""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

from penstock.model.errors import PolicyError
from penstock.policy.sparkplug.bulk_files import VALID

_CELL = re.compile(r'(?:"(?:[^"]|"")*"|[^,"])*')


def header_of(lines: Sequence[str]) -> list[str]:
    """Return the names of the columns."""
    return [name.strip() for name in next(csv.reader(lines[:1], strict=True), [])]


def first_line(lines: Sequence[str], last: int) -> int:
    """Return the first line of the record that ends at line `last`: a cell in quotes may go over several lines."""
    reader, before = csv.reader(lines, strict=True), 0
    for _ in reader:
        if reader.line_num >= last:
            break
        before = reader.line_num
    return before + 1


def record_of(header: Sequence[str], row: dict[str, Any], before: str = "") -> str:
    """Return a policy as a record with these columns, in the place of the record `before`; raise `PolicyError`."""
    cells = _cells(row)
    missing = [name for name, cell in cells.items() if cell and name not in header]
    if missing:
        raise PolicyError(f"the file has no column `{missing[0]}`: add it to its header")
    raw = _split(before) if before else []
    kept = raw if len(raw) == len(header) else [""] * len(header)
    return ",".join(_written(cells.get(name, ""), old) for name, old in zip(header, kept, strict=True))


def _cells(row: dict[str, Any]) -> dict[str, str]:
    valid = row.get("valid") or {}
    listed = {
        "subject": _one(row, "subject"),
        "topics": _one(row, "topics"),
        "except": ";".join(_texts(row.get("except"))),
        "may": " ".join(_texts(row.get("may"))),
        **{name: " ".join(_texts(valid.get(name))) for name in VALID},
    }
    others = {name: "" if value is None else str(value) for name, value in row.items() if name != "valid"}
    return {**others, **listed}


def _one(row: dict[str, Any], name: str) -> str:
    texts = _texts(row.get(name))
    if len(texts) > 1:
        raise PolicyError(f"`{name}`: a row of CSV has one, found {len(texts)}")
    return "".join(texts)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [] if value in (None, "") else [str(value)]


def _split(record: str) -> list[str]:
    """Return the cells of a record as they are written."""
    raw, at = [], 0
    while True:
        cell = _CELL.match(record, at)
        assert cell is not None  # it may be empty
        raw.append(cell.group())
        at = cell.end() + 1
        if at > len(record):
            return raw


def _written(cell: str, before: str) -> str:
    if before and next(csv.reader([before]), [""]) == [cell]:
        return before
    is_quoted = before.startswith('"')
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL, lineterminator="").writerow(
        [cell, ""]
    )
    return buffer.getvalue().removesuffix(',""' if is_quoted else ",")
