"""A payload before and after, line by line: what is gone, what is other, what is new."""

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
MOST_CHARACTERS = 64 * 1024
"""Of a payload are looked at; the rest is only counted."""
MOST_LINES = 1_000
MOST_DEPTH = 60
"""Of JSON: what is deeper is shown as text."""
MOST_ALIGNED = 200
"""Lines, and items of a list, of which it is looked which belong together: that may take the cube of their number."""
MOST_HEX = 512
_MISSING = object()


class Line(NamedTuple):
    text: str
    mark: str = SAME


class Compared(NamedTuple):
    """Two payloads side by side."""

    kind: str
    """`JSON`, `XML`, `text`, `binary`, `empty`."""
    before: tuple[Line, ...]
    after: tuple[Line, ...]


class Metric(NamedTuple):
    """A metric of a Sparkplug message; None: it is not in it."""

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


def metrics(before: dict[str, Any], after: dict[str, Any] | None) -> list[Metric]:
    """Metrics in the order in which they came; at the end those that came later."""
    went = after or {}
    names = [*before, *(name for name in went if name not in before)]
    return [Metric(name, _value(before, name), _value(went, name)) for name in names]


def _value(of: dict[str, Any], name: str) -> str | None:
    return json.dumps(of[name], ensure_ascii=False)[:MOST_CHARACTERS] if name in of else None


def compare(before: EventAccount, after: EventAccount | None) -> Compared:
    """What came against what went; `after` None: nothing did."""
    sides = [_read(one) for one in (before, after) if one is not None]
    kinds = list(dict.fromkeys(kind for kind, _ in sides if kind != "empty"))
    kind = "empty" if not kinds else kinds[0] if len(kinds) == 1 else "text"
    if all(one[0] == "JSON" for one in sides):
        first, last = sides[0][1], sides[-1][1]
        lines = _bounded(_json(first, last, GONE)), _bounded(_json(last, first, NEW))
    else:
        texts = [_lines(*one) for one in sides]
        lines = _texts(texts[0], texts[-1])
    return Compared(kind, lines[0], lines[1] if after is not None else ())


def _read(event: EventAccount) -> tuple[str, Any]:
    """What it is, and that as JSON's values, XML's element, text or bytes."""
    if event.encoding == "base64":
        return "binary", b64decode(event.payload)
    text = event.payload
    if not text:
        return "empty", ""
    if len(text) <= MOST_CHARACTERS:
        start = text.lstrip()[:1]
        if start in ("{", "["):
            try:
                found = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
                if _depth(found) <= MOST_DEPTH:
                    return "JSON", found
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
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _lines(what: str, value: Any) -> list[str]:
    if what == "binary":
        return _hex(value)
    if what == "XML":
        value = etree.tostring(value, pretty_print=True, encoding="unicode")
    elif what == "JSON":
        value = "\n".join(line.text for line in _bounded(_json(value, value, SAME)))
    shown = str(value)[:MOST_CHARACTERS]
    lines = shown.splitlines()
    if len(value) > len(shown):
        lines.append(f"… and {len(value) - len(shown):,} characters more")
    return lines


def _hex(data: bytes) -> list[str]:
    lines = []
    for at in range(0, min(len(data), MOST_HEX), 16):
        part = data[at : at + 16]
        letters = "".join(chr(code) if 32 <= code < 127 else "." for code in part)
        lines.append(f"{at:04x}  {part.hex(' '):<47}  {letters}")
    return [*lines, f"… and {len(data) - MOST_HEX:,} bytes more"] if len(data) > MOST_HEX else lines


def _texts(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    came, went = _cut(before), _cut(after)
    lines: tuple[list[Line], list[Line]] = ([], [])
    for how, i1, i2, j1, j2 in _aligned(came, went):
        gone, new = (SAME, SAME) if how == "equal" else (CHANGED, CHANGED) if how == "replace" else (GONE, NEW)
        lines[0].extend(Line(one, gone) for one in came[i1:i2])
        lines[1].extend(Line(one, new) for one in went[j1:j2])
    return tuple(lines[0]), tuple(lines[1])


def _aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """What of one belongs to what of the other, as in `difflib`; of long ones simply the first to the first."""
    if max(len(before), len(after)) <= MOST_ALIGNED:
        yield from SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        return
    both = min(len(before), len(after))
    for at in range(both):
        yield "equal" if before[at] == after[at] else "replace", at, at + 1, at, at + 1
    yield "rest", both, len(before), both, len(after)


def _cut(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"… and {more:,} lines more"] if more > 0 else list(lines)


def _bounded(lines: Iterator[Line]) -> tuple[Line, ...]:
    shown = tuple(islice(lines, MOST_LINES))
    more = sum(1 for _ in lines)
    return (*shown, Line(f"… and {more:,} lines more")) if more else shown


def _json(value: Any, other: Any, alone: str, head: str = "", tail: str = "", depth: int = 0) -> Iterator[Line]:
    """The lines of one side; `alone` marks what the other has not."""
    margin, is_box = "  " * depth, isinstance(value, (dict, list))
    if other is _MISSING:
        mark = alone
    elif type(value) is type(other) and (is_box or value == other):
        mark = SAME
    else:
        mark = CHANGED
    if not is_box or not value:
        yield Line(f"{margin}{head}{_scalar(value)}{tail}", mark)
        return
    brackets = "{}" if isinstance(value, dict) else "[]"
    yield Line(f"{margin}{head}{brackets[0]}", mark)
    last = len(value) - 1
    for at, (name, one, against) in enumerate(_inner(value, other if mark == SAME else _MISSING)):
        yield from _json(one, against, mark or alone, name, "," if at < last else "", depth + 1)
    yield Line(f"{margin}{brackets[1]}{tail}", mark)


def _inner(value: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """What is in it, each with its name and what the other has in its place."""
    if isinstance(value, dict):
        for name, one in value.items():
            against = other.get(name, _MISSING) if isinstance(other, dict) else _MISSING
            yield f"{json.dumps(name, ensure_ascii=False)}: ", one, against
        return
    if not isinstance(other, list):
        yield from (("", one, _MISSING) for one in value)
        return
    texts = [[json.dumps(one, sort_keys=True) for one in side] for side in (value, other)]
    for _, i1, i2, j1, j2 in _aligned(*texts):
        for at in range(i1, i2):
            against = j1 + at - i1
            yield "", value[at], other[against] if against < j2 else _MISSING


def _scalar(value: Any) -> str:
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
