"""Which files a journal has."""

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
    """The number of its last row, if it is compacted; a segment does not say it."""

    @property
    def is_open(self) -> bool:
        """It is being written."""
        return self.path.name.startswith(OPEN)

    @property
    def quarantine(self) -> Path:
        """Where that is which could not be read when this was compacted, if there was any."""
        home = self.path.parents[3]
        return home / QUARANTINE / f"node={self.node}" / f"date={self.day.isoformat()}" / self.path.name

    def has(self, other: "Part") -> bool:
        """Whether the rows of another file are all in this one."""
        if self.last is None or self.node != other.node or self.path == other.path:
            return False
        return self.first <= other.first <= self.last and (other.last or other.first) <= self.last


def parts(folder: Path, nodes: frozenset[str] | None = None, days: tuple[date, date] | None = None) -> list[Part]:
    """The files of a journal, by node and then in order; of some nodes only, or of some days, both included.

    A file is left out if its rows are in a compacted one too: whoever compacts was stopped, or is still at it.
    """
    found = every_part(folder, nodes)
    gone = {part.path for part in covered(found)}
    return [part for part in found if part.path not in gone and (days is None or days[0] <= part.day <= days[1])]


def unknown_nodes(folder: Path, nodes: frozenset[str] | None) -> str:
    """Which of these nodes the journal has nothing of, in words, and which there are; nothing if it has of all."""
    known = {part.node for part in every_part(folder)}
    unknown = sorted((nodes or frozenset()) - known)
    if not unknown:
        return ""
    there = ", ".join(f"`{node}`" for node in sorted(known))
    said = "nodes" if len(unknown) > 1 else "node"
    asked = ", ".join(f"`{node}`" for node in unknown)
    return f"journal `{folder}` has nothing of {said} {asked}; there is {there or 'nothing in it'}"


def every_part(folder: Path, nodes: frozenset[str] | None = None) -> list[Part]:
    """All of them, also those whose rows are in another."""
    found = [_part(path) for path in folder.glob(f"node=*/date=*/*{ENDING}") if _is_segment(path)]
    compacted = (folder / COMPACT).glob(f"node=*/date=*/[0-9]*{COMPACT_ENDING}")
    found += [_part(path) for path in compacted]
    return sorted((part for part in found if nodes is None or part.node in nodes), key=_place)


def covered(found: Iterable[Part]) -> list[Part]:
    """The files whose rows are all in a compacted one."""
    gone: list[Part] = []
    widest: Part | None = None
    for part in found:  # in order, a file that has others comes before them
        if widest is not None and widest.has(part):
            gone.append(part)
        elif part.last is not None:
            widest = part
    return gone


def _place(part: Part) -> tuple[str, int, int]:
    return part.node, part.first, -1 if part.last is None else -part.last - 2


def _is_segment(path: Path) -> bool:
    return path.name.removeprefix(OPEN)[:1].isdigit()


def _part(path: Path) -> Part:
    numbers = path.name.removeprefix(OPEN).removesuffix(COMPACT_ENDING).split("-")
    day = date.fromisoformat(path.parent.name.removeprefix("date="))
    node = path.parent.parent.name.removeprefix("node=")
    return Part(path, node, day, int(numbers[0]), int(numbers[1]) if path.suffix == COMPACT_ENDING else None)
