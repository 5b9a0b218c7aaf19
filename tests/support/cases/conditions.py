"""The cases of conditions: data that every evaluator runs, in `tests/cases/conditions/`.

A case has a `title`, an `expression`, `content` (attributes as JSON has them; none if left out) and either `value` or
`error`, the kind of a failure. `unchecked: true`: the checker refuses the expression, so that only evaluators run it.
`xpath` is what the content finds for each XPath expression. `gaps` names the executors that cannot do it, and why.

Values that JSON does not have are maps of one entry: `$uint`, `$double`, `$bytes` (as Latin-1), `$timestamp`,
`$duration` (as strings), `$type`, `$map` (a list of pairs).
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from penstock.language import types
from penstock.language.errors import Failure, FailureKind, failed
from penstock.language.evaluators.conversions import to_double
from penstock.language.evaluators.times import duration_from_string, timestamp_from_string
from penstock.language.evaluators.work import Work
from penstock.language.types import ListType, RecordType
from penstock.language.values import TypeName, Uint, Value, equal, make_map

FOLDER = Path(__file__).parents[2] / "cases" / "conditions"
EXECUTORS = ("spark",)


@dataclass(frozen=True)
class ConditionCase:
    """One case."""

    file: str
    title: str
    expression: str
    content: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    error: str | None = None
    unchecked: bool = False
    xpath: dict[str, Any] | None = None
    gaps: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    def find_xpath(self, expression: str, work: Work) -> Value:
        """What the content of the case finds for an XPath expression."""
        if self.xpath is None or expression not in self.xpath:
            raise failed(FailureKind.UNREADABLE_CONTENT, f"nothing can be found for `{expression}`")
        return self.xpath[expression]

    def accepts(self, found: Value | Failure) -> bool:
        """Whether an evaluator found what the case says, of the same type."""
        if isinstance(found, Failure) or self.error is not None:
            return isinstance(found, Failure) and found.kind == self.error
        return same(found, expected_value(self.value))


@cache
def cases() -> list[ConditionCase]:
    """All cases of values."""
    files = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "mistakes.yaml")
    return [ConditionCase(path.stem, **case) for path in files for case in yaml.safe_load(path.read_text("utf-8"))]


def expected_value(written: Any) -> Value:
    """A value as a case writes it."""
    match written:
        case {"$uint": number}:
            return Uint(number)
        case {"$double": text}:
            return to_double(str(text))
        case {"$bytes": text}:
            return text.encode("latin-1")
        case {"$timestamp": text}:
            return timestamp_from_string(text)
        case {"$duration": text}:
            return duration_from_string(text)
        case {"$type": name}:
            return TypeName(name)
        case {"$map": pairs}:
            return make_map((expected_value(key), expected_value(value)) for key, value in pairs)
        case dict():
            return {key: expected_value(value) for key, value in written.items()}
        case list():
            return [expected_value(each) for each in written]
        case _:
            return written


def same(left: Value, right: Value) -> bool:
    """Whether two values are the same in type and value, NaN with NaN, failures by kind and reason."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return equal(left, right) if not isinstance(left, Failure) else left == right


SCHEMA: dict[str, Any] = {
    "temperature": "double",
    "count": "int",
    "name": "string",
    "open": "bool",
    "at": "timestamp",
    "tags": ["string"],
    "room": {"floor": "int", "name": "string"},
}
"""The attributes of `declared()`, as a domain file writes them."""


def declared() -> RecordType:
    """The attributes that cases with `declared: true` are about."""
    room = RecordType({"floor": types.INT, "name": types.STRING})
    return RecordType(
        {
            "temperature": types.DOUBLE,
            "count": types.INT,
            "name": types.STRING,
            "open": types.BOOL,
            "at": types.TIMESTAMP,
            "tags": ListType(types.STRING),
            "room": room,
        }
    )
