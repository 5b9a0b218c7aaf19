"""The end of a journal as a small journal of its own: enough to try something on what has happened of late."""

import heapq
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from penstock.journal.read.events import ARRIVAL
from penstock.journal.read.tables import Part, parts, read_part
from penstock.journal.revision import FOLDER as REVISIONS

_TRIES = 5


class Sample(NamedTuple):
    """What of a small journal counts: its files have rows from before that too."""

    since: datetime | None
    """From then on; None: all of it."""
    arrivals: int
    """So many events have come to nodes since then."""


def sample(journal: Path, to: Path, last: int, nodes: frozenset[str] | None = None) -> Sample:
    """Fill the folder `to` with the newest files of a journal that have the last so many arrivals, and its policies.

    Each node has a file there, so that it is known which nodes recorded. `last` is at least 1.
    """
    for left in reversed(range(_TRIES)):
        try:
            taken = _take(journal, to, last, nodes)
            break
        except FileNotFoundError:  # it was sealed or compacted meanwhile: what has its rows is taken instead
            if not left:
                raise
            shutil.rmtree(to, ignore_errors=True)
    newest = heapq.nlargest(last, (time for _, times in taken for time in times))
    since = newest[-1] if len(newest) == last else None
    first = {part.node: part for part, _ in reversed(taken)}
    for part, times in taken:
        if since is not None and part is not first[part.node] and max(times, default=since) < since:
            (to / part.path.relative_to(journal)).unlink()
    if (journal / REVISIONS).is_dir():
        shutil.copytree(journal / REVISIONS, to / REVISIONS)
    return Sample(since, sum(since is None or time >= since for _, times in taken for time in times))


def _take(journal: Path, to: Path, last: int, nodes: frozenset[str] | None) -> list[tuple[Part, list[datetime]]]:
    """Of each node the newest files with so many arrivals, and when these came."""
    taken = list[tuple[Part, list[datetime]]]()
    counts = dict[str, int]()
    for part in reversed(parts(journal, nodes)):
        if counts.get(part.node, 0) < last:
            times = _arrivals(part, to / part.path.relative_to(journal))
            taken.append((part, times))
            counts[part.node] = counts.get(part.node, 0) + len(times)
    return taken


def _arrivals(part: Part, place: Path) -> list[datetime]:
    """When events came that a file has; it is at `place` too from now on, whatever becomes of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(part.path, place)
    except FileNotFoundError:
        raise
    except OSError:  # on another disk, or of another user
        shutil.copyfile(part.path, place)
    events = read_part(part._replace(path=place)).events
    return list(events.filter(pc.equal(events["kind"], ARRIVAL))["time"].to_pylist())
