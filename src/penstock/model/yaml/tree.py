"""A domain file as it was written: plain values, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass
from pathlib import Path

from penstock.model.errors import Problem, place_text

Step = str | int
"""One step of the path to a value: a mapping's key or a list's index."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a file and line, or (line 0) an environment variable."""

    file: str
    line: int
    folder: Path
    """What a relative file name that stands here is relative to."""

    def __str__(self) -> str:
        return place_text(self.file, self.line)

    def problem(self, path: Several[Step], what: str) -> Problem:
        return Problem(self.file, self.line, path_text(path), what)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value: as written, and as understood."""

    text: str
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and their values, in the order of the file."""

    entries: dict[str, Entry]


Node = Scalar | Sequence | Mapping
NOTHING = Scalar("", None)


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the place of its key, of its item, or of the file it is the whole of."""

    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Spot:
    """What was found on the way to a path: the nearest value that is there, and the path to it."""

    path: tuple[Step, ...]
    entry: Entry


def path_text(path: Several[Step]) -> str:
    """`nodes.main.listen[1].address`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def plain(node: Node) -> object:
    """Return the value alone, as lists, dictionaries and scalars."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item.node) for item in items]
        case Mapping(entries=entries):
            return {key: plain(entry.node) for key, entry in entries.items()}


def child(node: Node, step: Step) -> Entry | None:
    """Return the value one step below, if there is one."""
    if isinstance(node, Mapping) and isinstance(step, str):
        return node.entries.get(step)
    if isinstance(node, Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step]
    return None


def locate(root: Entry, path: Several[Step]) -> Spot:
    """Return the nearest value along `path`.

    Steps that the file does not have are left out: a short form is validated as the long form it stands for, so that
    `listen[0].address` may have been written as `listen`.
    """
    entry, found = root, list[Step]()
    for step in path:
        below = child(entry.node, step)
        if below is not None:
            entry = below
            found.append(step)
    return Spot(tuple(found), entry)


def found_text(node: Node) -> str:
    """How an error message shows what was found."""
    match node:
        case Mapping(entries=entries):
            return "a mapping" if entries else "an empty mapping"
        case Sequence(items=items):
            return "a list" if items else "an empty list"
        case Scalar(value=None):
            return "nothing"
        case Scalar(text=""):
            return "an empty text"
        case Scalar(text=text):
            return f"`{shown(text)}`"


def shown(text: str) -> str:
    """Return a text from the input, on one line and not too long."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= 60 else f"{line[:57]}..."
