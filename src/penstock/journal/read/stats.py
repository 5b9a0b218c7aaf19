"""A journal in figures."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.listing import parts
from penstock.journal.read.events import ARRIVAL
from penstock.journal.read.tables import read_part

Denial = tuple[str, str]
"""A stage, and its rule."""


@dataclass(slots=True)
class Stats:
    """What one node has recorded."""

    node: str
    files: int = 0
    open_files: int = 0
    compacted_files: int = 0
    bytes: int = 0
    events: int = 0
    """Rows: arrivals, and what monitors made."""
    arrivals: int = 0
    first: datetime | None = None
    last: datetime | None = None
    topics: Counter[str] = field(default_factory=Counter)
    """Arrivals by topic; and in `denials` what was suppressed, by stage and rule."""
    denials: Counter[Denial] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    """What is missing or cannot be read."""

    @property
    def rate(self) -> float:
        """Arrivals in a second, from the first to the last."""
        seconds = (self.last - self.first).total_seconds() if self.first and self.last else 0.0
        return self.arrivals / seconds if seconds else 0.0


def stats(folder: Path, nodes: frozenset[str] | None = None) -> list[Stats]:
    """The figures of each node of a journal."""
    found: dict[str, Stats] = {}
    for part in parts(folder, nodes):
        try:
            size, read = part.path.stat().st_size, read_part(part)
        except FileNotFoundError:  # sealed or compacted at this moment
            continue
        one = found.setdefault(part.node, Stats(part.node))
        one.files += 1
        one.open_files += part.is_open
        one.compacted_files += part.last is not None
        one.bytes += size
        _count(one, read.events)
        one.problems.update(read.lost["problem"].to_pylist())
    return list(found.values())


def _count(one: Stats, events: pa.Table) -> None:
    if not events.num_rows:
        return
    arrivals = events.filter(pc.equal(events["kind"], ARRIVAL))
    one.events += events.num_rows
    one.arrivals += arrivals.num_rows
    times = pc.min_max(events["time"]).as_py()
    one.first = times["min"] if one.first is None else min(one.first, times["min"])
    one.last = times["max"] if one.last is None else max(one.last, times["max"])
    one.topics.update({row["values"]: row["counts"] for row in pc.value_counts(arrivals["topic"]).to_pylist()})
    denied = (
        events.filter(pc.not_equal(events["effect"], "pass")).group_by(["stage", "rule"]).aggregate([([], "count_all")])
    )
    one.denials.update({(row["stage"], row["rule"]): row["count_all"] for row in denied.to_pylist()})
