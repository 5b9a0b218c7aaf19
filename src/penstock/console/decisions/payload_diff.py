"""Comparison of a payload before and after, line by line: removed, changed and new parts."""

import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, NamedTuple

from lxml import etree

from penstock.engine.explain.report import EventAccount
from penstock.model.content.xpath import tree_parser

SAME, GONE, CHANGED, NEW = "", "gone", "changed", "new"
MAX_CHARACTERS = 64 * 1024
"""Characters of a payload that are compared; the rest is only counted."""
MAX_LINES = 1_000
MAX_DEPTH = 60
"""Depth of JSON: what is deeper is shown as text."""
MAX_ALIGNED = 200
"""Lines, and items of a list, that are aligned: that may take the cube of their number."""
MAX_HEX = 512
_MISSING = object()


class DiffLine(NamedTuple):
    text: str
    mark: str = SAME


class PayloadDiff(NamedTuple):
    """Two payloads side by side."""

    kind: str
    """`JSON`, `XML`, `text`, `binary`, `empty`."""
    before: tuple[DiffLine, ...]
    after: tuple[DiffLine, ...]


class MetricDiff(NamedTuple):
    """A metric of a Sparkplug message; None: it is absent."""

    name: str
    before: str | None
    after: str | None

    @property
    def mark(self) -> str:
        if self.after is None:
            return GONE
        if self.before is None:
            return NEW
        return SAME if self.before == self.after else CHANGED


class _Number(str):
    """A number as it is written: no digit is lost, and 1.0 is not 1."""


def metrics(before: dict[str, Any], after: dict[str, Any] | None) -> list[MetricDiff]:
    """Return metrics in the order in which they came; new ones at the end."""
    went = after or {}
    names = [*before, *(name for name in went if name not in before)]
    return [MetricDiff(name, _value(before, name), _value(went, name)) for name in names]


def _value(of: dict[str, Any], name: str) -> str | None:
    return json.dumps(of[name], ensure_ascii=False)[:MAX_CHARACTERS] if name in of else None


def compare(before: EventAccount, after: EventAccount | None) -> PayloadDiff:
    """Compare an event before and after; `after` None: nothing was sent."""
    sides = [_read(event) for event in (before, after) if event is not None]
    kinds = list(dict.fromkeys(kind for kind, _ in sides if kind != "empty"))
    kind = "empty" if not kinds else kinds[0] if len(kinds) == 1 else "text"
    if all(side[0] == "JSON" for side in sides):
        first, last = sides[0][1], sides[-1][1]
        lines = _bounded(_json(first, last, GONE)), _bounded(_json(last, first, NEW))
    else:
        texts = [_lines(*side) for side in sides]
        lines = _texts(texts[0], texts[-1])
    return PayloadDiff(kind, lines[0], lines[1] if after is not None else ())


def _read(event: EventAccount) -> tuple[str, Any]:
    """Return the kind of payload, and its parsed value: JSON values, an XML element, text or bytes."""
    if event.encoding == "base64":
        return "binary", b64decode(event.payload)
    text = event.payload
    if not text:
        return "empty", ""
    if len(text) <= MAX_CHARACTERS:
        start = text.lstrip()[:1]
        if start in ("{", "["):
            try:
                parsed = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
                if _depth(parsed) <= MAX_DEPTH:
                    return "JSON", parsed
            except (ValueError, RecursionError):
                pass
        if start == "<" and "<!DOCTYPE" not in text:
            try:
                return "XML", etree.fromstring(text.encode(), tree_parser(remove_blank_text=True))
            except (etree.XMLSyntaxError, ValueError):
                pass
    return "text", text


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _lines(what: str, value: Any) -> list[str]:
    if what == "binary":
        return _hex(value)
    if what == "XML":
        value = etree.tostring(value, pretty_print=True, encoding="unicode")
    elif what == "JSON":
        value = "\n".join(line.text for line in _bounded(_json(value, value, SAME)))
    shown = str(value)[:MAX_CHARACTERS]
    lines = shown.splitlines()
    if len(value) > len(shown):
        lines.append(f"… and {len(value) - len(shown):,} characters more")
    return lines


def _hex(data: bytes) -> list[str]:
    lines = []
    for at in range(0, min(len(data), MAX_HEX), 16):
        part = data[at : at + 16]
        letters = "".join(chr(code) if 32 <= code < 127 else "." for code in part)
        lines.append(f"{at:04x}  {part.hex(' '):<47}  {letters}")
    return [*lines, f"… and {len(data) - MAX_HEX:,} bytes more"] if len(data) > MAX_HEX else lines


def _texts(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[DiffLine, ...], tuple[DiffLine, ...]]:
    old, new_lines = _cut(before), _cut(after)
    lines: tuple[list[DiffLine], list[DiffLine]] = ([], [])
    for how, i1, i2, j1, j2 in _aligned(old, new_lines):
        old_mark, new_mark = (SAME, SAME) if how == "equal" else (CHANGED, CHANGED) if how == "replace" else (GONE, NEW)
        lines[0].extend(DiffLine(line, old_mark) for line in old[i1:i2])
        lines[1].extend(DiffLine(line, new_mark) for line in new_lines[j1:j2])
    return tuple(lines[0]), tuple(lines[1])


def _aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Align the lines as `difflib` does; of long texts simply the first with the first."""
    if max(len(before), len(after)) <= MAX_ALIGNED:
        yield from SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        return
    both = min(len(before), len(after))
    for at in range(both):
        yield "equal" if before[at] == after[at] else "replace", at, at + 1, at, at + 1
    yield "rest", both, len(before), both, len(after)


def _cut(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], f"… and {more:,} lines more"] if more > 0 else list(lines)


def _bounded(lines: Iterator[DiffLine]) -> tuple[DiffLine, ...]:
    shown = tuple(islice(lines, MAX_LINES))
    more = sum(1 for _ in lines)
    return (*shown, DiffLine(f"… and {more:,} lines more")) if more else shown


def _json(value: Any, other: Any, alone: str, head: str = "", tail: str = "", depth: int = 0) -> Iterator[DiffLine]:
    """Yield the lines of one side; `alone` marks what the other does not have."""
    margin, is_box = "  " * depth, isinstance(value, (dict, list))
    if other is _MISSING:
        mark = alone
    elif type(value) is type(other) and (is_box or value == other):
        mark = SAME
    else:
        mark = CHANGED
    if not is_box or not value:
        yield DiffLine(f"{margin}{head}{_scalar(value)}{tail}", mark)
        return
    brackets = "{}" if isinstance(value, dict) else "[]"
    yield DiffLine(f"{margin}{head}{brackets[0]}", mark)
    last = len(value) - 1
    for at, (name, item, against) in enumerate(_inner(value, other if mark == SAME else _MISSING)):
        yield from _json(item, against, mark or alone, name, "," if at < last else "", depth + 1)
    yield DiffLine(f"{margin}{brackets[1]}{tail}", mark)


def _inner(value: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the items of a value, each with its name and the other side's value."""
    if isinstance(value, dict):
        for name, item in value.items():
            against = other.get(name, _MISSING) if isinstance(other, dict) else _MISSING
            yield f"{json.dumps(name, ensure_ascii=False)}: ", item, against
        return
    if not isinstance(other, list):
        yield from (("", item, _MISSING) for item in value)
        return
    texts = [[json.dumps(item, sort_keys=True) for item in side] for side in (value, other)]
    for _, i1, i2, j1, j2 in _aligned(*texts):
        for at in range(i1, i2):
            against = j1 + at - i1
            yield "", value[at], other[against] if against < j2 else _MISSING


def _scalar(value: Any) -> str:
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
