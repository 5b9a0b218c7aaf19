"""The files of a journal."""

import os
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

from penstock.journal.format import COMPACT, COMPACT_ENDING, ENDING, OPEN, QUARANTINE


class Part(NamedTuple):
    """One file with rows."""

    path: Path
    node: str
    day: date
    first: int
    """The number of its first row."""
    last: int | None
    """The number of its last row, if the file is compacted; a segment does not record it."""

    @property
    def is_open(self) -> bool:
        """Return whether the file is still being written."""
        return self.path.name.startswith(OPEN)

    @property
    def quarantine(self) -> Path:
        """Return the path of the rows that could not be read when this file was compacted, if there were any."""
        home = self.path.parents[3]
        return home / QUARANTINE / f"node={self.node}" / f"date={self.day.isoformat()}" / self.path.name

    @property
    def has_quarantine(self) -> bool:
        """Return whether there are such rows, for who may read them."""
        return os.access(self.quarantine, os.R_OK)

    def has(self, other: "Part") -> bool:
        """Return whether this file contains all rows of another file."""
        if self.last is None or self.node != other.node or self.path == other.path:
            return False
        return self.first <= other.first <= self.last and (other.last or other.first) <= self.last


def parts(folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None) -> list[Part]:
    """List the files of a journal by node, then in order; optionally of some nodes or days only (both days inclusive).

    A segment whose rows are in a compacted file too is left out: compaction was interrupted, or is still running.
    """
    files = all_parts(folder, nodes)
    duplicates = {part.path for part in covered(files)}
    return [part for part in files if part.path not in duplicates and (days is None or days[0] <= part.day <= days[1])]


def unknown_nodes(folder: Path, nodes: frozenset[str] | None) -> str:
    """Return a message that names the nodes the journal has no rows of and the nodes it has; empty if it has all."""
    recorded = {part.node for part in all_parts(folder)}
    unknown = sorted((nodes or frozenset()) - recorded)
    if not unknown:
        return ""
    listed = ", ".join(f"`{node}`" for node in sorted(recorded))
    noun = "nodes" if len(unknown) > 1 else "node"
    missing = ", ".join(f"`{node}`" for node in unknown)
    return f"journal `{folder}` has no rows of {noun} {missing}; it has {listed or 'no rows at all'}"


def all_parts(folder: Path, nodes: frozenset[str] | None = None) -> list[Part]:
    """List all files, including those whose rows are in another file too."""
    segments = (path for path in folder.glob(f"node=*/date=*/*{ENDING}") if path.name.removeprefix(OPEN)[:1].isdigit())
    compacted = (folder / COMPACT).glob(f"node=*/date=*/[0-9]*{COMPACT_ENDING}")
    files = map(_part, (*segments, *compacted))
    return sorted((part for part in files if nodes is None or part.node in nodes), key=_place)


def covered(files: Iterable[Part]) -> list[Part]:
    """Return the files whose rows are all in a compacted file."""
    duplicates: list[Part] = []
    widest: Part | None = None
    for part in files:  # in order: a file that covers others comes before them
        if widest is not None and widest.has(part):
            duplicates.append(part)
        elif part.last is not None:
            widest = part
    return duplicates


def _place(part: Part) -> tuple[str, int, int]:
    return part.node, part.first, -1 if part.last is None else -part.last - 2


def _part(path: Path) -> Part:
    numbers = path.name.removeprefix(OPEN).removesuffix(COMPACT_ENDING).split("-")
    day = date.fromisoformat(path.parent.name.removeprefix("date="))
    node = path.parent.parent.name.removeprefix("node=")
    return Part(path, node, day, int(numbers[0]), int(numbers[1]) if path.suffix == COMPACT_ENDING else None)
