"""YAML text to a tree of values and places.

The tree is built from the parser's events and not by PyYAML's own constructors: so every key's line is known,
a second key of the same name is a mistake, only plain values exist, and neither depth nor aliases can make
more of a small file than fits in memory. Plain words are understood as in YAML 1.2: `no`, `1:30` and
`2024-01-01` are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml import events

from penstock.model.errors import DomainError, Problem
from penstock.model.yaml import tree

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 64
MAX_VALUES = 1_000_000
"""Values of one file, those behind each use of an alias included."""


class Bounds(NamedTuple):
    """Bounds of a YAML text."""

    depth: int = MAX_DEPTH
    values: int = MAX_VALUES
    has_aliases: bool = True


_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_DECIMAL = re.compile(r"[-+]?[0-9]{1,40}", re.ASCII)
_BASED = re.compile(r"0x[0-9a-fA-F]{1,40}|0o[0-7]{1,40}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII
)
_CORE = "tag:yaml.org,2002:"
_TEXT_TAGS = ("!", f"{_CORE}str")


def scalar(text: str) -> tree.YamlScalar:
    """Parse a value without quotes: nothing, true or false, a number, or else a text."""
    lower = text.lower()
    if lower in _WORDS and text in (lower, lower.title(), lower.upper()):
        return tree.YamlScalar(text, _WORDS[lower])
    if _DECIMAL.fullmatch(text):
        return tree.YamlScalar(text, int(text))
    if _BASED.fullmatch(text):
        return tree.YamlScalar(text, int(text, 0))
    if _FLOAT.fullmatch(text):
        return tree.YamlScalar(text, float(lower.replace(".inf", "inf").replace(".nan", "nan")))
    return tree.YamlScalar(text, text)


def read_document(file: Path, problems: list[Problem]) -> tree.YamlEntry:
    """Return the tree of one file.

    Mistakes after which the rest can still be read are added to `problems`; others raise `DomainError`.
    """
    return compose(text_of_file(file), str(file), file.parent, problems)


def text_of_file(file: Path) -> str:
    """Return the text of a file that is not too large; raise `DomainError`."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise DomainError(Problem(str(file), 0, "", f"cannot be read: {reason}")) from None
    if len(data) > MAX_BYTES:
        what = f"found more than {MAX_BYTES} bytes, expected a smaller file"
        raise DomainError(Problem(str(file), 0, "", what))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"found byte 0x{data[error.start]:02x}, expected UTF-8"
        raise DomainError(Problem(str(file), line, "", what)) from None


def yaml_loader() -> Any:
    """Return the YAML parser: libyaml's if it is installed, else the slower one."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_values(text: str, bounds: Bounds | None = None) -> object:
    """Return what a YAML text says, as lists, dictionaries and scalars; raises `DomainError`."""
    problems: list[Problem] = []
    entry = compose(text, "", Path(), problems, bounds)
    if problems:
        raise DomainError(*problems)
    return tree.plain(entry.node)


def compose(
    text: str, file: str, folder: Path, problems: list[Problem], bounds: Bounds | None = None
) -> tree.YamlEntry:
    """Return the tree of a YAML text; `file` is its name in messages, `folder` the base of relative names."""
    whole = tree.SourcePlace(file, 0, folder)
    composer = _Composer(yaml.parse(text, Loader=yaml_loader()), whole, problems, bounds or Bounds())
    try:
        return composer.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise DomainError(Problem(file, mark.line + 1 if mark else 0, "", f"not valid YAML: {what}")) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DomainError(Problem(file, line, "", f"not valid YAML: {error.reason}")) from None


class _Composer:
    """Builds a tree from the events of one YAML text."""

    def __init__(
        self, stream: Iterator[events.Event], whole: tree.SourcePlace, problems: list[Problem], bounds: Bounds
    ) -> None:
        self._events = stream
        self._whole = whole
        self._problems = problems
        self._bounds = bounds
        self._values = 0
        # An anchor's value and how many values that is; None while the value is still being read.
        self._anchors: dict[str, tuple[tree.YamlNode, int] | None] = {}

    def document(self) -> tree.YamlEntry:
        next(self._events)  # the start of the stream
        start = next(self._events)
        if isinstance(start, events.StreamEndEvent):
            return tree.YamlEntry(self._place(start), tree.NOTHING)
        first = next(self._events)
        entry = tree.YamlEntry(self._place(first), self._node(first, ()))
        next(self._events)  # the end of the document
        after = next(self._events)
        if not isinstance(after, events.StreamEndEvent):
            raise DomainError(self._place(after).problem((), "found a second document, expected only one"))
        return entry

    def _place(self, event: events.Event) -> tree.SourcePlace:
        return tree.SourcePlace(
            self._whole.file, event.start_mark.line + 1 if event.start_mark else 0, self._whole.folder
        )

    def _node(self, event: events.Event, path: tuple[tree.Step, ...]) -> tree.YamlNode:
        if isinstance(event, events.AliasEvent):
            return self._aliased(event, path)
        # The parser gives nothing else where a value is due.
        assert isinstance(event, events.ScalarEvent | events.SequenceStartEvent | events.MappingStartEvent)
        before = self._values
        self._count(1, event, path)
        if event.anchor is not None:
            if not self._bounds.has_aliases:
                what = f"found the anchor `&{event.anchor}`: anchors and aliases are not read here"
                raise DomainError(self._place(event).problem(path, what))
            self._anchors[event.anchor] = None
        node = self._content(event, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._values - before)
        return node

    def _aliased(self, event: events.AliasEvent, path: tuple[tree.Step, ...]) -> tree.YamlNode:
        name = event.anchor
        if name not in self._anchors:
            what = f"found `*{name}`, expected an anchor `&{name}` before it"
            raise DomainError(self._place(event).problem(path, what))
        target = self._anchors[name]
        if target is None:
            what = f"found `*{name}` inside `&{name}`, expected a value that does not contain itself"
            raise DomainError(self._place(event).problem(path, what))
        node, values = target
        self._count(values, event, path)
        return node

    def _count(self, values: int, event: events.Event, path: tuple[tree.Step, ...]) -> None:
        self._values += values
        if self._values > self._bounds.values:
            what = f"found more than {self._bounds.values} values (each use of an alias counts), expected fewer"
            raise DomainError(self._place(event).problem(path, what))
        if len(path) > self._bounds.depth:
            what = f"found more than {self._bounds.depth} levels, expected fewer"
            raise DomainError(self._place(event).problem(path[:3], what))

    def _content(
        self,
        event: events.ScalarEvent | events.SequenceStartEvent | events.MappingStartEvent,
        path: tuple[tree.Step, ...],
    ) -> tree.YamlNode:
        if event.tag is not None and not (isinstance(event, events.ScalarEvent) and event.tag in _TEXT_TAGS):
            what = f"found the tag `{tree.shown(event.tag.replace(_CORE, '!!'))}`, expected a plain value without a tag"
            self._problems.append(self._place(event).problem(path, what))
        if isinstance(event, events.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, events.SequenceStartEvent):
            return self._sequence(path)
        plain_style = event.tag is None and not event.style
        return scalar(event.value) if plain_style else tree.YamlScalar(event.value, event.value)

    def _sequence(self, path: tuple[tree.Step, ...]) -> tree.YamlSequence:
        items = list[tree.YamlEntry]()
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            items.append(tree.YamlEntry(self._place(event), self._node(event, (*path, len(items)))))
        return tree.YamlSequence(tuple(items))

    def _mapping(self, path: tuple[tree.Step, ...]) -> tree.YamlMapping:
        entries = dict[str, tree.YamlEntry]()
        merged = list[tree.YamlEntry]()
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            place = self._place(event)
            key = self._key(event, path)
            merges = key == "<<" and isinstance(event, events.ScalarEvent) and not event.style
            value = tree.YamlEntry(place, self._node(next(self._events), (*path, key)))
            if merges:
                merged.append(value)
            elif key in entries:
                self._problems.append(repeated_key(place, (*path, key), entries[key].place))
            else:
                entries[key] = value
        for entry in merged:
            self._merge(entries, entry, path)
        return tree.YamlMapping(entries)

    def _key(self, event: events.Event, path: tuple[tree.Step, ...]) -> str:
        node = self._node(event, path)
        if isinstance(node, tree.YamlScalar):
            return node.text
        what = f"found {tree.found_text(node)} as a key, expected a text"
        raise DomainError(self._place(event).problem(path, what))

    def _merge(self, entries: dict[str, tree.YamlEntry], source: tree.YamlEntry, path: tuple[tree.Step, ...]) -> None:
        """Apply YAML's merge key, `<<`: add the keys that the mapping does not have, the earlier source first."""
        match source.node:
            case tree.YamlMapping(entries=others):
                for key, entry in others.items():
                    entries.setdefault(key, entry)
            case tree.YamlSequence(items=items) if all(isinstance(item.node, tree.YamlMapping) for item in items):
                for item in items:
                    self._merge(entries, item, path)
            case node:
                what = f"found {tree.found_text(node)}, expected a mapping or a list of mappings"
                self._problems.append(source.place.problem((*path, "<<"), what))


def repeated_key(place: tree.SourcePlace, path: tuple[tree.Step, ...], first: tree.SourcePlace) -> Problem:
    """Return the mistake of a repeated key."""
    return place.problem(path, f"found a second `{path[-1]}`, expected only the one at {first}")
