"""CEL's public conformance cases on our evaluators: `python -m tests.conformance.cel FOLDER`, or `make cel`.

FOLDER is the unpacked npm package `@bufbuild/cel-spec`, which has the cases of google/cel-spec (tests/simple/testdata)
as JavaScript objects in protobuf's JSON form; `node` reads them. A case about something that docs/conditions.md leaves
out is skipped: `skip_reason` looks at the case, never at what we make of it. Every other case must come to what CEL
says on both evaluators, and pass the checker unless it is to fail or says that it is not checked.
"""

import base64
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.language import types
from penstock.language.checker import check
from penstock.language.errors import ConditionError, Failure
from penstock.language.evaluators.closures import compile_value
from penstock.language.evaluators.conversions import to_double
from penstock.language.evaluators.reference import evaluate
from penstock.language.evaluators.times import duration_from_string, timestamp_from_string
from penstock.language.parser import parse
from penstock.language.types import ListType, MapType, RecordType, Type, accepts
from penstock.language.values import TypeName, Uint, Value, make_map
from tests.support.cases.conditions import same

CASES = "dist/esm/testdata/conformance.js"

LEFT_OUT = {
    "bindings_ext": "extension: bindings",
    "block_ext": "extension: blocks",
    "encoders_ext": "extension: encoders",
    "macros2": "extension: macros with two variables",
    "math_ext": "extension: math",
    "optionals": "optional values",
    "proto2_ext": "protobuf messages",
    "string_ext": "extension: strings",
}
"""Files that are wholly about something that we leave out."""

_STRING = re.compile(r"""[bB]?[rR]("{3}|'{3}|"|').*?\1|[bB]?("{3}|'{3}|"|')(?:\\.|(?!\2).)*\2|//[^\n]*""", re.DOTALL)
_MESSAGE = re.compile(r"\b(?!in\b)\w+\s*\{")
_MESSAGE_NAME = re.compile(r"google\.protobuf\.(?!Timestamp|Duration)\w+|TestAllTypes")
_PRIMITIVES = {
    "BOOL": types.BOOL,
    "INT64": types.INT,
    "UINT64": types.UINT,
    "DOUBLE": types.DOUBLE,
    "STRING": types.STRING,
    "BYTES": types.BYTES,
}
_TIMES = {
    "google.protobuf.Timestamp": (types.TIMESTAMP, timestamp_from_string),
    "google.protobuf.Duration": (types.DURATION, duration_from_string),
}
"""The messages of protobuf that are values of CEL: their types, and what reads them."""


@dataclass(frozen=True)
class Case:
    """One case of CEL's, as its file has it."""

    file: str
    section: str
    told: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.file}/{self.section}/{self.told['name']}"

    @property
    def expression(self) -> str:
        return str(self.told["expr"])


def read(folder: Path) -> list[Case]:
    """All cases of the package in a folder."""
    # JSON has no -0, so it goes as a string, as protobuf's JSON form allows it for any double.
    script = f"""
        import {{ tests }} from {json.dumps(str((folder / CASES).resolve()))};
        console.log(JSON.stringify(tests, (key, value) => Object.is(value, -0) ? "-0" : value))
    """
    node = ["node", "--input-type=module", "--eval", script]
    root = json.loads(subprocess.run(node, check=True, capture_output=True, text=True).stdout)
    return [Case(file["name"], *found) for file in root["suites"] for found in _inside(file)]


def _inside(suite: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((suite["name"], test["original"]) for test in suite.get("tests", ()))
    for inner in suite.get("suites", ()):
        yield from _inside(inner)


class LeftOut(Exception):
    """The case needs something that docs/conditions.md leaves out; the message names it."""


def skip_reason(case: Case) -> str | None:
    """What the case needs that is left out, if anything."""
    if case.file in LEFT_OUT:
        return LEFT_OUT[case.file]
    try:
        declared_of(case)
        attributes_of(case)
        _expected(case)
    except LeftOut as reason:
        return str(reason)
    words = _STRING.sub("''", case.expression)
    if _MESSAGE.search(words) or _MESSAGE_NAME.search(words):
        return "protobuf messages"
    if case.file == "enums":
        return "enumerations"
    return "names with dots" if "container" in case.told else None


def declared_of(case: Case) -> RecordType:
    """The attributes that a case declares; raises `LeftOut`."""
    entries = case.told.get("typeEnv", ())
    if any("function" in entry for entry in entries):
        raise LeftOut("functions of the host")
    if any("." in name for name in (*(entry["name"] for entry in entries), *case.told.get("bindings", ()))):
        raise LeftOut("names with dots")
    return RecordType({entry["name"]: type_of(entry["ident"]["type"]) for entry in entries})


def attributes_of(case: Case) -> dict[str, Value]:
    """The content that a case is evaluated over; raises `LeftOut`."""
    return {name: value_of(bound["value"]) for name, bound in case.told.get("bindings", {}).items()}


def _expected(case: Case) -> Value | None:
    """The value that a case says it comes to, None if it is to fail or only to be checked; raises `LeftOut`."""
    told = case.told.get("typedResult", {})
    type_of(told.get("deducedType", {"dyn": {}}))
    written = case.told.get("value", told.get("result"))
    return None if written is None else [value_of(written)]


def type_of(written: dict[str, Any]) -> Type:
    """A type in protobuf's JSON form; raises `LeftOut`."""
    ((kind, inside),) = written.items()
    match kind, inside:
        case "dyn", _:
            return types.DYN
        case "null", _:
            return types.NULL
        case "primitive", name:
            return _PRIMITIVES[name]
        case "wellKnown", "TIMESTAMP" | "DURATION":
            return _TIMES[f"google.protobuf.{inside.title()}"][0]
        case "messageType", name if name in _TIMES:
            return _TIMES[name][0]
        case "listType", _:
            return ListType(type_of(inside["elemType"]))
        case "mapType", _:
            return MapType(type_of(inside["keyType"]), type_of(inside["valueType"]))
        case "abstractType", {"name": "optional_type"}:
            raise LeftOut("optional values")
        case _:
            raise LeftOut("protobuf messages")


def value_of(written: dict[str, Any]) -> Value:
    """A value in protobuf's JSON form; raises `LeftOut`."""
    ((kind, inside),) = written.items()
    match kind:
        case "int64Value":
            return int(inside)
        case "uint64Value":
            return Uint(inside)
        case "doubleValue":
            return to_double(str(inside))
        case "bytesValue":
            return base64.b64decode(inside)
        case "typeValue":
            return TypeName(inside)
        case "listValue":
            return [value_of(each) for each in inside.get("values", ())]
        case "mapValue":
            return make_map((value_of(entry["key"]), value_of(entry["value"])) for entry in inside.get("entries", ()))
        case "boolValue" | "stringValue" | "nullValue":
            return inside
        case "enumValue":
            raise LeftOut("enumerations")
        case "objectValue" if (name := inside["@type"].rpartition("/")[2]) in _TIMES:
            return _TIMES[name][1](inside["value"])
        case _:
            raise LeftOut("protobuf messages")


def trouble(case: Case) -> str | None:
    """How we differ from what the case says, None if we do not."""
    expected = _expected(case)
    try:
        tree = parse(case.expression)
    except ConditionError as error:
        return None if "evalError" in case.told else f"not parsed: {error.what}"
    attributes = attributes_of(case)
    found = evaluate(tree, attributes)
    compiled = compile_value(tree)(attributes)
    if not same(found, compiled):
        return f"reference {found!r}, closures {compiled!r}"
    if expected is None:
        is_right = isinstance(found, Failure) or case.told.get("checkOnly", False)
    else:
        is_right = same(found, expected[0])
    if not is_right:
        return f"evaluates to {found!r}, not {'an error' if expected is None else repr(expected[0])}"
    return _trouble_with_types(case, tree)


def _trouble_with_types(case: Case, tree: Any) -> str | None:
    """A checked case passes our checker too; one that is to fail may fail there."""
    if case.told.get("disableCheck", False):
        return None
    try:
        found = check(tree, case.expression, declared_of(case))
    except ConditionError as error:
        return None if "evalError" in case.told else f"refused: {error.what}"
    deduced = type_of(case.told.get("typedResult", {}).get("deducedType", {"dyn": {}}))
    return None if accepts(found, deduced) else f"is {found}, not {deduced}"


def main(folder: Path) -> int:
    """Print what passes, fails and is skipped, by file; 1 if anything failed."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for case in read(folder):
        if (reason := skip_reason(case)) is not None:
            reasons[reason] += 1
            table[case.file]["skip"] += 1
        elif (wrong := trouble(case)) is not None:
            print(f"fail: {case.name}: `{case.expression}` {wrong}")
            table[case.file]["fail"] += 1
        else:
            table[case.file]["pass"] += 1
    _print_table(table, reasons)
    return 1 if any(counts["fail"] for counts in table.values()) else 0


def _print_table(table: dict[str, Counter[str]], reasons: Counter[str]) -> None:
    columns = ("pass", "fail", "skip")
    total: Counter[str] = sum(table.values(), Counter())
    print(f"{'file':<20}" + "".join(f"{column:>8}" for column in columns))
    for file, counts in [*sorted(table.items()), ("all", total)]:
        print(f"{file:<20}" + "".join(f"{counts[column] or '.':>8}" for column in columns))
    print("\nskipped, as docs/conditions.md leaves it out:")
    for reason, count in reasons.most_common():
        print(f"{count:>8}  {reason}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / CASES).is_file():
        sys.exit("usage: python -m tests.conformance.cel FOLDER, the unpacked npm package `@bufbuild/cel-spec`")
    sys.exit(main(Path(sys.argv[1])))
