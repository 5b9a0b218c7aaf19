"""Access policies in bulk: CSV with a header, or JSON lines.

    subject,topics,except,may,when
    a1,spBv1.0/G1/NBIRTH/E1,mt_c,read,mt_c.value > 5 || mt_c.properties.sensitive
    G1/E1,spBv1.0/G1/+/E1/#,,write,

    {"subject": "a1", "topics": "spBv1.0/G1/#", "except": ["mt_c"], "may": ["read", "write"], "when": "..."}

In CSV, several metrics in `except` have `;` between them, and several privileges in `may` a blank. Times at which a
policy is valid are in the columns `from`, `until`, `on` (with blanks) and `zone`; in JSON lines, in `valid`.
"""

import csv
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import msgspec

from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.model.content.json_members import check_members
from penstock.model.errors import AmbiguityError, PolicyError, TopicError
from penstock.model.topic import parse_filter
from penstock.policy.access.textfile import located, read_lines
from penstock.policy.sparkplug.policies import AccessPolicy, Privilege, parse_subject
from penstock.policy.sparkplug.validity import Validity, make_validity

COLUMNS = ("subject", "topics", "except", "may", "when")
VALID = ("from", "until", "on", "zone")
"""Columns of CSV, and members of `valid`."""
_PRIVILEGES = get_args(Privilege)


def read_policies(path: str | os.PathLike[str]) -> tuple[AccessPolicy, ...]:
    """Read the policies of a file, by its suffix; raises `PolicyError` naming the file and the line."""
    return parse_policies(path, read_lines(path))


def parse_policies(path: str | os.PathLike[str], lines: Sequence[str]) -> tuple[AccessPolicy, ...]:
    """Return the policies of a file with these lines; raises `PolicyError` as `read_policies`."""
    if Path(path).suffix.lower() not in _READERS:
        raise PolicyError(f"`{os.fspath(path)}`: expected a file that ends in .csv or .jsonl")
    return _policies(os.fspath(path), tuple(lines))


def rows_of(path: str | os.PathLike[str], lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a file with their lines; raises `PolicyError`."""
    return _READERS[Path(path).suffix.lower()](os.fspath(path), lines)


@lru_cache(maxsize=4)
def _policies(path: str, lines: tuple[str, ...]) -> tuple[AccessPolicy, ...]:
    """Return the policies of these lines, cached: a domain is checked and compiled several times."""
    policies: list[AccessPolicy] = []
    with uncollected():
        for number, row in _READERS[Path(path).suffix.lower()](path, lines):
            with located(path, number):
                policies += make_policies(row, f"{path}:{number}")
    return tuple(policies)


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the collector of cycles, which would scan all policies repeatedly and find none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def make_policies(row: dict[str, Any], id: str) -> list[AccessPolicy]:
    """Make the policies of one row: one for each subject, topic filter and privilege; raises `PolicyError`."""
    unknown = [name for name in row if name not in (*COLUMNS, "id", "valid")]
    if unknown:
        raise PolicyError(f"unknown column `{unknown[0]}`: expected {', '.join((*COLUMNS, 'valid', 'id'))}")
    valid = _valid(row.get("valid"))
    condition = _condition(_text(row, "when")) if row.get("when") not in (None, "") else None
    exceptions = tuple(_several(row, "except"))
    privileges = _several(row, "may")
    for privilege in privileges:
        if privilege not in _PRIVILEGES:
            raise PolicyError(f"unknown privilege `{privilege}`: expected read or write")
    subjects, filters = _several(row, "subject"), _several(row, "topics")
    for name, values in (("subject", subjects), ("topics", filters), ("may", privileges)):
        if not values:
            raise PolicyError(f"`{name}` is missing")
    named = str(row.get("id") or id)
    return [
        AccessPolicy(parse_subject(subject), _filter(filter), exceptions, privilege, condition, named, valid)  # type: ignore[arg-type]
        for subject in subjects
        for filter in filters
        for privilege in privileges
    ]


def _valid(written: Any) -> Validity | None:
    if written in (None, ""):
        return None
    if not isinstance(written, dict):
        raise PolicyError(f"`valid`: expected an object with {', '.join(VALID)}, found `{written}`")
    unknown = [name for name in written if name not in VALID]
    if unknown:
        raise PolicyError(f"`valid` has no `{unknown[0]}`: expected {', '.join(VALID)}")
    texts = {name: "" if written.get(name) is None else _text(written, name) for name in VALID if name != "on"}
    try:
        return _validity(texts["from"], texts["until"], tuple(_several(written, "on")), texts["zone"])
    except PolicyError as error:
        raise PolicyError(f"`valid`: {error}") from None


_validity = lru_cache(maxsize=10_000)(make_validity)


def _csv(path: str, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        with located(path, 1):
            if "subject" not in header or "topics" not in header:
                raise PolicyError(f"expected a header with {', '.join(COLUMNS)}")
            if len(set(header)) < len(header):
                raise PolicyError("two columns have one name")
        for cells in reader:
            if not cells:
                continue
            with located(path, reader.line_num):
                if len(cells) != len(header):
                    raise PolicyError(f"expected {len(header)} columns, found {len(cells)}")
            row: dict[str, Any] = dict(zip(header, cells, strict=True))
            row["except"] = [name.strip() for name in row.get("except", "").split(";") if name.strip()]
            row["may"] = row.get("may", "").split()
            times = {name: cell for name in VALID if (cell := row.pop(name, ""))}
            if times:
                row["valid"] = times | ({"on": times["on"].split()} if "on" in times else {})
            yield reader.line_num, row
    except csv.Error as error:
        raise PolicyError(f"{path}:{reader.line_num}: {error}") from None


def _json_lines(path: str, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for number, line in enumerate(lines, 1):
        if line.strip():
            with located(path, number):
                try:
                    row = decode(line)
                    check_members(line.encode(), row)
                except msgspec.DecodeError as error:
                    raise PolicyError(f"expected a JSON object: {error}") from None
                except AmbiguityError as error:
                    raise PolicyError(str(error)) from None
            yield number, row


JSON_LINES = (".jsonl", ".ndjson")
_READERS = {".csv": _csv, **dict.fromkeys(JSON_LINES, _json_lines)}


def _several(row: dict[str, Any], name: str) -> list[str]:
    value = row.get(name)
    texts = value if isinstance(value, list) else [] if value in (None, "") else [value]
    for text in texts:
        if not isinstance(text, str):
            raise PolicyError(f"`{name}`: expected a text or a list of texts, found `{text}`")
    return texts


def _text(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise PolicyError(f"`{name}`: expected a text, found `{value}`")
    return value


@lru_cache(maxsize=100_000)
def _condition(text: str) -> Condition:
    try:
        return make_condition(text)
    except ConditionError as error:
        raise PolicyError(f"`when`: {error}") from None


@lru_cache(maxsize=100_000)
def _filter(filter: str) -> str:
    try:
        if parse_filter(filter).group is not None:
            raise PolicyError(f"`{filter}` is a shared subscription: expected a topic filter")
    except TopicError as error:
        raise PolicyError(f"`topics`: {error}") from None
    return filter
