"""The tree of a domain file: plain values, each with its place."""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass
from pathlib import Path

from penstock.model.errors import Problem, place_text

Step = str | int
"""One step of the path to a value: a mapping's key or a list's index."""


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in the input: a file and line, or (line 0) an environment variable."""

    file: str
    line: int
    folder: Path
    """The base of relative file names at this place."""

    def __str__(self) -> str:
        return place_text(self.file, self.line)

    def problem(self, path: Several[Step], what: str) -> Problem:
        return Problem(self.file, self.line, path_text(path), what)


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """One value: as written, and as parsed."""

    text: str
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class YamlSequence:
    """A list."""

    items: tuple[YamlEntry, ...]


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """Keys and their values, in the order of the file."""

    entries: dict[str, YamlEntry]


YamlNode = YamlScalar | YamlSequence | YamlMapping
NOTHING = YamlScalar("", None)


@dataclass(frozen=True, slots=True)
class YamlEntry:
    """A value and the place of its key, of its item, or of its file."""

    place: SourcePlace
    node: YamlNode


@dataclass(frozen=True, slots=True)
class NearestEntry:
    """The nearest value on the way to a path, and the path to it."""

    path: tuple[Step, ...]
    entry: YamlEntry


def path_text(path: Several[Step]) -> str:
    """Return a path as text, such as `nodes.main.listen[1].address`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def plain(node: YamlNode) -> object:
    """Return the value without places, as lists, dictionaries and scalars."""
    match node:
        case YamlScalar(value=value):
            return value
        case YamlSequence(items=items):
            return [plain(item.node) for item in items]
        case YamlMapping(entries=entries):
            return {key: plain(entry.node) for key, entry in entries.items()}


def child(node: YamlNode, step: Step) -> YamlEntry | None:
    """Return the value one step below, or None."""
    if isinstance(node, YamlMapping) and isinstance(step, str):
        return node.entries.get(step)
    if isinstance(node, YamlSequence) and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step]
    return None


def locate(root: YamlEntry, path: Several[Step]) -> NearestEntry:
    """Return the nearest value along `path`.

    Steps that the file does not have are left out: a short form is validated as the long form it stands for, so that
    `listen[0].address` may have been written as `listen`.
    """
    entry, path_found = root, list[Step]()
    for step in path:
        below = child(entry.node, step)
        if below is not None:
            entry = below
            path_found.append(step)
    return NearestEntry(tuple(path_found), entry)


def found_text(node: YamlNode) -> str:
    """Return a value as an error message shows it."""
    match node:
        case YamlMapping(entries=entries):
            return "a mapping" if entries else "an empty mapping"
        case YamlSequence(items=items):
            return "a list" if items else "an empty list"
        case YamlScalar(value=None):
            return "nothing"
        case YamlScalar(text=""):
            return "an empty text"
        case YamlScalar(text=text):
            return f"`{shown(text)}`"


def shown(text: str) -> str:
    """Return a text from the input on one line and shortened."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= 60 else f"{line[:57]}..."
