"""The newest part of a journal as a small journal of its own, to try a policy on recent traffic."""

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


class JournalSample(NamedTuple):
    """The part of a sampled journal that counts: its files also contain earlier rows."""

    since: datetime | None
    """Count rows from this time on; None: all."""
    arrivals: int
    """Number of events that came to nodes since then."""


def sample(journal: Path, to: Path, last: int, nodes: frozenset[str] | None = None) -> JournalSample:
    """Copy the newest files of a journal with the last `last` arrivals, and its policies, into the folder `to`.

    Each node has a file there, so that it is known which nodes recorded. `last` is at least 1.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            taken = _take(journal, to, last, nodes)
            break
        except FileNotFoundError:  # it was sealed or compacted meanwhile: use the file that has its rows now
            if not tries_left:
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
    return JournalSample(since, sum(since is None or time >= since for _, times in taken for time in times))


def _take(journal: Path, to: Path, last: int, nodes: frozenset[str] | None) -> list[tuple[Part, list[datetime]]]:
    """Return each node's newest files that together have `last` arrivals, with the times of the arrivals."""
    taken = list[tuple[Part, list[datetime]]]()
    counts = dict[str, int]()
    for part in reversed(parts(journal, nodes)):
        if counts.get(part.node, 0) < last:
            times = _arrivals(part, to / part.path.relative_to(journal))
            taken.append((part, times))
            counts[part.node] = counts.get(part.node, 0) + len(times)
    return taken


def _arrivals(part: Part, place: Path) -> list[datetime]:
    """Return the times of a file's arrivals. From now on `place` keeps the file, even if the journal deletes it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(part.path, place)
    except FileNotFoundError:
        raise
    except OSError:  # on another disk, or owned by another user
        shutil.copyfile(part.path, place)
    events = read_part(part._replace(path=place)).events
    return list(events.filter(pc.equal(events["kind"], ARRIVAL))["time"].to_pylist())
